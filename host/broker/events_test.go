package broker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/host/broker"
)

// follow collects events until the context ends; stop ends it and returns them.
func follow(t *testing.T, b *broker.Broker, f broker.EventFilter) (stop func() []broker.Event) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var got []broker.Event
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ev, err := range b.Events(ctx, f) {
			if err != nil {
				if !errors.Is(err, context.Canceled) {
					t.Errorf("events: %v", err)
				}
				return
			}
			got = append(got, ev)
		}
	}()
	return func() []broker.Event {
		cancel()
		<-done
		return got
	}
}

// TestEventsInABubble follows what happens for a day, from now on and then again from behind each event.
func TestEventsInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, crashfs.New(crashfs.Options{}), broker.Options{})
		mustPut(t, b, broker.Message{Topic: "orders", Body: []byte("before")})
		live, other := follow(t, b, broker.EventFilter{}), follow(t, b, broker.EventFilter{Topic: "later"})
		synctest.Wait()
		r := mustPut(t, b, broker.Message{Topic: "orders", Key: "k", Tag: "unpaid", Body: []byte("x"), At: broker.In(24 * time.Hour)})
		c := mustPut(t, b, broker.Message{Topic: "later", Key: "c", Body: []byte("x"), At: broker.In(time.Hour)})
		if _, err := b.Cancel(t.Context(), c.Handle); err != nil {
			t.Fatal(err)
		}
		time.Sleep(25 * time.Hour)
		synctest.Wait()
		all := live()
		var got []string
		for _, ev := range all {
			got = append(got, fmt.Sprintf("%s %s %s", ev.Kind, ev.TopicName, ev.Key))
		}
		want := []string{"scheduled orders k", "topic later ", "scheduled later c", "cancelled later ", "delivered orders k"}
		if !slices.Equal(got, want) {
			t.Fatalf("events %q, want %q", got, want)
		}
		for _, ev := range []broker.Event{all[0], all[4]} {
			if ev.MessageID != r.ID || ev.DueMs != r.DueMs || ev.Tag != "unpaid" || ev.LatenessMs() < 0 || ev.LatenessMs() > 5 {
				t.Errorf("event %+v of %+v", ev, r)
			}
		}
		if got := other(); !slices.Equal(got, all[1:4]) {
			t.Errorf("events of one topic: %+v", got)
		}
		for i := range all {
			again := follow(t, b, broker.EventFilter{From: all[i].Position + 1})
			synctest.Wait()
			if rest := again(); !slices.Equal(rest, all[i+1:]) {
				t.Errorf("from behind event %d: %+v", i, rest)
			}
		}
		first := follow(t, b, broker.EventFilter{From: broker.EventsFromFirst})
		synctest.Wait()
		if got := first(); len(got) != len(all)+2 || got[1].Kind != engine.EventStored || got[1].Offset != 0 {
			t.Errorf("from the first on: %+v", got)
		}
		for _, err := range b.Events(t.Context(), broker.EventFilter{From: 1 << 40}) {
			if !errors.Is(err, engine.ErrOffset) {
				t.Errorf("from behind the end: %v", err)
			}
		}
	})
}

// TestEventsEnd ends loops by the caller, by Close and after it.
func TestEventsEnd(t *testing.T) {
	b := open(t, crashfs.New(crashfs.Options{}), broker.Options{})
	for range 3 {
		mustPut(t, b, broker.Message{Topic: "orders", Body: []byte("x")})
	}
	seen := 0
	for _, err := range b.Events(t.Context(), broker.EventFilter{Topic: "orders", From: broker.EventsFromFirst}) {
		if seen++; err != nil || seen == 2 {
			break
		}
	}
	if seen != 2 {
		t.Errorf("%d events before the break", seen)
	}
	ended := make(chan error)
	begun := make(chan struct{})
	go func() {
		for _, err := range b.Events(context.Background(), broker.EventFilter{From: broker.EventsFromFirst}) {
			if err != nil {
				ended <- err
				return
			}
			if seen++; seen == 6 { // the topic and its three messages
				close(begun)
			}
		}
	}()
	<-begun
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, broker.ErrClosed) {
		t.Errorf("a loop when the broker is closed: %v", err)
	}
	for _, err := range b.Events(t.Context(), broker.EventFilter{}) {
		if !errors.Is(err, broker.ErrClosed) {
			t.Errorf("a loop on a closed broker: %v", err)
		}
	}
}

// TestEventsAreDurable holds the sync back: what it would make durable is not told before.
func TestEventsAreDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newSyncFS()
		b := open(t, fsys, broker.Options{})
		mustPut(t, b, broker.Message{Topic: "orders", Body: []byte("before")})
		hold := make(chan struct{})
		fsys.onSync(func() error { <-hold; return nil })
		live := follow(t, b, broker.EventFilter{})
		synctest.Wait()
		put := make(chan error)
		go func() {
			_, err := b.Put(t.Context(), broker.Message{Topic: "orders", Body: []byte("x")})
			put <- err
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		early := follow(t, b, broker.EventFilter{From: broker.EventsFromFirst})
		synctest.Wait()
		if got := early(); len(got) != 2 {
			t.Errorf("events before the sync: %+v", got)
		}
		close(hold)
		if err := <-put; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := live(); len(got) != 1 || got[0].Kind != engine.EventStored {
			t.Errorf("events after the sync: %+v", got)
		}
	})
}

// ExampleBroker_Events follows the life of messages; the position of the last event seen is where to go on after a
// restart.
func ExampleBroker_Events() {
	b, err := broker.Open(broker.Env{FS: crashfs.New(crashfs.Options{})}, ".", broker.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	ctx := context.Background()
	r, err := b.Put(ctx, broker.Message{Topic: "orders", Key: "order-42", At: broker.In(time.Hour)})
	if err == nil {
		_, err = b.Cancel(ctx, r.Handle)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	for ev, err := range b.Events(ctx, broker.EventFilter{Topic: "orders", From: broker.EventsFromFirst}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(ev.Kind, ev.Topic, ev.DueMs > 0)
		if ev.Kind == engine.EventCancelled {
			break
		}
	}
	// Output:
	// topic 1 false
	// scheduled 1 true
	// cancelled 1 true
}

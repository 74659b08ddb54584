package broker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/broker/brokertest"
)

// verdict is a decision of the plugin "p" of these tests.
func verdict(a broker.Action) broker.Decision {
	d := broker.Decision{Action: a, Code: 7, Plugin: "p", Reason: "because"}
	copy(d.Digest[:], "p")
	d.Asked = [][32]byte{d.Digest}
	return d
}

// byBody decides by the first word of a body: keep, drop, retry, dead_letter, route, replace or nothing.
func byBody(body string) broker.Decision {
	switch word, rest, _ := strings.Cut(body, " "); word {
	case "drop":
		return verdict(broker.ActionDrop)
	case "retry":
		d := verdict(broker.ActionRetry)
		d.Delay = time.Minute
		return d
	case "dead_letter":
		return verdict(broker.ActionDeadLetter)
	case "route":
		d := verdict(broker.ActionRoute)
		d.Topic = rest
		return d
	case "replace":
		d := verdict(broker.ActionReplace)
		d.Message = &broker.Content{Key: "new", Tag: "t", Properties: map[string]string{"a": "b", "RETRY_X": "no"}, Body: []byte("replaced " + rest)}
		return d
	case "wait":
		return broker.Decision{}
	}
	return verdict(broker.ActionKeep)
}

func publishHooks() *brokertest.Hooks {
	return &brokertest.Hooks{Topics: []string{"orders"}, OnPublish: func(_ string, m *broker.Message) broker.Decision { return byBody(string(m.Body)) }}
}

// Each decision about a message that is being put, in one batch; messages of other topics are not asked about, and the order
// of the batch stays.
func TestPublish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t, broker.Options{Hooks: publishHooks(), Engine: engine.Options{Queues: 1}})
		bodies := []string{"keep 1", "drop 2", "dead_letter 3", "route other", "replace 5", "retry 6", "keep 7", "wait 8"}
		var batch []broker.Message
		for _, body := range bodies {
			batch = append(batch, broker.Message{Topic: "orders", Key: "k", Body: []byte(body)}, broker.Message{Topic: "free", Body: []byte(body)})
		}
		receipts, err := b.PutBatch(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		want := []error{nil, broker.ErrDropped, broker.ErrDropped, nil, nil, broker.ErrPlugin, nil, broker.ErrPlugin}
		for i, r := range receipts {
			err, topic := want[i/2], "orders"
			if i%2 == 1 {
				err, topic = nil, "free"
			} else if i/2 == 3 {
				topic = "other"
			}
			if !errors.Is(r.Err, err) || err == nil && r.Topic != topic {
				t.Errorf("receipt %d: topic %q, error %v, want %q and %v", i, r.Topic, r.Err, topic, err)
			}
		}
		if text := receipts[2].Err.Error(); !strings.Contains(text, `plugin "p", code 7: because`) {
			t.Errorf("the refusal says %q", text)
		}
		if text := receipts[4].Err.Error(); !strings.Contains(text, "plugin-p") {
			t.Errorf("the refusal does not say where the message is: %q", text)
		}
		brokertest.WantDelivered(t, b, "free", bodies...)
		brokertest.WantDelivered(t, b, "other", "route other")
		if got := fmt.Sprint(brokertest.Delivered(t, b, "orders")); got != "[keep 1 replaced 5 keep 7]" {
			t.Errorf("in orders are %s", got)
		}
		letters, err := b.DeadLettersPage(t.Context(), "plugin-p", broker.DeadFilter{}, "", 0)
		if err != nil || len(letters.Letters) != 1 {
			t.Fatalf("dead letters: %+v, %v", letters, err)
		}
		d := letters.Letters[0]
		if d.Topic != "orders" || d.Reason != "because" || string(d.Body) != "dead_letter 3" || d.Key != "k" || d.Plugin != "p" || d.Code != 7 ||
			d.Digest != verdict(0).Digest || d.TopicOffset != -1 {
			t.Errorf("dead letter: %+v", d)
		}
		if got := b.Measures().Published; got != (broker.Decisions{1, 2, 1, 1, 1, 1, 1}) {
			t.Errorf("counted are %v", got)
		}
	})
}

// A put that is repeated by its idempotency key is answered what the first one was, whatever the hook has made of that, and
// also when it would decide otherwise now. Only what was not stored is asked about again.
func TestPublishRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		later := atomic.Bool{}
		hooks := &brokertest.Hooks{Topics: []string{"orders"}, OnPublish: func(_ string, m *broker.Message) broker.Decision {
			asked.Add(1)
			if later.Load() {
				return verdict(broker.ActionDrop)
			}
			return byBody(string(m.Body))
		}}
		b := brokertest.OpenCrash(t, 3, broker.Options{Hooks: hooks})
		for _, c := range []struct {
			body  string
			asked int64 // by the repetition
			err   error // of the repetition
		}{
			{"keep", 0, nil},
			{"replace", 0, nil},
			{"route other", 1, nil},
			{"drop", 1, broker.ErrDropped},
			{"wait", 1, broker.ErrPlugin},
		} {
			m := broker.Message{Topic: "orders", Body: []byte(c.body), IdempotencyKey: c.body, Properties: map[string]string{"x": "y"}}
			first, firstErr := b.Put(t.Context(), m)
			before := asked.Load()
			again, err := b.Put(t.Context(), m)
			if !errors.Is(err, c.err) || !errors.Is(firstErr, c.err) || asked.Load()-before != c.asked {
				t.Errorf("%s: %v, then %v after %d questions, want %d", c.body, firstErr, err, asked.Load()-before, c.asked)
			}
			first.Err, again.Err = nil, nil
			if first.Replayed = err == nil; first != again {
				t.Errorf("%s: the first was answered %+v, the repetition %+v", c.body, first, again)
			}
		}
		brokertest.Crash(b)
		later.Store(true)
		for _, body := range []string{"keep", "replace"} {
			r, err := b.Put(t.Context(), broker.Message{Topic: "orders", Body: []byte(body), IdempotencyKey: body, Properties: map[string]string{"x": "y"}})
			if err != nil || !r.Replayed {
				t.Errorf("%s, repeated after a crash: %+v, %v", body, r, err)
			}
			_, err = b.Put(t.Context(), broker.Message{Topic: "orders", Body: []byte(body), IdempotencyKey: body})
			if !errors.Is(err, broker.ErrIdempotencyMismatch) {
				t.Errorf("%s with other properties: %v", body, err)
			}
		}
		brokertest.WantDelivered(t, b, "orders", "keep", "replaced ")
		brokertest.WantDelivered(t, b, "other", "route other")
	})
}

// slowHooks wait until their context ends.
type slowHooks struct {
	brokertest.Hooks
	begun chan struct{}
}

func (h *slowHooks) Publish(ctx context.Context, _ string, _ []*broker.Message) ([]broker.Decision, error) {
	h.begun <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}

// A caller that leaves takes its message along, Close ends the calls that run, and a put beside a hook that is stuck does not
// wait for it.
func TestPublishStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooks := &slowHooks{*publishHooks(), make(chan struct{})}
		b := brokertest.Open(t, broker.Options{Hooks: hooks})
		result := make(chan error)
		put := func(ctx context.Context) {
			_, err := b.Put(ctx, broker.Message{Topic: "orders", Body: []byte("x")})
			result <- err
		}
		ctx, leave := context.WithCancel(t.Context())
		go put(ctx)
		<-hooks.begun
		b.MustPut("free", "beside", 0)
		leave()
		if err := <-result; !errors.Is(err, context.Canceled) || errors.Is(err, broker.ErrUnknown) {
			t.Errorf("the caller that left got %v", err)
		}
		go put(t.Context())
		<-hooks.begun
		closed := make(chan error)
		go func() { closed <- b.Close() }()
		if err := <-result; !errors.Is(err, broker.ErrClosed) {
			t.Errorf("the caller that Close met got %v", err)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if _, err := b.Put(t.Context(), broker.Message{Topic: "orders"}); !errors.Is(err, broker.ErrClosed) {
			t.Errorf("put after Close: %v", err)
		}
	})
}

// What is nobody's to put into, or to name so, is refused, also where a hook sends it.
func TestPublishReserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t, broker.Options{Hooks: publishHooks()})
		for _, topic := range []string{"%STAGE%orders", "%RETRY%g", "%DLQ%plugin-p"} {
			if _, err := b.Put(t.Context(), broker.Message{Topic: topic}); !errors.Is(err, engine.ErrTopicName) {
				t.Errorf("put into %s: %v", topic, err)
			}
			if _, err := b.Put(t.Context(), broker.Message{Topic: "orders", Body: []byte("route " + topic)}); !errors.Is(err, engine.ErrTopicName) {
				t.Errorf("put that is routed to %s: %v", topic, err)
			}
		}
		m := broker.Message{Topic: "free", Properties: map[string]string{broker.PropPut: "x"}}
		if _, err := b.Put(t.Context(), m); !errors.Is(err, engine.ErrProperties) {
			t.Errorf("put with the property of a digest: %v", err)
		}
	})
}

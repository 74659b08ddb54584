package broker_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/broker/brokertest"
)

// bury puts messages into topic t and makes all of them dead letters of group g, in order.
func bury(t *testing.T, b *broker.Broker, n int) {
	t.Helper()
	for i := range n {
		mustPut(t, b, broker.Message{
			Topic: "t", Pin: true, Key: fmt.Sprint("key-", i%3), Tag: fmt.Sprint("tag-", i%2), Body: fmt.Append(nil, i),
			Properties: map[string]string{"n": fmt.Sprint(i)},
		})
		for _, d := range lease(t, b, broker.PullRequest{}) {
			if r, err := b.Reject(t.Context(), d.Receipt, fmt.Sprintf("Reason %d", i%5)); err != nil || !r.DeadLetter {
				t.Fatalf("reject: %+v, %v", r, err)
			}
		}
	}
}

// letters lists the bodies of the dead letters that match.
func letters(t *testing.T, b *broker.Broker, f broker.DeadFilter) string {
	t.Helper()
	var list []string
	for d, err := range b.DeadLetters(t.Context(), "g", f) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, string(d.Body))
	}
	count, err := b.CountDeadLetters(t.Context(), "g", f)
	if err != nil || count.Count != int64(len(list)) {
		t.Errorf("counted %+v, %v; there are %d", count, err, len(list))
	}
	return strings.Join(list, " ")
}

func wantLetters(t *testing.T, b *broker.Broker, what string, f broker.DeadFilter, want string) {
	t.Helper()
	if got := letters(t, b, f); got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// Dead letters are found by what they are, dropped and tried again, one by one and all that match, and what was removed
// stays so after a power cut.
func TestDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.OpenCrash(t, 3)
		ctx := t.Context()
		wantLetters(t, b.Broker, "of a group that is not there", broker.DeadFilter{}, "")
		began := time.Now().UnixMilli()
		bury(t, b.Broker, 10)
		for what, c := range map[string]struct {
			f    broker.DeadFilter
			want string
		}{
			"all":       {broker.DeadFilter{}, "0 1 2 3 4 5 6 7 8 9"},
			"key":       {broker.DeadFilter{Key: "key-1"}, "1 4 7"},
			"tag":       {broker.DeadFilter{Tag: "tag-1", Topic: "t"}, "1 3 5 7 9"},
			"reason":    {broker.DeadFilter{Reason: "reason 3"}, "3 8"},
			"topic":     {broker.DeadFilter{Topic: "u"}, ""},
			"offsets":   {broker.DeadFilter{Offsets: []int64{8, 2, 77}}, "2 8"},
			"before":    {broker.DeadFilter{Before: 3}, "0 1 2"},
			"too early": {broker.DeadFilter{ToMs: began}, ""},
			"in time":   {broker.DeadFilter{FromMs: began, Before: 2}, "0 1"},
		} {
			wantLetters(t, b.Broker, what, c.f, c.want)
		}
		page, err := b.DeadLettersPage(ctx, "g", broker.DeadFilter{Tag: "tag-0"}, "", 2)
		if err != nil || len(page.Letters) != 2 || page.Next == "" {
			t.Fatalf("page: %+v, %v", page, err)
		}
		page, err = b.DeadLettersPage(ctx, "g", broker.DeadFilter{Tag: "tag-0"}, page.Next, 2)
		if err != nil || len(page.Letters) != 2 || string(page.Letters[0].Body) != "4" {
			t.Fatalf("second page: %+v, %v", page, err)
		}

		drop := func(f broker.DeadFilter, want int64) {
			t.Helper()
			if n, err := b.DropDeadLetters(ctx, "g", f); n != want || err != nil {
				t.Errorf("dropped %d, %v; want %d", n, err, want)
			}
		}
		drop(broker.DeadFilter{Key: "key-1"}, 3)
		drop(broker.DeadFilter{Key: "key-1"}, 0)
		drop(broker.DeadFilter{Offsets: []int64{0}}, 1)
		brokertest.Crash(b)
		wantLetters(t, b.Broker, "after drops and a power cut", broker.DeadFilter{}, "2 3 5 6 8 9")
		if _, err := b.DeadLetter(ctx, "g", 1); !errors.Is(err, engine.ErrNoMessage) {
			t.Errorf("a letter that was dropped: %v", err)
		}

		retry := func(f broker.DeadFilter, to broker.DeadTarget, want int64) {
			t.Helper()
			if n, err := b.RetryDeadLetters(ctx, "g", f, to); n != want || err != nil {
				t.Errorf("tried %d again, %v; want %d", n, err, want)
			}
		}
		retry(broker.DeadFilter{Offsets: []int64{3, 9}}, broker.ToTopic, 2)
		retry(broker.DeadFilter{Offsets: []int64{2, 8}}, broker.ToGroup, 2)
		other := lease(t, b.Broker, broker.PullRequest{Group: "other", MaxCount: 100})
		if len(other) != 12 {
			t.Errorf("another group sees %s, want ten messages and two again", said(other))
		}
		got := lease(t, b.Broker, broker.PullRequest{})
		wantSaid(t, "the group", got, "[2/1 3/1 8/1 9/1]")
		for _, d := range got {
			n, _ := d.Properties.Lookup("n")
			origin, _ := d.Properties.Lookup(broker.PropOriginTopic)
			if string(n) != string(d.Body) || d.Retried != (string(origin) == "t") || string(d.Key) != fmt.Sprint("key-", (d.Body[0]-'0')%3) {
				t.Errorf("%s came back as %+v %q", d.Body, d.Lease, d.Properties)
			}
		}
		brokertest.Crash(b)
		wantLetters(t, b.Broker, "after retries and a power cut", broker.DeadFilter{}, "5 6")
		retry(broker.DeadFilter{}, broker.ToGroup, 2)
		wantLetters(t, b.Broker, "in the end", broker.DeadFilter{}, "")
		if info, err := b.Group(ctx, "g"); err != nil || info.DeadLetters != 0 || info.Retrying != 4 {
			t.Errorf("group: %+v, %v", info, err)
		}
	})
}

// All of very many dead letters are dropped and tried again in bounded pieces, and what dies meanwhile is left alone.
func TestManyDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t)
		bury(t, b.Broker, 600)
		if n, err := b.DropDeadLetters(t.Context(), "g", broker.DeadFilter{Tag: "tag-1"}); n != 300 || err != nil {
			t.Errorf("dropped %d, %v", n, err)
		}
		count, err := b.CountDeadLetters(t.Context(), "g", broker.DeadFilter{})
		if err != nil || count.Count != 300 || count.End != 600 {
			t.Errorf("count: %+v, %v", count, err)
		}
		bury(t, b.Broker, 1)
		if n, err := b.RetryDeadLetters(t.Context(), "g", broker.DeadFilter{Before: count.End}, broker.ToTopic); n != 300 || err != nil {
			t.Errorf("tried %d again, %v", n, err)
		}
		wantLetters(t, b.Broker, "what died after the count", broker.DeadFilter{}, "0")
		if got := lease(t, b.Broker, broker.PullRequest{MaxCount: 1000}); len(got) != 300 {
			t.Errorf("%d came back", len(got))
		}
	})
}

// What cannot be stored stays where it is: on a full disk a retry is refused and the lease goes on, dead letters are still
// dropped from the beginning.
func TestRetryRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, crashfs.New(crashfs.Options{}), broker.Options{Engine: engine.Options{HighWater: 1 << 20, SegmentSize: 256 << 10}})
		bury(t, b, 3)
		mustPut(t, b, broker.Message{Topic: "t", Body: []byte("x")})
		d := lease(t, b, broker.PullRequest{})
		var err error
		for err == nil {
			_, err = b.Put(t.Context(), broker.Message{Topic: "fill", Body: make([]byte, 64<<10)})
		}
		if !errors.Is(err, engine.ErrDiskFull) {
			t.Fatal(err)
		}
		if r, err := b.Retry(t.Context(), d[0].Receipt, broker.RetryOptions{}); !errors.Is(err, engine.ErrDiskFull) {
			t.Errorf("retry on a full disk: %+v, %v", r, err)
		}
		if n, err := b.RetryDeadLetters(t.Context(), "g", broker.DeadFilter{}, broker.ToTopic); n != 0 || !errors.Is(err, engine.ErrDiskFull) {
			t.Errorf("retry of dead letters on a full disk: %d, %v", n, err)
		}
		wantLetters(t, b, "on a full disk", broker.DeadFilter{}, "0 1 2")
		if n, err := b.DropDeadLetters(t.Context(), "g", broker.DeadFilter{}); n != 3 || err != nil {
			t.Errorf("dropped %d, %v", n, err)
		}
		time.Sleep(30 * time.Second)
		again := lease(t, b, broker.PullRequest{})
		wantSaid(t, "after the lease", again, "[x/2]")
		ack(t, b, again[0], broker.Acked)
	})
}

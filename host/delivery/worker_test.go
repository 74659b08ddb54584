package delivery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/broker/brokertest"
	"github.com/tidewheel/tidewheel/host/egress"
	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
)

// TestDelivers is the whole way with a real plugin, server and broker: topics that are there and one that comes later, ids,
// signatures, and what is not delivered.
func TestDelivers(t *testing.T) {
	b := brokertest.Open(t)
	secret, err := egress.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	var bad sync.Map
	r := receive(t, func(_ *receiver, w http.ResponseWriter, req *http.Request) {
		var seconds int64
		body := make([]byte, req.ContentLength)
		_, _ = req.Body.Read(body)
		_, _ = fmt.Sscan(req.Header.Get("webhook-timestamp"), &seconds)
		if !egress.Verify(secret, req.Header.Get("webhook-id"), seconds, body, req.Header.Get("webhook-signature")) {
			bad.Store(req.Header.Get("webhook-id"), req.Header)
		}
	})
	var urls []string
	for i := range 50 {
		urls = append(urls, fmt.Sprintf("%s/%d", r.URL, i))
	}
	ids := append(put(b, "orders-a", urls...), put(b, "orders-b", urls...)...)
	put(b, "others", urls...)
	c := settings(t, b)
	c.Plugin, c.Client, c.Secrets = courier(t, plugins.Policy{OnError: plugins.OnErrorDeadLetter}), r.client(t, 0), []egress.Secret{secret}
	w := start(t, c)
	until(t, "all are acked", func() bool { return w.Stats().Messages["acked"] == 100 })
	ids = append(ids, put(b, "orders-late", "d forgotten", r.URL+"/late")...)
	until(t, "the later topic", func() bool { return r.times(ids[101]) == 1 })
	for i, id := range ids {
		if n := r.times(id); n != 1 && i != 100 {
			t.Errorf("message %d came %d times", i, n)
		}
	}
	bad.Range(func(id, header any) bool {
		t.Errorf("signature of %v is wrong: %v", id, header)
		return true
	})
	until(t, "nothing is left", func() bool { return lag(t, b, "plugin-hooks") == 0 })
	s := w.Stats()
	if s.Requests["2xx"] != 101 || s.Messages["dropped"] != 1 || len(r.count) != 101 || fmt.Sprint(s.Topics) != "[orders-a orders-b orders-late]" {
		t.Errorf("stats %+v, %d ids", s, len(r.count))
	}
}

// bubble is a broker in a bubble of synctest with one topic, and a worker whose requests are answered by send.
func bubble(t *testing.T, change func(*Config), send sender, test func(t *testing.T, b *brokertest.Broker, w *Worker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t)
		c := settings(t, b)
		c.Plugin, c.Client = poster(ack2xx), send
		if change != nil {
			change(&c)
		}
		w := Start(c)
		test(t, b, w)
		end(w, 0)
	})
}

// later lets time go by in a bubble, and what is due then happen.
func later(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// TestRetryAfter: the longer one of what the plugin and the receiver want counts, and the attempt's number is told.
func TestRetryAfter(t *testing.T) {
	for _, x := range []struct {
		plugin uint32 // ms
		header string
		want   time.Duration
	}{
		{20, "120", 2 * time.Minute},
		{300_000, "120", 5 * time.Minute},
		{20, "Sat, 01 Jan 2000 00:03:00 GMT", 3 * time.Minute}, // a bubble begins at midnight
		{20, "nonsense", 20 * time.Millisecond},
	} {
		var times []time.Time
		var attempts []uint32
		p := poster(func(r *abi.Record) abi.Verdict {
			attempts = append(attempts, r.Attempt)
			if r.Flags>>16 == 429 {
				return abi.NewVerdict(abi.Retry, 1, x.plugin)
			}
			return abi.NewVerdict(abi.Keep, 0, 0)
		})
		send := func(context.Context, *egress.Request) (*egress.Response, error) {
			if times = append(times, time.Now()); len(times) == 1 {
				return status(429, egress.Header{Name: "retry-after", Value: x.header})
			}
			return status(200)
		}
		bubble(t, func(c *Config) { c.Plugin = p }, send, func(t *testing.T, b *brokertest.Broker, w *Worker) {
			put(b, "orders", "https://a.test/")
			later(x.want + 3*time.Second)
			if len(times) != 2 || fmt.Sprint(attempts) != "[1 2]" {
				t.Fatalf("%+v: sent at %v, attempts %v", x, times, attempts)
			}
			if got := times[1].Sub(times[0]); got < x.want-2*time.Second && x.header[0] == 'S' || got < x.want && x.header[0] != 'S' || got > x.want+2*time.Second {
				t.Errorf("%+v: tried again after %v", x, got)
			}
		})
	}
}

// TestBackoff: a plugin that names no delay gets a longer one from attempt to attempt, until the message is a dead letter.
func TestBackoff(t *testing.T) {
	var times []time.Time
	send := func(context.Context, *egress.Request) (*egress.Response, error) {
		times = append(times, time.Now())
		return status(500)
	}
	bubble(t, func(c *Config) { c.MaxAttempts = 8 }, send, func(t *testing.T, b *brokertest.Broker, w *Worker) {
		put(b, "orders", "https://a.test/")
		later(20 * time.Minute)
		if len(times) != 8 {
			t.Fatalf("sent %d times", len(times))
		}
		want := firstBackoff
		for i := 1; i < len(times); i++ {
			if got := times[i].Sub(times[i-1]); got < want || got > want*6/5+time.Second {
				t.Errorf("attempt %d came after %v, want %v and up to a fifth more", i+1, got, want)
			}
			want *= 2
		}
		if got := fmt.Sprint(dead(t, b, "plugin-hooks")); got != "[https://a.test/: attempt 8 of 8: status 500 (a.test:443); result: retry, code 0]" {
			t.Errorf("dead letters %s", got)
		}
		if s := w.Stats(); s.Messages["retried"] != 7 || s.Messages["dead_letter"] != 1 || s.Leased != 0 || s.InFlight != 0 {
			t.Errorf("stats %+v", s)
		}
	})
	for attempt := range 100 {
		x := &task{d: broker.Delivery{Lease: broker.Lease{Attempt: attempt, ID: "x"}}}
		if got := x.backoff(); got < firstBackoff || got > longestBackoff*6/5 || attempt > 12 && got < longestBackoff || got != x.backoff() {
			t.Errorf("attempt %d waits %v", attempt, got)
		}
	}
}

// TestVerdicts: what each verdict of each hook, and each failure, makes of a message.
func TestVerdicts(t *testing.T) {
	b := brokertest.Open(t)
	r := receive(t, func(_ *receiver, w http.ResponseWriter, req *http.Request) {
		var code int
		_, _ = fmt.Sscanf(req.URL.Path, "/%d", &code)
		w.WriteHeader(code)
	})
	c := settings(t, b)
	policy := plugins.Policy{OnError: plugins.OnErrorDeadLetter, QuarantineAfter: 100}
	c.Plugin, c.Client, c.Policy = courier(t, policy), r.client(t, 0), policy
	host := strings.TrimPrefix(r.URL, "http://")
	put(b, "orders", r.URL+"/200", r.URL+"/204", "d", r.URL+"/410", "x", "e", "!", r.URL+"/400", r.URL+"/418", "https://other.test/")
	w := start(t, c)
	until(t, "all are settled", func() bool {
		s := w.Stats()
		return s.Messages["acked"] == 2 && s.Messages["dropped"] == 1 && s.Messages["dead_letter"] == 7
	})
	got := map[string]bool{}
	for _, text := range dead(t, b, "plugin-hooks") {
		got[strings.TrimPrefix(text, r.URL)] = true
	}
	for _, want := range []string{
		"x: prepare: dead_letter, code 8",
		"e: prepare: error, code 5: error 5",
		"/410: status 410 (" + host + "); result: dead_letter, code 410",
		"/400: status 400 (" + host + "); result: error, code 400: error 400",
		"https://other.test/: egress: refused: https://other.test:443 is not in the list of allowed hosts",
	} {
		if !got[want] {
			t.Errorf("there is no dead letter %q", want)
		}
		delete(got, want)
	}
	for text := range got {
		if !strings.Contains(text, "trap, code 0: ") {
			t.Errorf("dead letter %q", text)
		}
	}
	if len(got) != 2 {
		t.Errorf("%d dead letters of traps: %v", len(got), got)
	}
	if s := w.Stats(); s.Requests["refused"] != 1 || s.Requests["2xx"] != 2 || s.Requests["4xx"] != 3 || !strings.HasPrefix(s.LastTrouble, "egress: refused: ") {
		t.Errorf("requests %v", s.Requests)
	}
}

// TestRefused: the plugin's failure policy decides about a request that may not be made.
func TestRefused(t *testing.T) {
	for _, x := range []struct {
		policy plugins.Policy
		want   string // messages by what became of them
		tried  int
	}{
		{plugins.Policy{OnError: plugins.OnErrorDeadLetter}, "map[dead_letter:1]", 1},
		{plugins.Policy{OnError: plugins.OnErrorDrop}, "map[dropped:1]", 1},
		{plugins.Policy{OnError: plugins.OnErrorSkip}, "map[dropped:1]", 1},
		{plugins.Policy{OnError: plugins.OnErrorRetry, RetryMax: 3, RetryDelayMs: 10}, "map[dead_letter:1 retried:2]", 3},
		{plugins.Policy{OnError: plugins.OnErrorBlock}, "map[]", 12},
	} {
		tried := 0
		send := func(context.Context, *egress.Request) (*egress.Response, error) {
			tried++
			return nil, egress.ErrRefused
		}
		bubble(t, func(c *Config) { c.Policy = x.policy }, send, func(t *testing.T, b *brokertest.Broker, w *Worker) {
			put(b, "orders", "https://a.test/")
			later(58 * time.Second)
			if got := fmt.Sprint(w.Stats().Messages); got != x.want || tried != x.tried {
				t.Errorf("%v: %s after %d tries, want %s after %d", x.policy.OnError, got, tried, x.want, x.tried)
			}
		})
	}
}

// TestLongRequest: a message whose request takes longer than its lease is not sent twice, nor is one that waits for a slot.
func TestLongRequest(t *testing.T) {
	var mu sync.Mutex
	sent := map[string]int{}
	send := func(_ context.Context, r *egress.Request) (*egress.Response, error) {
		mu.Lock()
		sent[r.URL]++
		mu.Unlock()
		<-time.After(20 * time.Minute)
		return status(200)
	}
	bubble(t, func(c *Config) { c.Concurrency = 2 }, send, func(t *testing.T, b *brokertest.Broker, w *Worker) {
		put(b, "orders", "https://a.test/1", "https://a.test/2", "https://a.test/3", "https://a.test/4")
		later(41 * time.Minute)
		if got := fmt.Sprint(sent); got != "map[https://a.test/1:1 https://a.test/2:1 https://a.test/3:1 https://a.test/4:1]" || w.Stats().Messages["acked"] != 4 {
			t.Errorf("sent %s, stats %+v", got, w.Stats())
		}
	})
}

// TestQuarantine: while the plugin decides nothing, messages wait, and none is lost or counted as an attempt.
func TestQuarantine(t *testing.T) {
	for _, hook := range []abi.Hook{abi.Prepare, abi.Result} {
		var mu sync.Mutex
		off, attempts := true, []uint32{}
		inner := poster(ack2xx)
		p := func(h abi.Hook, r *abi.Record) plugins.Decision {
			mu.Lock()
			defer mu.Unlock()
			if h == hook && off {
				return plugins.Decision{}
			}
			if h == abi.Result {
				attempts = append(attempts, r.Attempt)
			}
			return inner(h, r)
		}
		send := func(context.Context, *egress.Request) (*egress.Response, error) { return status(200) }
		bubble(t, func(c *Config) { c.Plugin = plugin(p) }, send, func(t *testing.T, b *brokertest.Broker, w *Worker) {
			put(b, "orders", "https://a.test/1", "https://a.test/2", "https://a.test/3")
			later(time.Hour)
			if s := w.Stats(); len(s.Messages) != 0 || s.Leased == 0 {
				t.Errorf("%v: while it is off: %+v", hook, s)
			}
			mu.Lock()
			off = false
			mu.Unlock()
			later(longestPause + time.Second)
			if s := w.Stats(); s.Messages["acked"] != 3 || fmt.Sprint(attempts) != "[1 1 1]" {
				t.Errorf("%v: when it is back: %+v, attempts %v", hook, s, attempts)
			}
		})
	}
}

// TestSlowHost: a host that hangs takes slots and no more: other hosts' messages go on in the rest, and all slots are theirs
// when it is known to be down.
func TestSlowHost(t *testing.T) {
	var mu sync.Mutex
	var good []time.Duration
	begin := time.Time{}
	send := func(ctx context.Context, r *egress.Request) (*egress.Response, error) {
		if strings.Contains(r.URL, "slow") {
			<-time.After(10 * time.Second)
			return nil, &egress.Error{Kind: egress.TimedOut, Host: "slow.test:443", Err: context.DeadlineExceeded}
		}
		<-time.After(10 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		good = append(good, time.Since(begin))
		return status(200)
	}
	bubble(t, func(c *Config) { c.Concurrency = 8 }, send, func(t *testing.T, b *brokertest.Broker, w *Worker) {
		later(time.Second)
		begin = time.Now()
		put(b, "orders-slow", strings.Fields(strings.Repeat("https://slow.test/ ", 7))...)
		later(5 * time.Second)
		begin = time.Now()
		put(b, "orders-fast", strings.Fields(strings.Repeat("https://fast.test/ ", 100))...)
		later(4 * time.Second)
		if len(good) != 100 || good[99] > 2*time.Second { // with one slot
			t.Fatalf("%d of 100 were delivered beside the slow ones, the last after %v", len(good), good)
		}
		later(2500 * time.Millisecond) // the slow ones have timed out, and their host is down
		if s := w.Stats(); s.HostsDown != 1 || s.Requests["timeout"] != 7 {
			t.Errorf("stats %+v", s)
		}
		put(b, "orders-mixed", strings.Fields(strings.Repeat("https://slow.test/ https://fast.test/ ", 100))...)
		later(1500 * time.Millisecond)
		if s := w.Stats(); len(good) != 200 || s.Requests["down"] < 90 {
			t.Errorf("%d were delivered, stats %+v", len(good), s)
		}
	})
}

// TestDownUsesUpNoAttempts: messages for a host that is down come again when it is tried again, however short a delay the plugin
// names.
func TestDownUsesUpNoAttempts(t *testing.T) {
	var requests atomic.Int32
	begin := time.Time{}
	send := func(context.Context, *egress.Request) (*egress.Response, error) {
		requests.Add(1)
		if time.Since(begin) > time.Minute {
			return status(200)
		}
		return nil, &egress.Error{Kind: egress.CannotConnect, Host: "a.test:443", Err: errors.New("refused")}
	}
	p := poster(func(r *abi.Record) abi.Verdict {
		if r.Flags&abi.FlagNoResponse != 0 {
			return abi.NewVerdict(abi.Retry, 0, 1)
		}
		return abi.NewVerdict(abi.Keep, 0, 0)
	})
	bubble(t, func(c *Config) { c.Plugin = p; c.MaxAttempts = 30 }, send, func(t *testing.T, b *brokertest.Broker, w *Worker) {
		begin = time.Now()
		put(b, "orders", strings.Fields(strings.Repeat("https://a.test/ ", 20))...)
		later(2 * time.Minute)
		if s := w.Stats(); s.Messages["acked"] != 20 || s.Messages["dead_letter"] != 0 || requests.Load() > 60 || s.LastTrouble != "no answer from a.test:443: cannot connect" {
			t.Errorf("%d requests, stats %+v", requests.Load(), s)
		}
	})
}

// TestHandIsBounded: large messages of many topics are not all in memory while nothing can be sent.
func TestHandIsBounded(t *testing.T) {
	free := make(chan struct{})
	send := func(ctx context.Context, _ *egress.Request) (*egress.Response, error) {
		select {
		case <-free:
			return status(200)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	p := poster(ack2xx)
	long := func(hook abi.Hook, r *abi.Record) plugins.Decision {
		x := p(hook, r)
		x.Output.Topic = []byte("https://a.test/")
		return x
	}
	synctest.Test(t, func(t *testing.T) {
		free = make(chan struct{})
		b := brokertest.Open(t)
		body := strings.Repeat("x", 256<<10)
		for i := range 300 {
			put(b, fmt.Sprintf("orders-%d", i%100), body)
		}
		c := settings(t, b)
		c.Plugin, c.Client, c.Concurrency = plugin(long), sender(send), 2
		w := Start(c)
		later(time.Minute)
		inHand := func() int {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.bytes
		}
		// All readers may have begun with nothing in hand, each with two messages.
		if n, s := inHand(), w.Stats(); n < handBytes || n > 201*(256<<10+1024) || s.Leased >= 300 {
			t.Errorf("%d bytes of %d messages are in hand", n, s.Leased)
		}
		close(free)
		later(time.Minute)
		if n, s := inHand(), w.Stats(); n != 0 || s.Leased != 0 || s.Messages["acked"] != 300 {
			t.Errorf("at the end %d bytes are in hand, %+v", n, s)
		}
		end(w, 0)
	})
}

// TestRealQuarantine: a plugin that dies on messages is quarantined; each of those is a dead letter once, and the others are
// delivered when it is back, on their first attempt.
func TestRealQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t)
		policy := plugins.Policy{OnError: plugins.OnErrorDeadLetter, QuarantineAfter: 3}
		p := courier(t, policy)
		c := settings(t, b)
		var sent atomic.Int32
		c.Plugin, c.Policy, c.Concurrency = p, policy, 4
		c.Client = sender(func(context.Context, *egress.Request) (*egress.Response, error) { sent.Add(1); return status(200) })
		for range 6 {
			put(b, "orders", "!1", "https://a.test/", "!2", "!3", "!4")
		}
		w := Start(c)
		later(5 * time.Minute)
		s := w.Stats()
		if s.Messages["acked"] != 6 || s.Messages["dead_letter"] != 24 || s.Messages["retried"] != 0 || sent.Load() != 6 || s.Leased != 0 {
			t.Errorf("sent %d, stats %+v", sent.Load(), s)
		}
		if q := p.Stats().Quarantines; q == 0 {
			t.Error("the plugin was never quarantined")
		}
		end(w, 0)
	})
}

// TestCloseEnds: Close lets requests go on until its context ends, cancels them then, and what was not settled is delivered
// by the next worker.
func TestCloseEnds(t *testing.T) {
	b := brokertest.Open(t)
	hold, begun := make(chan struct{}), make(chan struct{}, 10)
	r := receive(t, func(r *receiver, w http.ResponseWriter, req *http.Request) {
		begun <- struct{}{}
		select {
		case <-req.Context().Done():
		case <-hold:
		}
	})
	c := settings(t, b)
	c.Plugin, c.Client, c.Concurrency = poster(ack2xx), r.client(t, time.Minute), 2
	ids := put(b, "orders", r.URL+"/1", r.URL+"/2", r.URL+"/3", r.URL+"/4")
	w := Start(c)
	<-begun
	<-begun
	from := time.Now()
	end(w, 50*time.Millisecond)
	if took := time.Since(from); took < 50*time.Millisecond || took > 2*time.Second {
		t.Errorf("Close took %v", took)
	}
	if s := w.Stats(); s.InFlight != 0 || s.Leased != 0 || len(s.Topics) != 0 || len(s.Messages) != 0 {
		t.Errorf("after Close: %+v", s)
	}
	w = Start(c)
	<-begun
	<-begun
	go close(hold)
	end(w, 10*time.Second) // what is on its way ends and is acked
	if n := w.Stats().Messages["acked"]; n < 2 {
		t.Errorf("%d messages were acked while the worker ended", n)
	}
	start(t, c)
	until(t, "the rest", func() bool { return lag(t, b, "plugin-hooks") == 0 })
	for i, id := range ids {
		if n := r.times(id); n < 1 || n > 2 {
			t.Errorf("message %d was sent %d times", i+1, n)
		}
	}
}

// TestTopicIsMadeAgain: a topic that is deleted ends its reader, and one of its name is read again.
func TestTopicIsMadeAgain(t *testing.T) {
	var n atomic.Int32
	send := func(context.Context, *egress.Request) (*egress.Response, error) { n.Add(1); return status(200) }
	bubble(t, nil, send, func(t *testing.T, b *brokertest.Broker, w *Worker) {
		for i := range 3 {
			put(b, "orders", "https://a.test/")
			later(2 * time.Minute)
			if n.Load() != int32(i+1) || len(w.Stats().Topics) != 1 {
				t.Fatalf("%d messages were sent, want %d; %+v", n.Load(), i+1, w.Stats())
			}
			if err := b.DeleteTopic(t.Context(), "orders"); err != nil {
				t.Fatal(err)
			}
			later(2 * time.Minute)
		}
	})
}

// faulty is a broker whose Settle and Pull fail now and then.
type faulty struct {
	*brokertest.Broker
	settle func(n int) error // by the number of the call, from 1
	pull   func(n int) error

	mu             sync.Mutex
	settles, pulls int
}

func (f *faulty) Settle(ctx context.Context, all []broker.Settlement) []error {
	f.mu.Lock()
	f.settles++
	n := f.settles
	f.mu.Unlock()
	if err := f.settle(n); err != nil {
		return slices.Repeat([]error{err}, len(all))
	}
	return f.Broker.Settle(ctx, all)
}

func (f *faulty) Pull(ctx context.Context, req broker.PullRequest, into *broker.Pulled) error {
	f.mu.Lock()
	f.pulls++
	n := f.pulls
	f.mu.Unlock()
	if err := f.pull(n); err != nil {
		return err
	}
	return f.Broker.Pull(ctx, req, into)
}

// TestFaults: a message that was delivered is not sent again because settling it failed for a while, and reading goes on after
// errors.
func TestFaults(t *testing.T) {
	var sent atomic.Int32
	send := func(context.Context, *egress.Request) (*egress.Response, error) { sent.Add(1); return status(200) }
	oops := errors.New("oops")
	f := &faulty{
		settle: func(n int) error {
			if n <= 5 {
				return oops
			}
			return nil
		},
		pull: func(n int) error {
			if n%2 == 1 {
				return oops
			}
			return nil
		},
	}
	bubble(t, func(c *Config) { f.Broker = c.Broker.(*brokertest.Broker); c.Broker = f }, send, func(t *testing.T, b *brokertest.Broker, w *Worker) {
		put(b, "orders", "https://a.test/1", "https://a.test/2")
		later(2 * time.Minute)
		if s := w.Stats(); sent.Load() != 2 || s.Messages["acked"] != 2 || s.LastTrouble == "" || s.Leased != 0 {
			t.Errorf("sent %d, stats %+v", sent.Load(), s)
		}
	})
	f.settle, f.pull = func(int) error { return broker.ErrClosed }, func(int) error { return nil }
	bubble(t, func(c *Config) { f.Broker = c.Broker.(*brokertest.Broker); c.Broker = f }, send, func(t *testing.T, b *brokertest.Broker, w *Worker) {
		put(b, "orders", "https://a.test/1")
		later(time.Second * 2)
		if s := w.Stats(); s.Leased != 0 || s.LastTrouble == "" {
			t.Errorf("with a closed broker: %+v", s)
		}
	})
}

func TestHosts(t *testing.T) {
	var h hosts
	now := time.Unix(0, 0)
	admits := func(name string) bool {
		ok, wait := h.admits(name, now)
		if ok != (wait == 0) || wait > longestDown {
			t.Errorf("admitted %v, to wait for %v", ok, wait)
		}
		return ok
	}
	for i := range downAfter {
		if !admits("a") {
			t.Fatalf("down after %d failures", i)
		}
		h.silent("a", now, true)
	}
	if admits("a") || !admits("b") || h.count() != 1 {
		t.Error("a is not down, or b is")
	}
	for pause := firstDown; pause <= 8*longestDown; pause *= 2 {
		now = now.Add(min(pause, longestDown))
		if !admits("a") || admits("a") {
			t.Errorf("after %v not exactly one request is let through", pause)
		}
		h.silent("a", now, true)
	}
	now = now.Add(longestDown)
	if !admits("a") {
		t.Error("no probe")
	}
	h.silent("a", now, false) // it was stopped: the next one may try
	if !admits("a") {
		t.Error("no other probe")
	}
	h.answered("a")
	for range 2 {
		if !admits("a") || h.count() != 0 {
			t.Error("a is still down")
		}
	}
	for i := range 2 * knownHosts {
		h.silent(fmt.Sprint(i), now, true)
	}
	if len(h.down) > knownHosts {
		t.Errorf("%d hosts are remembered", len(h.down))
	}
}

package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/broker/brokertest"
	"github.com/tidewheel/tidewheel/host/egress"
	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plugin is a Plugin that is a function of one record; Unset leaves it undecided.
type plugin func(hook abi.Hook, r *abi.Record) plugins.Decision

func (p plugin) Decide(ctx context.Context, call plugins.Call, records []abi.Record, a *plugins.Answer) error {
	*a = plugins.Answer{Decisions: make([]plugins.Decision, len(records)), Digest: plugins.Digest{1}}
	for i := range records {
		a.Decisions[i] = p(call.Hook, &records[i])
		if a.Decisions[i].Verdict == 0 {
			break
		}
		a.Decided++
	}
	return ctx.Err()
}

// poster sends each body to the URL that it is, and judges as result says.
func poster(result func(r *abi.Record) abi.Verdict) plugin {
	return func(hook abi.Hook, r *abi.Record) plugins.Decision {
		if hook == abi.Prepare {
			return plugins.Decision{Verdict: abi.NewVerdict(abi.Replace, 0, 0), Output: abi.Record{Topic: r.Body, Body: r.Body}}
		}
		return plugins.Decision{Verdict: result(r)}
	}
}

// ack2xx acks what is answered with 2xx and leaves the rest to the host's backoff.
func ack2xx(r *abi.Record) abi.Verdict {
	if r.Flags&abi.FlagNoResponse == 0 && r.Flags>>16/100 == 2 {
		return abi.NewVerdict(abi.Keep, 0, 0)
	}
	return abi.NewVerdict(abi.Retry, 0, 0)
}

// sender is a Sender without a network.
type sender func(ctx context.Context, r *egress.Request) (*egress.Response, error)

func (sender) Target(url string) (*egress.Target, error) { return egress.ParseTarget(url) }

func (s sender) Do(ctx context.Context, r *egress.Request) (*egress.Response, error) {
	answer, err := s(ctx, r)
	if err != nil && ctx.Err() != nil {
		return nil, &egress.Error{Kind: egress.Stopped, Err: ctx.Err()}
	}
	return answer, err
}

// status is an answer without a body.
func status(code int, headers ...egress.Header) (*egress.Response, error) {
	return &egress.Response{Status: code, Headers: headers}, nil
}

// settings are those of a worker for all topics whose name begins with "orders".
func settings(t testing.TB, b Broker) Config {
	return Config{
		Name: "hooks", Broker: b, Record: record,
		Match:  func(topic string) bool { return strings.HasPrefix(topic, "orders") },
		Policy: plugins.Policy{OnError: plugins.OnErrorDeadLetter},
		Log:    slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
}

// start starts a worker that ends with the test, at once.
func start(t testing.TB, c Config) *Worker {
	t.Helper()
	w := Start(c)
	t.Cleanup(func() { end(w, 0) })
	return w
}

// end closes a worker after d.
func end(w *Worker, d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	w.Close(ctx)
}

// courier is the plugin of package plugintest in a runtime of its own.
func courier(t testing.TB, policy plugins.Policy) *plugins.Plugin {
	t.Helper()
	r, err := plugins.NewRuntime(plugins.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := r.Load(context.Background(), plugintest.Courier(), plugins.Spec{
		Name: "hooks", Policy: policy, Limits: plugins.Limits{MemoryMax: 4 << 20, Instances: 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := r.NewPlugin(m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(p.Close(), r.Close()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// receiver is an HTTP server that counts the ids it gets.
type receiver struct {
	*httptest.Server
	got chan string // an id for each request; buffered

	mu    sync.Mutex
	count map[string]int // by id
}

func receive(t testing.TB, h func(r *receiver, w http.ResponseWriter, req *http.Request)) *receiver {
	r := &receiver{count: map[string]int{}, got: make(chan string, 10_000)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		id := req.Header.Get("webhook-id")
		r.mu.Lock()
		r.count[id]++
		r.mu.Unlock()
		r.got <- id
		h(r, w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) times(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count[id]
}

// client may call the server.
func (r *receiver) client(t testing.TB, timeout time.Duration) *egress.Client {
	rule, err := egress.ParseRule(r.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := egress.New(egress.Options{Allow: []egress.Rule{rule}, Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Timeout: timeout})
	t.Cleanup(c.Close)
	return c
}

// until waits for something that a worker does.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for ; !ok(); <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after 20 s", what)
		}
	}
}

// put stores messages and returns their ids.
func put(b *brokertest.Broker, topic string, bodies ...string) (ids []string) {
	for _, body := range bodies {
		ids = append(ids, b.MustPut(topic, body, 0).ID)
	}
	return ids
}

// dead are the dead letters of a group: reasons and codes.
func dead(t testing.TB, b *brokertest.Broker, group string) (all []string) {
	t.Helper()
	for d, err := range b.DeadLetters(t.Context(), group, broker.DeadFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s: %s", d.Body, d.Reason))
	}
	return all
}

// lag is how many messages a group has to get.
func lag(t testing.TB, b *brokertest.Broker, group string) (n int64) {
	t.Helper()
	info, err := b.Group(t.Context(), group)
	if err != nil {
		return -1
	}
	return info.Lag()
}

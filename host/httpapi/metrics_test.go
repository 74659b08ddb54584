package httpapi

import (
	"fmt"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/broker/brokertest"
	"github.com/tidewheel/tidewheel/host/delivery"
	"github.com/tidewheel/tidewheel/host/pluginhost"
)

// scrape reads /metrics: the values of each name, labels and all, added up.
func scrape(t *testing.T, a *API) map[string]float64 {
	t.Helper()
	w := ask(a, "GET", "/metrics", "")
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	sums := map[string]float64{}
	for line := range strings.Lines(w.Body.String()) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || name == "#" {
			continue
		}
		if close := strings.LastIndex(line, "} "); close > 0 {
			value = strings.TrimSpace(line[close+2:])
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		name, _, _ = strings.Cut(name, "{")
		sums[name] += v
	}
	return sums
}

func ask(a *API, method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "localhost"
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w
}

// still are metrics that this test cannot move: they speak of what a small healthy store does not have.
var still = map[string]bool{
	"tidewheel_messages_dropped_total": true, "tidewheel_job_failures_total": true, "tidewheel_messages_rolled_total": true,
	"tidewheel_checkpoints_total": true, "tidewheel_replayed_bytes": true, "tidewheel_queued_requests": true,
	"tidewheel_queued_bytes": true, "tidewheel_waiting_readers": true, "tidewheel_disk_bytes": true,
	"tidewheel_oldest_overdue_seconds": true, "tidewheel_storing": true, "tidewheel_delivering": true, "tidewheel_ready": true,
}

// Every metric of the table is there, and what happens moves it.
func TestMetrics(t *testing.T) {
	var now atomic.Int64
	now.Store(1_796_036_400_000)
	b, err := broker.Open(broker.Env{FS: crashfs.New(crashfs.Options{}), Wall: now.Load}, ".", broker.Options{
		Engine: engine.Options{SegmentSize: 1 << 20},
		Hooks: &brokertest.Hooks{Topics: []string{"staged"}, OnDue: func(_ string, m *engine.Message) broker.Decision {
			if string(m.Body) == "later" {
				return broker.Decision{}
			}
			return brokertest.Keep("p")
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	a := Handler(b, Options{})
	defer a.Close()
	put := func(header ...string) string {
		w := ask(a, "POST", "/v1/topics/t/messages", "x", header...)
		_, rest, _ := strings.Cut(w.Body.String(), `"handle":"`)
		handle, _, _ := strings.Cut(rest, `"`)
		return "/v1/timers/" + handle
	}
	put() // so that there is a topic
	before := scrape(t, a)
	put()
	put("Tidewheel-Delay-Level", "5")
	moved, cancelled := put("Tidewheel-Delay", "1h"), put("Tidewheel-Delay", "1h")
	ask(a, "PATCH", moved, `{"delay":"2h"}`)
	ask(a, "DELETE", cancelled, "")
	ask(a, "POST", cancelled+"/undo", "")
	fired := put("Tidewheel-Delay", "1s")
	ask(a, "PUT", "/v1/topics/u", `{"queues":0}`)
	ask(a, "POST", "/v1/topics/t/ack", `{"group":"g","offsets":[{"queue":0,"offset":"1"}]}`)
	ask(a, "PUT", "/v1/topics/u", `{"queues":1}`)
	consume(t, b)
	decide(t, b, &now)
	now.Add(1500)
	if err := b.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask(a, "DELETE", fired, "")
	after := scrape(t, a)
	names := []string{requestsName, timesName + "_count"}
	for _, m := range brokerMetrics {
		switch {
		case m.measures != nil:
			names = append(names, m.name+"_count")
		default:
			names = append(names, m.name)
		}
	}
	for _, name := range names {
		if _, ok := after[name]; !ok {
			t.Errorf("%s is not there", name)
		} else if !still[name] && after[name] <= before[name] {
			t.Errorf("%s was %v and is %v", name, before[name], after[name])
		}
	}
	for name := range still {
		if !slices.Contains(names, name) {
			t.Errorf("%s is no metric", name)
		}
	}
	if after["go_goroutines"] == 0 || after["tidewheel_ready"] != 1 || after["tidewheel_storing"] != 1 || after["tidewheel_delivering"] != 1 {
		t.Errorf("ready %v, storing %v", after["tidewheel_ready"], after["tidewheel_storing"])
	}
	if got, want := after["tidewheel_lateness_seconds_sum"], .5; got < want-.01 || got > want+.01 {
		t.Errorf("lateness is %v s, want %v", got, want)
	}
}

// decide has two messages met by a plugin, which decides about the first one only.
func decide(t *testing.T, b *broker.Broker, now *atomic.Int64) {
	t.Helper()
	for _, body := range []string{"x", "later"} {
		if _, err := b.Put(t.Context(), broker.Message{Topic: "staged", Pin: true, Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	now.Add(1)
	var p broker.Pulled
	if err := b.Pull(t.Context(), broker.PullRequest{Topic: "staged", Group: "staged", Wait: 20 * time.Second}, &p); err != nil || p.Count() != 1 {
		t.Fatal(p.Count(), err)
	}
}

// consume has a group that acks nothing of three messages: one is leased, one is put off, and one is a dead letter.
func consume(t *testing.T, b *broker.Broker) {
	t.Helper()
	for range 3 {
		if _, err := b.Put(t.Context(), broker.Message{Topic: "c", Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	var p broker.Pulled
	if err := b.Pull(t.Context(), broker.PullRequest{Topic: "c", Group: "readers"}, &p); err != nil {
		t.Fatal(err)
	}
	var receipts []string
	for d := range p.Deliveries() {
		receipts = append(receipts, d.Receipt)
	}
	if len(receipts) != 3 {
		t.Fatalf("%d messages", len(receipts))
	}
	if _, err := b.Retry(t.Context(), receipts[1], broker.RetryOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Reject(t.Context(), receipts[2], "x"); err != nil {
		t.Fatal(err)
	}
}

// What is due and not delivered has an age.
func TestOldestOverdue(t *testing.T) {
	s := &snapshot{nowMs: 5500, oldest: 3000}
	for _, m := range brokerMetrics {
		if m.name == "tidewheel_oldest_overdue_seconds" {
			m.read(s, func(v float64, _ ...string) {
				if v != 2.5 {
					t.Errorf("%v s", v)
				}
			})
			return
		}
	}
	t.Error("no such metric")
}

// A program has the metrics of its broker in its own registry; a closed broker has none.
func TestCollector(t *testing.T) {
	b, err := broker.Open(broker.Env{FS: crashfs.New(crashfs.Options{})}, ".", broker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(Collector(b))
	found, err := r.Gather()
	if err != nil || len(found) < 20 {
		t.Errorf("%d metrics, %v", len(found), err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if found, err = r.Gather(); err != nil || len(found) != 0 {
		t.Errorf("closed: %d metrics, %v", len(found), err)
	}
}

// metricsPage is the table of metrics for people.
func metricsPage() string {
	var b strings.Builder
	b.WriteString("# Metrics\n\n`GET /metrics` answers in the text format of Prometheus; with tokens it takes one of role read. A program that\n" +
		"embeds a broker registers `httpapi.Collector(b)`, and one that hosts plugins `pluginhost.Collector(h)` and `delivery.Collector(f)`. A test compares this page with the code, and looks that each metric is\n" +
		"there and moves. Counters and histograms count since the server was started, unless the text says more.\n\n" +
		"| name | kind | labels | what |\n|---|---|---|---|\n")
	for _, m := range brokerMetrics {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.name, m.kind, strings.Join(m.labels, ", "), m.help)
	}
	for _, m := range append(pluginhost.Metrics(), queueLag) {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Kind, strings.Join(m.Labels, ", "), m.Help)
	}
	for _, m := range delivery.Metrics() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Kind, strings.Join(m.Labels, ", "), m.Help)
	}
	fmt.Fprintf(&b, "| `%s` | counter | operation, status | %s |\n", requestsName, requestsHelp)
	fmt.Fprintf(&b, "| `%s` | histogram | operation | %s |\n", timesName, timesHelp)
	b.WriteString("\nBeside them stand those of the Go run time and of the process, whose names begin with `go_` and `process_`.\n")
	return b.String()
}

func TestMetricsPage(t *testing.T) { comparePage(t, "../../docs/metrics.md", metricsPage()) }

// comparePage holds a page of the documentation against what the code says; with -update it writes it anew.
func comparePage(t *testing.T, file, want string) {
	t.Helper()
	if *Update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the code says: go test ./host/httpapi -run Page -update writes it anew", file)
	}
}

package httpapi_test

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

// startMs is where the clock of these tests stands: 2026-11-30T11:00:00Z.
const startMs = 1_796_036_400_000

// stillAPI is an API whose clock stands until it is set.
func stillAPI(t *testing.T) (a *httpapi.API, now *clock) {
	t.Helper()
	now = new(clock)
	now.set(startMs)
	b, err := broker.Open(broker.Env{FS: crashfs.New(crashfs.Options{}), Wall: now.ms}, ".", broker.Options{
		Engine: engine.Options{SegmentSize: 1 << 20, Queues: 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return httpapi.Handler(b, httpapi.Options{}), now
}

// put stores a message and returns what became of it.
func put(t *testing.T, a *httpapi.API, topic, body string, header ...string) httpapi.Stored {
	t.Helper()
	return read[httpapi.Stored](t, do(t, a, "POST", "/v1/topics/"+topic+"/messages", body, header...), 201)
}

// Each way to say the same time gives the same time.
func TestPutTimes(t *testing.T) {
	a, _ := stillAPI(t)
	const due = startMs + 30*60_000
	ms, at := fmt.Sprint(due), "2026-11-30T12:30:00+01:00"
	for _, header := range [][]string{
		{"Tidewheel-Delay", "30m"}, {"Tidewheel-Deliver-At", at}, {"Tidewheel-Deliver-At-Ms", ms},
	} {
		s := put(t, a, "orders", "x", header...)
		if s.State != httpapi.StateScheduled || s.DueMs != due || s.DueIn != "30m0s" || s.Due != "2026-11-30T11:30:00.000Z" || s.DelayLevel != 0 {
			t.Errorf("%v: %+v", header, s)
		}
	}
	for _, body := range []string{`{"delay":"30m"}`, `{"deliver_at":"` + at + `"}`, `{"deliver_at_ms":` + ms + `}`} {
		if s := put(t, a, "orders", body, "Content-Type", httpapi.EnvelopeType); s.DueMs != due || s.Handle == "" {
			t.Errorf("%s: %+v", body, s)
		}
	}
	if s := put(t, a, "orders", "x", "Tidewheel-Deliver-At", "2026-11-30T10:59:59Z"); s.State != httpapi.StateVisible || !s.Past {
		t.Errorf("in the past: %+v", s)
	}
	if s := put(t, a, "orders", "x", "Tidewheel-Delay", "0"); s.State != httpapi.StateVisible || s.Past {
		t.Errorf("no delay: %+v", s)
	}
	if s := put(t, a, "orders", "x", "Tidewheel-Delay", "7d"); s.DueIn != "7d0s" {
		t.Errorf("the longest: %+v", s)
	}
	p := read[httpapi.Problem](t, do(t, a, "POST", "/v1/topics/orders/messages", "x", "Tidewheel-Delay", "9d"), 422)
	if p.Code != "delay_too_long" || p.Got != "9d" || p.Limit != "7d" || p.Type != "/problems/delay-too-long" {
		t.Errorf("too long: %+v", p)
	}
	if l := read[httpapi.Limits](t, do(t, a, "GET", "/v1/limits", ""), 200); l.MaxDelay != "7d" || l.MaxDelayMs != 7*86400_000 {
		t.Errorf("limits: %+v", l)
	}
}

// A message is moved, cancelled, restored and fired; each old handle says what became of it.
func TestTimerLife(t *testing.T) {
	a, now := stillAPI(t)
	s := put(t, a, "orders", "hello", "Tidewheel-Delay", "1h", "Tidewheel-Key", "k", "Tidewheel-Tag", "unpaid",
		"Tidewheel-Property", "a=b", "Tidewheel-Queue", "1")
	timer := read[httpapi.Timer](t, do(t, a, "GET", "/v1/timers/"+s.Handle, ""), 200)
	if timer.State != httpapi.StateScheduled || string(timer.Bytes()) != "hello" || timer.Key != "k" || timer.Tag != "unpaid" ||
		timer.Properties["a"] != "b" || *timer.Queue != 1 || timer.DueIn != "1h0m0s" || timer.StoredMs != startMs {
		t.Errorf("shown: %+v", timer)
	}
	handle := s.Handle
	change := func(method, path, body, outcome string, due int64) {
		t.Helper()
		w := do(t, a, method, "/v1/timers/"+handle+path, body)
		c := read[httpapi.Changed](t, w, 200)
		if c.Outcome != outcome || c.DueMs != due || c.Handle == handle || w.Header().Get("Location") != "/v1/timers/"+c.Handle {
			t.Fatalf("%s %s: %+v, want %s, due %d", method, body, c, outcome, due)
		}
		if p := read[httpapi.Problem](t, do(t, a, "DELETE", "/v1/timers/"+handle, ""), 409); p.Code != "superseded" {
			t.Errorf("the old handle: %+v", p)
		}
		if old := read[httpapi.Timer](t, do(t, a, "GET", "/v1/timers/"+handle, ""), 200); old.State != httpapi.StateSuperseded {
			t.Errorf("the old handle: %+v", old)
		}
		handle = c.Handle
	}
	change("PATCH", "", `{"by":"+2h"}`, httpapi.OutcomeMoved, startMs+3*3600_000)
	change("PATCH", "", `{"by":"-30m"}`, httpapi.OutcomeMoved, startMs+2*3600_000+1800_000)
	change("PATCH", "", `{"delay":"5m"}`, httpapi.OutcomeMoved, startMs+300_000)
	change("PATCH", "", `{"deliver_at":"2026-11-30T12:00:00+01:00"}`, httpapi.OutcomeMoved, startMs)
	now.set(startMs + 1)
	put(t, a, "other", "wakes the writer")
	if got := read[httpapi.Messages](t, do(t, a, "GET", "/v1/topics/orders/messages?wait=10s", ""), 200); len(got.Messages) != 1 {
		t.Fatalf("pulled %+v", got)
	}
	for _, c := range [][2]string{{"PATCH", ""}, {"POST", "/fire"}, {"POST", "/undo"}, {"DELETE", ""}} {
		p := read[httpapi.Problem](t, do(t, a, c[0], "/v1/timers/"+handle+c[1], `{"delay":"1h"}`), 409)
		if p.Code != "already_delivered" || p.DueMs != startMs || p.Topic != "orders" || p.Queue == nil || p.Offset == nil {
			t.Errorf("%v of what was delivered: %+v", c, p)
		}
	}

	handle = put(t, a, "orders", "again", "Tidewheel-Delay", "2h").Handle
	read[httpapi.Cancelled](t, do(t, a, "DELETE", "/v1/timers/"+handle, ""), 200)
	for _, c := range [][2]string{{"PATCH", ""}, {"POST", "/fire"}} {
		p := read[httpapi.Problem](t, do(t, a, c[0], "/v1/timers/"+handle+c[1], `{"delay":"1h"}`), 409)
		if p.Code != "already_cancelled" {
			t.Errorf("%v of what was cancelled: %+v", c, p)
		}
	}
	if c := read[httpapi.Timer](t, do(t, a, "GET", "/v1/timers/"+handle, ""), 200); c.State != httpapi.StateCancelled || string(c.Bytes()) != "again" {
		t.Errorf("cancelled: %+v", c)
	}
	change("POST", "/undo", "", httpapi.OutcomeRestored, startMs+1+2*3600_000)
	if p := read[httpapi.Problem](t, do(t, a, "POST", "/v1/timers/"+handle+"/undo", ""), 409); p.Code != "not_cancelled" {
		t.Errorf("undo of what waits: %+v", p)
	}
	change("POST", "/fire", "", httpapi.OutcomeFired, startMs+1)

	late := put(t, a, "orders", "late", "Tidewheel-Delay", "1s").Handle
	read[httpapi.Cancelled](t, do(t, a, "DELETE", "/v1/timers/"+late, ""), 200)
	now.set(startMs + 2000)
	if p := read[httpapi.Problem](t, do(t, a, "POST", "/v1/timers/"+late+"/undo", ""), 409); p.Code != "too_late" {
		t.Errorf("undo after the due time: %+v", p)
	}
}

func TestTimerRefusals(t *testing.T) {
	a, _ := stillAPI(t)
	h := put(t, a, "orders", "x", "Tidewheel-Delay", "1h").Handle
	for _, c := range []struct {
		method, path, body string
		status             int
		code, field        string
	}{
		{"PATCH", h, `{}`, 422, "bad_field", "body"},
		{"PATCH", h, `{"delay":"1h","by":"+1h"}`, 422, "bad_field", "by"},
		{"PATCH", h, `{"delay":"+1h"}`, 422, "bad_field", "delay"},
		{"PATCH", h, `{"delay":"8d"}`, 422, "delay_too_long", "delay"},
		{"PATCH", h, `{"by":"2h"}`, 422, "bad_field", "by"},
		{"PATCH", h, `{"by":"+8d"}`, 422, "delay_too_long", "by"},
		{"PATCH", h, `{"by":7}`, 422, "bad_field", "by"},
		{"PATCH", h, `{"deliver_at":"tomorrow"}`, 422, "bad_field", "deliver_at"},
		{"PATCH", h, `{"delay_level":3}`, 400, "bad_json", ""},
		{"PATCH", h, ``, 400, "bad_json", ""},
		{"PATCH", "tw1.forged", `{"delay":"1h"}`, 404, "not_found", ""},
		{"PATCH", "tw1.forged", `{"by":"+1h"}`, 404, "not_found", ""},
		{"POST", "tw1.forged/fire", ``, 404, "not_found", ""},
		{"POST", "tw1.forged/undo", ``, 404, "not_found", ""},
		{"GET", "tw1.forged", ``, 404, "not_found", ""},
		{"GET", "tw1.forged/explain", ``, 404, "not_found", ""},
		{"GET", h + "/fire", ``, 405, "method_not_allowed", "method"},
	} {
		p := read[httpapi.Problem](t, do(t, a, c.method, "/v1/timers/"+c.path, c.body), c.status)
		if p.Code != c.code || p.Field != c.field {
			t.Errorf("%s %.12s %s: %+v, want %s of %q", c.method, c.path, c.body, p, c.code, c.field)
		}
	}
	for query, field := range map[string]string{
		"/v1/timers?limit=0": "limit", "/v1/timers?limit=1001": "limit", "/v1/timers?from=5": "from", "/v1/timers?to=": "to",
		"/v1/timers?from=1h&to=30m": "to", "/v1/timers?to=@0": "to", "/v1/timers?topics=x": "topics", "/v1/timers?key=a&key=b": "key",
		"/v1/timers?to=2026-12-24T18:00:00+01:00": "to", // the + is a space
		"/v1/horizon?step=0":                      "step", "/v1/horizon?step=7": "step", "/v1/horizon?from=1h&to=0": "to",
	} {
		if p := read[httpapi.Problem](t, do(t, a, "GET", query, ""), 422); p.Field != field || p.Code != "bad_field" {
			t.Errorf("%s: %+v", query, p)
		}
	}
	for query, code := range map[string]string{"/v1/timers?page=x": "bad_request", "/v1/horizon?step=1ms&to=1h": "bad_request"} {
		if p := read[httpapi.Problem](t, do(t, a, "GET", query, ""), 422); p.Code != code {
			t.Errorf("%s: %+v", query, p)
		}
	}
	for _, query := range []string{"/v1/timers?topic=nosuch", "/v1/horizon?topic=nosuch"} {
		if p := read[httpapi.Problem](t, do(t, a, "GET", query, ""), 404); p.Code != "unknown_topic" {
			t.Errorf("%s: %+v", query, p)
		}
	}
}

func TestListTimers(t *testing.T) {
	a, _ := stillAPI(t)
	for i := range 10 {
		topic, tag := []string{"a", "b"}[i%2], []string{"x", "y", "z"}[i%3]
		put(t, a, topic, "m", "Tidewheel-Delay", fmt.Sprintf("%dm", 10-i), "Tidewheel-Tag", tag, "Tidewheel-Key", fmt.Sprint(i))
	}
	list := func(query string) (minutes []int64) {
		t.Helper()
		for page := ""; ; {
			got := read[httpapi.Timers](t, do(t, a, "GET", "/v1/timers?"+query+"&page="+page, ""), 200)
			for _, m := range got.Timers {
				minutes = append(minutes, (m.DueMs-startMs)/60_000)
				if m.Handle == "" || m.Topic == "" || m.Due == "" || m.Size == 0 {
					t.Errorf("%s: %+v", query, m)
				}
			}
			if page = got.Next; page == "" {
				return minutes
			}
			if got.ScannedToMs == 0 {
				t.Errorf("%s: a page and no end: %+v", query, got)
			}
		}
	}
	for query, want := range map[string][]int64{
		"limit=3":                   {1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
		"topic=a":                   {2, 4, 6, 8, 10},
		"topic=a&tag=x":             {4, 10},
		"tag=x&tag=y&limit=1":       {1, 3, 4, 6, 7, 9, 10},
		"key=3":                     {7},
		"to=%2B3m":                  {1, 2},
		"from=8m":                   {8, 9, 10},
		"from=2026-11-30T11:09:00Z": {9, 10},
		"from=" + url.QueryEscape("@1796036400001"): {1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
		"topic=b&from=2m&to=8m":                     {3, 5, 7},
	} {
		if got := list(query); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
}

// A page begins with what matches, also when much that does not comes first.
func TestListPassesOver(t *testing.T) {
	a, _ := stillAPI(t)
	for i := range 5 {
		s := put(t, a, "a", "m", "Tidewheel-Delay", fmt.Sprintf("%dm", 1+i))
		if i < 4 {
			do(t, a, "DELETE", "/v1/timers/"+s.Handle, "")
		}
	}
	got := read[httpapi.Timers](t, do(t, a, "GET", "/v1/timers?topic=a&limit=1", ""), 200)
	if len(got.Timers) != 1 {
		t.Errorf("the first page: %+v", got)
	}
}

func TestHorizon(t *testing.T) {
	a, _ := stillAPI(t)
	for _, delay := range []string{"1s", "59m59s", "1h", "90m", "5h"} {
		put(t, a, "a", "m", "Tidewheel-Delay", delay)
	}
	put(t, a, "b", "m", "Tidewheel-Delay", "90m")
	for query, want := range map[string][]int64{
		"to=3h":                    {2, 3, 0},
		"topic=a&to=3h":            {2, 2, 0},
		"from=1h&to=2h&step=30m":   {1, 2},
		"step=1d&to=1d":            {6, 0}, // the day began before the clock's time
		"topic=b&from=1h30m&to=2h": {1},
	} {
		h := read[httpapi.Horizon](t, do(t, a, "GET", "/v1/horizon?"+query, ""), 200)
		if !slices.Equal(h.Counts, want) || !h.Complete || h.ToMs-h.FromMs < h.StepMs {
			t.Errorf("%s: %+v, want %v", query, h, want)
		}
	}
	if h := read[httpapi.Horizon](t, do(t, a, "GET", "/v1/horizon", ""), 200); len(h.Counts) != 24 || h.Total != 6 || h.FromMs != startMs {
		t.Errorf("by default: %+v", h)
	}
}

func TestExplain(t *testing.T) {
	a, now := stillAPI(t)
	s := put(t, a, "orders", "x", "Tidewheel-Delay", "1h")
	explain := func(handle string) httpapi.Explanation {
		t.Helper()
		return read[httpapi.Explanation](t, do(t, a, "GET", "/v1/timers/"+handle+"/explain", ""), 200)
	}
	if x := explain(s.Handle); x.State != httpapi.StateScheduled || x.Reason != "it is due in 1h0m0s" || len(x.Events) != 1 || !x.Complete {
		t.Errorf("waiting: %+v", x)
	}
	c := read[httpapi.Changed](t, do(t, a, "POST", "/v1/timers/"+s.Handle+"/fire", ""), 200)
	now.set(startMs + 1)
	put(t, a, "other", "wakes the writer")
	read[httpapi.Messages](t, do(t, a, "GET", "/v1/topics/orders/messages?wait=10s", ""), 200)
	if x := explain(s.Handle); x.State != httpapi.StateSuperseded || len(x.Events) != 2 || x.Events[1].Kind != "moved" ||
		x.NewHandle != c.Handle || x.Events[1].NewDueMs != c.DueMs {
		t.Errorf("the old handle: %+v", x)
	}
	x := explain(c.Handle)
	if x.State != httpapi.StateDelivered || len(x.Events) != 2 || x.Events[1].Kind != "delivered" || x.Events[1].Topic != "orders" ||
		*x.Events[1].Offset != 0 || x.Events[0].Offset != nil || !x.Complete {
		t.Errorf("delivered: %+v", x)
	}
	if _, err := time.Parse(time.RFC3339, x.Events[1].At); err != nil {
		t.Error(err)
	}
}

// FuzzQuery throws queries at the routes that list and count: the answer is one of ours, and no more than was asked for.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{
		"topic=a&from=@0&to=%2B1h&tag=x&tag=y&key=k&limit=3", "step=1ms&to=1s", "page=AAAA", "from=9999-12-31T23:59:59Z&to=@253402300799999",
		"step=292y&to=292y", "limit=1&page=gAAAAAAAAAD_________8", "from=@-9223372036854775808&to=@9223372036854775807&step=100y",
	} {
		f.Add(seed)
	}
	a := httpapi.Handler(newBroker(f), httpapi.Options{})
	for i := range 4 {
		do(f, a, "POST", "/v1/topics/a/messages", "m", "Tidewheel-Delay", fmt.Sprintf("%ds", 100+i), "Tidewheel-Tag", "x")
	}
	f.Fuzz(func(t *testing.T, query string) {
		for _, path := range []string{"/v1/timers", "/v1/horizon"} {
			r := httptest.NewRequest("GET", path, nil)
			r.Host, r.URL.RawQuery = "localhost", query
			w := httptest.NewRecorder()
			a.ServeHTTP(w, r)
			if w.Code != 200 && (w.Code >= 500 || w.Header().Get("Content-Type") != httpapi.ProblemType) {
				t.Errorf("%s?%s: %d %s", path, query, w.Code, w.Body)
			}
		}
	})
}

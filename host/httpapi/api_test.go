package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

func newBroker(t testing.TB) *broker.Broker {
	t.Helper()
	b, err := broker.Open(broker.Env{FS: crashfs.New(crashfs.Options{})}, ".", broker.Options{
		Engine: engine.Options{SegmentSize: 1 << 20, Queues: 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// do sends a request to the handler, without a network.
func do(t testing.TB, h http.Handler, method, path, body string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	return doWith(context.Background(), t, h, method, path, body, header...)
}

// doWith is do with the context of whoever asks.
func doWith(ctx context.Context, t testing.TB, h http.Handler, method, path, body string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	r.Host = "127.0.0.1:7070"
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// read decodes an answer that should have a status.
func read[T any](t testing.TB, w *httptest.ResponseRecorder, status int) T {
	t.Helper()
	var v T
	if w.Code != status {
		t.Fatalf("status %d, want %d: %s", w.Code, status, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return v
}

func TestPutAndPull(t *testing.T) {
	a := httpapi.Handler(newBroker(t), httpapi.Options{})
	s := read[httpapi.Stored](t, do(t, a, "POST", "/v1/topics/orders/messages", `{"id":42}`,
		"Content-Type", "application/json", "Tidewheel-Key", "order-42", "Tidewheel-Tag", "unpaid", "Tidewheel-Queue", "1",
		"Tidewheel-Property", "a=1", "Tidewheel-Property", "b=x=y"), 201)
	if s.State != httpapi.StateVisible || s.Queue != 1 || s.Offset == nil || *s.Offset != 0 || s.ID == "" || s.Handle != "" {
		t.Errorf("stored: %+v", s)
	}
	s = read[httpapi.Stored](t, do(t, a, "POST", "/v1/topics/orders/messages",
		`{"body_base64":"/w==","queue":1,"properties":{"c":"3","C":"4"},"born_ms":7}`, "Content-Type", httpapi.EnvelopeType+"; charset=utf-8"), 201)
	if *s.Offset != 1 {
		t.Errorf("stored: %+v", s)
	}
	got := read[httpapi.Messages](t, do(t, a, "GET", "/v1/topics/orders/messages?queue=1&offset=0", ""), 200)
	if len(got.Messages) != 2 || len(got.Next) != 1 || got.Next[0].Offset != 2 || got.Next[0].Max != 2 {
		t.Fatalf("pulled: %+v", got)
	}
	first, second := got.Messages[0], got.Messages[1]
	if *first.Body != `{"id":42}` || first.Key != "order-42" || first.Tag != "unpaid" || first.Properties["b"] != "x=y" || first.StoredMs == 0 {
		t.Errorf("first: %+v", first)
	}
	if second.Body != nil || !bytes.Equal(second.Bytes(), []byte{0xff}) || second.BornMs != 7 || second.Properties["c"] != "3" || second.ID != s.ID {
		t.Errorf("second: %+v, its receipt said %s", second, s.ID)
	}
	got = read[httpapi.Messages](t, do(t, a, "GET", "/v1/topics/orders/messages?queue=1&offset=0&tag=unpaid&tag=x&max=5", ""), 200)
	if len(got.Messages) != 1 || got.Next[0].Offset != 2 {
		t.Errorf("by tag: %+v", got)
	}
	got = read[httpapi.Messages](t, do(t, a, "GET", "/v1/topics/orders/messages?queue=1&offset=1&queue=0&offset=0", ""), 200)
	if len(got.Messages) != 1 || len(got.Next) != 2 {
		t.Errorf("two queues: %+v", got)
	}
}

// Offsets are strings on the wire, so that a browser does not round them.
func TestOffsetsAreStrings(t *testing.T) {
	a := httpapi.Handler(newBroker(t), httpapi.Options{})
	do(t, a, "POST", "/v1/topics/t/messages", "x", "Tidewheel-Queue", "0")
	for _, path := range []string{"/v1/topics/t/messages", "/v1/topics/t", "/v1/topics"} {
		body := do(t, a, "GET", path, "").Body.String()
		for _, name := range []string{"offset", "position", "min", "max"} {
			if strings.Contains(body, `"`+name+`":`) && !strings.Contains(body, `"`+name+`":"`) {
				t.Errorf("%s: %s is not a string in %s", path, name, body)
			}
		}
	}
	var n httpapi.Int64
	for text, want := range map[string]httpapi.Int64{`"9007199254740993"`: 9007199254740993, `12`: 12, `"-1"`: -1} {
		if err := json.Unmarshal([]byte(text), &n); err != nil || n != want {
			t.Errorf("%s: %d, %v", text, n, err)
		}
	}
	for _, text := range []string{`"x"`, `1.5`, `""`, `null1`, `{}`, `"1e3"`, `99999999999999999999`} {
		if err := json.Unmarshal([]byte(text), &n); err == nil {
			t.Errorf("%s was read as %d", text, n)
		}
	}
}

func TestTimers(t *testing.T) {
	a := httpapi.Handler(newBroker(t), httpapi.Options{Prefix: "/tide"})
	w := do(t, a, "POST", "/tide/v1/topics/orders/messages", "x", "Tidewheel-Delay-Level", "18")
	s := read[httpapi.Stored](t, w, 201)
	if s.State != httpapi.StateScheduled || s.Offset != nil || s.DelayLevel != 18 || s.Clamped {
		t.Errorf("stored: %+v", s)
	}
	due, err := time.Parse(time.RFC3339, s.Due)
	if err != nil || due.UnixMilli() != s.DueMs || w.Header().Get("Location") != "/tide/v1/timers/"+s.Handle {
		t.Errorf("due %q, %d ms, location %q", s.Due, s.DueMs, w.Header().Get("Location"))
	}
	timer := read[httpapi.Timer](t, do(t, a, "GET", "/tide/v1/timers/"+s.Handle, ""), 200)
	if timer.State != httpapi.StateScheduled || timer.Topic != "orders" || timer.DueMs != s.DueMs {
		t.Errorf("timer: %+v", timer)
	}
	for i, want := range []string{httpapi.OutcomeCancelled, httpapi.OutcomeAlreadyCancelled} {
		if c := read[httpapi.Cancelled](t, do(t, a, "DELETE", "/tide/v1/timers/"+s.Handle, ""), 200); c.Outcome != want {
			t.Errorf("cancel %d: %s, want %s", i, c.Outcome, want)
		}
	}
	timer = read[httpapi.Timer](t, do(t, a, "GET", "/tide/v1/timers/"+s.Handle, ""), 200)
	if timer.State != httpapi.StateCancelled {
		t.Errorf("cancelled timer: %+v", timer)
	}
	s = read[httpapi.Stored](t, do(t, a, "POST", "/tide/v1/topics/orders/messages", "x", "Tidewheel-Delay-Level", "19"), 201)
	if s.DelayLevel != 18 || !s.Clamped {
		t.Errorf("level 19: %+v", s)
	}
	for _, method := range []string{"GET", "DELETE"} {
		if p := read[httpapi.Problem](t, do(t, a, method, "/tide/v1/timers/tw1.forged", ""), 404); p.Code != "not_found" {
			t.Errorf("%s a forged handle: %+v", method, p)
		}
	}
}

// A cancel that comes too late says so, and when the message was due and where it is.
func TestCancelTooLate(t *testing.T) {
	b, err := broker.Open(broker.Env{FS: crashfs.New(crashfs.Options{})}, ".", broker.Options{Engine: engine.Options{Levels: "1ms"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	a := httpapi.Handler(b, httpapi.Options{})
	s := read[httpapi.Stored](t, do(t, a, "POST", "/v1/topics/t/messages", "x", "Tidewheel-Delay-Level", "1"), 201)
	got := read[httpapi.Messages](t, do(t, a, "GET", "/v1/topics/t/messages?wait=10s", ""), 200)
	if len(got.Messages) != 1 || got.Messages[0].DueMs != s.DueMs || got.Messages[0].DelayLevel != 1 {
		t.Fatalf("pulled %+v", got)
	}
	p := read[httpapi.Problem](t, do(t, a, "DELETE", "/v1/timers/"+s.Handle, ""), 409)
	if p.Code != "already_delivered" || p.DueMs != s.DueMs || p.Type != "/problems/already-delivered" {
		t.Errorf("problem %+v", p)
	}
	m := got.Messages[0]
	if p.Topic != "t" || p.Queue == nil || *p.Queue != m.Queue || p.Offset == nil || *p.Offset != m.Offset || p.DeliveredAt < s.Due {
		t.Errorf("problem %+v, the message is in queue %d at offset %d, was due %s", p, m.Queue, m.Offset, s.Due)
	}
}

func TestBatch(t *testing.T) {
	a := httpapi.Handler(newBroker(t), httpapi.Options{})
	w := do(t, a, "POST", "/v1/messages/batch", `{"topic":"a","body":"1"}

{"topic":"b","body":"2","delay_level":1}
{"topic":"a","body":"3","delay_level":-1}
nonsense
{"body":"no topic"}
{"topic":"a","boddy":"4"}
{"topic":"a","body":"5","delay":"30m"}
{"topic":"a","body":"6","delay":"30d"}
{"topic":"a","body":"7","deliver_at_ms":5}
`)
	if w.Code != 200 || w.Header().Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	var got []string
	for line := range strings.Lines(w.Body.String()) {
		var r httpapi.BatchResult
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.Problem != nil {
			got = append(got, fmt.Sprint(r.Line, r.Problem.Code))
		} else {
			got = append(got, fmt.Sprint(r.Line, r.State))
		}
	}
	want := []string{"1visible", "3scheduled", "4delay_level", "5bad_json", "6bad_field", "7bad_json", "8scheduled", "9delay_too_long", "10visible"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestGroups(t *testing.T) {
	a := httpapi.Handler(newBroker(t), httpapi.Options{})
	for i := range 4 {
		do(t, a, "POST", "/v1/topics/t/messages", fmt.Sprint(i), "Tidewheel-Queue", fmt.Sprint(i%2))
	}
	pull := func() httpapi.Messages {
		return read[httpapi.Messages](t, do(t, a, "GET", "/v1/topics/t/messages?group=g", ""), 200)
	}
	got := pull()
	if len(got.Messages) != 4 {
		t.Fatalf("pulled %+v", got)
	}
	ack := httpapi.Ack{Group: "g"}
	for _, n := range got.Next {
		ack.Offsets = append(ack.Offsets, n.QueueOffset)
	}
	body, err := json.Marshal(ack)
	if err != nil {
		t.Fatal(err)
	}
	if w := do(t, a, "POST", "/v1/topics/t/ack", string(body)); w.Code != 204 {
		t.Fatalf("ack: %d %s", w.Code, w.Body)
	}
	if got := pull(); len(got.Messages) != 0 {
		t.Errorf("after the ack: %+v", got)
	}
	back := `{"group":"g","offsets":[{"queue":0,"offset":"0"}]`
	if p := read[httpapi.Problem](t, do(t, a, "POST", "/v1/topics/t/ack", back+"}"), 422); p.Code != "offset" {
		t.Errorf("going back: %+v", p)
	}
	if w := do(t, a, "POST", "/v1/topics/t/ack", back+`,"seek":true}`); w.Code != 204 {
		t.Errorf("seek: %d %s", w.Code, w.Body)
	}
	if got := pull(); len(got.Messages) != 2 {
		t.Errorf("after the seek: %+v", got)
	}
}

// Each way to be refused, with its status, code and field. Nothing here may be stored.
func TestProblems(t *testing.T) {
	a := httpapi.Handler(newBroker(t), httpapi.Options{})
	messages := "/v1/topics/t/messages"
	envelope := []string{"Content-Type", httpapi.EnvelopeType}
	for name, c := range map[string]struct {
		method, path, body string
		header             []string
		status             int
		code, field        string
	}{
		"delay no unit":    {"POST", messages, "x", []string{"Tidewheel-Delay", "30"}, 422, "bad_field", "Tidewheel-Delay"},
		"delay empty":      {"POST", messages, "x", []string{"Tidewheel-Delay", ""}, 422, "bad_field", "Tidewheel-Delay"},
		"delay below 0":    {"POST", messages, "x", []string{"Tidewheel-Delay", "-5s"}, 422, "bad_field", "Tidewheel-Delay"},
		"delay too long":   {"POST", messages, "x", []string{"Tidewheel-Delay", "8d"}, 422, "delay_too_long", "Tidewheel-Delay"},
		"naive time":       {"POST", messages, "x", []string{"Tidewheel-Deliver-At", "2030-01-01T00:00:00"}, 422, "bad_field", "Tidewheel-Deliver-At"},
		"time empty":       {"POST", messages, "x", []string{"Tidewheel-Deliver-At", ""}, 422, "bad_field", "Tidewheel-Deliver-At"},
		"time too far":     {"POST", messages, "x", []string{"Tidewheel-Deliver-At", "9999-01-01T00:00:00Z"}, 422, "delay_too_long", "Tidewheel-Deliver-At"},
		"year 10000":       {"POST", messages, "x", []string{"Tidewheel-Deliver-At-Ms", "253402300800000"}, 422, "due_time", "Tidewheel-Deliver-At-Ms"},
		"before 1970":      {"POST", messages, "x", []string{"Tidewheel-Deliver-At-Ms", "-1"}, 422, "due_time", "Tidewheel-Deliver-At-Ms"},
		"ms word":          {"POST", messages, "x", []string{"Tidewheel-Deliver-At-Ms", "1e3"}, 422, "bad_field", "Tidewheel-Deliver-At-Ms"},
		"two times":        {"POST", messages, "x", []string{"Tidewheel-Delay", "1s", "Tidewheel-Delay-Level", "1"}, 422, "bad_field", "Tidewheel-Delay"},
		"two kinds":        {"POST", messages, "x", []string{"Tidewheel-Delay", "1s", "Tidewheel-Deliver-At-Ms", "5"}, 422, "bad_field", "Tidewheel-Deliver-At-Ms"},
		"key twice":        {"POST", messages, "x", []string{"Idempotency-Key", "1", "Idempotency-Key", "2"}, 422, "bad_field", "Idempotency-Key"},
		"key empty":        {"POST", messages, "x", []string{"Idempotency-Key", ""}, 422, "bad_field", "Idempotency-Key"},
		"key half quoted":  {"POST", messages, "x", []string{"Idempotency-Key", `"a`}, 422, "bad_field", "Idempotency-Key"},
		"key and more":     {"POST", messages, "x", []string{"Idempotency-Key", `"a"b`}, 422, "bad_field", "Idempotency-Key"},
		"key long":         {"POST", messages, "x", []string{"Idempotency-Key", strings.Repeat("k", 256)}, 413, "too_large", ""},
		"misspelt header":  {"POST", messages, "x", []string{"Tidewheel-Delay-Levle", "3"}, 422, "bad_field", "Tidewheel-Delay-Levle"},
		"two levels":       {"POST", messages, "x", []string{"Tidewheel-Delay-Level", "3", "Tidewheel-Delay-Level", "4"}, 422, "bad_field", "Tidewheel-Delay-Level"},
		"level word":       {"POST", messages, "x", []string{"Tidewheel-Delay-Level", "10s"}, 422, "bad_field", "Tidewheel-Delay-Level"},
		"level below 0":    {"POST", messages, "x", []string{"Tidewheel-Delay-Level", "-1"}, 422, "delay_level", ""},
		"queue":            {"POST", messages, "x", []string{"Tidewheel-Queue", "2"}, 422, "queue_out_of_range", ""},
		"queue word":       {"POST", messages, "x", []string{"Tidewheel-Queue", "any"}, 422, "bad_field", "Tidewheel-Queue"},
		"property":         {"POST", messages, "x", []string{"Tidewheel-Property", "a"}, 422, "bad_field", "Tidewheel-Property"},
		"property twice":   {"POST", messages, "x", []string{"Tidewheel-Property", "a=1", "Tidewheel-Property", "a=2"}, 422, "bad_field", "Tidewheel-Property"},
		"reserved":         {"POST", messages, "x", []string{"Tidewheel-Property", "REAL_TOPIC=a"}, 422, "properties", ""},
		"not UTF-8":        {"POST", messages, "x", []string{"Tidewheel-Key", "\xff"}, 422, "bad_field", "key"},
		"topic":            {"POST", "/v1/topics/a.b/messages", "x", nil, 422, "topic_name", ""},
		"topic %2F":        {"POST", "/v1/topics/a%2Fb/messages", "x", nil, 422, "topic_name", ""},
		"long key":         {"POST", messages, "x", []string{"Tidewheel-Key", strings.Repeat("k", 128)}, 413, "too_large", ""},
		"large body":       {"POST", messages, strings.Repeat("x", 4<<20+1), nil, 413, "too_large", "body"},
		"two places":       {"POST", messages, `{"body":"x"}`, append([]string{"Tidewheel-Tag", "x"}, envelope...), 422, "bad_field", "Tidewheel-Tag"},
		"either":           {"POST", messages, `{"body":"x","delay":"5m"}`, []string{"Content-Type", "text/plain"}, 422, "envelope_or_message", ""},
		"JSON, too long":   {"POST", messages, `{"body":"x","delay":"9d"}`, []string{"Content-Type", "application/json"}, 422, "delay_too_long", "delay"},
		"either of a form": {"POST", messages, ` {"body":"x"}`, []string{"Content-Type", "application/x-www-form-urlencoded"}, 422, "envelope_or_message", ""},
		"either, base64":   {"POST", messages, `{"body_base64":"eA=="}`, nil, 422, "envelope_or_message", ""},
		"no envelope":      {"POST", messages + "?envelope=true", "x", nil, 400, "bad_json", ""},
		"envelope maybe":   {"POST", messages + "?envelope=yes", `{"body":"x"}`, nil, 422, "bad_field", "envelope"},
		"both said":        {"POST", messages + "?envelope=false", `{"body":"x"}`, envelope, 422, "bad_field", "envelope"},
		"misspelt query":   {"POST", messages + "?envelop=true", `{"body":"x"}`, nil, 422, "bad_field", "envelop"},
		"bad JSON":         {"POST", messages, `{`, envelope, 400, "bad_json", ""},
		"two values":       {"POST", messages, `{} {}`, envelope, 400, "bad_json", ""},
		"member twice":     {"POST", messages, `{"delay_level":1,"delay_level":2}`, envelope, 400, "bad_json", ""},
		"member Twice":     {"POST", messages, `{"delay_level":1,"properties":{"a":"1","A":"2"},"Delay_level":2}`, envelope, 400, "bad_json", ""},
		"property Twice":   {"POST", messages, `{"properties":{"a":"1","a":"2"}}`, envelope, 400, "bad_json", ""},
		"unknown member":   {"POST", messages, `{"level":3}`, envelope, 400, "bad_json", ""},
		"JSON not UTF-8":   {"POST", messages, "{\"body\":\"\xff\"}", envelope, 400, "bad_json", ""},
		"JSON delay":       {"POST", messages, `{"delay":"9d"}`, envelope, 422, "delay_too_long", "delay"},
		"JSON delay 30":    {"POST", messages, `{"delay":30}`, envelope, 422, "bad_field", "delay"},
		"JSON no delay":    {"POST", messages, `{"delay":""}`, envelope, 422, "bad_field", "delay"},
		"JSON naive":       {"POST", messages, `{"deliver_at":"2030-01-01 00:00:00"}`, envelope, 422, "bad_field", "deliver_at"},
		"JSON at number":   {"POST", messages, `{"deliver_at":1796036400}`, envelope, 422, "bad_field", "deliver_at"},
		"JSON ms text":     {"POST", messages, `{"deliver_at_ms":"soon"}`, envelope, 422, "bad_field", "deliver_at_ms"},
		"JSON ms fraction": {"POST", messages, `{"deliver_at_ms":1.5}`, envelope, 422, "bad_field", "deliver_at_ms"},
		"JSON two times":   {"POST", messages, `{"deliver_at_ms":5,"delay":"1s"}`, envelope, 422, "bad_field", "deliver_at_ms"},
		"JSON and level":   {"POST", messages, `{"delay_level":2,"delay":"1s"}`, envelope, 422, "bad_field", "delay"},
		"two bodies":       {"POST", messages, `{"body":"x","body_base64":"eA=="}`, envelope, 422, "bad_field", "body_base64"},
		"other topic":      {"POST", messages, `{"topic":"u"}`, envelope, 422, "bad_field", "topic"},
		"pull no topic":    {"GET", "/v1/topics/u/messages", "", nil, 404, "unknown_topic", ""},
		"pull no queue":    {"GET", "/v1/topics/known/messages?queue=7", "", nil, 422, "queue_out_of_range", ""},
		"pull beyond":      {"GET", "/v1/topics/known/messages?queue=0&offset=999", "", nil, 422, "offset", ""},
		"pull max":         {"GET", "/v1/topics/known/messages?max=0", "", nil, 422, "bad_field", "max"},
		"pull max large":   {"GET", "/v1/topics/known/messages?max=1025", "", nil, 422, "bad_field", "max"},
		"pull wait":        {"GET", "/v1/topics/known/messages?wait=20", "", nil, 422, "bad_field", "wait"},
		"pull wait long":   {"GET", "/v1/topics/known/messages?wait=61s", "", nil, 422, "bad_field", "wait"},
		"pull misspelt":    {"GET", "/v1/topics/known/messages?maxx=1", "", nil, 422, "bad_field", "maxx"},
		"pull offset only": {"GET", "/v1/topics/known/messages?offset=0", "", nil, 422, "bad_field", "offset"},
		"ack nothing":      {"POST", "/v1/topics/known/ack", `{"group":"g"}`, nil, 422, "bad_field", "offsets"},
		"ack group":        {"POST", "/v1/topics/known/ack", `{"group":"","offsets":[{"queue":0,"offset":"0"}]}`, nil, 422, "group_name", ""},
		"ack number":       {"POST", "/v1/topics/known/ack", `{"group":"g","offsets":[{"queue":0,"offset":1.5}]}`, nil, 400, "bad_json", ""},
		"topic queues":     {"PUT", "/v1/topics/new", `{"queues":0}`, nil, 422, "queue_out_of_range", ""},
		"no path":          {"GET", "/v2/topics", "", nil, 404, "unknown_path", "path"},
		"unclean path":     {"GET", "/v1//topics", "", nil, 404, "unknown_path", "path"},
		"method":           {"PATCH", "/v1/topics", "", nil, 405, "method_not_allowed", "method"},
		"cross origin":     {"POST", messages, "x", []string{"Sec-Fetch-Site", "cross-site"}, 403, "cross_origin", ""},
	} {
		t.Run(name, func(t *testing.T) {
			do(t, a, "POST", "/v1/topics/known/messages", "x", "Tidewheel-Queue", "0")
			w := do(t, a, c.method, c.path, c.body, c.header...)
			p := read[httpapi.Problem](t, w, c.status)
			if p.Code != c.code || p.Field != c.field || p.Status != c.status || p.Title == "" {
				t.Errorf("problem %+v, want code %s, field %q", p, c.code, c.field)
			}
			if w.Header().Get("Content-Type") != httpapi.ProblemType || p.Type != "/problems/"+strings.ReplaceAll(c.code, "_", "-") {
				t.Errorf("content type %q, type %q", w.Header().Get("Content-Type"), p.Type)
			}
		})
	}
	for _, topic := range read[httpapi.Topics](t, do(t, a, "GET", "/v1/topics", ""), 200).Topics {
		if topic.Name != "known" {
			t.Errorf("a refusal made topic %q", topic.Name)
		}
	}
}

// A page that has its name point at 127.0.0.1 is not let in.
func TestHost(t *testing.T) {
	a := httpapi.Handler(newBroker(t), httpapi.Options{})
	for host, want := range map[string]int{
		"localhost": 200, "LOCALHOST:7070": 200, "127.0.0.1": 200, "127.9.9.9:1": 200, "[::1]:7070": 200, "[::1]": 200,
		"evil.example": 421, "evil.example:7070": 421, "localhost.evil.example": 421, "10.0.0.1:7070": 421, "": 421, "0.0.0.0": 421,
	} {
		r := httptest.NewRequest("GET", "/v1/topics", nil)
		r.Host = host
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("host %q: %d, want %d", host, w.Code, want)
		}
	}
}

func TestReadOnly(t *testing.T) {
	b := newBroker(t)
	if err := b.DefineTopic(t.Context(), "t", 1); err != nil {
		t.Fatal(err)
	}
	a := httpapi.Handler(b, httpapi.Options{ReadOnly: true})
	for _, c := range [][2]string{
		{"POST", "/v1/topics/t/messages"}, {"POST", "/v1/messages/batch"}, {"POST", "/v1/topics/t/ack"},
		{"DELETE", "/v1/timers/x"}, {"PATCH", "/v1/timers/x"}, {"POST", "/v1/timers/x/fire"}, {"POST", "/v1/timers/x/undo"},
		{"PUT", "/v1/topics/t"},
	} {
		if p := read[httpapi.Problem](t, do(t, a, c[0], c[1], ""), 403); p.Code != "read_only" {
			t.Errorf("%v: %+v", c, p)
		}
	}
	read[httpapi.Messages](t, do(t, a, "GET", "/v1/topics/t/messages", ""), 200)
}

func TestTopicsAndStatus(t *testing.T) {
	b := newBroker(t)
	a := httpapi.Handler(b, httpapi.Options{})
	if got := read[httpapi.Topic](t, do(t, a, "PUT", "/v1/topics/t", `{"queues":3}`), 200); len(got.Queues) != 3 || got.Name != "t" {
		t.Errorf("made %+v", got)
	}
	do(t, a, "POST", "/v1/topics/t/messages", "x", "Tidewheel-Delay-Level", "5")
	got := read[httpapi.Topic](t, do(t, a, "GET", "/v1/topics/t", ""), 200)
	if got.Pending != 1 {
		t.Errorf("topic %+v, want one pending", got)
	}
	s := read[httpapi.Status](t, do(t, a, "GET", "/v1/status", ""), 200)
	if s.State != httpapi.ServerReady || s.Pending != 1 || s.NowMs == 0 {
		t.Errorf("status %+v", s)
	}
	if l := read[httpapi.Limits](t, do(t, a, "GET", "/v1/limits", ""), 200); l.Levels == "" || l.BodyBytes != 4<<20 {
		t.Errorf("limits %+v", l)
	}
	if w := do(t, a, "GET", "/healthz", ""); w.Code != 200 || w.Body.String() != "ok\n" {
		t.Errorf("healthz: %d %s", w.Code, w.Body)
	}
	if w := do(t, a, "GET", "/readyz", ""); w.Code != 200 {
		t.Errorf("readyz: %d %s", w.Code, w.Body)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if p := read[httpapi.Problem](t, do(t, a, "GET", "/readyz", ""), 503); p.Code != "closing" {
		t.Errorf("readyz after close: %+v", p)
	}
	if w := do(t, a, "GET", "/healthz", ""); w.Code != 200 {
		t.Errorf("healthz after close: %d", w.Code)
	}
}

// Shutdown lets waiting readers go at once, with an empty answer, and refuses nobody who is served already.
func TestShutdownReleasesReaders(t *testing.T) {
	b := newBroker(t)
	if err := b.DefineTopic(t.Context(), "t", 1); err != nil {
		t.Fatal(err)
	}
	l, err := httpapi.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := httpapi.NewServer(httpapi.Handler(b, httpapi.Options{}), nil)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	answer := make(chan *http.Response, 1)
	go func() {
		resp, err := http.Get("http://" + l.Addr().String() + "/v1/topics/t/messages?wait=60s")
		if err != nil {
			t.Error(err)
		}
		answer <- resp
	}()
	for waiting := 0; waiting == 0; {
		stats, err := b.Stats()
		if err != nil {
			t.Fatal(err)
		}
		waiting = stats.WaitingReaders
		runtime.Gosched()
	}
	began := time.Now()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	resp := <-answer
	if resp == nil {
		t.FailNow()
	}
	defer resp.Body.Close()
	var got httpapi.Messages
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || resp.StatusCode != 200 || len(got.Messages) != 0 {
		t.Errorf("%d %+v, %v", resp.StatusCode, got, err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("shutdown took %v", took)
	}
	<-served
}

// A peer that sends its body slowly, or more than it announced, harms only itself.
func TestLongBodyIsCutOff(t *testing.T) {
	s := httptest.NewServer(httpapi.Handler(newBroker(t), httpapi.Options{}))
	defer s.Close()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST /v1/topics/t/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n")
	answer, err := io.ReadAll(c)
	if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 413 ")) {
		t.Errorf("%v: %s", err, answer)
	}
}

func TestListen(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", ":0", "10.1.2.3:0", "example.org:0", "[::]:0", "127.0.0.1", "nonsense"} {
		if l, err := httpapi.Listen(addr); err == nil {
			_ = l.Close()
			t.Errorf("%s was taken", addr)
		}
	}
	for _, addr := range []string{"127.0.0.1:0", "localhost:0"} {
		l, err := httpapi.Listen(addr)
		if err != nil {
			t.Errorf("%s: %v", addr, err)
			continue
		}
		_ = l.Close()
	}
}

// FuzzPut throws bytes at the routes that take a body: whatever they are, the answer is one of ours.
func FuzzPut(f *testing.F) {
	for _, seed := range []string{
		`{"topic":"t","body":"x","delay_level":3,"properties":{"a":"b"},"queue":1}`, `{"group":"g","offsets":[{"queue":0,"offset":"1"}]}`,
		`{"queues":3}`, "{\"topic\":\"t\"}\n\n{\"topic\":\"u\",\"body_base64\":\"AA==\"}", "[[[[", `{"delay":1}`, `{"queue":1e400}`,
	} {
		f.Add([]byte(seed))
	}
	a := httpapi.Handler(newBroker(f), httpapi.Options{})
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, c := range [][3]string{
			{"POST", "/v1/topics/t/messages", httpapi.EnvelopeType}, {"POST", "/v1/messages/batch", ""},
			{"POST", "/v1/topics/t/ack", ""}, {"PUT", "/v1/topics/t", ""}, {"PATCH", "/v1/timers/tw1.x", ""},
		} {
			w := do(t, a, c[0], c[1], string(body), "Content-Type", c[2])
			if w.Code >= 500 || w.Code >= 300 && w.Header().Get("Content-Type") != httpapi.ProblemType {
				t.Errorf("%v: %d %s", c, w.Code, w.Body)
			}
		}
	})
}

// A put that is repeated with its key is answered with the first one's result, and stored once.
func TestIdempotency(t *testing.T) {
	a := httpapi.Handler(newBroker(t), httpapi.Options{})
	put := func(body string, header ...string) httpapi.Stored {
		t.Helper()
		return read[httpapi.Stored](t, do(t, a, "POST", "/v1/topics/t/messages", body, header...), 201)
	}
	envelope := `{"body":"x","delay":"1h","idempotency_key":"a \\\"b","properties":{"p":"1"}}`
	first := put("x", "Idempotency-Key", `"a \\\"b"`, "Tidewheel-Delay", "30m", "Tidewheel-Property", "p=1")
	again := put("x", "Idempotency-Key", `a \"b`, "Tidewheel-Delay", "30m", "Tidewheel-Property", "p=1")
	third := put(envelope, "Content-Type", httpapi.EnvelopeType)
	for _, s := range []httpapi.Stored{again, third} {
		if first.Replayed || !s.Replayed || s.ID != first.ID || s.Handle != first.Handle || s.DueMs != first.DueMs {
			t.Errorf("%+v, the first one was %+v", s, first)
		}
	}
	w := do(t, a, "POST", "/v1/topics/t/messages", "y", "Idempotency-Key", `a \"b`)
	if p := read[httpapi.Problem](t, w, 422); p.Code != "idempotency_mismatch" {
		t.Errorf("%+v", p)
	}
	if other := read[httpapi.Stored](t, do(t, a, "POST", "/v1/topics/u/messages", "y", "Idempotency-Key", `a \"b`), 201); other.Replayed {
		t.Errorf("in another topic: %+v", other)
	}
	if topic := read[httpapi.Topic](t, do(t, a, "GET", "/v1/topics/t", ""), 200); topic.Pending != 1 {
		t.Errorf("%+v", topic)
	}
	if m := read[httpapi.Timer](t, do(t, a, "GET", "/v1/timers/"+first.Handle, ""), 200); len(m.Properties) != 1 || m.Properties["p"] != "1" {
		t.Errorf("%+v", m.Properties)
	}
}

// JSON is the message as long as nothing says that it is an envelope, and nobody could think so.
func TestJSONMessages(t *testing.T) {
	a := httpapi.Handler(newBroker(t), httpapi.Options{})
	jsonType := []string{"Content-Type", "application/json"}
	for body, header := range map[string][]string{
		`{"id":42}`:                      jsonType,
		`{"id":43,"body":"x"}`:           jsonType,
		`["body"]`:                       jsonType,
		`{"body":`:                       jsonType,
		`{"key":"k"}`:                    jsonType,
		`{"body":"header","delay":"1h"}`: append([]string{"Tidewheel-Tag", "t"}, jsonType...),
	} {
		put(t, a, "raw", body, header...)
	}
	read[httpapi.Stored](t, do(t, a, "POST", "/v1/topics/raw/messages?envelope=false", `{"body":"said","delay":"1h"}`, jsonType...), 201)
	for target, header := range map[string][]string{"": jsonType, "?envelope=true": {"Content-Type", "text/plain"}} {
		s := read[httpapi.Stored](t, do(t, a, "POST", "/v1/topics/e/messages"+target, `{"body":"x","delay":"1h"}`, header...), 201)
		if s.State != httpapi.StateScheduled {
			t.Errorf("an envelope with %q, %v: %+v", target, header, s)
		}
	}
	if got := read[httpapi.Messages](t, do(t, a, "GET", "/v1/topics/raw/messages?max=100", ""), 200); len(got.Messages) != 7 {
		t.Errorf("%d raw messages are visible, want 7", len(got.Messages))
	}
}

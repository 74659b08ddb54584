package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/host/demo"
)

var update = flag.Bool("update", false, "write testdata/demo.ndjson again")

// Of the file: how many events, over how long.
const (
	eventCount = 6000
	loadMs     = 10_000
)

// TestDemoEvents holds the shipped file against its generator: with the same seed it comes out the same.
func TestDemoEvents(t *testing.T) {
	const path, most = "testdata/demo.ndjson", 1_500_000
	want := generate(2026)
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(demoEvents, want) && !*update {
		t.Errorf("%s is not what the generator makes; run the test with -update", path)
	}
	if len(want) > most {
		t.Errorf("%s has %d bytes, allowed are %d", path, len(want), most)
	}
	events, err := demo.ParseEvents(want)
	if err != nil {
		t.Fatal(err)
	}
	if len(events) != eventCount || events[len(events)-1].AtMs > loadMs {
		t.Errorf("%d events until %d ms, want %d until %d", len(events), events[len(events)-1].AtMs, eventCount, loadMs)
	}
}

// TestDemo is the demo with fewer events and short delays, in a pipe: beside the account there is a line for each kill.
func TestDemo(t *testing.T) {
	all, err := demo.ParseEvents(demoEvents)
	if err != nil {
		t.Fatal(err)
	}
	var events []demo.Event
	for _, e := range all {
		short := e.Level == 1 || e.Level == 0 && e.DelayMs < 2000
		if e.Paid && len(events)%8 == 0 {
			e.Level, short = 1, true
		}
		if short && len(events) < 400 {
			events = append(events, e)
		}
	}
	var stdout, stderr bytes.Buffer
	a := &app{stdout: &stdout, stderr: &stderr, format: formatJSON}
	if err := a.runDemo(t.Context(), events, t.TempDir(), 2, 100*time.Millisecond); err != nil {
		t.Fatalf("%v: %s%s", err, stdout.Bytes(), stderr.Bytes())
	}
	var r struct {
		Put, Delivered, Filtered, Webhooks, Cancelled, Moved, Kills int
		Check                                                       string
	}
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.Put != len(events) || r.Delivered != r.Put-r.Cancelled-r.Filtered || r.Filtered == 0 || r.Webhooks == 0 || r.Moved == 0 || r.Kills != 2 || r.Check != demo.CheckClean {
		t.Errorf("report %s", stdout.Bytes())
	}
	if out := stdout.String() + stderr.String(); strings.ContainsAny(out, "\x1b\r") {
		t.Errorf("control sequences in a pipe: %q", out)
	}
	if said := strings.Split(strings.TrimSpace(stderr.String()), "\n"); len(said) != 2 || !strings.HasPrefix(said[0], "kill -9 at ") {
		t.Errorf("in a pipe it said %q", said)
	}
}

// A pipe, a file and the null device are no terminals.
func TestDemoViewInPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, f := range []*os.File{w, file, null} {
		a := &app{stderr: f}
		if a.demoView() != nil {
			t.Errorf("%s is drawn on", f.Name())
		}
		if columns, rows := consoleSize(f); columns != 0 || rows != 0 {
			t.Errorf("%s has %d columns and %d rows", f.Name(), columns, rows)
		}
	}
}

// generate makes orders, which are closed after 10 s unless they are paid (cancelled) before, payment retries after
// 5 s, and reminders after 1 s or at a time of their own; some of these are moved.
func generate(seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 0))
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for i := range eventCount {
		e := demo.Event{AtMs: int64(i) * loadMs / eventCount}
		switch n := r.IntN(10); {
		case n < 5:
			reminder(r, &e, i)
		case n < 8:
			retry(r, &e, i)
		default:
			order(r, &e, i)
		}
		if err := enc.Encode(e); err != nil {
			panic(err)
		}
	}
	return b.Bytes()
}

func order(r *rand.Rand, e *demo.Event, i int) {
	e.Topic, e.ID, e.Tag, e.Level = "orders", fmt.Sprintf("order-%05d", i), "unpaid", 3
	if r.IntN(3) == 0 {
		e.CancelAfterMs = 300 + r.Int64N(8000) // paid
	} else {
		e.Paid = r.IntN(4) == 0 // and nobody cancelled it
	}
	e.Body = fmt.Appendf(nil, `{"do":"close if unpaid","customer":"c-%04d","items":%d,"cents":%d,"currency":%q}`,
		r.IntN(10000), 1+r.IntN(9), 199+r.IntN(50000), pick(r, "EUR", "USD", "CNY", "GBP"))
}

func retry(r *rand.Rand, e *demo.Event, i int) {
	e.Topic, e.ID, e.Tag, e.Level = "orders", fmt.Sprintf("retry-%05d", i), "retry", 2
	switch r.IntN(10) {
	case 0:
		e.CancelAfterMs = 200 + r.Int64N(4000)
	case 1, 2: // the bank says when
		e.MoveAfterMs, e.MoveByMs = 200+r.Int64N(3000), 500+r.Int64N(5000)
	}
	e.Body = fmt.Appendf(nil, `{"do":"ask the bank again","attempt":%d,"order":"order-%05d","reason":%q}`,
		1+r.IntN(5), r.IntN(eventCount), pick(r, "timeout", "bank closed", "limit", "3-D Secure pending"))
}

func reminder(r *rand.Rand, e *demo.Event, i int) {
	e.Topic, e.ID, e.Tag = "reminders", fmt.Sprintf("reminder-%05d", i), pick(r, "mail", "push", "sms")
	if r.IntN(2) == 0 {
		e.Level = 1
	} else {
		e.DelayMs = 800 + r.Int64N(8000)
	}
	switch r.IntN(20) {
	case 0:
		e.CancelAfterMs = 100 + r.Int64N(700)
	case 1, 2:
		e.MoveAfterMs, e.MoveByMs = 100+r.Int64N(500), 200+r.Int64N(3000)
	case 3: // sooner
		e.MoveAfterMs, e.MoveByMs = 100+r.Int64N(200), -100-r.Int64N(300)
	}
	e.Body = fmt.Appendf(nil, `{"to":"u-%05d","text":%q}`, r.IntN(100000), pick(r,
		"Your table is booked for tonight at 19:30.", "Your parcel arrives in 30 minutes.",
		"The match begins in five minutes.", "Take your medicine: one tablet, with water.", "会议将在十分钟后开始"))
}

func pick(r *rand.Rand, of ...string) string { return of[r.IntN(len(of))] }

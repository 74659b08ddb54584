package demo

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// start is when the events of these tests are sent, ms since 1970.
const start = 1_000_000

// story tells a ledger what happened; the report must be as said.
func TestLedger(t *testing.T) {
	due := time.UnixMilli(start + 1000)
	for name, c := range map[string]struct {
		story func(l *ledger)
		want  Report
	}{
		"in order": {func(l *ledger) {
			put(l, "a")
			l.arrived(place{"t", 0, 0}, "a", start+1000, due)
			l.audited(place{"t", 0, 0}, "a", start+1000)
		}, Report{Put: 1, Delivered: 1}},
		"read again": {func(l *ledger) {
			put(l, "a")
			l.arrived(place{"t", 0, 0}, "a", start+1000, due)
			l.arrived(place{"t", 0, 0}, "a", start+1000, due)
			l.audited(place{"t", 0, 0}, "a", start+1000)
		}, Report{Put: 1, Delivered: 1}},
		"lost": {func(l *ledger) { put(l, "a") }, Report{Put: 1, Lost: 1}},
		"lost after it was read": {func(l *ledger) {
			put(l, "a")
			l.arrived(place{"t", 0, 0}, "a", start+1000, due)
		}, Report{Put: 1, Delivered: 1, Lost: 1}},
		"twice": {func(l *ledger) {
			put(l, "a")
			l.audited(place{"t", 0, 0}, "a", start+1000)
			l.audited(place{"t", 1, 0}, "a", start+1000)
		}, Report{Put: 1, Twice: 1}},
		"cancelled": {func(l *ledger) {
			put(l, "a")
			l.cancelled("a")
		}, Report{Put: 1, Cancelled: 1}},
		"cancelled and delivered": {func(l *ledger) {
			put(l, "a")
			l.cancelled("a")
			l.audited(place{"t", 0, 0}, "a", start+1000)
		}, Report{Put: 1, Cancelled: 1, Twice: 1}},
		"unanswered, was not stored": {func(l *ledger) {
			l.sending("a", start)
			put(l, "a")
			l.audited(place{"t", 0, 0}, "a", start+1000)
		}, Report{Put: 1, Unanswered: 1}},
		"unanswered, was stored": {func(l *ledger) {
			l.sending("a", start)
			l.sending("a", start+1)
			l.acked("a", start+1000, true)
			l.audited(place{"t", 0, 0}, "a", start+1000)
		}, Report{Put: 1, Unanswered: 1, UnansweredStored: 1}},
		"unanswered, and stored again": {func(l *ledger) {
			l.sending("a", start)
			put(l, "a")
			l.audited(place{"t", 0, 0}, "a", start+1000)
			l.audited(place{"t", 0, 1}, "a", start+1000)
		}, Report{Put: 1, Unanswered: 1, Twice: 1}},
		"no connection is no sending": {func(l *ledger) {
			l.sending("a", start)
			l.unsent("a")
			put(l, "a")
			l.audited(place{"t", 0, 0}, "a", start+1000)
			l.audited(place{"t", 0, 1}, "a", start+1000)
		}, Report{Put: 1, Twice: 1}},
		"early at the consumer": {func(l *ledger) {
			put(l, "a")
			l.arrived(place{"t", 0, 0}, "a", start+1000, due.Add(-time.Microsecond))
			l.audited(place{"t", 0, 0}, "a", start+1000)
		}, Report{Put: 1, Delivered: 1, Early: 1}},
		"early by its due time": {func(l *ledger) {
			put(l, "a")
			l.arrived(place{"t", 0, 0}, "a", start+999, due)
			l.audited(place{"t", 0, 0}, "a", start+1000)
		}, Report{Put: 1, Delivered: 1, Early: 1}},
		"replaced": {func(l *ledger) {
			put(l, "a")
			put(l, "b")
			l.arrived(place{"t", 0, 0}, "a", start+1000, due)
			l.audited(place{"t", 0, 0}, "b", start+1000)
			l.audited(place{"t", 0, 1}, "a", start+1000)
		}, Report{Put: 2, Delivered: 1, Replaced: 1}},
		"of nobody": {func(l *ledger) { l.audited(place{"t", 0, 0}, "x", start+1000) }, Report{Replaced: 1}},
		"moved": {func(l *ledger) {
			put(l, "a")
			l.moved("a", start+2000)
			l.arrived(place{"t", 0, 0}, "a", start+2000, due.Add(time.Second))
			l.audited(place{"t", 0, 0}, "a", start+2000)
		}, Report{Put: 1, Delivered: 1, Moved: 1}},
		"moved, and there at its old time": {func(l *ledger) {
			put(l, "a")
			l.moved("a", start+2000)
			l.audited(place{"t", 0, 0}, "a", start+1000)
		}, Report{Put: 1, Moved: 1, OffTime: 1}},
		"moved, and there at both times": {func(l *ledger) {
			put(l, "a")
			l.moved("a", start+2000)
			l.audited(place{"t", 0, 0}, "a", start+1000)
			l.audited(place{"t", 0, 1}, "a", start+2000)
		}, Report{Put: 1, Moved: 1, Twice: 1}},
		"moved and lost": {func(l *ledger) {
			put(l, "a")
			l.moved("a", start+2000)
		}, Report{Put: 1, Moved: 1, Lost: 1}},
		"moved earlier": {func(l *ledger) {
			put(l, "c")
			l.moved("c", start+600)
			l.arrived(place{"t", 0, 0}, "c", start+600, due)
			l.audited(place{"t", 0, 0}, "c", start+600)
		}, Report{Put: 1, Delivered: 1, Moved: 1}},
		"moved earlier than asked for": {func(l *ledger) {
			put(l, "c")
			l.moved("c", start+599)
			l.arrived(place{"t", 0, 0}, "c", start+599, due)
			l.audited(place{"t", 0, 0}, "c", start+599)
		}, Report{Put: 1, Delivered: 1, Moved: 1, Early: 1}},
		"filtered": {func(l *ledger) {
			put(l, "p")
			l.filtered("p")
		}, Report{Put: 1, Filtered: 1}},
		"neither filtered nor there": {func(l *ledger) { put(l, "p") }, Report{Put: 1, Lost: 1}},
		"filtered and there": {func(l *ledger) {
			put(l, "p")
			l.filtered("p")
			l.audited(place{"t", 0, 0}, "p", start+1000)
		}, Report{Put: 1, Filtered: 1, Twice: 1}},
		"filtered by two verdicts": {func(l *ledger) {
			put(l, "p")
			l.filtered("p")
			l.filtered("p")
		}, Report{Put: 1, Filtered: 2, Twice: 1}},
		"filtered, and need not be": {func(l *ledger) {
			put(l, "a")
			l.filtered("a")
			l.audited(place{"t", 0, 0}, "a", start+1000)
		}, Report{Put: 1, Filtered: 1, Twice: 1}},
		"webhook": {func(l *ledger) {
			put(l, "h")
			l.audited(place{"t", 0, 0}, "h", start+1000)
			l.called("h", start+1001, false)
		}, Report{Put: 1, Hooked: 1}},
		"webhook met a busy receiver": {func(l *ledger) {
			put(l, "h")
			l.audited(place{"t", 0, 0}, "h", start+1000)
			if l.called("h", start+1001, true) || !l.called("h", start+2001, true) {
				panic("the second call is taken, and not the first")
			}
		}, Report{Put: 1, Hooked: 1, HookedBusy: 1}},
		"no webhook": {func(l *ledger) {
			put(l, "h")
			l.audited(place{"t", 0, 0}, "h", start+1000)
		}, Report{Put: 1, Lost: 1}},
		"webhook twice": {func(l *ledger) {
			put(l, "h")
			l.audited(place{"t", 0, 0}, "h", start+1000)
			l.called("h", start+1001, false)
			l.called("h", start+5001, false)
		}, Report{Put: 1, Hooked: 1, Twice: 1}},
		"webhook twice, because of a kill": {func(l *ledger) {
			put(l, "h")
			l.down(time.UnixMilli(start+1500), time.UnixMilli(start+3000))
			l.audited(place{"t", 0, 0}, "h", start+1000)
			l.called("h", start+1001, false)
			l.called("h", start+3001, false)
		}, Report{Put: 1, Hooked: 1, HookedAgain: 1}},
		"webhook twice, long before a kill": {func(l *ledger) {
			put(l, "h")
			l.down(time.UnixMilli(start+2500), time.UnixMilli(start+3000))
			l.audited(place{"t", 0, 0}, "h", start+1000)
			l.called("h", start+1001, false)
			l.called("h", start+3001, false)
		}, Report{Put: 1, Hooked: 1, Twice: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger([]Event{
				{ID: "a", Level: 1}, {ID: "b", Level: 1}, {ID: "c", DelayMs: 1000, MoveAfterMs: 1, MoveByMs: -400},
				{ID: "p", Level: 1, Topic: filteredTopic, Paid: true}, {ID: "h", Level: 1, Topic: hookedTopic},
			})
			c.story(l)
			got := l.judge()
			wrong := got.Lost + got.Twice + got.Early + got.OffTime + got.Replaced
			if wrong != 0 != (len(got.Faults) > 0) {
				t.Errorf("%d things are wrong, and the faults are %q", wrong, got.Faults)
			}
			got.Check = CheckClean
			if got.OK() != (wrong == 0) {
				t.Errorf("OK is %v, %d things are wrong", got.OK(), wrong)
			}
			got.Check, got.Faults, got.Up, got.Restart = "", nil, Lateness{}, Lateness{}
			if !equal(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// equal compares the counts.
func equal(a, b Report) bool {
	type counts [15]int
	of := func(r Report) counts {
		return counts{r.Put, r.Cancelled, r.Delivered, r.Lost, r.Twice, r.Early, r.Moved, r.OffTime, r.Replaced,
			r.Unanswered, r.UnansweredStored, r.Filtered, r.Hooked, r.HookedBusy, r.HookedAgain}
	}
	return of(a) == of(b)
}

func put(l *ledger, id string) {
	l.sending(id, start)
	l.acked(id, start+1000, false)
}

// What was due before the server was back and came after it was killed has waited for the restart.
func TestLateness(t *testing.T) {
	l := newLedger([]Event{{ID: "a", Level: 1}})
	l.outages = []outage{{from: 10_000, to: 20_000}}
	l.arrivals = []arrival{
		{due: 5_000, received: 6_000},   // before it
		{due: 9_000, received: 21_000},  // was due when it was killed
		{due: 15_000, received: 25_000}, // was due while there was none
		{due: 20_500, received: 21_000}, // after it
	}
	r := l.judge()
	up, restart := r.Up, r.Restart
	if so := l.lateUp(); so != up {
		t.Errorf("so far: %+v, in the end: %+v", so, up)
	}
	if up.Count != 2 || up.Max != Duration(time.Millisecond) || up.P50 != Duration(500*time.Microsecond) {
		t.Errorf("up: %+v", up)
	}
	if restart.Count != 2 || restart.Max != Duration(12*time.Millisecond) || restart.P50 != Duration(10*time.Millisecond) {
		t.Errorf("restart: %+v", restart)
	}
	if l := newLateness(nil); l != (Lateness{}) {
		t.Errorf("of nothing: %+v", l)
	}
}

func TestSettled(t *testing.T) {
	l := newLedger([]Event{{ID: "a", Level: 1}, {ID: "b", Level: 1}})
	put(l, "a")
	l.arrived(place{"t", 0, 0}, "a", start+1000, time.UnixMilli(start+1000))
	if l.settled() {
		t.Error("settled before b was put")
	}
	put(l, "b")
	if l.settled() {
		t.Error("settled before b arrived")
	}
	l.arrived(place{"t", 0, 1}, "a", start+1000, time.UnixMilli(start+1000)) // a copy whose answer was cut off
	if l.settled() {
		t.Error("settled by a copy of a, before b arrived")
	}
	l.cancelled("b")
	if !l.settled() {
		t.Error("not settled")
	}
}

func TestReportTable(t *testing.T) {
	r := Report{
		Put: 6000, Delivered: 5025, Filtered: 300, Cancelled: 675, Hooked: 2900, HookedBusy: 60, HookedAgain: 3, Twice: 1, Unanswered: 3, UnansweredStored: 2,
		Down: []Duration{Duration(1500 * time.Millisecond)}, Recover: []Duration{Duration(300 * time.Millisecond)},
		Up:    Lateness{5000, Duration(1500 * time.Microsecond), Duration(9 * time.Millisecond), Duration(20 * time.Millisecond)},
		Check: CheckClean, Took: Duration(20 * time.Second), Faults: []string{"twice: order-1"},
	}
	var b bytes.Buffer
	if err := r.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"put  6,000  acknowledged, each after fsync\n", "puts sent again, since it cut off the answer: 3; stored before, and not again: 2\n",
		"delivered  5,025", "filtered    300", "cancelled    675",
		"webhooks  2,900  called by a plugin; 60 met a busy receiver, and came again; 3 again, since the kill cut off the answer\n", "twice      1", "lost      0",
		"p50 1.5ms, p99 9ms, max 20ms (5,000 messages)", "ready again after 1.5s, of that start and recovery 300ms\n", "twice: order-1\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, b.String())
		}
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000"} {
		if got := thousands(n); got != want {
			t.Errorf("thousands(%d) is %s, want %s", n, got, want)
		}
	}
}

func TestParseEvents(t *testing.T) {
	events, err := ParseEvents([]byte(`{"at_ms":5,"id":"b","level":1}` + "\n" + `{"at_ms":1,"id":"a","level":3}`))
	if err != nil || len(events) != 2 || events[0].ID != "a" || events[0].delay() != 10*time.Second {
		t.Errorf("%+v, %v", events, err)
	}
	for name, text := range map[string]string{
		"nothing": "", "no JSON": "x", "level 0": `{"id":"a"}`, "level 4": `{"id":"a","level":4}`, "no id": `{"level":1}`,
		"level and delay": `{"id":"a","level":1,"delay_ms":5}`, "both": `{"id":"a","level":1,"cancel_after_ms":1,"move_after_ms":1,"move_by_ms":1}`,
		"paid elsewhere":  `{"id":"a","level":1,"topic":"reminders","paid":true}`,
		"move by nothing": `{"id":"a","level":1,"move_after_ms":1}`, "move at no time": `{"id":"a","level":1,"move_by_ms":1}`,
		"time": `{"at_ms":-1,"id":"a","level":1}`, "id twice": `{"id":"a","level":1}{"id":"a","level":1}`,
	} {
		if _, err := ParseEvents([]byte(text)); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

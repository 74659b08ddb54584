package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
)

const (
	hourMillis = 3_600_000
	dayMillis  = 24 * hourMillis
)

// dues counts due times as a horizon does.
func dues(all []int64, fromMs, toMs, stepMs int64) []int64 {
	counts := make([]int64, (toMs-fromMs+stepMs-1)/stepMs)
	for _, due := range all {
		if due >= fromMs && due < toMs {
			counts[(due-fromMs)/stepMs]++
		}
	}
	return counts
}

// horizonOf asks again from where each call came to, until the end.
func horizonOf(s *enginetest.Store, topic string, fromMs, toMs, stepMs int64) (counts []int64, calls int, err error) {
	counts = make([]int64, (toMs-fromMs+stepMs-1)/stepMs)
	for at := fromMs; at < toMs; calls++ {
		h, err := s.Horizon(topic, at, toMs, stepMs)
		if err != nil {
			return nil, calls, err
		}
		if h.ScannedTo <= at || h.ScannedTo > toMs {
			return nil, calls, fmt.Errorf("from %d it came to %d", at, h.ScannedTo)
		}
		for i, n := range h.Counts {
			if due := at + int64(i)*stepMs; n > 0 && due >= h.ScannedTo {
				return nil, calls, fmt.Errorf("%d are counted at %d, the scan came to %d", n, due, h.ScannedTo)
			}
			if n > 0 {
				counts[(at+int64(i)*stepMs-fromMs)/stepMs] += n
			}
		}
		// The rest of a step is counted from its begin next time, unless the scan came to its border.
		if at = h.ScannedTo; at < toMs && (at-fromMs)%stepMs != 0 {
			return nil, calls, fmt.Errorf("the scan stopped within a step, at %d", at)
		}
	}
	return counts, calls, nil
}

// Per hour and per day over all topics a horizon is exact at once, however many messages wait.
func TestTimerHorizonFromCounters(t *testing.T) {
	n := enginetest.ReadVolume(t).Pick(20_000, 300_000, 300_000)
	o := quick()
	o.MaxDelay = century
	s := enginetest.Open(t, enginetest.Config{Options: o})
	start := s.Clock.Wall()
	burst(t, s, "t", n, start+hourMillis/2, 40*dayMillis)
	burst(t, s, "u", n/2, start+365*dayMillis, 0)
	var all []int64
	for i := range n {
		all = append(all, start+hourMillis/2+int64(i)*40*dayMillis/int64(n))
	}
	for range n / 2 {
		all = append(all, start+365*dayMillis)
	}
	for range 2 {
		for _, c := range [][3]int64{
			{start, start + 41*dayMillis, hourMillis},
			{start, start + 400*dayMillis, dayMillis},
			{0, yearEndMs + 1, yearEndMs + 1},
			{start + 3*hourMillis, start + 3*hourMillis + 7*hourMillis, 2 * hourMillis}, // the last step is cut
			{start + 365*dayMillis, start + 365*dayMillis + hourMillis, hourMillis},
			{start + 366*dayMillis, start + 366*dayMillis + 10_000*hourMillis, hourMillis},
		} {
			h, err := s.Horizon("", c[0], c[1], c[2])
			if err != nil || h.ScannedTo != c[1] || h.FromMs != c[0] || h.StepMs != c[2] || h.Position != s.Released() {
				t.Fatalf("%v: came to %d: %v", c, h.ScannedTo, err)
			}
			if want := dues(all, c[0], c[1], c[2]); !slices.Equal(h.Counts, want) {
				t.Fatalf("%v: %v, want %v", c, h.Counts, want)
			}
		}
		s.Reopen(0)
	}
}

// Per second, and for one topic, it is a scan that says how far it came; asking again from there gives the rest, counting
// nothing twice. A millisecond with more messages than one call counts does not stop it.
func TestTimerHorizonByScan(t *testing.T) {
	n := enginetest.ReadVolume(t).Pick(30_000, 200_000, 200_000)
	s := enginetest.Open(t, enginetest.Config{Options: quick()})
	start := s.Clock.Wall() + hourMillis
	burst(t, s, "t", n, start+5000, 0)
	burst(t, s, "u", n, start, 100_000)
	burst(t, s, "t", n, start+50_000, 1)
	var all, ofT []int64
	for i := range n {
		all = append(all, start+5000, start+int64(i)*100_000/int64(n), start+50_000+int64(i)/int64(n))
		ofT = append(ofT, start+5000, start+50_000+int64(i)/int64(n))
	}
	most := 0
	for topic, dueMs := range map[string][]int64{"": all, "t": ofT} {
		for from := start; from < start+110_000; from += 10_000 {
			got, calls, err := horizonOf(s, topic, from, from+10_000, 1)
			if err != nil || !slices.Equal(got, dues(dueMs, from, from+10_000, 1)) {
				t.Fatalf("topic %q from %d, %d calls: not the truth: %v", topic, from-start, calls, err)
			}
			most = max(most, calls)
		}
	}
	if most < 2 {
		t.Error("every scan came to its end at once: this says nothing")
	}
	// In other steps the parts add up.
	total, calls := int64(0), 0
	for at := start; at < start+200_000; calls++ {
		h, err := s.Horizon("", at, start+200_000, 777)
		if err != nil || h.ScannedTo <= at {
			t.Fatalf("from %d to %d: %v", at, h.ScannedTo, err)
		}
		for _, k := range h.Counts {
			total += k
		}
		at = h.ScannedTo
	}
	if total != int64(len(all)) || calls < 2 {
		t.Errorf("%d messages by %d calls, want %d", total, calls, len(all))
	}
}

// What was cancelled, moved, fired or dropped is not counted, what was brought back is.
func TestTimerHorizonAfterChanges(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: timers()})
	start := s.Clock.Wall()
	per := func(want ...int64) {
		t.Helper()
		for _, topic := range []string{"", "t"} {
			for range 2 {
				h, err := s.Horizon(topic, start, start+4*hourMillis, hourMillis)
				if err != nil || !slices.Equal(h.Counts, want) {
					t.Fatalf("topic %q: %v, want %v: %v", topic, h.Counts, want, err)
				}
				s.Reopen(0)
			}
		}
	}
	a, b := stored(t, s, later("a", 30*time.Minute)), stored(t, s, later("b", 90*time.Minute))
	c := stored(t, s, at("c", start+2*hourMillis))
	stored(t, s, at("d", start+2*hourMillis-1))
	stored(t, s, put("e", 3))
	per(1, 3, 1, 0)
	answerOf(t, s, &engine.Cancel{Handle: a.Handle()}, engine.Cancelled)
	per(0, 3, 1, 0)
	move(t, s, b, start+3*hourMillis)
	per(0, 2, 1, 1)
	record, err := s.ReadCancelled(a.Handle())
	if err != nil {
		t.Fatal(err)
	}
	answerOf(t, s, &engine.Undo{Handle: a.Handle(), Record: record}, engine.Restored)
	per(1, 2, 1, 1)
	s.Pass(time.Hour)
	per(0, 1, 1, 1)
	move(t, s, c, s.Clock.Wall())
	h, err := s.Horizon("", start, start+4*hourMillis, hourMillis)
	if err != nil || !slices.Equal(h.Counts, []int64{0, 2, 0, 1}) { // it is due now, and not delivered
		t.Fatalf("%v: %v", h.Counts, err)
	}
	s.Step()
	per(0, 1, 0, 1)
	s.Pass(4 * time.Hour)
	per(0, 0, 0, 0)
}

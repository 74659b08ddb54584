package engine_test

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
)

// layouts are the ways in which timers can lie: all must give the same.
func layouts() map[string]func(o *engine.Options) {
	return map[string]func(o *engine.Options){
		"rings":   func(o *engine.Options) {},
		"lanes":   func(o *engine.Options) { o.Lanes = 4 },
		"near":    func(o *engine.Options) { o.Near, o.SecondsSlots = 7*day, 1209600 },
		"tiny":    func(o *engine.Options) { o.SecondsSlots, o.SecondsEntries, o.HoursEntries, o.LooseEntries = 2, 1, 1, 1 },
		"roomy":   func(o *engine.Options) { *o = roomy() },
		"literal": func(o *engine.Options) { *o = roomy(); o.Near, o.SecondsSlots = 7*day, 1209600 },
	}
}

// A message is due after a delay of any length: not a millisecond before, and at it.
func TestTimerDelays(t *testing.T) {
	delays := []time.Duration{time.Millisecond, time.Second, 8 * day, 40 * day, year, century}
	for layout, change := range layouts() {
		for _, d := range delays {
			for _, how := range []string{"stays up", "reopened", "power cut", "down all the while"} {
				t.Run(fmt.Sprintf("%s/%v/%s", layout, d, how), func(t *testing.T) {
					o := timers()
					change(&o)
					s := enginetest.Open(t, enginetest.Config{Options: o})
					a := stored(t, s, later("a", d))
					if want := s.Clock.Wall() + d.Milliseconds(); a.DueMs != want {
						t.Fatalf("due at %d, want %d", a.DueMs, want)
					}
					switch how {
					case "stays up":
						goTo(t, s, a.DueMs-1)
					case "reopened":
						s.Pass(d / 2)
						s.Reopen(0)
						goTo(t, s, a.DueMs-1)
					case "power cut":
						s.Kill(true)
						goTo(t, s, a.DueMs-1)
					case "down all the while":
						s.Reopen(d - time.Millisecond)
					}
					wantRead(t, s, "")
					wantFate(t, s, a, engine.Scheduled)
					s.Pass(time.Millisecond)
					wantRead(t, s, "a")
					wantFate(t, s, a, engine.Delivered)
				})
			}
		}
	}
}

// All delays together, put in any order, come in the order of due times; a store that was down for them all delivers
// them in the same order.
func TestTimerDelaysTogether(t *testing.T) {
	delays := []time.Duration{
		time.Millisecond, time.Second, time.Minute, time.Hour, 2 * time.Hour, day, 7 * day, 8 * day, 14 * day, 40 * day, year,
		7 * year, 8 * year, 50 * year, century,
	}
	for layout, change := range layouts() {
		for _, down := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/down=%v", layout, down), func(t *testing.T) {
				o := timers()
				change(&o)
				s := enginetest.Open(t, enginetest.Config{Options: o})
				var want []string
				for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(len(delays)) {
					stored(t, s, later(name(i), delays[i]))
				}
				for i := range delays {
					want = append(want, name(i))
				}
				if down {
					s.Reopen(century)
					wantKeys(t, s, "t", 0, want)
					return
				}
				start := s.Clock.Wall()
				for i, d := range delays {
					goTo(t, s, start+d.Milliseconds()-1)
					if n := visible(s, "t", 0); n != int64(i) {
						t.Fatalf("%d messages 1 ms before %v, want %d", n, d, i)
					}
					s.Pass(time.Millisecond)
					if n := visible(s, "t", 0); n != int64(i+1) {
						t.Fatalf("%d messages at %v, want %d", n, d, i+1)
					}
				}
			})
		}
	}
}

// What is due at once is visible at once, takes no timer, and counts nowhere.
func TestTimerDueAtOnce(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: timers()})
	now := s.Clock.Wall()
	for i, p := range []*engine.Put{at("a", now), at("b", now-1), at("c", now-5*365*24*3600*1000), at("d", 1), at("e", 0), later("f", 0)} {
		a := do(s, p)
		if a.Outcome != engine.Stored || a.Offset != int64(i) || a.ID != 0 {
			t.Errorf("%s: %v at offset %d with id %d: %v", p.Key, a.Outcome, a.Offset, a.ID, a.Err)
		}
	}
	wantRead(t, s, "a,b,c,d,e,f")
	if n := s.Stats().Pending; n != 0 {
		t.Errorf("%d messages wait", n)
	}
	if h, err := s.Horizon("", 0, yearEndMs+1, 36500*24*3600*1000); err != nil || slices.Max(h.Counts) != 0 {
		t.Errorf("horizon %v: %v", h.Counts, err)
	}
}

// Each due time that no message can have is an error that names the limit and the value, and nothing is stored.
func TestTimerRefusals(t *testing.T) {
	const limit = 8 * day
	put := func(level int, dueMs, delayMs int64) *engine.Put {
		return &engine.Put{Topic: "t", Queue: 0, Level: level, DueMs: dueMs, DelayMs: delayMs}
	}
	now := int64(enginetest.Epoch)
	for _, c := range []struct {
		name string
		put  *engine.Put
		want error
		says []string
	}{
		{"delay beyond the limit", put(0, 0, limit.Milliseconds()+1), engine.ErrDelay, []string{"691200001", "691200000", "MaxDelay"}},
		{"due beyond the limit", put(0, now+limit.Milliseconds()+1, 0), engine.ErrDelay, []string{"691200001", "691200000"}},
		{"a century", put(0, 0, century.Milliseconds()), engine.ErrDelay, []string{"3153600000000", "691200000"}},
		{"due beyond the year 9999", put(0, yearEndMs+1, 0), engine.ErrDue, []string{"253402300800000", "253402300799999"}},
		{"delay beyond the year 9999", put(0, 0, yearEndMs), engine.ErrDue, []string{"253402300799999", "year 9999"}},
		{"the longest delay there is", put(0, 0, math.MaxInt64), engine.ErrDue, []string{"9223372036854775807"}},
		{"the last time there is", put(0, math.MaxInt64, 0), engine.ErrDue, []string{"9223372036854775807"}},
		{"2^31 ms", put(0, 0, 1<<31), engine.ErrDelay, []string{"2147483648"}},
		{"2^32 ms", put(0, 0, 1<<32), engine.ErrDelay, []string{"4294967296"}},
		{"2^53 ms", put(0, 0, 1<<53), engine.ErrDue, []string{"9008966480340992"}},
		{"negative due", put(0, -1, 0), engine.ErrDue, []string{"-1"}},
		{"negative delay", put(0, 0, -1), engine.ErrDue, []string{"-1", "691200000"}},
		{"the most negative delay", put(0, 0, math.MinInt64), engine.ErrDue, []string{"-9223372036854775808"}},
		{"level and due", put(1, now+1000, 0), engine.ErrDue, []string{"level 1", "only one"}},
		{"level and delay", put(1, 0, 1000), engine.ErrDue, []string{"level 1", "only one"}},
		{"due and delay", put(0, now+1000, 1000), engine.ErrDue, []string{"only one"}},
		{"all three", put(1, now+1000, 1000), engine.ErrDue, []string{"only one"}},
		{"negative level", put(-1, 0, 0), engine.ErrLevel, []string{"-1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := timers()
			o.MaxDelay = limit
			s := enginetest.Open(t, enginetest.Config{Options: o})
			end := s.Stats().End
			a := do(s, c.put)
			if a.Outcome != engine.Refused || !errors.Is(a.Err, c.want) {
				t.Fatalf("outcome %v: %v, want %v", a.Outcome, a.Err, c.want)
			}
			for _, word := range c.says {
				if !strings.Contains(a.Err.Error(), word) {
					t.Errorf("%q does not say %q", a.Err, word)
				}
			}
			if got := s.Stats(); got.End != end || got.Pending != 0 || got.NextID != 1 {
				t.Errorf("something was stored: %+v", got)
			}
		})
	}
}

// A delay of exactly the limit is taken, also by a move; the limit of a move is counted from the moment of the move.
func TestTimerExactlyMaxDelay(t *testing.T) {
	for _, limit := range []time.Duration{time.Millisecond, time.Second, 7 * day, year, century} {
		t.Run(limit.String(), func(t *testing.T) {
			o := timers()
			o.MaxDelay = limit
			s := enginetest.Open(t, enginetest.Config{Options: o})
			a := stored(t, s, later("a", limit))
			b := stored(t, s, at("b", s.Clock.Wall()+limit.Milliseconds()))
			record, err := s.ReadPending(b.Handle())
			if err != nil {
				t.Fatal(err)
			}
			far := &engine.Move{Handle: b.Handle(), DueMs: s.Clock.Wall() + limit.Milliseconds() + 1, Record: record}
			if got := do(s, far); got.Outcome != engine.Refused || !errors.Is(got.Err, engine.ErrDelay) {
				t.Errorf("move beyond the limit: %v: %v", got.Outcome, got.Err)
			}
			wantFate(t, s, b, engine.Scheduled)
			far.DueMs--
			c := do(s, far)
			if c.Outcome != engine.Moved || c.DueMs != a.DueMs {
				t.Errorf("move to the limit: %v: %v", c.Outcome, c.Err)
			}
			goTo(t, s, a.DueMs-1)
			wantRead(t, s, "")
			s.Pass(time.Millisecond)
			wantRead(t, s, "a,b")
		})
	}
}

// The year 9999 ends the calendar, not the store.
func TestTimerEndOfCalendar(t *testing.T) {
	o := timers()
	clock := enginetest.NewClock(yearEndMs - 1000)
	s := enginetest.Open(t, enginetest.Config{Options: o, Clock: clock})
	a := stored(t, s, at("a", yearEndMs))
	if got := do(s, later("b", 1001*time.Millisecond)); !errors.Is(got.Err, engine.ErrDue) {
		t.Errorf("due in the year 10000: %v: %v", got.Outcome, got.Err)
	}
	if h, err := s.Horizon("", yearEndMs+1-3600_000, yearEndMs+1, 3600_000); err != nil || h.Counts[0] != 1 {
		t.Errorf("the last hour has %v: %v", h.Counts, err)
	}
	goTo(t, s, yearEndMs-1)
	wantRead(t, s, "")
	s.Pass(time.Millisecond)
	wantRead(t, s, "a")
	wantFate(t, s, a, engine.Delivered)
	s.Pass(time.Hour) // the clock goes on
	if got := do(s, at("c", yearEndMs)); got.Outcome != engine.Stored {
		t.Errorf("due in the past: %v: %v", got.Outcome, got.Err)
	}
}

// Due one millisecond before, at, and one behind every border there is: of seconds, hours, days, laps of the rings. Time
// then goes in milliseconds round each border.
func TestTimerBorders(t *testing.T) {
	for layout, change := range layouts() {
		t.Run(layout, func(t *testing.T) {
			o := timers()
			o.SecondsSlots = 4096
			change(&o)
			s := enginetest.Open(t, enginetest.Config{Options: o})
			s.Pass(time.Millisecond) // the clock of a test begins on a border itself
			start := s.Clock.Wall()
			lap := int64(max(o.SecondsSlots, 2)) * 1000
			var dues []int64
			for _, unit := range []int64{1000, 60_000, 3_600_000, 24 * 3_600_000, lap, 65536 * 3_600_000} {
				for n := range int64(3) {
					border := (start/unit+1)*unit + n*unit
					dues = append(dues, border-1, border, border+1)
				}
			}
			// A lap ahead of the frontier, which is where the clock began: the first time that fits no ring.
			dues = append(dues, start+lap-1, start+lap, start+lap+1, start-start%1000+lap-1, start-start%1000+lap)
			r := rand.New(rand.NewPCG(7, 7))
			for range 60 { // enough to fill and flush every memtable
				dues = append(dues, start+1+r.Int64N(100*24*3_600_000))
			}
			type put struct {
				due int64
				id  uint64
			}
			var puts []put
			for _, i := range r.Perm(len(dues)) {
				a := stored(t, s, at(fmt.Sprint(dues[i]), dues[i]))
				puts = append(puts, put{dues[i], a.ID})
				s.Step()
			}
			slices.SortFunc(puts, func(a, b put) int { return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.id, b.id)) })
			var want []string
			for i, p := range puts {
				want = append(want, fmt.Sprint(p.due))
				if i > 0 && puts[i-1].due == p.due {
					continue
				}
				if p.due-1 > s.Clock.Wall() {
					goTo(t, s, p.due-1)
				}
				if n := visible(s, "t", 0); s.Clock.Wall() < p.due && n != int64(i) {
					t.Fatalf("%d messages at %d, 1 ms before %d; want %d", n, s.Clock.Wall(), p.due, i)
				}
				if i%16 == 7 {
					s.Reopen(0)
				}
				goTo(t, s, max(p.due, s.Clock.Wall()))
				last := i + 1
				for last < len(puts) && puts[last].due <= s.Clock.Wall() {
					last++
				}
				if n := visible(s, "t", 0); n != int64(last) {
					t.Fatalf("%d messages at %d, want %d", n, s.Clock.Wall(), last)
				}
			}
			if got := keysOf(t, s, "t", 0); !slices.Equal(got, want[len(want)-len(got):]) {
				t.Errorf("messages are out of order: %v", got)
			}
			if s.Stats().Pending != 0 {
				t.Errorf("%d wait", s.Stats().Pending)
			}
		})
	}
}

// Groups of one slot whose length is at the border of a block of 256 entries, and of two: every entry is delivered once,
// in order, in one go and when the clock stops inside the group.
func TestTimerBlockBorders(t *testing.T) {
	for _, n := range []int{1, 255, 256, 257, 511, 512, 513, 768} {
		for _, sameMs := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d/%v", n, sameMs), func(t *testing.T) {
				o := roomy()
				o.SecondsEntries, o.HoursEntries = n, n
				s := enginetest.Open(t, enginetest.Config{Options: o})
				begin := s.Clock.Wall() + 5*3600_000 // the ring of hours
				var puts []*engine.Put
				for i := range n + 1 { // the last one flushes those before
					due := begin
					if !sameMs {
						due += int64(i)
					}
					puts = append(puts, at(name(i), due))
				}
				putAll(t, s, puts)
				s.Pass(time.Second)
				if got := s.Stats().InMemory; got != 1 {
					t.Fatalf("%d entries are in memory, want 1: nothing was flushed", got)
				}
				if !sameMs {
					goTo(t, s, begin+int64(n)/2)
					if got := visible(s, "t", 0); got != int64(n/2+1) {
						t.Fatalf("%d messages in the middle of the group, want %d", got, n/2+1)
					}
					s.Reopen(0)
				}
				goTo(t, s, begin+int64(n))
				var want []string
				for i := range n + 1 {
					want = append(want, name(i))
				}
				wantKeys(t, s, "t", 0, want)
			})
		}
	}
}

// Messages whose records end segments of the CommitLog, one byte more each time.
func TestTimerSegmentBorders(t *testing.T) {
	o := timers()
	o.SegmentSize = 4096
	s := enginetest.Open(t, enginetest.Config{Options: o})
	s.Do(&engine.DefineTopic{Topic: "t", Queues: 1})
	var want []string
	for i := range 300 {
		p := later(name(i), time.Duration(i+1)*time.Second)
		p.Properties = nil
		p.Tag = []byte(strings.Repeat("x", i%127))
		if a := do(s, p); a.Outcome != engine.Scheduled {
			t.Fatalf("put %d: %v: %v", i, a.Outcome, a.Err)
		}
		want = append(want, name(i))
	}
	if n := len(segments(t, s.FS)); n < 10 {
		t.Fatalf("%d segments", n)
	}
	s.Kill(true)
	start := s.Clock.Wall()
	for i := range 300 {
		goTo(t, s, start+int64(i+1)*1000)
		if got := visible(s, "t", 0); got != int64(i+1) {
			t.Fatalf("%d messages after %d s", got, i+1)
		}
	}
	got := keysOf(t, s, "t", 0)
	if !slices.Equal(got, want[len(want)-len(got):]) {
		t.Errorf("messages are out of order: %v", got)
	}
}

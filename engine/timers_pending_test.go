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
	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// listed is a message that waits, as the test knows it.
type listed struct {
	answer engine.Answer
	topic  string
	tag    string
	key    string
	level  int
}

func (l listed) passes(f engine.Filter) bool {
	return (f.Topic == "" || f.Topic == l.topic) &&
		(f.KeyHash == 0 || f.KeyHash == message.KeyHash([]byte(l.key))) &&
		(f.Tags == nil || slices.Contains(f.Tags, message.TagHash(l.tag))) &&
		l.answer.DueMs >= f.FromMs && (f.ToMs == 0 || l.answer.DueMs < f.ToMs)
}

func byDue(a, b listed) int {
	return cmp.Or(cmp.Compare(a.answer.DueMs, b.answer.DueMs), cmp.Compare(a.answer.ID, b.answer.ID))
}

// sameListing compares what a listing gave with what passes the filter.
func sameListing(got []engine.Waiting, all []listed, f engine.Filter) error {
	var want []listed
	for _, l := range all {
		if l.passes(f) {
			want = append(want, l)
		}
	}
	slices.SortFunc(want, byDue)
	for i, w := range got {
		if i >= len(want) {
			return fmt.Errorf("%d messages are listed, %d pass the filter; the first one more is %+v", len(got), len(want), w)
		}
		l := want[i]
		if w.Handle.ID != l.answer.ID || w.Handle.Due != l.answer.DueMs || w.Handle.Lane != l.answer.Lane ||
			w.DueMs != l.answer.DueMs || w.Topic != l.topic || w.Tags != message.TagHash(l.tag) || w.Level != l.level ||
			w.Queue != l.answer.Queue || w.Size < 50 || w.Handle.Topic != l.answer.Topic {
			return fmt.Errorf("message %d is listed as %+v, it was put as %+v", i, w, l)
		}
	}
	if len(got) < len(want) {
		return fmt.Errorf("%d messages are listed, %d pass the filter", len(got), len(want))
	}
	return nil
}

// crowd puts n messages of several topics, tags, keys and levels, due within a span.
func crowd(t *testing.T, s *enginetest.Store, r *rand.Rand, n int, spanMs int64) (all []listed) {
	t.Helper()
	for range n {
		l := listed{
			topic: fmt.Sprintf("t%d", r.IntN(5)), tag: []string{"", "red", "blue", "green"}[r.IntN(4)], key: fmt.Sprintf("k%d", r.IntN(7)),
		}
		p := &engine.Put{Topic: l.topic, Queue: engine.AnyQueue, Tag: []byte(l.tag), Key: []byte(l.key)}
		switch r.IntN(8) {
		case 0:
			l.level = 3 // an hour
			p.Level = 3
		case 1:
			p.DueMs = s.Clock.Wall() + (1+r.Int64N(spanMs))/1000*1000 + 1000 // many in one millisecond
		default:
			p.DelayMs = 1 + r.Int64N(spanMs)
		}
		if l.answer = s.Do(p)[0]; l.answer.Outcome != engine.Scheduled {
			t.Fatalf("put: %v: %v", l.answer.Outcome, l.answer.Err)
		}
		all = append(all, l)
		s.Step()
	}
	return all
}

// Every filter gives what passes it, in the order of (due, id), whatever the size of a page, wherever the entries lie.
func TestTimerPendingFilters(t *testing.T) {
	for layout, change := range layouts() {
		t.Run(layout, func(t *testing.T) {
			o := timers()
			o.Queues = 3
			change(&o)
			s := enginetest.Open(t, enginetest.Config{Options: o})
			all := crowd(t, s, rand.New(rand.NewPCG(1, 2)), 120, 40*86_400_000)
			start := s.Clock.Wall()
			for _, reopen := range []bool{false, true} {
				if reopen {
					s.Reopen(0)
				}
				for _, f := range []engine.Filter{
					{},
					{Topic: "t2"},
					{Tags: []int32{message.TagHash("red")}},
					{Tags: []int32{message.TagHash("blue"), message.TagHash("")}},
					{Tags: []int32{}},
					{KeyHash: message.KeyHash([]byte("k3"))},
					{FromMs: start + 86_400_000},
					{ToMs: start + 86_400_000},
					{FromMs: start + 3_600_000, ToMs: start + 3_600_001}, // the level
					{FromMs: all[0].answer.DueMs, ToMs: all[0].answer.DueMs + 1},
					{FromMs: all[0].answer.DueMs + 1, ToMs: all[0].answer.DueMs + 1},
					{Topic: "t0", Tags: []int32{message.TagHash("green")}, KeyHash: message.KeyHash([]byte("k1")), FromMs: start, ToMs: yearEndMs},
					{FromMs: math.MinInt64, ToMs: math.MaxInt64},
					{KeyHash: 12345},
				} {
					for _, most := range []int{1, 7, 100, 0, 5000} {
						if err := sameListing(listAll(t, s, f, most), all, f); err != nil {
							t.Fatalf("%+v, at most %d, reopened %v: %v", f, most, reopen, err)
						}
					}
				}
			}
		})
	}
}

// A page never has more than was asked for, and no more than a thousand; the last one says so.
func TestTimerPendingPages(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: roomy()})
	var puts []*engine.Put
	for i := range 2500 {
		puts = append(puts, later(name(i), time.Hour))
	}
	putAll(t, s, puts)
	for _, c := range []struct{ most, want int }{{0, 100}, {-3, 100}, {1, 1}, {999, 999}, {1000, 1000}, {1001, 1000}, {1 << 30, 1000}} {
		page, err := s.Pending(engine.Filter{}, "", c.most)
		if err != nil || len(page.Messages) != c.want || page.Next == "" || page.Position != s.Released() {
			t.Errorf("at most %d: %d messages up to %d, next %q: %v", c.most, len(page.Messages), page.Position, page.Next, err)
		}
	}
	page, err := s.Pending(engine.Filter{ToMs: s.Clock.Wall() + 5}, "", 10)
	if err != nil || len(page.Messages) != 0 || page.Next != "" || page.ScannedTo != s.Clock.Wall()+5 {
		t.Errorf("nothing is due that early: %+v: %v", page, err)
	}
}

func TestTimerPendingErrors(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: timers()})
	stored(t, s, later("a", time.Hour))
	for _, token := range []string{"x", "AAAA", strings.Repeat("A", 23), "!!!!!!!!!!!!!!!!!!!!!!"} {
		if _, err := s.Pending(engine.Filter{}, token, 0); !errors.Is(err, engine.ErrBadCommand) {
			t.Errorf("token %q: %v", token, err)
		}
	}
	if _, err := s.Pending(engine.Filter{Topic: "nobody"}, "", 0); !errors.Is(err, engine.ErrNoTopic) {
		t.Errorf("unknown topic: %v", err)
	}
	for _, h := range [][3]int64{{0, 0, 1}, {5, 4, 1}, {0, 10, 0}, {0, 10, -1}, {-1, 10, 1}, {0, yearEndMs + 2, yearEndMs}, {0, 10001, 1}} {
		if _, err := s.Horizon("", h[0], h[1], h[2]); !errors.Is(err, engine.ErrBadCommand) {
			t.Errorf("horizon of %v: %v", h, err)
		}
	}
	if _, err := s.Horizon("nobody", 0, 10, 1); !errors.Is(err, engine.ErrNoTopic) {
		t.Errorf("horizon of an unknown topic: %v", err)
	}
	closed := enginetest.Open(t, enginetest.Config{Options: timers(), Damaged: true})
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := closed.Pending(engine.Filter{}, "", 0); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// A walk goes on by its token while messages fire, are cancelled, moved, brought back and rolled, and through restarts:
// it lists once, in order, every message that waits from its begin to its end, and nothing that did not wait when it came by.
func TestTimerPendingWalk(t *testing.T) {
	seeds := enginetest.ReadVolume(t).Pick(20, 400, 4000)
	enginetest.Seeds(t, 1, seeds, func(seed uint64) error {
		r := rand.New(rand.NewPCG(seed, 5))
		o := timers()
		o.Lanes = 1 + r.IntN(4)
		if r.IntN(2) == 0 {
			o.Retention, o.RollAfter = time.Second, time.Minute
		}
		s := enginetest.Open(t, enginetest.Config{Options: o})
		sc := script{}
		for range 80 {
			sc = append(sc, scriptStep{kind: "put", topic: fmt.Sprintf("t%d", r.IntN(3)), ms: 1 + r.Int64N(10*86_400_000)})
		}
		p := sc.play(t, s, nil)
		still := map[uint64]int64{} // waits since the walk began
		for _, a := range p.answers {
			still[a.ID] = a.DueMs
		}
		seen := map[uint64]bool{}
		last := engine.Waiting{}
		for token := ""; ; {
			page, err := s.Pending(engine.Filter{}, token, 1+r.IntN(5))
			if err != nil {
				return err
			}
			for _, w := range page.Messages {
				if w.DueMs < last.DueMs || w.DueMs == last.DueMs && w.Handle.ID <= last.Handle.ID {
					return fmt.Errorf("message %d due %d is listed behind %d due %d", w.Handle.ID, w.DueMs, last.Handle.ID, last.DueMs)
				}
				if got, _, err := s.Verdict(w.Handle); err != nil || got != engine.Scheduled {
					return fmt.Errorf("message %d is listed, the verdict is %v: %v", w.Handle.ID, got, err)
				}
				seen[w.Handle.ID], last = true, w
			}
			for id, due := range still { // what lies before ScannedTo was listed
				if due < page.ScannedTo && !seen[id] {
					return fmt.Errorf("message %d due %d was passed over, the walk says that it came to %d", id, due, page.ScannedTo)
				}
			}
			if token = page.Next; token == "" {
				break
			}
			meanwhile(t, p, r, still)
		}
		for id := range still {
			if !seen[id] {
				return fmt.Errorf("message %d waited all the while and was not listed", id)
			}
		}
		return nil
	})
}

// meanwhile does something to a store, and takes out of still what does not wait any more.
func meanwhile(t *testing.T, p *played, r *rand.Rand, still map[uint64]int64) {
	st := scriptStep{ref: r.IntN(len(p.answers)), topic: "t0", ms: 1 + r.Int64N(20*86_400_000)}
	if before := p.answers[st.ref]; r.IntN(2) == 0 {
		st.kind = []string{"cancel", "move", "fire", "undo", "put"}[r.IntN(5)]
		if st.kind != "put" {
			delete(still, before.ID)
		}
	} else {
		st.kind = []string{"pass", "pass", "step", "reopen", "kill", "traffic"}[r.IntN(6)]
		st.ms = r.Int64N(4 * 3_600_000)
	}
	p.step(t, st)
	for id, due := range still {
		if due <= p.s.Clock.Wall() {
			delete(still, id)
		}
	}
}

// One call looks at a bounded number of entries and reads a bounded number of bytes, also when nothing passes the filter;
// then it says how far it looked, and each call comes further.
func TestTimerPendingBoundedWork(t *testing.T) {
	n := enginetest.ReadVolume(t).Pick(40_000, 400_000, 400_000)
	o := quick()
	s := enginetest.Open(t, enginetest.Config{Options: o})
	start := s.Clock.Wall() + 3*3600_000
	burst(t, s, "t", n, start, 1000)
	var read int64
	s.FS.(*crashfs.FS).SetInject(func(op crashfs.Op) error {
		if op.Kind == crashfs.Read {
			read += int64(op.Len)
		}
		return nil
	})
	defer s.FS.(*crashfs.FS).SetInject(nil)
	const entries, block = 8192, 8 + 256*52
	groups := int64(n/o.HoursEntries + 1)
	limit := (entries/256+2*groups)*block + 64<<10
	calls, last := 0, int64(0)
	for token := ""; ; calls++ {
		read = 0
		page, err := s.Pending(engine.Filter{KeyHash: 1}, token, 10)
		if err != nil || len(page.Messages) > 0 {
			t.Fatalf("%d messages: %v", len(page.Messages), err)
		}
		if read > limit {
			t.Fatalf("one call read %d bytes, allowed are %d", read, limit)
		}
		if token = page.Next; token == "" {
			if page.ScannedTo != math.MaxInt64 {
				t.Errorf("at the end it looked up to %d", page.ScannedTo)
			}
			break
		}
		if page.ScannedTo < last || page.ScannedTo > start+1000 {
			t.Fatalf("call %d looked up to %d, the one before up to %d", calls, page.ScannedTo, last)
		}
		last = page.ScannedTo
	}
	if calls < n/entries-1 {
		t.Errorf("%d calls for %d entries", calls, n)
	}
}

// What is not released yet is left out: a power cut could take it back. What was rolled and is not released is not new.
func TestTimerPendingLeavesOutUnreleased(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: timers()})
	stored(t, s, later("a", time.Hour))
	count := func() int { return len(listAll(t, s, engine.Filter{}, 10)) }
	answers, pos, err := s.Append([]engine.Command{later("b", time.Hour), later("c", 20*year), put("d", 3)})
	if err != nil || len(answers) != 3 {
		t.Fatalf("%d answers: %v", len(answers), err)
	}
	for range 2 {
		if got := count(); got != 1 {
			t.Fatalf("%d messages are listed, one is released", got)
		}
		if err := s.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if got := count(); got != 1 {
		t.Fatalf("%d messages are listed, one is released", got)
	}
	s.Release(pos)
	if got := count(); got != 4 {
		t.Fatalf("%d messages are listed of 4", got)
	}
}

// A message that is being rolled has its new copy in the log and not released: it waits all the same.
func TestTimerPendingWhileRolled(t *testing.T) {
	o := timers()
	o.Retention, o.RollAfter = time.Second, time.Minute
	s := enginetest.Open(t, enginetest.Config{Options: o})
	for i := range 5 {
		stored(t, s, later(name(i), 30*day))
	}
	for range 40 {
		s.Do(traffic(8)...)
	}
	rolled := 0
	for range 2000 {
		s.Clock.Pass(time.Second)
		before := s.Stats().RolledMessages
		status := s.Tick()
		if s.Stats().RolledMessages > before { // written, not yet released
			rolled++
			if got := len(listAll(t, s, engine.Filter{}, 2)); got != 5 {
				t.Fatalf("%d messages of 5 are listed while a roll is not released", got)
			}
		}
		release(t, s)
		for _, j := range status.Jobs {
			if err := j.Run(); err != nil {
				t.Fatal(err)
			}
			for !s.Install(j) {
			}
		}
		release(t, s)
	}
	if rolled == 0 {
		t.Fatal("nothing was rolled")
	}
}

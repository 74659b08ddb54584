package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// script is a history of timers that can be played on several stores.
type script []scriptStep

type scriptStep struct {
	kind  string // put, level, cancel, move, fire, undo, pass, step, reopen, kill, traffic, delete
	topic string
	ms    int64 // a delay, or a time that passes
	ref   int   // which of the messages before
}

// spans are typical distances in time, ms: round a border they differ by one.
var spans = []int64{
	1, 2, 999, 1000, 1001, 59_999, 60_000, 3_599_999, 3_600_000, 3_600_001, 7_200_000, 86_399_999, 86_400_000,
	7 * 86_400_000, 8 * 86_400_000, 15 * 86_400_000, 40 * 86_400_000, 365 * 86_400_000,
}

func span(r *rand.Rand) int64 {
	s := spans[r.IntN(len(spans))]
	if r.IntN(2) == 0 {
		return 1 + r.Int64N(s)
	}
	return s
}

// randomScript makes a history. Levels go to topics of their own: between levels and times no order is promised.
func randomScript(r *rand.Rand, steps int, stops bool) (sc script) {
	messages := 0
	for range steps {
		st := scriptStep{topic: fmt.Sprintf("t%d", r.IntN(5)), ms: span(r)}
		if messages > 0 {
			st.ref = r.IntN(messages)
		}
		switch n := r.IntN(100); {
		case n < 45:
			st.kind = "put"
			messages++
		case n < 50:
			st.kind, st.topic, st.ms = "level", "l"+st.topic, int64(1+r.IntN(3))
			messages++
		case n < 58:
			st.kind = "cancel"
		case n < 66:
			st.kind = "move"
		case n < 69:
			st.kind = "fire"
		case n < 73:
			st.kind = "undo"
		case n < 92 || !stops:
			st.kind = "pass"
			if st.ms = 1 + r.Int64N(3_600_000); r.IntN(8) == 0 {
				st.ms = span(r)
			}
		case n < 95:
			st.kind, st.ms = "step", (r.Int64N(3)-1)*(1+r.Int64N(4_000_000)) // of the wall clock, both ways
		case n < 98:
			st.kind = "reopen"
			if st.ms = 0; r.IntN(2) == 0 {
				st.ms = span(r)
			}
		default:
			st.kind = "kill"
		}
		sc = append(sc, st)
	}
	return sc
}

// played is what came of a script on a store.
type played struct {
	s       *enginetest.Store
	answers []engine.Answer // the newest of each message
}

// play does the steps one by one; after each of them it calls look.
func (sc script) play(t testing.TB, s *enginetest.Store, look func(step int)) *played {
	t.Helper()
	p := &played{s: s}
	for i, st := range sc {
		p.step(t, st)
		if look != nil {
			look(i)
		}
	}
	return p
}

func (p *played) step(t testing.TB, st scriptStep) {
	t.Helper()
	s := p.s
	switch st.kind {
	case "put", "level":
		key := []byte(name(len(p.answers)))
		m := &engine.Put{Topic: st.topic, Queue: 0, DelayMs: st.ms, Key: key, Body: key}
		if st.kind == "level" {
			m.Level, m.DelayMs = int(st.ms), 0
		}
		a := s.Do(m)[0]
		if a.Outcome != engine.Scheduled {
			t.Fatalf("put: %v: %v", a.Outcome, a.Err)
		}
		p.answers = append(p.answers, a)
	case "cancel":
		if st.ref < len(p.answers) {
			s.Do(&engine.Cancel{Handle: p.answers[st.ref].Handle()})
		}
	case "move", "fire":
		p.move(t, st)
	case "undo":
		p.undo(st)
	case "pass":
		s.Pass(time.Duration(st.ms) * time.Millisecond)
	case "step":
		s.Clock.Step(time.Duration(st.ms) * time.Millisecond)
		s.Step()
	case "traffic":
		s.Do(traffic(8)...)
		s.Pass(20 * time.Second)
	case "delete":
		if _, ok, _ := s.Topic(st.topic); ok {
			answerOf(t, s, &engine.DeleteTopic{Topic: st.topic}, engine.Done)
		}
	case "reopen":
		s.Reopen(time.Duration(st.ms) * time.Millisecond)
	case "kill":
		s.Kill(true)
	default:
		t.Fatalf("unknown step %q", st.kind)
	}
}

func (p *played) move(t testing.TB, st scriptStep) {
	t.Helper()
	if st.ref >= len(p.answers) {
		return
	}
	h := p.answers[st.ref].Handle()
	record, err := p.s.ReadPending(h)
	if err != nil {
		return // it does not wait: what a move answers then is tested elsewhere
	}
	due := p.s.Clock.Wall()
	if st.kind == "move" {
		due += st.ms
	}
	a := answerOf(t, p.s, &engine.Move{Handle: h, DueMs: due, Record: record}, engine.Moved)
	p.answers[st.ref] = a
	if st.kind == "fire" {
		p.s.Step()
	}
}

func (p *played) undo(st scriptStep) {
	if st.ref >= len(p.answers) {
		return
	}
	h := p.answers[st.ref].Handle()
	record, err := p.s.ReadCancelled(h)
	if err != nil {
		return
	}
	if a := p.s.Do(&engine.Undo{Handle: h, Record: record})[0]; a.Outcome == engine.Restored {
		p.answers[st.ref] = a
	}
}

// sizes are options that differ only in where entries lie and when they are written.
func sizes() map[string]func(o *engine.Options) {
	return map[string]func(o *engine.Options){
		"one entry":         func(o *engine.Options) { o.SecondsEntries, o.HoursEntries, o.LooseEntries = 1, 1, 1 },
		"few entries":       func(o *engine.Options) { o.SecondsEntries, o.HoursEntries, o.LooseEntries = 3, 7, 5 },
		"never a flush":     func(o *engine.Options) { o.SecondsEntries, o.HoursEntries, o.LooseEntries = 1e5, 1e5, 1e5 },
		"two seconds":       func(o *engine.Options) { o.SecondsSlots = 2 },
		"near":              func(o *engine.Options) { o.Near = 7 * day },
		"literal":           func(o *engine.Options) { o.Near, o.SecondsSlots = 7*day, 1209600 },
		"checkpoints often": func(o *engine.Options) { o.CheckpointEvery = 4096 },
		"checkpoints never": func(o *engine.Options) { o.CheckpointEvery = 1 << 30 },
		"one run":           func(o *engine.Options) { o.LooseRuns, o.LooseEntries, o.SecondsSlots = 1, 2, 2 },
		"no bits cached":    func(o *engine.Options) { o.BitsBytes = 1 },
	}
}

// The same commands at the same times give the same log and the same state, whatever the sizes of memtables, the points at
// which they are flushed, the distance of checkpoints, the size of the ring of seconds, and near. Two things that are open
// are left out: levels, which are a lane of their own (which of two lanes fires first depends on the ticks before), and the
// end of a segment (an entry that is dead makes room for a delivery that does not come, in one layout and not in another).
func TestTimerEqualDigests(t *testing.T) {
	seeds := enginetest.ReadVolume(t).Pick(1, 15, 200)
	enginetest.Seeds(t, 1, seeds, func(seed uint64) error {
		r := rand.New(rand.NewPCG(seed, 1))
		sc := randomScript(r, 250, true)
		for i := range sc {
			if sc[i].kind == "level" {
				sc[i].kind = "put"
			}
		}
		o := timers()
		o.SegmentSize, o.SealAfter, o.Retention, o.RollAfter = 64<<20, 100*year, 100*year, 100*year
		base := enginetest.Open(t, enginetest.Config{Options: o})
		var digests [][16]byte
		sc.play(t, base, func(int) { digests = append(digests, base.Digest()) })
		for variant, change := range sizes() {
			v := o
			change(&v)
			s := enginetest.Open(t, enginetest.Config{Options: v})
			var diff error
			sc.play(t, s, func(step int) {
				if diff == nil && s.Digest() != digests[step] {
					diff = fmt.Errorf("%s: another state after step %d: %+v", variant, step, sc[step])
				}
			})
			if diff != nil {
				return diff
			}
		}
		return nil
	})
}

// One log, folded with other sizes, from a checkpoint or from its head: the same state, and what comes after is the same.
func TestTimerSameLogOtherSizes(t *testing.T) {
	seeds := enginetest.ReadVolume(t).Pick(2, 30, 300)
	enginetest.Seeds(t, 1, seeds, func(seed uint64) error {
		r := rand.New(rand.NewPCG(seed, 4))
		sc := randomScript(r, 300, true)
		o := timers()
		o.Lanes = 1 + r.IntN(3)
		base := enginetest.Open(t, enginetest.Config{Options: o})
		before := sc.play(t, base, nil)
		disk, clock := base.FS.(*crashfs.FS), base.Clock
		wall := clock.Wall()
		digest, pending := base.Digest(), base.Stats().Pending
		for variant, change := range sizes() {
			v := o
			change(&v)
			for _, rebuild := range []bool{false, true} {
				files, env := disk.Clone(), engine.Env{Wall: clock.Wall, Mono: clock.Mono}
				if env.FS = files; rebuild {
					if err := engine.Rebuild(env, ".", v); err != nil {
						return fmt.Errorf("%s: %w", variant, err)
					}
				}
				e, err := engine.Open(env, ".", v) // without a tick
				if err != nil {
					return fmt.Errorf("%s: %w", variant, err)
				}
				if got := e.Digest(); got != digest {
					return fmt.Errorf("%s, rebuilt %v: state %x, want %x", variant, rebuild, got, digest)
				}
				if err := e.Close(); err != nil {
					return err
				}
				config := enginetest.Config{FS: files, Options: v, Clock: enginetest.NewClock(wall)}
				if err := sameAfter(t, enginetest.Open(t, config), pending, before.answers); err != nil {
					return fmt.Errorf("%s, rebuilt %v: %w", variant, rebuild, err)
				}
			}
		}
		return nil
	})
}

// sameAfter compares a store that was opened with what the one had that wrote its log, and lets all timers fire.
func sameAfter(t *testing.T, s *enginetest.Store, pending int64, answers []engine.Answer) error {
	waiting := map[uint64]bool{}
	for _, w := range listAll(t, s, engine.Filter{}, 100) {
		waiting[w.Handle.ID] = true
	}
	if int64(len(waiting)) != pending {
		return fmt.Errorf("%d messages are listed, %d wait", len(waiting), pending)
	}
	for _, a := range answers {
		if got, _, err := s.Verdict(a.Handle()); err != nil || (got == engine.Scheduled) != waiting[a.ID] {
			return fmt.Errorf("message %d: %v: %v", a.ID, got, err)
		}
	}
	for range 4 {
		s.Pass(400 * day)
	}
	if got := s.Stats().Pending; got != 0 {
		return fmt.Errorf("%d messages wait in the end", got)
	}
	return nil
}

// The same commands give each topic the same messages in the same order, whatever the number of lanes and near.
func TestTimerEqualDeliveries(t *testing.T) {
	seeds := enginetest.ReadVolume(t).Pick(3, 60, 600)
	enginetest.Seeds(t, 1, seeds, func(seed uint64) error {
		r := rand.New(rand.NewPCG(seed, 2))
		sc := randomScript(r, 300, true)
		// In the end everything is due.
		for range 3 {
			sc = append(sc, scriptStep{kind: "pass", ms: 400 * 86_400_000})
		}
		var want map[string][]string
		for _, v := range []struct {
			lanes int
			near  time.Duration
		}{{1, 0}, {2, 0}, {4, 7 * day}, {63, 0}, {1, 7 * day}, {1, time.Hour}} {
			o := timers()
			o.Retention, o.RollAfter = 100*year, 100*year // so that every message can still be read
			o.Lanes, o.Near = v.lanes, v.near
			s := enginetest.Open(t, enginetest.Config{Options: o})
			sc.play(t, s, nil)
			got, total := map[string][]string{}, 0
			infos, _ := s.Topics()
			for _, info := range infos {
				got[info.Name] = keysOf(t, s, info.Name, 0)
				total += len(got[info.Name])
			}
			if want == nil {
				if want = got; total < 50 {
					return fmt.Errorf("only %d messages were delivered", total)
				}
			}
			for topic := range want {
				if !slices.Equal(got[topic], want[topic]) {
					return fmt.Errorf("%d lanes, near %v: topic %s has %v, one lane gives %v", v.lanes, v.near, topic, got[topic], want[topic])
				}
			}
			if s.Stats().Pending != 0 {
				return fmt.Errorf("%d messages wait in the end", s.Stats().Pending)
			}
		}
		return nil
	})
}

// Near 7 d with the literal ring of 1,209,600 seconds is the mission's layout: a week of timers, each in a slot of its
// second, comes as with the default.
func TestTimerLiteralLayout(t *testing.T) {
	n := enginetest.ReadVolume(t).Pick(2000, 50_000, 200_000)
	var want []string
	for _, near := range []time.Duration{0, 7 * day} {
		o := roomy()
		o.Near, o.SecondsSlots, o.SecondsEntries, o.HoursEntries, o.MaxDelay = near, 1209600, 300, 300, 7*day
		s := enginetest.Open(t, enginetest.Config{Options: o})
		r := rand.New(rand.NewPCG(3, 3))
		var puts []*engine.Put
		for i := range n {
			puts = append(puts, later(name(i), time.Duration(1+r.Int64N(7*86_400_000))*time.Millisecond))
		}
		putAll(t, s, puts)
		for range 7 {
			s.Pass(day - time.Hour)
			s.Reopen(time.Hour)
		}
		got := keysOf(t, s, "t", 0)
		if want == nil {
			want = got
		}
		if len(got) != n || !slices.Equal(got, want) {
			t.Fatalf("near %v: %d messages of %d, or in another order", near, len(got), n)
		}
	}
}

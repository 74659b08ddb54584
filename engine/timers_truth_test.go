package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
)

// truth is what waits, by the answers that the store gave: put, cancelled, moved, brought back. What is due was delivered,
// since after every step the store has done all it can.
type truth struct {
	waiting map[uint64]wait
	topics  map[string]int // generation: a topic that was deleted and made again is another one
}

type wait struct {
	due   int64
	topic string
	gen   int
}

func newTruth() *truth { return &truth{map[uint64]wait{}, map[string]int{}} }

// follow plays a step and keeps the truth.
func (tr *truth) follow(t testing.TB, p *played, st scriptStep) {
	t.Helper()
	var before engine.Answer
	known := st.ref < len(p.answers) && st.kind != "put" && st.kind != "level"
	if known {
		before = p.answers[st.ref]
	}
	p.step(t, st)
	switch st.kind {
	case "put", "level":
		a := p.answers[len(p.answers)-1]
		tr.waiting[a.ID] = wait{a.DueMs, st.topic, tr.topics[st.topic]}
	case "cancel":
		if known {
			delete(tr.waiting, before.ID)
		}
	case "move", "fire", "undo":
		if known && p.answers[st.ref].ID != before.ID {
			old, ok := tr.waiting[before.ID]
			if a := p.answers[st.ref]; ok || st.kind == "undo" {
				if !ok {
					old = tr.cancelled(t, p, a)
				}
				delete(tr.waiting, before.ID)
				tr.waiting[a.ID] = wait{a.DueMs, old.topic, old.gen}
			}
		}
	case "delete":
		tr.topics[st.topic]++
	}
	switch st.kind {
	case "pass", "step", "fire", "reopen", "kill", "traffic":
		for id, w := range tr.waiting {
			if w.due <= p.s.Clock.Wall() {
				delete(tr.waiting, id)
			}
		}
	}
}

// cancelled finds the topic of a message that was brought back: its own, which may be gone.
func (tr *truth) cancelled(t testing.TB, p *played, a engine.Answer) wait {
	infos, _ := p.s.Topics()
	for _, info := range infos {
		if info.ID == a.Topic {
			return wait{topic: info.Name, gen: tr.topics[info.Name]}
		}
	}
	return wait{topic: "", gen: -1}
}

// holds compares every count that the store has with the truth.
func (tr *truth) holds(s *enginetest.Store) error {
	if got := s.Stats().Pending; got != int64(len(tr.waiting)) {
		return fmt.Errorf("%d messages wait, the truth is %d", got, len(tr.waiting))
	}
	perTopic := map[string]int64{}
	var all []int64
	for _, w := range tr.waiting {
		if all = append(all, w.due); w.gen == tr.topics[w.topic] {
			perTopic[w.topic]++
		}
	}
	infos, _ := s.Topics()
	for _, info := range infos {
		if info.Pending != perTopic[info.Name] {
			return fmt.Errorf("%d messages wait for topic %s, the truth is %d", info.Pending, info.Name, perTopic[info.Name])
		}
		delete(perTopic, info.Name)
	}
	for topic, n := range perTopic {
		if n > 0 {
			return fmt.Errorf("%d messages wait for topic %s, which there is not", n, topic)
		}
	}
	now := s.Clock.Wall()
	begin := now / dayMillis * dayMillis
	for _, c := range [][3]int64{
		{begin, begin + 20*dayMillis, hourMillis}, {begin, begin + 500*dayMillis, dayMillis},
		{now / 1000 * 1000, now/1000*1000 + 7200_000, 1000}, // by a scan
	} {
		h, err := s.Horizon("", c[0], c[1], c[2])
		if want := dues(all, c[0], c[1], c[2]); err != nil || h.ScannedTo != c[1] || !slices.Equal(h.Counts, want) {
			return fmt.Errorf("horizon from %d in %d ms: %v, the truth is %v: %v", c[0], c[2], h.Counts, want, err)
		}
	}
	return nil
}

// lists compares a whole listing, and a horizon of each topic, with the truth.
func (tr *truth) lists(t testing.TB, s *enginetest.Store) error {
	count := 0
	for _, w := range listAll(t, s, engine.Filter{}, 50) {
		known, ok := tr.waiting[w.Handle.ID]
		if !ok || known.due != w.DueMs {
			return fmt.Errorf("listed is %+v, the truth is %+v", w, known)
		}
		if gone := known.gen != tr.topics[known.topic]; gone && w.Topic != "" || !gone && w.Topic != known.topic {
			return fmt.Errorf("message %d is listed for topic %q, the truth is %+v", w.Handle.ID, w.Topic, known)
		}
		count++
	}
	if count != len(tr.waiting) {
		return fmt.Errorf("%d messages are listed, the truth is %d", count, len(tr.waiting))
	}
	infos, _ := s.Topics()
	for _, info := range infos {
		h, err := s.Horizon(info.Name, 0, yearEndMs+1, yearEndMs+1)
		if err != nil || h.Counts[0] != info.Pending {
			return fmt.Errorf("a scan counts %v for topic %s, %d wait: %v", h.Counts, info.Name, info.Pending, err)
		}
	}
	return nil
}

// After any history every count is the truth: in all, per topic, per hour and day by counters, per second and for a topic by
// a scan. Topics come and go, the log's head is rolled and deleted, the clock steps, the store is down, killed and rebuilt.
func TestTimerCountsAreTheTruth(t *testing.T) {
	seeds := enginetest.ReadVolume(t).Pick(20, 300, 5000)
	enginetest.Seeds(t, 1, seeds, func(seed uint64) error {
		r := rand.New(rand.NewPCG(seed, 6))
		o := timers()
		o.Lanes, o.Near = 1+r.IntN(3), []time.Duration{0, time.Hour, 7 * day}[r.IntN(3)]
		o.SecondsSlots = []int{2, 64, 4096, 16384}[r.IntN(4)]
		o.SecondsEntries, o.HoursEntries, o.LooseEntries = 1+r.IntN(16), 1+r.IntN(16), 1+r.IntN(16)
		if r.IntN(2) == 0 {
			o.Retention, o.RollAfter = time.Second, time.Minute
		}
		sc := randomScript(r, 200, true)
		for i := range sc {
			switch n := r.IntN(30); {
			case n < 2:
				sc[i] = scriptStep{kind: "traffic"}
			case n == 2:
				sc[i] = scriptStep{kind: "delete", topic: fmt.Sprintf("t%d", r.IntN(5))}
			}
		}
		s := enginetest.Open(t, enginetest.Config{Options: o})
		p, tr := &played{s: s}, newTruth()
		for i, st := range sc {
			tr.follow(t, p, st)
			err := tr.holds(s)
			if err == nil && i%20 == 19 {
				err = tr.lists(t, s)
			}
			if err != nil {
				return fmt.Errorf("step %d, %+v: %w", i, st, err)
			}
		}
		return nil
	})
}

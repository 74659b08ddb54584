package enginetest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/message"
)

// listing is a walk through the waiting messages, page by page, while the store goes on.
type listing struct {
	token  string
	last   msg          // key of the last message listed
	begun  map[int]bool // what waited when it began
	listed map[int]bool
}

// opList takes the next page of the listing under way, or begins one. At its end, what waited all the time must have been
// listed.
func opList(s *Sim, a, b int) {
	if s.list == nil {
		s.list = &listing{begun: s.Model.waitingNow(), listed: map[int]bool{}}
	}
	l := s.list
	page, err := s.e.Pending(engine.Filter{}, l.token, 1+(a+b)%9)
	if err != nil {
		s.readFailed("list", err)
		return
	}
	s.cover["page"]++
	for i := range page.Messages {
		s.Model.listed(l, &page.Messages[i])
	}
	if l.token = page.Next; l.token != "" {
		return
	}
	s.list = nil
	if len(s.Model.journal) > 0 {
		return // what waits now is not known
	}
	s.cover["listing"]++
	now := s.Model.waitingNow()
	for n := range l.begun {
		if now[n] && !l.listed[n] {
			x := &s.Model.msgs[n]
			s.Model.violated("m%d (id %d, due %d) waited all the time and was not listed", n, x.id, x.due)
		}
	}
}

// readFailed notes an error of a read, unless faults are injected.
func (s *Sim) readFailed(what string, err error) {
	if !s.Failing {
		s.failed(what, err)
	}
}

// waitingNow is the set of messages that wait.
func (m *Model) waitingNow() map[int]bool {
	set := map[int]bool{}
	for i := range m.msgs {
		if m.msgs[i].status == waiting {
			set[i] = true
		}
	}
	return set
}

// listed judges a row: the message waits, as far as was released, and comes after the one before.
func (m *Model) listed(l *listing, w *engine.Waiting) {
	n, ok := m.byID[w.Handle.ID]
	x := &msg{}
	if ok {
		x = &m.msgs[n]
	}
	if x.status != waiting && x.status != orphaned {
		m.violated("message %d (m%d) is listed as waiting, it is %v", w.Handle.ID, n, x.status)
		return
	}
	if w.DueMs != x.due || w.Handle.Due != x.due || w.Handle.Topic != x.topic || w.Queue != x.queue || w.Handle.Lane != x.lane {
		m.violated("m%d is listed as %+v, it is %+v", n, *w, *x)
	}
	if x.status == waiting && w.Topic != x.name && !m.deleting(x.name) {
		m.violated("m%d is listed in topic %q, it is in %q", n, w.Topic, x.name)
	}
	if !l.last.less(x) {
		m.violated("m%d (due %d, id %d) is listed after (%d, %d)", n, x.due, x.id, l.last.due, l.last.id)
	}
	l.last = *x
	l.listed[n] = true
}

// opCount settles, and compares the counts by hour, by topic and second, and a filtered listing, with the truth.
func opCount(s *Sim, a, b int) {
	s.Settle()
	if s.stuck() || len(s.Model.journal) > 0 {
		return
	}
	const hour = 3600_000
	from := s.Clock.Wall() / hour * hour
	s.horizon("", from, from+int64(1+a)*hour, int64(1+b%24)*hour)
	s.horizon(topicName(a), s.Clock.Wall(), s.Clock.Wall()+int64(1+b)*1000, 1000)
	s.filtered(topicName(b), tags[a%len(tags)])
}

// horizon compares Horizon with the truth.
func (s *Sim) horizon(topic string, from, to, step int64) {
	t := s.Model.topics[topic]
	if topic != "" && t == nil || s.Model.orphans() {
		return // an orphan is counted until it is dropped, and the model does not hear of that
	}
	to -= (to - from) % step
	if to <= from {
		return
	}
	h, err := s.e.Horizon(topic, from, to, step)
	if err != nil {
		s.readFailed("horizon", err)
		return
	}
	s.cover["horizon"]++
	want := make([]int64, len(h.Counts))
	for i := range s.Model.msgs {
		x := &s.Model.msgs[i]
		if x.status == waiting && (t == nil || x.topic == t.id) && x.due >= from && x.due < min(to, h.ScannedTo) {
			want[(x.due-from)/step]++
		}
	}
	for i := range want {
		if next := from + int64(i+1)*step; next <= h.ScannedTo && want[i] != h.Counts[i] {
			s.Model.violated("horizon of topic %q from %d: %d wait in step %d of %d ms, it says %d", topic, from, want[i], i, step, h.Counts[i])
			return
		}
	}
}

func (m *Model) orphans() bool {
	return slices.ContainsFunc(m.msgs, func(x msg) bool { return x.status == orphaned })
}

// filtered compares a listing of one topic and tag with the truth.
func (s *Sim) filtered(topic, tag string) {
	t := s.Model.topics[topic]
	if t == nil {
		return
	}
	f := engine.Filter{Topic: topic, Tags: []int32{message.TagHash(tag)}}
	want := map[uint64]bool{}
	for i := range s.Model.msgs {
		if x := &s.Model.msgs[i]; x.status == waiting && x.topic == t.id && tags[x.content%len(tags)] == tag {
			want[x.id] = true
		}
	}
	got := map[uint64]bool{}
	for token, rounds := "", 0; rounds < 1000; rounds++ {
		page, err := s.e.Pending(f, token, 7)
		if err != nil {
			s.readFailed("list", err)
			return
		}
		for _, w := range page.Messages {
			got[w.Handle.ID] = true
		}
		if token = page.Next; token == "" {
			break
		}
	}
	if !maps.Equal(got, want) {
		s.Model.violated("waiting in topic %s with tag %q are %v, listed are %v", topic, tag, sorted(want), sorted(got))
	}
}

func sorted(set map[uint64]bool) string {
	return fmt.Sprint(slices.SortedFunc(maps.Keys(set), cmp.Compare[uint64]))
}

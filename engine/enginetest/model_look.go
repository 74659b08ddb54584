package enginetest

import (
	"errors"
	"math"
	"slices"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/message"
)

// look pulls what is new in a queue.
func (m *Model) look(e *engine.Engine, ref engine.QueueRef, w *window) {
	t := m.topics[m.names[ref.Topic]]
	if t == nil || t.id != ref.Topic {
		return
	}
	q := m.queue(ref.Topic, ref.Queue)
	m.read(e, ref, int64(len(q.units)), w)
}

// read pulls a queue from an offset to its end, and compares or learns each message.
func (m *Model) read(e *engine.Engine, ref engine.QueueRef, from int64, w *window) {
	name, q := m.names[ref.Topic], m.queue(ref.Topic, ref.Queue)
	var p engine.Pulled
	for faults := 0; m.err == nil && !m.deleting(name); {
		err := e.Pull(engine.PullRequest{
			Topic: name, Queue: int(ref.Queue), Offset: from, MaxCount: 32, MaxBytes: 1 << 20,
		}, &p)
		if errors.Is(err, engine.ErrTrimmed) && from < p.Min {
			m.trimmed(ref, q, p.Min, w)
			from = p.Min
			continue
		}
		if m.Faulty && (err != nil || unreadable(&p)) {
			if faults++; faults == 2 {
				m.blind = true
				return
			}
			continue
		}
		if err != nil {
			m.violated("pull of %s/%d from %d: %v", name, ref.Queue, from, err)
			return
		}
		m.trimmed(ref, q, p.Min, w)
		for i := range p.Messages {
			got := &p.Messages[i]
			if got.Offset != from || got.Err != nil {
				m.violated("%s/%d: asked for offset %d, got %d: %v", name, ref.Queue, from, got.Offset, got.Err)
				return
			}
			m.saw(ref, q, got, w)
			from++
		}
		if p.Next != from {
			m.violated("%s/%d: %d messages up to %d, the next is said to be %d", name, ref.Queue, len(p.Messages), from, p.Next)
		}
		if from >= p.Max {
			break
		}
		if len(p.Messages) == 0 {
			m.violated("%s/%d: nothing at offset %d, the queue has [%d, %d)", name, ref.Queue, from, p.Min, p.Max)
		}
	}
	if n := int64(len(q.units)); m.err == nil && from < n && !m.deleting(name) {
		m.violated("%s/%d ends at %d, it had %d", name, ref.Queue, from, n)
	}
}

func unreadable(p *engine.Pulled) bool {
	return slices.ContainsFunc(p.Messages, func(m engine.Message) bool { return m.Err != nil })
}

// deleting says whether a topic was deleted by a call that is not released yet: readers may be told.
func (m *Model) deleting(name string) bool {
	for i := range m.journal {
		if e := &m.journal[i]; e.deletes() {
			if gone := e.call.Command.(*engine.DeleteTopic).Topic; gone == name || stageName(gone) == name {
				return true
			}
		}
	}
	return false
}

func (e *entry) deletes() bool {
	_, ok := e.call.Command.(*engine.DeleteTopic)
	return ok
}

// trimmed learns that a queue begins later; it may when the retention of what went is over.
func (m *Model) trimmed(ref engine.QueueRef, q *queue, low int64, w *window) {
	if low < q.min {
		m.violated("%s/%d begins at %d, it began at %d", m.names[ref.Topic], ref.Queue, low, q.min)
		return
	}
	for int64(len(q.units)) < low { // became visible and was trimmed since the last look
		n, known := q.want[int64(len(q.units))]
		if !known {
			n = -1
		}
		delete(q.want, int64(len(q.units)))
		q.units = append(q.units, unit{n, w.run})
	}
	for ; q.min < low; q.min++ {
		u := q.units[q.min]
		if age := m.running() - u.run; u.run != math.MaxInt64 && age < m.opts.Retention.Milliseconds() {
			m.violated("%s/%d offset %d was deleted %d ms after it became visible", m.names[ref.Topic], ref.Queue, q.min, age)
		}
	}
}

// saw learns or compares a message at an offset.
func (m *Model) saw(ref engine.QueueRef, q *queue, got *engine.Message, w *window) {
	name := m.names[ref.Topic]
	content, err := contentOf(&got.Message, m.sizeOf)
	if err != nil {
		m.violated("%s/%d offset %d: %v", name, ref.Queue, got.Offset, err)
		return
	}
	if got.Offset < int64(len(q.units)) {
		if u := q.units[got.Offset]; u.msg >= 0 && m.msgs[u.msg].content != content {
			m.violated("%s/%d offset %d was m%d, it is m%d now", name, ref.Queue, got.Offset, m.msgs[u.msg].content, content)
		}
		return
	}
	var n int
	if got.ID == 0 {
		want, any := q.want[got.Offset]
		if !any {
			want, any = m.sawFree(ref, content, w)
		}
		if !any {
			m.violated("%s/%d offset %d: m%d became visible and was not answered to be there", name, ref.Queue, got.Offset, content)
			return
		}
		n = want
		delete(q.want, got.Offset)
	} else {
		var any bool
		if n, any = m.byID[got.ID]; !any {
			m.violated("%s/%d offset %d: m%d became visible with id %d, which was not answered", name, ref.Queue, got.Offset, content, got.ID)
			return
		}
		if other, any := q.want[got.Offset]; any {
			m.violated("%s/%d offset %d: m%d is there, m%d was answered to be", name, ref.Queue, got.Offset, n, other)
		}
		if m.msgs[n].status == kept {
			m.sawKept(ref, q, n)
		} else {
			m.delivered(ref, q, n, &got.Message, w)
		}
	}
	x := &m.msgs[n]
	if x.content != content || got.Topic != x.topic || x.topic != m.home(ref.Topic) {
		m.violated("%s/%d offset %d: content m%d of topic %d, expected m%d of topic %d", name, ref.Queue, got.Offset,
			content, got.Topic, x.content, x.topic)
	}
	x.seen, x.at = true, got.Offset
	q.units = append(q.units, unit{n, w.run})
}

// delivered judges a delivery: once, not early, from the right queue, nothing overtaken in its queue.
func (m *Model) delivered(ref engine.QueueRef, q *queue, n int, got *message.Message, w *window) {
	x := &m.msgs[n]
	if x.status != waiting {
		m.violated("m%d is delivered to %s/%d offset %d, it is %v", n, x.name, ref.Queue, got.QueueOffset, x.status)
	}
	early := true
	for _, t := range w.walls {
		early = early && (t.pos <= x.pos || t.wall < x.asked)
	}
	if early {
		m.violated("m%d is early: due %d, asked for at %d, the ticks were %v", n, x.asked, x.pos, w.walls)
	}
	fits := func(count uint32) bool { return ref.Queue == x.queue%count }
	if t := m.topics[x.name]; t != nil && ref.Queue != x.queue && !fits(uint32(t.queues)) && !slices.ContainsFunc(w.counts, fits) {
		m.violated("m%d, put in queue %d of %d, is in %d", n, x.queue, t.queues, ref.Queue)
	}
	m.stagedRight(ref, n, w)
	x.status = visible
	if _, ok := m.origins[ref.Topic]; ok {
		x.status = staged
	}
	x.late = got.Flags&message.Late != 0
	w.fired = append(w.fired, n)
	if i := len(q.units) - 1; i >= 0 && q.units[i].msg >= 0 && w.same(i, ref) {
		m.judgeOrder(n, q.units[i].msg, w)
	}
	w.last = lastSeen{ref, int64(len(q.units))}
}

// same says that unit i of the queue was seen in this window, as a delivery.
func (w *window) same(i int, ref engine.QueueRef) bool { return w.last == lastSeen{ref, int64(i)} }

// judgeOrder: b came directly before n in its queue, in the same window.
func (m *Model) judgeOrder(n, b int, w *window) {
	x, y := &m.msgs[n], &m.msgs[b]
	if x.lane == y.lane && x.pos <= w.firstTick && x.less(y) {
		m.violated("m%d (due %d, id %d) comes after m%d (due %d, id %d) in its queue", n, x.due, x.id, b, y.due, y.id)
	}
}

// settle judges the window as a whole, when its queues were looked at.
func (m *Model) settle(w *window) {
	for _, n := range w.owed {
		if x := &m.msgs[n]; !x.status.fired() && x.status != orphaned && !m.deleting(x.name) {
			m.violated("m%d was answered as delivered, it is %v", n, x.status)
		}
	}
	for _, n := range w.fired {
		m.overtakes(n, w)
	}
	m.settleStages(w)
	m.overtook = keepIf(m.overtook, func(p [2]int) bool {
		a := &m.msgs[p[0]]
		if a.status.fired() && !a.late && m.err == nil {
			m.violated("m%d overtook m%d, which was stored before it at the same level", p[1], p[0])
		}
		return a.status == waiting
	})
	if slices.ContainsFunc(m.journal, func(e entry) bool { return e.deletes() }) {
		// Readers are told already. If a crash undoes it, what was hidden is seen with these ticks.
		m.carry = window{walls: w.walls, firstTick: w.firstTick, run: w.run, counts: w.counts, staging: w.staging}
	}
}

func keepIf(pairs [][2]int, keep func([2]int) bool) [][2]int {
	kept := pairs[:0]
	for _, p := range pairs {
		if keep(p) {
			kept = append(kept, p)
		}
	}
	return kept
}

// overtakes: a delivery is the smallest (due, id) that waits in its topic and lane, and of its level the first stored.
func (m *Model) overtakes(n int, w *window) {
	x := &m.msgs[n]
	for i := range m.msgs {
		o := &m.msgs[i]
		if o.status != waiting || o.topic != x.topic || o.lane != x.lane || o.pos > w.firstTick {
			continue
		}
		if o.less(x) {
			m.violated("m%d (due %d, id %d) is delivered before m%d (due %d, id %d) of its topic", n, x.due, x.id, i, o.due, o.id)
			return
		}
		if x.fifo && x.level == o.level && o.id < x.id {
			m.overtook = append(m.overtook, [2]int{i, n})
		}
	}
}

// Verify reads everything there is to read and compares it: each queue from its beginning, the verdict on each message,
// committed offsets, topics, groups, counts. All answers must have been released, and all that the engine did too.
func (m *Model) Verify(e *engine.Engine) {
	if len(m.journal) > 0 {
		m.violated("verify: %d answers are not released", len(m.journal))
		return
	}
	w := newWindow()
	m.verify(e, &w)
}

func (m *Model) verify(e *engine.Engine, w *window) {
	m.verifyTopics(e, w)
	if m.blind {
		m.carry = *w
		return
	}
	m.settle(w)
	m.verifyFates(e)
	m.verifyCounts(e)
	m.verifyStages(e)
	for ref, q := range m.queues {
		if len(q.want) > 0 {
			m.violated("%s/%d ends at %d, answered were %v", m.names[ref.Topic], ref.Queue, len(q.units), q.want)
		}
	}
	for key, want := range m.commits {
		got, ok, _ := e.Committed(key.group, m.names[key.topic], key.queue)
		if !ok || got != want {
			m.violated("group %s has committed %d in %s/%d, the store says %d, %v", key.group, want, m.names[key.topic], key.queue, got, ok)
		}
	}
	groups, _ := e.Groups()
	for _, g := range groups {
		if attrs, ok := m.groups[g.Name]; !ok || attrs != g.Attrs {
			m.violated("there is a group %q", g.Name)
		}
	}
	if len(groups) != len(m.groups) {
		m.violated("there are groups %v, defined were %v", groups, m.groups)
	}
}

// verifyTopics reads every queue of every topic.
func (m *Model) verifyTopics(e *engine.Engine, w *window) {
	topics, _ := e.Topics()
	for i := range topics {
		info := &topics[i]
		t := m.topics[info.Name]
		if t == nil || t.id != info.ID || t.attrs != info.Attrs || t.paused != info.Paused || t.staged != info.Staged || len(info.Queues) != t.most {
			m.violated("there is a topic %+v, the model has %+v", *info, t)
			return
		}
		for n, queue := range info.Queues {
			ref := engine.QueueRef{Topic: info.ID, Queue: uint32(n)}
			q := m.queue(info.ID, uint32(n))
			m.trimmed(ref, q, queue.Min, w)
			m.read(e, ref, q.min, w)
			if m.err == nil && (queue.Visible != int64(len(q.units)) || queue.Next < queue.Visible) {
				m.violated("%s/%d: %+v, %d were seen", info.Name, n, queue, len(q.units))
			}
		}
	}
	if len(topics) != len(m.topics) {
		m.violated("there are topics %v, the model has %v", topics, m.topics)
	}
}

// verifyFates asks for the verdict on every message that ever waited.
func (m *Model) verifyFates(e *engine.Engine) {
	for i := range m.msgs {
		x := &m.msgs[i]
		if x.id == 0 || x.status == unborn || m.err != nil {
			continue
		}
		got, _, err := e.Verdict(x.handle)
		if err != nil && m.Faulty {
			m.blind = true
			return
		}
		if err != nil {
			m.violated("verdict on m%d: %v", i, err)
			return
		}
		ok := false
		switch x.status {
		case waiting:
			ok = got == engine.Scheduled
		case visible, staged, kept, decided:
			ok = got == engine.Delivered
		case cancelled:
			ok = got == engine.AlreadyCancelled
		case superseded:
			ok = got == engine.Superseded
		case orphaned:
			ok = got == engine.Scheduled || got == engine.Delivered
		}
		if !ok && !(got == engine.NotFound && m.forgettable(x)) {
			m.violated("m%d (id %d, due %d) is %v, the verdict is %v", i, x.id, x.due, x.status, outcomeNames[got])
		}
	}
}

// forgettable: after a rebuild, an id older than the log's head may be unknown. Only a model that was told so allows it.
func (m *Model) forgettable(x *msg) bool {
	return m.Forgets && (x.status.fired() || x.status == cancelled || x.status == superseded)
}

// verifyCounts compares the counts of waiting messages.
func (m *Model) verifyCounts(e *engine.Engine) {
	pending := map[uint32]int64{}
	for i := range m.msgs {
		if m.msgs[i].status == waiting {
			pending[m.msgs[i].topic]++
		}
	}
	topics, _ := e.Topics()
	for _, t := range topics {
		if t.Pending != pending[t.ID] {
			m.violated("topic %s says %d wait, it is %d", t.Name, t.Pending, pending[t.ID])
		}
	}
}

func (m *Model) sizeOf(n int) (int, bool) {
	if n >= len(m.msgs) {
		return 0, false
	}
	return m.msgs[n].size, true
}

// pullPiece pulls a piece of a queue, with limits, and compares it with what was seen.
func (m *Model) pullPiece(e *engine.Engine, name string, queueNo, a, b int) {
	t := m.topics[name]
	if t == nil || m.Faulty || m.deleting(name) {
		return
	}
	q := m.queues[engine.QueueRef{Topic: t.id, Queue: uint32(queueNo)}]
	if q == nil || int64(len(q.units)) == q.min {
		return
	}
	from := q.min + int64(a)%(int64(len(q.units))-q.min)
	req := engine.PullRequest{Topic: name, Queue: queueNo, Offset: from, MaxCount: 1 + b%7, MaxBytes: 1 + b*40}
	if a%3 == 0 {
		req.Tags = []int32{message.TagHash("red")}
	}
	var p engine.Pulled
	err := e.Pull(req, &p)
	if errors.Is(err, engine.ErrTrimmed) && p.Min > from {
		return // a trim was released meanwhile; the next look judges it
	}
	if err != nil {
		m.violated("pull %+v: %v", req, err)
		return
	}
	if len(p.Messages) > req.MaxCount || p.Next < from || p.Next > p.Max || p.Max < int64(len(q.units)) {
		m.violated("pull %+v: %d messages, next %d, queue [%d, %d), seen were %d", req, len(p.Messages), p.Next, p.Min, p.Max, len(q.units))
		return
	}
	i := 0
	bytes := 0
	for at := from; at < p.Next && at < int64(len(q.units)); at++ {
		n := q.units[at].msg
		if n < 0 || req.Tags != nil && tags[m.msgs[n].content%len(tags)] != "red" {
			continue
		}
		if i == len(p.Messages) || p.Messages[i].Offset != at || p.Messages[i].Err != nil {
			m.violated("pull %+v: offset %d (m%d) is missing, next is %d", req, at, n, p.Next)
			return
		}
		content, err := contentOf(&p.Messages[i].Message, m.sizeOf)
		if err != nil || content != m.msgs[n].content {
			m.violated("pull %+v: offset %d is m%d, it was m%d: %v", req, at, content, m.msgs[n].content, err)
			return
		}
		bytes += len(p.Messages[i].Body)
		i++
	}
	if i > 1 && bytes > req.MaxBytes {
		m.violated("pull %+v: %d bytes in %d messages", req, bytes, i)
	}
	if p.Next == from {
		m.violated("pull %+v does not move on from offset %d of [%d, %d)", req, from, p.Min, p.Max)
	}
}

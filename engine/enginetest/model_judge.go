package enginetest

import (
	"errors"
	"fmt"
	"math"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/engine/record"
)

// judge holds an answer against what is known, and takes it for true.
func (m *Model) judge(e *entry, w *window) {
	switch c := e.call.Command.(type) {
	case *engine.Put:
		m.judgePut(e, c, w)
	case *engine.Cancel:
		m.judgeFate(e, engine.Cancelled, w)
	case *engine.Move:
		m.judgeFate(e, engine.Moved, w)
	case *engine.Undo:
		m.judgeFate(e, engine.Restored, w)
	case *engine.CommitOffset:
		m.judgeCommit(e, c)
	case *engine.DefineTopic:
		m.judgeDefine(e, c, w)
	case *engine.DeleteTopic:
		m.judgeDelete(e, c)
	case *engine.PauseTopic:
		m.judgePause(e, c)
	case *engine.StageTopic:
		m.judgeStage(e, c, w)
	case *engine.Settle:
		m.judgeSettle(e, c, w)
	case *engine.DefineGroup:
		m.judgeGroup(e, c)
	case *engine.DeleteGroup:
		m.judgeGone(e, c)
	default:
		m.violated("the model does not know %T", c)
	}
}

// refused reports whether the answer is a refusal, and whether one of the reasons is true.
func (m *Model) refused(e *entry, reasons ...error) bool {
	if e.ans.Outcome != engine.Refused {
		if len(reasons) > 0 {
			m.violated("%s was answered %s, it had to be refused: %v", describe(e), outcomeNames[e.ans.Outcome], reasons)
		}
		return false
	}
	if m.Lenient && errors.Is(e.ans.Err, engine.ErrDiskFull) || errors.Is(e.ans.Err, engine.ErrBacklog) {
		return true // Finish sees to it that this does not last
	}
	for _, r := range reasons {
		if errors.Is(e.ans.Err, r) {
			return true
		}
	}
	m.violated("%s was refused: %v; true reasons are %v", describe(e), e.ans.Err, reasons)
	return true
}

// describe prints a call for a violation.
func describe(e *entry) string {
	switch c := e.call.Command.(type) {
	case nil:
		return fmt.Sprintf("a tick at wall %d", e.wall)
	case *engine.Put:
		return fmt.Sprintf("put m%d in %s/%d at level %d, due %d, delay %d, wall %d", e.call.New, c.Topic, c.Queue, c.Level,
			c.DueMs, c.DelayMs, e.wall)
	case *engine.Cancel:
		return fmt.Sprintf("cancel of m%d", e.call.Target)
	case *engine.Move:
		return fmt.Sprintf("move of m%d to m%d at %d, wall %d", e.call.Target, e.call.New, c.DueMs, e.wall)
	case *engine.Undo:
		return fmt.Sprintf("undo of the cancel of m%d, by m%d, wall %d", e.call.Target, e.call.New, e.wall)
	case *engine.Settle:
		return describeSettle(e, c)
	default:
		return fmt.Sprintf("%T%+v", c, c)
	}
}

func (m *Model) judgePut(e *entry, p *engine.Put, w *window) {
	if len(p.IdempotencyKey) > 0 && errors.Is(e.ans.Err, engine.ErrKey) {
		return // it has to be looked for again, which no host need do
	}
	if m.refused(e, m.putFaults(e, p)...) {
		return
	}
	a := &e.ans
	m.autoTopic(e, p.Topic)
	if c, ok := p.Then.(*engine.CommitOffset); ok {
		m.judgeThen(e, c)
	}
	if len(p.IdempotencyKey) > 0 {
		m.once[onceKey{a.Topic, string(p.IdempotencyKey)}] = put{e.wall, e.run}
	}
	t := m.topics[p.Topic]
	if a.Topic != t.id || int(a.Queue) >= t.queues || p.Queue != engine.AnyQueue && int(a.Queue) != p.Queue {
		m.violated("%s went to topic %d queue %d; the topic is %+v", describe(e), a.Topic, a.Queue, *t)
	}
	level := min(p.Level, len(m.levels))
	if a.Level != level || a.Clamped != (p.Level > level) {
		m.violated("%s: level %d, clamped %v; there are %d", describe(e), a.Level, a.Clamped, len(m.levels))
	}
	x := &m.msgs[e.call.New]
	x.name, x.topic, x.queue, x.pos = p.Topic, a.Topic, a.Queue, e.pos
	x.asked = m.dueOf(e, p)
	if level == 0 && x.asked <= e.wall {
		if !t.staged {
			m.storedAtOnce(e, x, w)
			return
		}
		x.asked = e.wall
	}
	m.scheduled(e, x)
	if level == 0 || m.levels[level-1] >= m.levelLimit() { // a time of its own
		if a.DueMs != x.asked {
			m.violated("%s is due at %d, asked for was %d", describe(e), a.DueMs, x.asked)
		}
		return
	}
	x.level = m.levels[level-1]
	tail, any := m.tails[x.level]
	x.fifo = !any || x.asked >= tail-1000
	if a.DueMs < x.asked || a.DueMs > x.asked && (a.DueMs > x.asked+1000 || a.DueMs > tail) {
		m.violated("%s is due at %d, asked for was %d; the level's tail is at most %d", describe(e), a.DueMs, x.asked, tail)
	}
	m.tails[x.level] = max(tail, a.DueMs)
}

// storedAtOnce learns of a message that is visible.
func (m *Model) storedAtOnce(e *entry, x *msg, w *window) {
	a := &e.ans
	if a.Outcome != engine.Stored || a.Offset < 0 {
		m.violated("%s was answered %s, offset %d", describe(e), outcomeNames[a.Outcome], a.Offset)
		return
	}
	x.status = visible
	q := m.queue(a.Topic, a.Queue)
	if other, taken := q.want[a.Offset]; taken || a.Offset < int64(len(q.units)) {
		m.violated("%s got offset %d, which m%d has", describe(e), a.Offset, other)
	}
	q.want[a.Offset] = e.call.New
	w.run = min(w.run, e.run)
}

// dueOf is the due time that a put asks for, ms.
func (m *Model) dueOf(e *entry, p *engine.Put) int64 {
	switch {
	case p.Level > 0:
		return e.wall + m.levels[min(p.Level, len(m.levels))-1]
	case p.DelayMs > 0 && p.DelayMs > math.MaxInt64-e.wall:
		return math.MaxInt64
	case p.DelayMs > 0:
		return e.wall + p.DelayMs
	}
	return p.DueMs
}

// putFaults lists why a put has to be refused.
func (m *Model) putFaults(e *entry, p *engine.Put) (faults []error) {
	if p.Level < 0 {
		faults = append(faults, engine.ErrLevel)
	}
	if p.DelayMs < 0 || p.Level != 0 && p.DueMs != 0 || p.Level != 0 && p.DelayMs != 0 || p.DueMs != 0 && p.DelayMs != 0 {
		faults = append(faults, engine.ErrDue)
	}
	if p.Level == 0 {
		faults = append(faults, m.dueFaults(e, m.dueOf(e, p))...)
	}
	queues := m.opts.Queues
	t := m.topics[p.Topic]
	switch {
	case message.ValidTopic(p.Topic) != nil:
		faults = append(faults, engine.ErrTopicName)
	case t != nil:
		queues = t.queues
	case m.opts.NoAutoTopics:
		faults = append(faults, engine.ErrNoTopic)
	}
	if p.Queue < engine.AnyQueue || p.Queue >= queues {
		faults = append(faults, engine.ErrQueue)
	}
	if len(p.Body) > message.MaxBody || len(p.Key) > message.MaxKey || len(p.Tag) > message.MaxTag ||
		len(p.Properties) > message.MaxProperties {
		faults = append(faults, engine.ErrTooLarge)
	}
	if message.CheckProperties(p.Properties) != nil {
		faults = append(faults, engine.ErrProperties, message.ErrProperties)
	}
	if t != nil && (p.Level != 0 || p.DueMs != 0 || p.DelayMs != 0) && m.broadcast(t.id) {
		faults = append(faults, engine.ErrBroadcast)
	}
	return faults
}

// yearEnd is the last millisecond of the year 9999, the last one that a message can be due at.
const yearEnd = 253402300799999

// dueFaults lists why a due time is refused.
func (m *Model) dueFaults(e *entry, due int64) (faults []error) {
	if due < 0 || due > yearEnd {
		faults = append(faults, engine.ErrDue)
	}
	if due > e.wall && due-e.wall > m.opts.MaxDelay.Milliseconds() {
		faults = append(faults, engine.ErrDelay)
	}
	return faults
}

// levelLimit is the delay from which on a level goes the timed way: its messages would have to be rolled.
func (m *Model) levelLimit() int64 {
	roll := m.opts.RollAfter.Milliseconds()
	return roll - min(roll/3, 24*3600*1000)
}

// autoTopic learns of a topic that a put made.
func (m *Model) autoTopic(e *entry, name string) {
	if m.topics[name] == nil {
		m.newTopic(e, name, e.ans.Topic, m.opts.Queues, 0)
	}
}

// newTopic learns of a topic, and of its stage, if it is made with one.
func (m *Model) newTopic(e *entry, name string, id uint32, queues int, attrs uint32) {
	m.addTopic(e, name, id, queues, attrs)
	if m.opts.Stage != nil && m.opts.Stage(name) {
		m.topics[name].staged = true
		m.newStage(e, name)
	}
}

func (m *Model) addTopic(e *entry, name string, id uint32, queues int, attrs uint32) {
	if old, taken := m.names[id]; taken || id < m.nextTop {
		m.violated("%s: topic %q got id %d, which %q had", describe(e), name, id, old)
	}
	m.nextTop = id + 1
	m.names[id] = name
	m.topics[name] = &topic{id: id, queues: queues, most: queues, attrs: attrs}
}

func (m *Model) queue(topic, q uint32) *queue {
	ref := engine.QueueRef{Topic: topic, Queue: q}
	if m.queues[ref] == nil {
		m.queues[ref] = &queue{want: map[int64]int{}}
	}
	return m.queues[ref]
}

// scheduled learns of a message that waits.
func (m *Model) scheduled(e *entry, x *msg) {
	a := &e.ans
	if a.Offset != -1 {
		m.violated("%s waits and has queue offset %d", describe(e), a.Offset)
	}
	if a.ID != m.nextID {
		m.violated("%s got id %d, the next was %d", describe(e), a.ID, m.nextID)
	}
	m.nextID = a.ID + 1
	if a.Outcome != engine.Scheduled && a.Outcome != engine.Moved && a.Outcome != engine.Restored {
		m.violated("%s was answered %v", describe(e), outcomeNames[a.Outcome])
	}
	x.status, x.id, x.due, x.lane, x.handle = waiting, a.ID, a.DueMs, a.Lane, a.Handle()
	m.byID[a.ID] = e.call.New
}

// judgeFate judges the answer to a cancel, a move or an undo.
func (m *Model) judgeFate(e *entry, success engine.Outcome, w *window) {
	if e.call.Target < 0 {
		if e.ans.Outcome != engine.NotFound {
			m.violated("%s, which never was, was answered %s", describe(e), outcomeNames[e.ans.Outcome])
		}
		return
	}
	x := &m.msgs[e.call.Target]
	if e.ans.Outcome == success {
		m.succeeded(e, x, success)
		return
	}
	switch e.ans.Outcome {
	case engine.AlreadyCancelled:
		m.must(e, x, cancelled)
	case engine.Superseded:
		m.must(e, x, superseded)
	case engine.Delivered:
		if x.status == waiting {
			w.owed = append(w.owed, e.call.Target)
		} else if x.status != orphaned {
			if !x.status.fired() {
				m.must(e, x, visible)
			}
		}
	case engine.Refused:
		m.fateRefused(e, x)
	case engine.Scheduled:
		if success == engine.Restored && (x.status == waiting || x.status == orphaned) {
			return // there is no cancel to undo
		}
		fallthrough
	default:
		m.violated("%s was answered %s, it is %v", describe(e), outcomeNames[e.ans.Outcome], x.status)
	}
}

// succeeded takes in a cancel, a move or an undo that was done.
func (m *Model) succeeded(e *entry, x *msg, success engine.Outcome) {
	want := x.status == waiting || x.status == orphaned
	if success == engine.Restored {
		want = x.status == cancelled
	}
	if !want {
		m.violated("%s was answered %s, it is %v", describe(e), outcomeNames[success], x.status)
	}
	if success == engine.Cancelled {
		x.status = cancelled
		return
	}
	asked := x.due
	if c, ok := e.call.Command.(*engine.Move); ok {
		asked = c.DueMs
		if faults := m.dueFaults(e, asked); faults != nil {
			m.violated("%s was done, it had to be refused: %v", describe(e), faults)
		}
	} else if asked <= e.wall {
		m.violated("%s was done, it was due at %d", describe(e), asked)
	}
	x.status = superseded
	if m.broadcast(x.topic) && asked > e.wall {
		m.violated("%s was done, a broadcast group reads the topic", describe(e))
	}
	n := &m.msgs[e.call.New]
	*n = msg{content: x.content, size: x.size, name: x.name, topic: x.topic, queue: x.queue, pos: e.pos, asked: asked}
	m.scheduled(e, n)
	if t := m.topics[n.name]; t == nil || t.id != n.topic {
		n.status = orphaned
	}
	if n.due != n.asked && n.due != max(n.asked, e.wall) || e.ans.Topic != n.topic || e.ans.Queue != n.queue {
		m.violated("%s is due at %d, asked for was %d; topic %d queue %d, it was %d and %d", describe(e), n.due, n.asked,
			e.ans.Topic, e.ans.Queue, n.topic, n.queue)
	}
}

func (m *Model) must(e *entry, x *msg, want status) {
	if x.status != want {
		m.violated("%s was answered %s, it is %v", describe(e), outcomeNames[e.ans.Outcome], x.status)
	}
}

// fateRefused judges a refusal of a move or an undo.
func (m *Model) fateRefused(e *entry, x *msg) {
	err := e.ans.Err
	if m.Lenient && errors.Is(err, engine.ErrDiskFull) || errors.Is(err, engine.ErrBacklog) {
		return
	}
	switch c := e.call.Command.(type) {
	case *engine.Move:
		for _, f := range m.dueFaults(e, c.DueMs) {
			if errors.Is(err, f) {
				return
			}
		}
	case *engine.Undo:
		if errors.Is(err, engine.ErrTooLate) && x.due <= e.wall || errors.Is(err, engine.ErrBroadcast) && m.broadcast(x.topic) {
			return
		}
	}
	m.violated("%s was refused: %v", describe(e), err)
}

func (m *Model) judgeCommit(e *entry, c *engine.CommitOffset) {
	var faults []error
	t := m.topics[c.Topic]
	switch {
	case t == nil:
		faults = append(faults, engine.ErrNoTopic)
	case c.Queue < 0 || c.Queue >= t.most:
		faults = append(faults, engine.ErrQueue)
	}
	if message.ValidGroup(c.Group) != nil {
		faults = append(faults, engine.ErrGroupName)
	}
	if c.Offset < 0 {
		faults = append(faults, engine.ErrOffset)
	}
	var key commitKey
	if t != nil {
		key = commitKey{c.Group, t.id, c.Queue}
		if old, any := m.commits[key]; any && c.Offset < old && !c.Seek {
			faults = append(faults, engine.ErrOffset)
		}
	}
	if t != nil && errors.Is(e.ans.Err, engine.ErrOffset) && c.Offset > int64(len(m.queue(t.id, uint32(c.Queue)).units)) {
		return // beyond what was seen of the queue: it may be beyond its end
	}
	if errors.Is(e.ans.Err, engine.ErrBroadcast) {
		m.judgeEntry(e, c.Group, t)
		return
	}
	if m.refused(e, faults...) {
		return
	}
	m.commit(e, key, c)
	if at := m.commits[key]; e.ans.Offset != at {
		m.violated("%s was answered with offset %d, the group is at %d", describe(e), e.ans.Offset, at)
	}
}

// commit takes an offset for true, and the group that it makes.
func (m *Model) commit(e *entry, key commitKey, c *engine.CommitOffset) {
	if m.groups[key.group]&record.GroupBroadcast != 0 && !m.reads(key.group, key.topic) {
		m.apart(e, key.group, key.topic)
	}
	m.groups[key.group] |= 0 // it may be a new one
	if m.commits[key] = c.Offset; c.Seek {
		delete(m.settled, key)
	}
	m.advance(key)
}

// judgeThen takes a commit for true that went with a message that was stored, unless it had to be refused.
func (m *Model) judgeThen(e *entry, c *engine.CommitOffset) {
	t := m.topics[c.Topic]
	if t == nil || t.id != c.TopicID {
		return
	}
	key := commitKey{c.Group, t.id, c.Queue}
	if old, any := m.commits[key]; any && c.Offset < old && !c.Seek {
		return
	}
	m.commit(e, key, c)
}

func (m *Model) judgeDefine(e *entry, c *engine.DefineTopic, w *window) {
	var faults []error
	if message.ValidTopic(c.Topic) != nil {
		faults = append(faults, engine.ErrTopicName)
	}
	if c.Queues < 1 || c.Queues > 65536 {
		faults = append(faults, engine.ErrQueue)
	}
	if m.refused(e, faults...) {
		return
	}
	if t := m.topics[c.Topic]; t != nil {
		if e.ans.Topic != t.id {
			m.violated("%s: id %d, it was %d", describe(e), e.ans.Topic, t.id)
		}
		w.counts = append(w.counts, uint32(t.queues))
		t.queues, t.most, t.attrs = c.Queues, max(t.most, c.Queues), c.Attrs
		if stage := m.topicOf(t.stage); stage != nil {
			stage.queues, stage.most = c.Queues, max(stage.most, c.Queues)
		}
		return
	}
	m.newTopic(e, c.Topic, e.ans.Topic, c.Queues, c.Attrs)
}

// keyFound holds a message that was found by its key against what was put.
func (m *Model) keyFound(topic, key string, f *engine.KeyFound) {
	n, err := contentOf(&f.Message, m.sizeOf)
	if err != nil || m.msgs[n].once != key {
		m.violated("key %q of %s is that of m%d, which was put with %q: %v", key, topic, n, m.msgs[n].once, err)
	}
}

// keyMissing holds against what was put that no message was found by a key.
func (m *Model) keyMissing(topic, key string, wall int64) {
	t := m.topics[topic]
	if t == nil || len(m.journal) > 0 || m.Forgets || m.blind {
		return
	}
	window := m.opts.IdempotencyWindow.Milliseconds()
	if was, ok := m.once[onceKey{t.id, key}]; ok && wall-was.wall <= window && m.running()-was.run < window {
		m.violated("key %q of %s is forgotten: it was put %d ms ago, running time %d ms", key, topic, wall-was.wall, m.running()-was.run)
	}
}

func (m *Model) judgeDelete(e *entry, c *engine.DeleteTopic) {
	t := m.topics[c.Topic]
	if t == nil {
		if e.ans.Outcome != engine.NotFound {
			m.refused(e, engine.ErrNoTopic)
		}
		return
	}
	if m.refused(e) {
		return
	}
	delete(m.topics, c.Topic)
	m.gone(t.id)
	if t.stage != 0 {
		delete(m.topics, stageName(c.Topic))
		m.gone(t.stage)
	}
	for i := range m.msgs {
		switch x := &m.msgs[i]; {
		case x.topic != t.id:
		case x.status == waiting:
			x.status = orphaned
		case x.status == staged, x.status == kept:
			x.status = decided
		}
	}
}

// gone forgets the queues of a topic, and the offsets in it.
func (m *Model) gone(id uint32) {
	for ref := range m.queues {
		if ref.Topic == id {
			delete(m.queues, ref)
		}
	}
	for key := range m.commits {
		if key.topic == id {
			delete(m.commits, key)
			delete(m.settled, key)
		}
	}
}

func (m *Model) judgePause(e *entry, c *engine.PauseTopic) {
	t := m.topics[c.Topic]
	if t == nil {
		m.refused(e, engine.ErrNoTopic)
		return
	}
	if !m.refused(e) {
		t.paused = c.Paused
	}
}

func (m *Model) judgeGroup(e *entry, c *engine.DefineGroup) {
	var faults []error
	if message.ValidGroup(c.Group) != nil {
		faults = append(faults, engine.ErrGroupName)
	}
	if errors.Is(e.ans.Err, engine.ErrBroadcast) {
		m.judgeTurn(e, c)
		return
	}
	if m.refused(e, faults...) {
		return
	}
	if c.Attrs&record.GroupBroadcast != 0 && m.groups[c.Group]&record.GroupBroadcast == 0 {
		for key := range m.commits {
			if key.group == c.Group {
				m.apart(e, c.Group, key.topic)
			}
		}
	}
	m.groups[c.Group] = c.Attrs
}

func (m *Model) judgeGone(e *entry, c *engine.DeleteGroup) {
	if _, ok := m.groups[c.Group]; !ok {
		m.refused(e, engine.ErrNoGroup)
		return
	}
	if m.refused(e) {
		return
	}
	delete(m.groups, c.Group)
	for key := range m.commits {
		if key.group == c.Group {
			delete(m.commits, key)
			delete(m.settled, key)
		}
	}
}

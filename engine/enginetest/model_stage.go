package enginetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/handle"
)

// What the model knows of stages and of what is settled. A staged topic has a second topic, its stage, in which what is due
// is seen first; a Settle that was answered says what becomes visible in the topic, in which order, and what never does.

// fired says that a message does not wait any more since it was due.
func (s status) fired() bool { return s == visible || s == staged || s == kept || s == decided }

// staging is what a window has of stages.
type staging struct {
	restaged map[uint32]bool // topics that became staged, or not
	kept     []int           // messages that a stage kept and that must be visible now
	free     []int           // messages that went with a settle and must be visible now, at an offset that was not answered
}

// stageName is the name of a topic's stage.
func stageName(topic string) string { return engine.StagePrefix + topic }

// newStage learns of a stage, which has the next number.
func (m *Model) newStage(e *entry, name string) {
	t, id := m.topics[name], m.nextTop
	m.addTopic(e, stageName(name), id, t.queues, 0)
	stage := m.topics[stageName(name)]
	stage.most, t.stage = t.most, id
	stage.most = t.queues // it has no queue that the topic had before
	m.origins[id] = t.id
}

// home is the topic that a queue's messages were put into: of a stage, its topic.
func (m *Model) home(topic uint32) uint32 {
	if origin, ok := m.origins[topic]; ok {
		return origin
	}
	return topic
}

func (m *Model) judgeStage(e *entry, c *engine.StageTopic, w *window) {
	t := m.topics[c.Topic]
	if t == nil {
		m.refused(e, engine.ErrNoTopic)
		return
	}
	if m.refused(e) {
		return
	}
	if t.staged = c.Staged; c.Staged && t.stage == 0 {
		m.newStage(e, c.Topic)
	}
	w.restage(t.id)
}

func (w *window) restage(topic uint32) {
	if w.restaged == nil {
		w.restaged = map[uint32]bool{}
	}
	w.restaged[topic] = true
}

// isSettled says whether an offset is decided for a group.
func (m *Model) isSettled(key commitKey, offset int64) bool {
	return offset < m.commits[key] || m.settled[key][offset]
}

// settleAt takes offsets for settled, from at least low on.
func (m *Model) settleAt(key commitKey, low int64, items []engine.Settled) {
	if m.settled[key] == nil {
		m.settled[key] = map[int64]bool{}
	}
	for i := range items {
		m.settled[key][items[i].Offset] = true
	}
	m.commits[key] = max(m.commits[key], low)
	m.advance(key)
}

// advance moves a group over what is settled, and forgets what lies below.
func (m *Model) advance(key commitKey) {
	set := m.settled[key]
	for set[m.commits[key]] {
		m.commits[key]++
	}
	maps.DeleteFunc(set, func(offset int64, _ bool) bool { return offset < m.commits[key] })
	if len(set) == 0 {
		delete(m.settled, key)
	}
}

// judgeSettle judges a settle: it is done whole, or refused with a reason that is true of it.
func (m *Model) judgeSettle(e *entry, c *engine.Settle, w *window) {
	t := m.topics[c.Topic]
	if t == nil || c.TopicID != 0 && c.TopicID != t.id {
		m.refused(e, engine.ErrNoTopic)
		return
	}
	key := commitKey{c.Group, t.id, c.Queue}
	q := m.queue(t.id, uint32(c.Queue))
	var faults []error
	for i := range c.Items {
		if m.isSettled(key, c.Items[i].Offset) {
			faults = append(faults, engine.ErrSettled)
		}
	}
	for _, p := range c.Puts {
		faults = append(faults, slices.DeleteFunc(m.putFaults(e, p), func(err error) bool { return err == engine.ErrBroadcast })...)
	}
	switch stage := c.Group == engine.StageGroup; {
	case errors.Is(e.ans.Err, engine.ErrBroadcast):
		m.judgeEntry(e, c.Group, t)
		return
	case !stage && errors.Is(e.ans.Err, engine.ErrSettled):
		return // what it speaks of may have been trimmed since it was looked at
	case m.refused(e, faults...):
		return
	case !stage && m.groups[c.Group]&1 != 0 && !m.reads(c.Group, t.id):
		m.apart(e, c.Group, t.id)
	}
	for i, p := range c.Puts {
		m.settledPut(e, p, e.call.News[i], w)
	}
	m.groups[c.Group] |= 0 // it may be a new one
	m.settleAt(key, q.min, c.Items)
	if at := m.commits[key]; e.ans.Offset < at || e.ans.Offset > at && c.Group == engine.StageGroup {
		m.violated("%s: the group is at %d, it is said to be at %d", describe(e), at, e.ans.Offset)
	}
	m.commits[key] = e.ans.Offset
	m.advance(key)
	if c.Group == engine.StageGroup {
		m.leave(e, c, w)
	}
}

// leave takes messages out of a stage.
func (m *Model) leave(e *entry, c *engine.Settle, w *window) {
	t := m.topicOf(m.home(m.topics[c.Topic].id))
	for i, n := range e.call.Settled {
		x := &m.msgs[n]
		if x.status != staged {
			m.violated("%s: m%d is settled, it is %v", describe(e), n, x.status)
		}
		if x.status = decided; !c.Items[i].Keep {
			continue
		}
		m.order++
		x.status, x.order, x.keptTo = kept, m.order, uint32(c.Queue)
		if c.Queue >= t.queues {
			x.keptTo %= uint32(t.queues)
		}
		w.kept = append(w.kept, n)
		w.run = min(w.run, e.run)
	}
}

// topicOf finds a topic by its number.
func (m *Model) topicOf(id uint32) *topic {
	if t := m.topics[m.names[id]]; t != nil && t.id == id {
		return t
	}
	return nil
}

// settledPut learns of a message that was stored with a settle. It has no answer of its own, but numbers have no gaps.
func (m *Model) settledPut(e *entry, p *engine.Put, n int, w *window) {
	if m.topics[p.Topic] == nil {
		m.newTopic(e, p.Topic, m.nextTop, m.opts.Queues, 0)
	}
	t, x := m.topics[p.Topic], &m.msgs[n]
	x.name, x.topic, x.queue, x.pos, x.asked, x.nowhere = p.Topic, t.id, uint32(p.Queue), e.pos, m.dueOf(e, p), true
	if p.Unstaged || !t.staged && x.asked <= e.wall {
		x.status = visible
		w.free = append(w.free, n)
		w.run = min(w.run, e.run)
		return
	}
	x.asked = max(x.asked, e.wall)
	x.status, x.id, x.due, x.lane = waiting, m.nextID, x.asked, uint8(1+t.id%uint32(max(m.opts.Lanes, 1)))
	x.handle = handle.Handle{Lane: x.lane, Topic: t.id, ID: x.id, Due: x.due}
	m.byID[x.id] = n
	m.nextID++
}

// sawKept judges that what a stage kept is visible: in its topic, in the queue that it was in, in the order of the verdicts.
func (m *Model) sawKept(ref engine.QueueRef, q *queue, n int) {
	x := &m.msgs[n]
	if x.keptTo != ref.Queue || x.order <= q.kept {
		m.violated("m%d, kept for queue %d as number %d, is in queue %d behind number %d", n, x.keptTo, x.order, ref.Queue, q.kept)
	}
	x.status, q.kept = visible, x.order
}

// sawFree finds a message that went with a settle among those whose offsets are not known.
func (m *Model) sawFree(ref engine.QueueRef, content int, w *window) (n int, ok bool) {
	i := slices.Index(w.free, content)
	if i < 0 || m.msgs[content].topic != ref.Topic || m.msgs[content].queue != ref.Queue {
		return 0, false
	}
	w.free = slices.Delete(w.free, i, i+1)
	return content, true
}

// stagedRight holds that a message falls due into the stage if and only if its topic is staged.
func (m *Model) stagedRight(ref engine.QueueRef, n int, w *window) {
	t := m.topicOf(m.msgs[n].topic)
	if t == nil || w.restaged[t.id] {
		return
	}
	if _, inStage := m.origins[ref.Topic]; inStage != t.staged {
		m.violated("m%d is in the stage: %v; its topic is staged: %v", n, inStage, t.staged)
	}
}

// settleStages judges what a window has of stages as a whole.
func (m *Model) settleStages(w *window) {
	for _, n := range w.kept {
		if x := &m.msgs[n]; x.status == kept && !m.deleting(x.name) {
			m.violated("m%d was kept and is not in its topic", n)
		}
	}
	for _, n := range w.free {
		if x := &m.msgs[n]; m.topicOf(x.topic) != nil && !m.deleting(x.name) {
			m.violated("m%d went with a settle and is not in its topic", n)
		}
	}
}

// verifyStages compares what is settled, and how much is not.
func (m *Model) verifyStages(e *engine.Engine) {
	for key := range m.commits {
		got := map[int64]bool{}
		ranges, _ := e.Settled(key.group, m.names[key.topic], key.queue)
		for _, r := range ranges {
			for at := r.From; at < r.To; at++ {
				got[at] = true
			}
		}
		if want := m.settled[key]; !maps.Equal(got, want) {
			m.violated("group %s has settled %v in %s/%d, the store says %v", key.group, want, m.names[key.topic], key.queue, ranges)
		}
	}
	lag := map[uint32]int64{}
	for i := range m.msgs {
		if m.msgs[i].status == staged {
			lag[m.msgs[i].topic]++
		}
	}
	topics, _ := e.Topics()
	for _, t := range topics {
		if t.StageLag != lag[t.ID] {
			m.violated("topic %s says %d are in its stage, it is %d", t.Name, t.StageLag, lag[t.ID])
		}
	}
}

// describeSettle prints a settle for a violation.
func describeSettle(e *entry, c *engine.Settle) string {
	text := fmt.Sprintf("settle of %s/%d for %s:", c.Topic, c.Queue, c.Group)
	for i := range c.Items {
		text += fmt.Sprintf(" %d %s", c.Items[i].Offset, engine.ActionName(c.Items[i].Action))
		if c.Items[i].Keep {
			text += " kept"
		}
	}
	return fmt.Sprintf("%s, messages %v, puts %v, wall %d", text, e.call.Settled, e.call.News, e.wall)
}

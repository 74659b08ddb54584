package engine

import (
	"fmt"
	"strings"

	"github.com/tidewheel/tidewheel/engine/internal/state"
	"github.com/tidewheel/tidewheel/engine/record"
)

// What broadcast groups cannot read: messages with a delay. The writer alone decides that, from the log's state, so that a
// put and a group's first offset in a topic cannot pass each other: a topic either has messages that wait, or a broadcast
// group that has an offset in it. Topics whose names begin with "%" are the host's own, and are left out.

// hostTopic says whether a topic is the host's own: a group's retries, say.
func hostTopic(name string) bool { return strings.HasPrefix(name, "%") }

// broadcastReaders are the broadcast groups that have offsets in topics, one for each topic. They are worked out when they
// are needed, and forgotten when a group or a topic changed.
func (e *Engine) broadcastReaders() map[uint32]*state.Group {
	if e.readers != nil {
		return e.readers
	}
	e.readers = map[uint32]*state.Group{}
	any := false
	for _, g := range e.st.Groups {
		any = any || g.Attrs&record.GroupBroadcast != 0
	}
	if !any {
		return e.readers
	}
	for key := range e.st.Offsets.All() {
		if g := e.st.Groups[key.Group]; g != nil && g.Attrs&record.GroupBroadcast != 0 {
			e.readers[key.Topic] = g
		}
	}
	return e.readers
}

// mayWait refuses a message that is to wait in a topic that a broadcast group reads.
func (e *Engine) mayWait(t *state.Topic) error {
	if t == nil || hostTopic(t.Name) {
		return nil
	}
	if g := e.broadcastReaders()[t.ID]; g != nil {
		return fmt.Errorf("%w: topic %q is read by broadcast group %q, so it takes no message with a delay", ErrBroadcast, t.Name, g.Name)
	}
	return nil
}

// mayDelay is mayWait for a put that asks for a delay, whatever becomes of it.
func (e *Engine) mayDelay(p *Put) error {
	if p.Level == 0 && p.DueMs == 0 && p.DelayMs == 0 {
		return nil
	}
	return e.mayWait(e.st.TopicByName(p.Topic))
}

// mayBroadcast refuses a broadcast group in a topic in which messages wait.
func (e *Engine) mayBroadcast(g *state.Group, t *state.Topic) error {
	if t == nil || t.Pending == 0 || hostTopic(t.Name) {
		return nil
	}
	return fmt.Errorf("%w: topic %q has %d delayed messages, which broadcast group %q cannot read", ErrBroadcast, t.Name, t.Pending, g.Name)
}

// mayEnter is mayBroadcast for a group that commits its first offset in a topic.
func (e *Engine) mayEnter(g *state.Group, t *state.Topic) error {
	if g.Attrs&record.GroupBroadcast == 0 {
		return nil
	}
	for q := range t.Queues {
		if _, ok := e.st.Offsets.Get(state.OffsetKey{Group: g.ID, Topic: t.ID, Queue: uint32(q)}); ok {
			return nil
		}
	}
	return e.mayBroadcast(g, t)
}

// mayTurn is mayBroadcast for a group that becomes a broadcast group, in all topics in which it has offsets.
func (e *Engine) mayTurn(g *state.Group) error {
	for key := range e.st.Offsets.All() {
		if key.Group != g.ID {
			continue
		}
		if err := e.mayBroadcast(g, e.st.Topics[key.Topic]); err != nil {
			return err
		}
	}
	return nil
}

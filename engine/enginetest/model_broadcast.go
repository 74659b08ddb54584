package enginetest

import (
	"errors"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/record"
)

// What the model knows of broadcast groups: such a group and messages that wait exclude each other in a topic. It hears of
// a delivery later than the engine knows of it, so it can say of a message that it may wait, and that it surely does.

// reads says whether a group has an offset in a topic.
func (m *Model) reads(group string, topic uint32) bool {
	for key := range m.commits {
		if key.group == group && key.topic == topic {
			return true
		}
	}
	return false
}

// broadcast says whether a broadcast group has an offset in a topic.
func (m *Model) broadcast(topic uint32) bool {
	for group, attrs := range m.groups {
		if attrs&record.GroupBroadcast != 0 && m.reads(group, topic) {
			return true
		}
	}
	return false
}

// waits says whether a message may wait for a topic, and whether one surely does: no tick can have fired it.
func (m *Model) waits(topic uint32) (may, surely bool) {
	for i := range m.msgs {
		if x := &m.msgs[i]; x.topic == topic && x.status == waiting {
			may, surely = true, surely || x.due > m.latest
		}
	}
	return may, surely
}

// apart holds that no message waits for a topic that a broadcast group begins to read.
func (m *Model) apart(e *entry, group string, topic uint32) {
	if _, surely := m.waits(topic); surely {
		m.violated("%s was done: broadcast group %q reads topic %d, for which messages wait", describe(e), group, topic)
	}
}

// judgeEntry judges the refusal of a broadcast group's first offset in a topic.
func (m *Model) judgeEntry(e *entry, group string, t *topic) {
	may := false
	if t != nil {
		may, _ = m.waits(t.id)
	}
	if !may || m.groups[group]&record.GroupBroadcast == 0 || m.reads(group, t.id) {
		m.violated("%s was refused: %v", describe(e), e.ans.Err)
	}
}

// judgeTurn judges the refusal to make a group a broadcast group.
func (m *Model) judgeTurn(e *entry, c *engine.DefineGroup) {
	if c.Attrs&record.GroupBroadcast != 0 && m.groups[c.Group]&record.GroupBroadcast == 0 && errors.Is(e.ans.Err, engine.ErrBroadcast) {
		for key := range m.commits {
			if key.group != c.Group {
				continue
			}
			if may, _ := m.waits(key.topic); may {
				return
			}
		}
	}
	m.violated("%s was refused: %v", describe(e), e.ans.Err)
}

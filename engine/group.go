package engine

import (
	"fmt"

	"github.com/tidewheel/tidewheel/engine/record"
)

// DeleteGroup removes a consumer group with its committed offsets. A group made later under the same name is another one.
type DeleteGroup struct{ Group string }

func (*DeleteGroup) command() {}

func (e *Engine) deleteGroup(c *DeleteGroup) (Answer, error) {
	g := e.st.GroupByName(c.Group)
	if g == nil {
		return Answer{}, fmt.Errorf("%w: %q", ErrNoGroup, c.Group)
	}
	if err := reserved("group", c.Group); err != nil {
		return Answer{}, err
	}
	r := &record.Group{Op: record.Delete, ID: g.ID, Name: g.Name}
	e.write(record.KindGroup, r)
	e.folded(e.st.Group(r))
	e.readers = nil
	return Answer{Outcome: Done, Offset: -1}, nil
}

// Group describes a consumer group; ok is false if there is none. The answer may leave when the log is released up to
// the position. Its Offsets are left out. Safe for concurrent use.
func (e *Engine) Group(name string) (info GroupInfo, ok bool, pos Offset) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if g := e.st.GroupByName(name); g != nil {
		info, ok = GroupInfo{ID: g.ID, Name: g.Name, Attrs: g.Attrs}, true
	}
	return info, ok, e.asOf()
}

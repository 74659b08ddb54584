package engine

import (
	"fmt"
	"strings"

	"github.com/tidewheel/tidewheel/engine/internal/state"
	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/engine/record"
)

// Names of stages. A topic that is staged has a twin, its stage, in which what is due waits for a verdict: each message of
// the topic goes through it, and is visible when a Settle of the group StageGroup has kept it. Topics and groups of these
// names are the engine's: commands of others about them are refused with ErrReserved. A stage can be pulled.
const (
	StagePrefix = record.StagePrefix // of the name of a stage: that of the topic follows
	StageGroup  = record.StagePrefix // the group for which a stage is settled
)

// StageTopic makes a topic staged, or not staged any more, until the next one. Options.Stage says it of topics that are made.
// A message without a delay waits, too, then, with the time of storing as its due time. When a topic is staged no more, what
// falls due is visible at once, and what is in the stage is still to be settled. Topics whose names begin with "%" are never
// staged. One whose name leaves no room for the stage's is refused, and is not made if Options.Stage wants it staged.
type StageTopic struct {
	Topic  string
	Staged bool
}

func (*StageTopic) command() {}

// canStage says why a topic cannot be staged.
func canStage(topic string) error {
	if strings.HasPrefix(topic, "%") {
		return fmt.Errorf("%w: topic %q is never staged", ErrReserved, topic)
	}
	if n := len(StagePrefix) + len(topic); n > message.MaxTopic {
		return fmt.Errorf("%w: %q cannot be staged, the stage's name would have %d bytes, allowed are %d", ErrTopicName, topic, n, message.MaxTopic)
	}
	return nil
}

// isStage says whether a name is that of a stage, or of the group that settles them.
func isStage(name string) bool { return strings.HasPrefix(name, StagePrefix) }

// reserved refuses a name of the engine's own.
func reserved(what, name string) error {
	if isStage(name) {
		return fmt.Errorf("%w: %s %q", ErrReserved, what, name)
	}
	return nil
}

// stagedAnew says whether a topic that is made now is staged.
func (e *Engine) stagedAnew(topic string) bool {
	return e.opts.Stage != nil && !strings.HasPrefix(topic, "%") && e.opts.Stage(topic)
}

// mayMake says why a topic cannot be made: it would have to be staged and has no room in its name for that of the stage. Made all
// the same, its messages would pass whoever is to decide about them.
func (e *Engine) mayMake(topic string) error {
	if !e.stagedAnew(topic) {
		return nil
	}
	return canStage(topic)
}

func (e *Engine) stageTopic(c *StageTopic) (Answer, error) {
	t := e.st.TopicByName(c.Topic)
	if t == nil {
		return Answer{}, fmt.Errorf("%w: %q", ErrNoTopic, c.Topic)
	}
	attrs := t.Attrs &^ record.TopicStaged
	if c.Staged {
		if err := canStage(c.Topic); err != nil {
			return Answer{}, err
		}
		attrs |= record.TopicStaged
		if t.Stage == nil {
			e.makeStage(t)
		}
	}
	e.changeTopic(t, t.Count, attrs)
	return Answer{Outcome: Done, Topic: t.ID, Offset: -1}, nil
}

// makeStage makes the stage of a topic.
func (e *Engine) makeStage(t *state.Topic) {
	e.batch.understand = true
	e.addTopic(StagePrefix+t.Name, t.Count, 0)
}

// restages says whether a command may change which topics are staged.
func (e *Engine) restages(c Command) bool {
	switch c := c.(type) {
	case *StageTopic:
		return true
	case *DeleteTopic:
		return e.opts.Stage != nil // it may be made again, and staged
	case *Put:
		return c.Then != nil && e.restages(c.Then)
	}
	return false
}

// stageLag counts what is in a stage and not settled.
func (e *Engine) stageLag(stage *state.Topic) (lag int64) {
	g := e.st.GroupByName(StageGroup)
	for i, q := range stage.Queues {
		at, settled := e.low(stage, uint32(i)), int64(0)
		if g != nil {
			key := state.OffsetKey{Group: g.ID, Topic: stage.ID, Queue: uint32(i)}
			committed, _ := e.st.Offsets.Get(key)
			at, settled = max(at, committed), e.st.Offsets.SettledCount(key)
		}
		lag += q.Next - at - settled
	}
	return lag
}

// StagedBy returns the name of the topic whose stage another one is, by the number of that one. Safe for concurrent use.
func (e *Engine) StagedBy(id uint32) (topic string, ok bool) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if t := e.st.Topics[id]; t != nil && t.Origin != nil {
		return t.Origin.Name, true
	}
	return "", false
}

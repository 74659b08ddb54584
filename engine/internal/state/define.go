package state

import (
	"fmt"
	"strings"

	"github.com/tidewheel/tidewheel/engine/record"
)

// Topic folds a change to the table of topics.
func (s *State) Topic(r *record.Topic, ix Index) error {
	t := s.Topics[r.ID]
	switch {
	case r.Op == record.Define:
		if old := s.TopicByName(r.Name); old != nil && s.lossy {
			s.dropTopic(old, ix) // that it was deleted stood in the lost range
		}
		if t != nil || s.TopicByName(r.Name) != nil || r.ID != s.NextTopic && (!s.lossy || r.ID < s.NextTopic) {
			return fmt.Errorf("%w: topic %q with id %d, the next is %d", ErrFold, r.Name, r.ID, s.NextTopic)
		}
		s.NextTopic = r.ID + 1
		t = &Topic{ID: r.ID, Attrs: r.Attrs, Name: r.Name}
		t.resize(int(r.Queues))
		s.addTopic(t)
	case t == nil:
		if !s.lossy {
			return fmt.Errorf("%w: topic %d is not known", ErrFold, r.ID)
		}
	case r.Op == record.Change:
		t.Attrs = r.Attrs
		t.resize(int(r.Queues))
	case r.Op == record.Delete:
		s.dropTopic(t, ix)
	}
	return nil
}

// addTopic adds a topic. A stage and its topic find each other by their names.
func (s *State) addTopic(t *Topic) {
	s.Topics[t.ID] = t
	s.topicID[t.Name] = t.ID
	var stage, origin *Topic
	if name, ok := strings.CutPrefix(t.Name, record.StagePrefix); ok {
		stage, origin = t, s.TopicByName(name)
		s.stages++
	} else if s.stages > 0 {
		stage, origin = s.TopicByName(record.StagePrefix+t.Name), t
	}
	if stage != nil && origin != nil {
		stage.Origin, origin.Stage = origin, stage
	}
}

// resize sets the number of queues for new messages. Queues beyond stay readable.
func (t *Topic) resize(count int) {
	t.Count = count
	for len(t.Queues) < count {
		t.Queues = append(t.Queues, Queue{})
	}
}

// dropTopic drops a topic, and its stage, if that is still there.
func (s *State) dropTopic(t *Topic, ix Index) {
	if t.Stage != nil {
		s.dropTopic(t.Stage, ix)
	}
	if t.Origin != nil {
		t.Origin.Stage = nil
	}
	if strings.HasPrefix(t.Name, record.StagePrefix) {
		s.stages--
	}
	delete(s.Topics, t.ID)
	delete(s.topicID, t.Name)
	s.Offsets.drop(func(k OffsetKey) bool { return k.Topic == t.ID })
	ix.TopicGone(t.ID)
}

// Group folds a change to the table of groups.
func (s *State) Group(r *record.Group) error {
	g := s.Groups[r.ID]
	switch {
	case r.Op == record.Define:
		if old := s.GroupByName(r.Name); old != nil && s.lossy {
			s.dropGroup(old) // that it was deleted stood in the lost range
		}
		if g != nil || s.GroupByName(r.Name) != nil || r.ID != s.NextGroup && (!s.lossy || r.ID < s.NextGroup) {
			return fmt.Errorf("%w: group %q with id %d, the next is %d", ErrFold, r.Name, r.ID, s.NextGroup)
		}
		s.NextGroup = r.ID + 1
		s.addGroup(&Group{ID: r.ID, Attrs: r.Attrs, Name: r.Name})
	case g == nil:
		if !s.lossy {
			return fmt.Errorf("%w: group %d is not known", ErrFold, r.ID)
		}
	case r.Op == record.Change:
		g.Attrs = r.Attrs
	case r.Op == record.Delete:
		s.dropGroup(g)
	}
	return nil
}

func (s *State) addGroup(g *Group) {
	s.Groups[g.ID] = g
	s.groupID[g.Name] = g.ID
}

func (s *State) dropGroup(g *Group) {
	delete(s.Groups, g.ID)
	delete(s.groupID, g.Name)
	s.Offsets.drop(func(k OffsetKey) bool { return k.Group == g.ID })
}

// State folds a part of a state record. It says what is known already, and then it is compared; or it begins the fold
// (a rebuild from a suffix of the log), or begins it again after a hole, and then it is believed.
func (s *State) State(r *record.State, ix Index) error {
	believe := s.fresh || s.lossy
	if r.Part == 0 {
		s.parts = s.parts[:0]
		s.digest = r.Digest
		if !believe {
			s.digest = s.Digest()
		}
	}
	if r.Digest != s.digest {
		return fmt.Errorf("%w: the state record has digest %x, the log before it gives %x", ErrFold, r.Digest, s.digest)
	}
	if believe {
		s.parts = append(s.parts, r.Data...)
	}
	if !believe || r.Part != r.Parts-1 {
		return nil
	}
	return s.believe(ix)
}

// believe replaces the state by what a state record says.
func (s *State) believe(ix Index) error {
	n := New(0)
	if err := n.Decode(s.parts); err != nil {
		return err
	}
	if got := n.Digest(); got != s.digest {
		return fmt.Errorf("%w: the parts of the state record have digest %x, it says %x", ErrFold, got, s.digest)
	}
	if len(n.Lanes) != len(s.Lanes) {
		return fmt.Errorf("%w: the state record has %d lanes, the store %d", ErrFold, len(n.Lanes), len(s.Lanes))
	}
	n.Seen, n.Oldest, n.seenErr = s.Seen, s.Oldest, s.seenErr
	n.End = s.End
	if s.fresh {
		n.Oldest = n.NextID
	}
	for id := range s.Topics {
		if n.Topics[id] == nil {
			ix.TopicGone(id)
		}
	}
	n.Lost = s.Lost
	n.fresh, n.parts = false, nil
	*s = *n
	return nil
}

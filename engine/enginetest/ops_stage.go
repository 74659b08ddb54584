package enginetest

import (
	"github.com/tidewheel/tidewheel/engine"
)

// opStage makes a topic staged, or not.
func opStage(s *Sim, a, b int) {
	s.call(Call{Command: &engine.StageTopic{Topic: topicName(a), Staged: b%3 > 0}, New: -1, Target: -1})
}

// undecided finds a queue of a stage in which something is to be decided, beginning with a topic and a queue by number.
func (s *Sim) undecided(a, b int) (name string, stage *topic, key commitKey, q *queue) {
	m := s.Model
	for i := range topicNames {
		name = topicName(a + i)
		if t := m.topics[name]; t == nil || t.stage == 0 || m.deleting(name) {
			continue
		}
		stage = m.topics[stageName(name)]
		for j := range stage.most {
			key = commitKey{engine.StageGroup, stage.id, (b + j) % stage.most}
			if q = m.queue(stage.id, uint32(key.queue)); m.commits[key] < int64(len(q.units)) {
				return name, stage, key, q
			}
		}
	}
	return "", nil, key, nil
}

// opDecide is what the worker of a stage does: it reads some messages of it and settles part of them, at times above a gap, at
// times twice.
func opDecide(s *Sim, a, b int) {
	name, stage, key, q := s.undecided(a, b)
	if q == nil {
		return
	}
	from := max(s.Model.commits[key], q.min)
	var p engine.Pulled
	if err := s.e.Pull(engine.PullRequest{Topic: stageName(name), Queue: key.queue, Offset: from, MaxCount: 1 + a%8}, &p); err != nil {
		if !s.Failing && s.sick == nil && len(s.Model.journal) == 0 {
			s.failed("pull of a stage", err)
		}
		return
	}
	c := &engine.Settle{Group: engine.StageGroup, Topic: stageName(name), TopicID: stage.id, Queue: key.queue, Digests: [][32]byte{{1}, {2}}}
	call := Call{Command: c, New: -1, Target: -1}
	for i := range p.Messages {
		m := &p.Messages[i]
		n, ok := s.Model.byID[m.ID]
		if m.Err != nil || !ok || s.Model.isSettled(key, m.Offset) || (a+b+i)%4 == 0 && len(p.Messages) > 1 {
			continue
		}
		s.decide(c, &call, m.Settled(), n, a+3*b+i)
	}
	if len(c.Items) == 0 {
		return
	}
	s.cover["settled message"] += len(c.Items)
	if b%16 == 0 {
		s.call(call, call) // the second one is too late
		return
	}
	s.call(call)
}

// decide adds a verdict about message n to a settle.
func (s *Sim) decide(c *engine.Settle, call *Call, it engine.Settled, n, b int) {
	it.Plugin, it.Code = uint8(b%2), uint16(b)
	put := func(p *engine.Put) {
		if len(c.Puts) == 2 {
			return // the smallest memtables take no more at once
		}
		content := s.Model.New(bodySize(b % 200))
		fillPut(p, content, bodySize(b%200))
		c.Puts, call.News = append(c.Puts, p), append(call.News, content)
	}
	switch b % 7 {
	case 0, 1, 2:
		it.Action, it.Keep = 1, true
	case 3:
		it.Action, it.Plugin = 1, engine.Nobody
		it.Keep = true
	case 4:
		it.Action = 2
	case 5:
		it.Action = 6
		put(&engine.Put{Topic: s.Model.msgs[n].name, Queue: 0, Unstaged: true})
	case 6:
		it.Action = 3
		put(&engine.Put{Topic: topicName(b), Queue: 0, DelayMs: int64(b%5) * 700})
	}
	c.Items, call.Settled = append(c.Items, it), append(call.Settled, n)
	if it.Keep {
		s.cover["kept message"]++
	}
}

// opJudge settles messages of a topic for a group, as a filter or a delivery does.
func opJudge(s *Sim, a, b int) {
	name := topicName(a)
	t := s.Model.topics[name]
	if t == nil {
		return
	}
	c := &engine.Settle{Group: groupName(b), Topic: name, TopicID: t.id, Queue: b % t.most}
	key := commitKey{c.Group, t.id, c.Queue}
	q := s.Model.queue(t.id, uint32(c.Queue))
	for at := max(s.Model.commits[key], q.min); at < int64(len(q.units)) && len(c.Items) < 1+a%5; at++ {
		if (int64(a)+at)%3 > 0 && !s.Model.isSettled(key, at) {
			c.Items = append(c.Items, engine.Settled{Offset: at, Action: 2, Plugin: engine.Nobody})
		}
	}
	if len(c.Items) > 0 {
		s.call(Call{Command: c, New: -1, Target: -1})
		s.cover["settled for a group"]++
	}
}

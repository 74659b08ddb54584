package broker

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tidewheel/tidewheel/engine"
)

// stages are the workers of stages. A stage in which nothing waits has none. It is safe for concurrent use.
type stages struct {
	b *Broker

	mu sync.Mutex
	// guarded by mu
	working map[uint32]*stage // by the number of the stage's topic
	changed chan struct{}     // closed when a worker ends or has to wait; nil: nobody waits for that

	rehook chan struct{} // has a token while a Rehook is at work

	held atomic.Int64 // bytes of messages that the workers have read
}

// stage is one that has a worker.
type stage struct {
	topic string        // whose stage it is
	id    uint32        // of the stage
	came  chan struct{} // has a token when something has come
	again chan struct{} // has a token when what waits is to be asked about at once

	// guarded by stages.mu
	rung    bool // something came while the worker was at work
	resting bool // it waits before it asks again
}

func newStages(b *Broker) *stages {
	return &stages{b: b, working: map[uint32]*stage{}, rehook: make(chan struct{}, 1)}
}

// ring has the stages worked on in which something became visible. The writer calls it.
func (s *stages) ring(refs []engine.QueueRef) {
	last := uint32(0)
	for _, ref := range refs {
		if ref.Topic == last {
			continue
		}
		last = ref.Topic
		if topic, ok := s.b.e.StagedBy(ref.Topic); ok {
			s.begin(topic, ref.Topic)
		}
	}
}

// begin has a stage worked on. The caller holds the broker open.
func (s *stages) begin(topic string, id uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.working[id]; w != nil {
		w.rung = true
		signal(w.came)
		return
	}
	w := &stage{topic: topic, id: id, came: make(chan struct{}, 1), again: make(chan struct{}, 1)}
	s.working[id] = w
	s.b.wg.Go(func() {
		(&stageWorker{b: s.b, stage: w, ctx: s.b.hookCalls.ctx}).run()
	})
}

// idle ends a worker that found nothing, unless something has come meanwhile.
func (s *stages) idle(w *stage) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.rung {
		w.rung = false
		return false
	}
	s.drop(w)
	return true
}

// end ends a worker that can do no more.
func (s *stages) end(w *stage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(w)
}

// drop forgets a worker. The caller holds mu.
func (s *stages) drop(w *stage) {
	delete(s.working, w.id)
	s.tell()
}

// rest notes whether a worker waits before it asks again.
func (s *stages) rest(w *stage, resting bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.resting = resting
	s.tell()
}

// tell wakes those who wait for the workers. The caller holds mu.
func (s *stages) tell() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// kick has every worker ask again at once.
func (s *stages) kick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.working {
		w.rung = true
		signal(w.again)
	}
}

// signal leaves a token, unless there is one.
func signal(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// quiet returns when no worker has anything to do but wait before it asks again.
func (s *stages) quiet(ctx context.Context) error {
	for {
		s.mu.Lock()
		busy := false
		for _, w := range s.working {
			busy = busy || !w.resting
		}
		if !busy {
			s.mu.Unlock()
			return nil
		}
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		changed := s.changed
		s.mu.Unlock()
		if _, err := s.b.awaits(ctx, changed); err != nil {
			return err
		}
	}
}

// isStage says whether a topic, or a group, is the broker's own: a stage, or who settles it.
func isStage(name string) bool { return strings.HasPrefix(name, stagePrefix) }

// restage are the commands that stage topics, or stage them no more, as the hooks want it now.
func restage(topics []engine.TopicInfo, hooks Hooks) (cmds []engine.Command) {
	for i := range topics {
		name := topics[i].Name
		if want := hooks != nil && !strings.HasPrefix(name, "%") && hooks.Stages(name); want != topics[i].Staged {
			cmds = append(cmds, &engine.StageTopic{Topic: name, Staged: want})
		}
	}
	return cmds
}

// stageAtOpen stages topics before anything falls due. A topic that cannot be staged is logged.
func stageAtOpen(e *engine.Engine, hooks Hooks, log *slog.Logger) error {
	topics, _ := e.Topics()
	cmds := restage(topics, hooks)
	answers, err := (&engine.Solo{Engine: e}).Do(cmds...)
	for i := range answers {
		if answers[i].Err != nil {
			log.Error("a topic cannot be staged: its messages become visible without being decided about", "error", answers[i].Err)
		}
	}
	return err
}

// Rehook is for a change of what Hooks.Stages says: it stages topics, and stages others no more, and has whoever waits for a
// decision ask again at once. What was in the stage of a topic that is not staged any more becomes visible. It returns when that
// is durable; a topic that cannot be staged (its name is too long) is an error, and the others are staged all the same.
func (b *Broker) Rehook(ctx context.Context) error {
	if err := b.hookCalls.begin(); err != nil {
		return err
	}
	defer b.hookCalls.end()
	select {
	case b.stages.rehook <- struct{}{}:
		defer func() { <-b.stages.rehook }()
	case <-ctx.Done():
		return ctx.Err()
	case <-b.closing:
		return ErrClosed
	}
	if err := b.enter(); err != nil {
		return err
	}
	topics, _ := b.e.Topics()
	b.leave()
	cmds := restage(topics, b.opts.Hooks)
	b.stages.beginAll(topics)
	b.stages.kick()
	b.groups.askAgain()
	if len(cmds) == 0 {
		return nil
	}
	r := &request{cmds: cmds, size: requestOverhead * len(cmds)}
	if err := b.queue.finish(ctx, r); err != nil {
		return err
	}
	var errs []error
	for i := range r.answers {
		if err := r.answers[i].Err; !errors.Is(err, engine.ErrNoTopic) { // deleted meanwhile
			errs = append(errs, err)
		}
	}
	b.stages.kick()
	return errors.Join(errs...)
}

// beginAll has all stages worked on in which something waits.
func (s *stages) beginAll(topics []engine.TopicInfo) {
	for i := range topics {
		if topics[i].StageLag == 0 {
			continue
		}
		if err := s.b.enter(); err != nil {
			return
		}
		info, ok, _ := s.b.e.Topic(stagePrefix + topics[i].Name)
		s.b.leave()
		if ok {
			s.begin(topics[i].Name, info.ID)
		}
	}
}

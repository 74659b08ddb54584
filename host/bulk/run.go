package bulk

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/host/broker"
)

// workers is how many changes of a job are on their way at once. The broker gathers them into one batch and one fsync,
// and what others ask for stands in the same queue.
const workers = 128

// matching goes over the waiting messages that a filter means and whose numbers are below one.
func (m *Manager) matching(ctx context.Context, f Filter, below uint64) iter.Seq2[broker.Waiting, error] {
	filter := engine.Filter{Topic: f.Topic, FromMs: f.FromMs, ToMs: f.ToMs}
	for _, tag := range f.Tags {
		filter.Tags = append(filter.Tags, message.TagHash(tag))
	}
	if f.Key != "" {
		filter.KeyHash = message.KeyHash(f.Key)
	}
	return func(yield func(broker.Waiting, error) bool) {
		for w, err := range m.b.Timers(ctx, filter) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(w, err)
				return
			}
			if w.Waiting.Handle.ID >= below {
				continue
			}
			meant, err := m.meant(ctx, f, w.Handle)
			if err != nil {
				yield(w, err)
				return
			}
			if meant && !yield(w, nil) {
				return
			}
		}
	}
}

// meant compares tag and key in full, since the list went by their hashes. A message that went meanwhile is not meant.
func (m *Manager) meant(ctx context.Context, f Filter, handle string) (bool, error) {
	if len(f.Tags) == 0 && f.Key == "" {
		return true, nil
	}
	msg, err := m.b.Read(ctx, handle)
	if errors.Is(err, engine.ErrNoMessage) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	tag := len(f.Tags) == 0 || slices.Contains(f.Tags, string(msg.Tag))
	return tag && (f.Key == "" || f.Key == string(msg.Key)), nil
}

// run does a job.
func (m *Manager) run(ctx context.Context, j *job) {
	defer j.cancel()
	todo := make(chan broker.Waiting)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for w := range todo {
				m.change(ctx, j, w)
			}
		})
	}
	err := m.feed(ctx, j, todo)
	close(todo)
	wg.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running--
	j.Ended = m.now()
	switch {
	case ctx.Err() != nil:
		j.State = Stopped
	case err != nil:
		j.State = Failed
		j.Error = err.Error()
	default:
		j.State = Done
	}
}

// feed hands out what the job is about.
func (m *Manager) feed(ctx context.Context, j *job, todo chan<- broker.Waiting) error {
	for w, err := range m.matching(ctx, j.Spec.Filter, j.below) {
		if err != nil {
			return err
		}
		if err := m.b.Err(); err != nil {
			return err
		}
		select {
		case todo <- w:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// change does what is asked for with one message, and counts what became of it. It goes on when the job is stopped: a
// change that has begun has a definite outcome.
func (m *Manager) change(ctx context.Context, j *job, w broker.Waiting) {
	ctx = context.WithoutCancel(ctx)
	var outcome broker.Outcome
	var changed broker.Changed
	var err error
	switch j.Spec.Action {
	case Cancel:
		outcome, err = m.b.Cancel(ctx, w.Handle)
	case Fire:
		changed, err = m.b.Fire(ctx, w.Handle)
		outcome = changed.Outcome
	case Move:
		due := j.Spec.DueMs
		if j.Spec.By != 0 {
			due = max(w.DueMs+int64(j.Spec.By/time.Millisecond), 0)
		}
		changed, err = m.b.Move(ctx, w.Handle, due)
		outcome = changed.Outcome
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err != nil:
		j.Refused++
		if j.Error == "" {
			j.Error = err.Error()
		}
	case outcome == engine.Cancelled || outcome == engine.Moved:
		j.Changed++
	default:
		j.Passed++
	}
}

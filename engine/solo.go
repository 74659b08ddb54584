package engine

import (
	"errors"
	"fmt"
)

// Solo drives an engine from one goroutine: it does the caller's duties one after the other, jobs too. It is for guests,
// tests and small programs; it is not safe for concurrent use, except for what Engine says of itself.
type Solo struct{ *Engine }

// OpenSolo opens a store for one goroutine.
func OpenSolo(env Env, dir string, opts Options) (*Solo, error) {
	e, err := Open(env, dir, opts)
	if err != nil {
		return nil, err
	}
	return &Solo{e}, nil
}

// Do appends commands and makes them durable: when it returns, all answers may leave. The answers are the caller's. An
// error says that from then on nothing was done; what the answers before it say holds.
func (s *Solo) Do(cmds ...Command) ([]Answer, error) {
	var all []Answer
	for tries := 0; len(cmds) > 0; tries++ {
		answers, _, err := s.Append(cmds)
		if errors.Is(err, ErrBusy) && tries < maxTries {
			if err := s.flush(); err != nil {
				return all, err
			}
			if _, err := s.tick(); err != nil {
				return all, err
			}
			continue
		}
		if err != nil {
			return all, err
		}
		if err := s.flush(); err != nil {
			return all, err
		}
		all, cmds, tries = append(all, answers...), cmds[len(answers):], 0
	}
	return all, nil
}

// maxTries bounds how often a busy engine is asked again: a seal takes three.
const maxTries = 100

// Step ticks until nothing is due and no job is left, and says at which wall clock time, ms, to come again.
func (s *Solo) Step() (next int64, err error) {
	for range maxSteps {
		status, err := s.tick()
		if err != nil {
			return status.Next, err
		}
		if status.Fired == 0 && len(status.Jobs) == 0 && !status.Blocked && status.Next > s.env.Wall() {
			return status.Next, nil
		}
	}
	return s.env.Wall(), nil
}

// maxSteps bounds one Step, so that a clock that runs while it works cannot hold it.
const maxSteps = 1 << 20

// tick does one Tick with all that follows from it.
func (s *Solo) tick() (Status, error) {
	status := s.Tick()
	if err := s.flush(); err != nil {
		return status, err
	}
	for _, job := range status.Jobs {
		_ = job.Run() // Install hears of it, and tries again or fails the engine
		for !s.Install(job) {
		}
	}
	if err := s.flush(); err != nil {
		return status, err
	}
	if errors.Is(status.Err, ErrFailed) {
		return status, status.Err
	}
	return status, nil
}

// flush makes everything that was appended durable and visible.
func (s *Solo) flush() error {
	if err := s.Commit(); err != nil {
		return fmt.Errorf("engine: solo: %w", err)
	}
	pos, err := s.Sync()
	if err != nil {
		return fmt.Errorf("engine: solo: %w", err)
	}
	s.Release(pos)
	return nil
}

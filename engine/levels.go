package engine

import (
	"errors"
	"fmt"

	"github.com/tidewheel/tidewheel/engine/schedule"
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// LevelInfo is how a delay level is. It is read off the level's schedule queue, so it costs the same whatever waits; in
// return messages that were cancelled or moved count until the time that they had, and those few that came out of
// order do not count. Levels of the table with the same delay share a queue, and its figures.
type LevelInfo struct {
	Level     int   // 1 is the first of the table
	DelayMs   int64 // of the level
	Waiting   int64 // messages that are not due
	Came, Due int64 // messages that were stored, and that fell due, in the last LevelWindowMs
	HeadDueMs int64 // when the next one is due, ms since 1970; 0: none waits
}

// LevelWindowMs is how far back Came and Due of a LevelInfo look, in ms.
const LevelWindowMs = 60_000

// Levels tells of the levels of the table, in its order. It tells what is folded, not only what is released. Safe for
// concurrent use.
func (e *Engine) Levels() ([]LevelInfo, error) {
	e.mu.RLock()
	frontier, now := e.st.Lanes[levelLane], e.env.Wall()
	e.mu.RUnlock()
	list := make([]LevelInfo, e.levels.Levels())
	for i := range list {
		l := &list[i]
		l.Level = i + 1
		delay, _, _, err := e.levels.Delay(i + 1)
		if err != nil {
			return nil, err
		}
		l.DelayMs = delay
		if q := e.schedule.Queue(delay); q != nil {
			if err := l.read(q, frontier, now); err != nil {
				return nil, fmt.Errorf("engine: level %d: %w", i+1, err)
			}
		}
	}
	return list, nil
}

// read looks at the level's queue, in which order is that of due times, so that a time of storing is one, too.
func (l *LevelInfo) read(q *schedule.Queue, frontier timerlog.Key, nowMs int64) error {
	end := q.Len()
	above := func(due int64) timerlog.Key { return timerlog.Key{Due: due, ID: ^uint64(0)} }
	var at [3]int64
	for i, key := range []timerlog.Key{frontier, above(nowMs - LevelWindowMs + l.DelayMs), above(nowMs - LevelWindowMs)} {
		var err error
		if at[i], err = q.Search(key); err != nil {
			return err
		}
		at[i] = min(at[i], end) // it may have grown meanwhile
	}
	l.Waiting, l.Came, l.Due = end-at[0], end-at[1], max(at[0]-at[2], 0)
	if l.Waiting > 0 {
		head, err := q.Entry(at[0])
		if err != nil && !errors.Is(err, schedule.ErrTrimmed) { // it fell due while we looked
			return err
		}
		l.HeadDueMs = head.Due
	}
	return nil
}

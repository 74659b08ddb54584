package engine

import (
	"errors"
	"fmt"

	"github.com/tidewheel/tidewheel/engine/consumequeue"
	"github.com/tidewheel/tidewheel/engine/handle"
	"github.com/tidewheel/tidewheel/engine/internal/segment"
)

// Bounds of a look-up of a place.
const (
	placeQueues = 64  // of the topic that are looked at
	placeUnits  = 256 // read at once
	placeReads  = 16  // of that many units, in each queue: 4,096
	placeBack   = 4   // of so many reads one is of units before the due time: the wall clock may have been slewed
)

// Place is where a message that waited became visible. It is a plain value.
type Place struct {
	Topic  string
	Queue  int
	Offset int64
	// AtMs is when, ms since 1970: from the running time of the store, so it may be up to a second off while the wall clock is
	// being slewed, but it is not before the due time. Events have it exactly.
	AtMs int64
}

// Place finds out where the message of a handle became visible, for one that Verdict calls Delivered, and that is released.
// It is cheap enough for the answer to a cancel that comes too late, and so it looks at little: in each queue of the topic, 64 at
// most, at 4,096 units about the due time. ok is false when the message is not there: it is in its stage, or was dropped or
// replaced by a plugin, or it was rolled (the handle does not say where to), or trimmed, or is so late that it lies farther behind;
// then Explain tells more. Safe for concurrent use.
func (e *Engine) Place(h handle.Handle) (p Place, ok bool, err error) {
	if e.closed.Load() {
		return Place{}, false, ErrClosed
	}
	p, queues, dueLog := e.placesOf(h)
	if h.Position < e.log.First() {
		return Place{}, false, nil
	}
	// A message is found in the first units behind its due time, unless the store was behind: all queues are looked at there
	// before any is looked at farther away.
	var units [placeUnits]consumequeue.Unit
	for read := range placeReads {
		for i := range queues {
			found, u, err := queues[i].look(h.Position, dueLog, read%placeBack == 1, units[:])
			switch {
			case errors.Is(err, consumequeue.ErrTrimmed), errors.Is(err, segment.ErrClosed): // while we looked
				queues[i].q = nil
			case err != nil:
				return Place{}, false, fmt.Errorf("engine: place in queue %d of topic %q: %w", queues[i].number, p.Topic, err)
			case found >= 0:
				p.Queue, p.Offset, p.AtMs = queues[i].number, found, max(e.wallOf(u.LogMs), h.Due)
				return p, true, nil
			}
		}
	}
	return Place{}, false, nil
}

// placeQueue is a queue that a place is looked for in: units in [from, to) were looked at.
type placeQueue struct {
	number   int
	q        *consumequeue.Queue // nil: there is nothing to look at
	begun    bool
	from, to consumequeue.QueueOffset
}

// placesOf lists the queues in which a message may be, and translates its due time.
func (e *Engine) placesOf(h handle.Handle) (p Place, queues []placeQueue, dueLog int64) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	t := e.st.Topics[h.Topic]
	if t == nil {
		return Place{}, nil, 0
	}
	p.Topic = t.Name
	for n := range min(len(t.Queues), placeQueues) {
		if q := e.queues.Queue(t.ID, uint32(n)); q != nil {
			queues = append(queues, placeQueue{number: n, q: q})
		}
	}
	return p, queues, e.st.LogTimeOf(h.Due)
}

// look reads the next units behind those that were looked at, or before them, and returns the offset of the one with the position;
// -1: it is none of them.
func (s *placeQueue) look(pos Offset, dueLog int64, back bool, units []consumequeue.Unit) (int64, consumequeue.Unit, error) {
	if s.q == nil {
		return -1, consumequeue.Unit{}, nil
	}
	if !s.begun {
		at, err := s.q.SearchLogTime(dueLog)
		if err != nil {
			return -1, consumequeue.Unit{}, err
		}
		s.from, s.to, s.begun = at, at, true
	}
	at := s.to
	if back {
		at = max(s.from-placeUnits, s.q.First())
		units = units[:max(s.from-at, 0)]
	}
	n, err := s.q.Units(at, units)
	if back {
		s.from = at
	} else {
		s.to += consumequeue.QueueOffset(n)
	}
	for i, u := range units[:n] {
		if u.Position == pos && u.Flags&consumequeue.FlagHole == 0 {
			return int64(at) + int64(i), u, nil
		}
	}
	return -1, consumequeue.Unit{}, err
}

// wallOf translates a running time of the store.
func (e *Engine) wallOf(logMs int64) int64 {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.st.WallTimeOf(logMs)
}

package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// Event is one line of the input.
type Event struct {
	AtMs          int64           `json:"at_ms"` // after the start of the run; when it is put
	Topic         string          `json:"topic"`
	ID            string          `json:"id"` // unique
	Tag           string          `json:"tag"`
	Level         int             `json:"level,omitempty"`           // of the delay
	DelayMs       int64           `json:"delay_ms,omitempty"`        // instead of a level
	CancelAfterMs int64           `json:"cancel_after_ms,omitempty"` // after it is acknowledged; 0: never
	MoveAfterMs   int64           `json:"move_after_ms,omitempty"`   // after it is acknowledged; 0: never
	MoveByMs      int64           `json:"move_by_ms,omitempty"`      // later, or below 0 earlier
	Paid          bool            `json:"paid,omitempty"`            // the filter drops it when it is due
	Body          json.RawMessage `json:"body"`
}

// delays are what levels 1 to 3 of the default table stand for.
var delays = [...]time.Duration{time.Second, 5 * time.Second, 10 * time.Second}

// delay is what was asked for when the event is put.
func (e *Event) delay() time.Duration {
	if e.Level > 0 {
		return delays[e.Level-1]
	}
	return time.Duration(e.DelayMs) * time.Millisecond
}

// shift is by how much the event is moved.
func (e *Event) shift() time.Duration { return time.Duration(e.MoveByMs) * time.Millisecond }

// check says what is wrong with an event.
func (e *Event) check() error {
	switch {
	case e.Level < 0 || e.Level > len(delays) || e.Level == 0 && e.DelayMs == 0:
		return fmt.Errorf("level is %d, allowed is 1 to %d, or a delay", e.Level, len(delays))
	case e.Level != 0 && e.DelayMs != 0:
		return errors.New("it has a level and a delay")
	case e.AtMs < 0 || e.DelayMs < 0 || e.CancelAfterMs < 0 || e.MoveAfterMs < 0:
		return errors.New("a time is below 0")
	case e.CancelAfterMs != 0 && e.MoveAfterMs != 0:
		return errors.New("it is cancelled and moved")
	case e.Paid && e.Topic != filteredTopic:
		return fmt.Errorf("it is paid, and its topic is not %s", filteredTopic)
	case (e.MoveAfterMs != 0) != (e.MoveByMs != 0):
		return errors.New("a move needs its time and its length")
	}
	return nil
}

// ParseEvents reads NDJSON and returns the events by time.
func ParseEvents(ndjson []byte) ([]Event, error) {
	var events []Event
	ids := map[string]bool{}
	dec := json.NewDecoder(bytes.NewReader(ndjson))
	for {
		var e Event
		if err := dec.Decode(&e); err == io.EOF {
			break
		} else if err != nil {
			return nil, fmt.Errorf("demo: event %d: %w", len(events)+1, err)
		}
		switch {
		case e.check() != nil:
			return nil, fmt.Errorf("demo: event %d: %w", len(events)+1, e.check())
		case e.ID == "" || ids[e.ID]:
			return nil, fmt.Errorf("demo: event %d: id %q is empty or not unique", len(events)+1, e.ID)
		}
		ids[e.ID] = true
		events = append(events, e)
	}
	if len(events) == 0 {
		return nil, fmt.Errorf("demo: no events")
	}
	slices.SortStableFunc(events, func(a, b Event) int { return int(a.AtMs - b.AtMs) })
	return events, nil
}

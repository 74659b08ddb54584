package demo

import (
	"bytes"
	"encoding/json"
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
	Level         int             `json:"level"`                     // of the delay
	CancelAfterMs int64           `json:"cancel_after_ms,omitempty"` // after it is acknowledged; 0: never
	Body          json.RawMessage `json:"body"`
}

// delays are what levels 1 to 3 of the default table stand for.
var delays = [...]time.Duration{time.Second, 5 * time.Second, 10 * time.Second}

// delay is what the event's level stands for.
func (e *Event) delay() time.Duration { return delays[e.Level-1] }

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
		case e.Level < 1 || e.Level > len(delays):
			return nil, fmt.Errorf("demo: event %d: level is %d, allowed is 1 to %d", len(events)+1, e.Level, len(delays))
		case e.ID == "" || ids[e.ID]:
			return nil, fmt.Errorf("demo: event %d: id %q is empty or not unique", len(events)+1, e.ID)
		case e.AtMs < 0 || e.CancelAfterMs < 0:
			return nil, fmt.Errorf("demo: event %d: a time is below 0", len(events)+1)
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

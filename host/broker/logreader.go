package broker

import (
	"context"
	"fmt"

	"github.com/tidewheel/tidewheel/engine"
)

// LogReader reads what happened, and the messages that it happened to, stages included, beside everybody else and without waiting
// for more. It holds nothing that would have to be closed. Not safe for concurrent use.
type LogReader struct {
	b   *Broker
	r   *engine.EventReader
	end engine.Offset
}

// LogReader makes a reader from a place in the log on; EventFilter.From says which there are. The errors are those of Events.
func (b *Broker) LogReader(from engine.Offset) (*LogReader, error) {
	r, err := b.eventReader(EventFilter{From: from})
	if err != nil {
		return nil, err
	}
	return &LogReader{b, r, max(b.e.Released(), r.At())}, nil
}

// At is where Read goes on. It may be before where the reader is to begin.
func (r *LogReader) At() engine.Offset { return r.r.At() }

// End is where the log ended when the reader was made.
func (r *LogReader) End() engine.Offset { return r.end }

// Read appends the next events to into, about 4 MiB of log at a time, and only what is durable. None and the same At mean that
// the end is reached for now. The errors are those of Events.
func (r *LogReader) Read(ctx context.Context, into []engine.Event) ([]engine.Event, error) {
	return r.b.readEvents(ctx, r.r, into)
}

// Pull reads messages of a queue, as engine.Engine.Pull.
func (r *LogReader) Pull(req engine.PullRequest, into *engine.Pulled) error {
	if err := r.b.enter(); err != nil {
		return err
	}
	defer r.b.leave()
	if err := r.b.e.Pull(req, into); err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	return nil
}

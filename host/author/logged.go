package author

import (
	"context"
	"fmt"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/pluginhost"
)

// VerifyLog asks a session's plugin again about every message that the log of an engine says it decided, as
// pluginhost.VerifyLog. The session is to have the settings that the plugin had.
func VerifyLog(ctx context.Context, e *engine.Engine, s *Session) (pluginhost.Logged, error) {
	r, err := e.NewEventReader("", e.First())
	if err != nil {
		return pluginhost.Logged{}, fmt.Errorf("author: verify the log: %w", err)
	}
	return pluginhost.VerifyLog(ctx, engineLog{e, r}, s.plugin, nil)
}

// engineLog is the log of an engine that nobody writes to.
type engineLog struct {
	*engine.Engine
	r *engine.EventReader
}

// At is where Read goes on.
func (l engineLog) At() engine.Offset { return l.r.At() }

// Read appends the next events.
func (l engineLog) Read(_ context.Context, into []engine.Event) ([]engine.Event, error) {
	events, _, err := l.r.Read(into)
	return events, err
}

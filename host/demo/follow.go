package demo

import (
	"context"
	"time"

	"github.com/tidewheel/tidewheel/host/client"
)

// follow hears from the server what the filter decided, across its kills, until the context ends. The verdicts are in the log:
// one that was told and is lost by a kill would be told again, and counted as twice.
func (r *run) follow(ctx context.Context) {
	ids := map[string]string{} // the event by its message
	after := int64(0)
	for ctx.Err() == nil {
		c, changed, err := r.up.client(ctx)
		if err != nil {
			return
		}
		for ev, err := range c.Events(ctx, client.Events{Topic: filteredTopic, From: "first", After: after}) {
			if err != nil {
				break // the server is gone, or has not got the topic yet
			}
			after = int64(ev.Position)
			switch {
			case ev.Kind == "scheduled" || ev.Kind == "moved":
				ids[ev.MessageID] = ev.Key
			case ev.Kind == "decided" && ev.Action == "drop":
				r.ledger.filtered(ids[ev.MessageID])
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

package httpapi

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/broker"
)

// lastEventID is the header by which a browser goes on where it was.
const lastEventID = "Last-Event-ID"

var eventRoutes = []route{
	{
		method: "GET", pattern: "/v1/events", id: "events", group: "Timers", role: RoleRead,
		summary: "What happens, as server-sent events",
		text: "Each event is what became durable, once, in the order of the log. Its id is its place there: sent as " + lastEventID +
			", which browsers do by themselves, the stream goes on right behind it, also after a restart. Its name is its kind, " +
			"its data one LogEvent. At the end it waits for more; a comment each 15 seconds keeps the connection.",
		params: []param{
			{in: inQuery, name: "topic", text: "only of this topic, which need not be there yet"},
			{in: inQuery, name: "from", text: "where to begin: now, first (the oldest there is), or a position"},
			{in: inHeader, name: lastEventID, text: "the id of the last event that was seen; it counts before from"},
		},
		gives: []content{{eventMedia, reflect.TypeFor[LogEvent](), ""}}, waits: true,
		problems: []string{"trimmed", "offset"}, handle: (*API).events,
	},
}

// LogEvent is something that happened, as the stream tells it. What a kind does not speak of is left out.
type LogEvent struct {
	Kind     string `json:"kind" doc:"stored, scheduled, staged, decided, delivered, moved, cancelled, undone, dropped, committed, topic and so on"`
	Position Int64  `json:"position" doc:"its place in the log, which is the event's id"`
	At       string `json:"at" format:"date-time" doc:"when it was decided"`
	AtMs     int64  `json:"at_ms"`

	MessageID  string `json:"message_id,omitempty"`
	Topic      string `json:"topic,omitempty"`
	Group      string `json:"group,omitempty"`
	Key        string `json:"key,omitempty"`
	Tag        string `json:"tag,omitempty"`
	Queue      *int   `json:"queue,omitempty"`
	Offset     *Int64 `json:"offset,omitempty" doc:"in the queue"`
	DueMs      int64  `json:"due_ms,omitempty"`
	NewDueMs   int64  `json:"new_due_ms,omitempty" doc:"of a move or an undo"`
	LatenessMs *int64 `json:"lateness_ms,omitempty" doc:"of a delivery: from the due time until it was decided"`
	Size       int    `json:"size,omitempty" doc:"bytes of the message's record"`
	Paused     *bool  `json:"paused,omitempty" doc:"of a topic"`
	Staged     bool   `json:"staged,omitempty" doc:"of a topic: what falls due waits for a plugin's verdict"`
	Action     string `json:"action,omitempty" doc:"what was decided about a message: keep, drop, retry, dead_letter, route, replace, error"`
	Code       int    `json:"code,omitempty" doc:"the plugin's reason"`
	Plugin     string `json:"plugin,omitempty" doc:"SHA-256 of the file of the plugin that decided"`
}

// Times of a stream.
const (
	eventPing  = 15 * time.Second
	eventGrace = 100 * time.Millisecond // within which an error of the begin is there, if there is one
)

// events sends what happens until the client goes or the server ends.
func (a *API) events(c *call) error {
	q := c.query()
	f := broker.EventFilter{Topic: q.text("topic")}
	var err error
	if f.From, err = eventFrom(q, c.r.Header.Get(lastEventID)); err != nil {
		return err
	}
	ctx, cancel := both(c.ctx(), a.drained)
	feed := make(chan fed)
	ended := make(chan struct{})
	defer func() {
		cancel()
		<-ended
	}()
	go func() {
		defer close(ended)
		defer close(feed)
		for ev, err := range a.b.Events(ctx, f) {
			select {
			case feed <- fed{ev, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return a.stream(ctx, c, feed)
}

// fed is what comes out of the broker's stream.
type fed struct {
	ev  broker.Event
	err error
}

// eventFrom is where to begin.
func eventFrom(q *query, last string) (engine.Offset, error) {
	text, field := q.text("from"), "from"
	if q.err != nil {
		return 0, q.err
	}
	if last != "" {
		text, field = last, lastEventID
	}
	switch {
	case last == "" && (text == "" || text == "now"):
		return broker.EventsFromNow, nil
	case last == "" && text == "first":
		return broker.EventsFromFirst, nil
	}
	pos, err := strconv.ParseInt(text, 10, 64)
	if err != nil || pos < 0 || pos == 1<<63-1 {
		return 0, badField(field, text, "now, first, or a position", "")
	}
	if last != "" || pos == 0 { // position 0 is no record's: it means the begin of a new log
		pos++
	}
	return engine.Offset(pos), nil
}

// stream sends events. An error before the first byte is a problem; later it is an event of its own, and the end.
func (a *API) stream(ctx context.Context, c *call, feed <-chan fed) error {
	rc := http.NewResponseController(c.w)
	begun := false
	begin := func() error {
		begun = true
		c.w.Header().Set("Content-Type", eventMedia)
		c.w.Header().Set("Cache-Control", "no-store")
		c.w.Header().Set("X-Accel-Buffering", "no") // a proxy would hold events back
		return send(c, rc, "retry: 1000\n\n")
	}
	tick := time.NewTimer(eventGrace)
	defer tick.Stop()
	for {
		select {
		case got, ok := <-feed:
			if !ok || got.err != nil && ctx.Err() != nil {
				return nil
			}
			if got.err != nil && !begun {
				return got.err
			}
			if got.err != nil {
				return gone(send(c, rc, problemEvent(got.err)))
			}
			if !begun {
				if err := begin(); err != nil {
					return gone(err)
				}
			}
			if err := send(c, rc, eventText(&got.ev)); err != nil {
				return gone(err)
			}
		case <-tick.C:
			text := ": still here\n\n"
			if !begun {
				if err := begin(); err != nil {
					return gone(err)
				}
				text = ""
			}
			if err := send(c, rc, text); err != nil {
				return gone(err)
			}
		case <-ctx.Done():
			return nil
		}
		tick.Reset(eventPing)
	}
}

// send writes a piece of the stream; a client that does not take it within answerTime is let go.
func send(c *call, rc *http.ResponseController, text string) error {
	deadline(rc.SetWriteDeadline, answerTime)
	if _, err := c.w.Write([]byte(text)); err != nil {
		return err
	}
	return rc.Flush()
}

// eventText is an event as the stream has it.
func eventText(ev *broker.Event) string {
	out := LogEvent{
		Kind: ev.Kind, Position: Int64(ev.Position), At: instantText(ev.WallMs), AtMs: ev.WallMs, MessageID: ev.MessageID,
		Topic: ev.TopicName, Group: ev.GroupName, Key: ev.Key, Tag: ev.Tag, DueMs: ev.DueMs, NewDueMs: ev.NewDueMs, Size: int(ev.Size),
	}
	if ev.Offset >= 0 {
		queue, offset := int(ev.Queue), Int64(ev.Offset)
		out.Queue, out.Offset = &queue, &offset
	}
	switch ev.Kind {
	case engine.EventDelivered:
		late := ev.LatenessMs()
		out.LatenessMs = &late
	case engine.EventTopic:
		out.Paused, out.Staged = &ev.Paused, ev.Staged
	}
	out.Action, out.Code, out.Plugin = verdictOf(&ev.Event)
	return eventLines(strconv.FormatInt(int64(ev.Position), 10), ev.Kind, out)
}

// verdictOf is what a plugin decided about the message of an event: an action, a code, and the digest of its file. None of
// them is there when no plugin did.
func verdictOf(ev *engine.Event) (action string, code int, plugin string) {
	v := ev.Verdict
	if v == nil {
		return "", 0, ""
	}
	if v.Asked {
		plugin = hex.EncodeToString(v.Digest[:])
	}
	return engine.ActionName(v.Action), int(v.Code), plugin
}

// problemEvent is an error within a stream. It has no id, so a client that comes again begins where it was.
func problemEvent(err error) string { return eventLines("", "problem", asProblem(err)) }

func eventLines(id, name string, data any) string {
	var b bytes.Buffer
	if id != "" {
		fmt.Fprintf(&b, "id: %s\n", id)
	}
	fmt.Fprintf(&b, "event: %s\ndata: ", name)
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(data) // its types always can be
	b.WriteString("\n")
	return b.String()
}

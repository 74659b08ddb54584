package httpapi

import (
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/config"
)

var adminRoutes = []route{
	{
		method: "GET", pattern: "/v1/config", id: "config", group: "Server", role: RoleOperate,
		summary: "Every key of the configuration with its value, and where that came from", text: "Secrets are not shown.",
		gives: jsonOf[Configuration](), handle: (*API).config,
	},
	{
		method: "POST", pattern: "/v1/dev/clock", id: "advanceClock", group: "Server", role: RoleOperate,
		summary: "Move the clock of a server that was started with one to be moved by hand",
		text: "The answer comes when everything that is due then is delivered. Any other server refuses: " +
			"tidewheel dev --clock manual starts one.",
		takes: jsonOf[Advance](), gives: jsonOf[ServerTime](), problems: []string{"clock_is_real", "bad_request"},
		handle: (*API).advanceClock,
	},
	{
		method: "GET", pattern: "/v1/levels", id: "levels", group: "Timers", role: RoleRead,
		summary: "What waits in each delay level",
		text: "Read off the levels' queues, so it costs the same whatever waits: messages that were cancelled or moved count until " +
			"the time that they had.",
		gives: jsonOf[Levels](), handle: (*API).levels,
	},
	{
		method: "GET", pattern: "/v1/messages/{id}", id: "showMessage", group: "Messages", role: RoleRead,
		summary: "Read a message by its id", text: "While the record of its put is in the log.",
		params: []param{{in: inPath, name: "id", text: "the id that a put answered"}},
		gives:  jsonOf[StoredMessage](), problems: []string{"unknown_message", "given_up"}, handle: (*API).showMessage,
	},
}

// Configuration is every key with its value.
type Configuration struct {
	Settings []config.Setting `json:"settings"`
}

func (a *API) config(c *call) error {
	out := Configuration{Settings: []config.Setting{}}
	if a.opts.Settings != nil {
		out.Settings = append(out.Settings, a.opts.Settings()...)
	}
	return c.answer(out)
}

// Advance says how far to move the clock.
type Advance struct {
	Advance string `json:"advance" doc:"a duration, as 48h or 7d12h"`
}

// advanceClock moves the clock by hand, and waits until what is due then is delivered.
func (a *API) advanceClock(c *call) error {
	if a.opts.Clock == nil {
		return problem("clock_is_real")
	}
	var req Advance
	if err := c.json(&req); err != nil {
		return err
	}
	d, err := config.ParseDuration(req.Advance)
	if err != nil {
		return badField("advance", req.Advance, "whole numbers with units, of y w d h m s ms", `as in "48h"`)
	}
	now, err := a.opts.Clock.Advance(time.Duration(d))
	if err != nil {
		return err
	}
	if err := a.b.CatchUp(c.ctx()); err != nil {
		return err
	}
	return c.answer(ServerTime{Now: instantText(now), NowMs: now})
}

// Levels is the table of delay levels with what is in them.
type Levels struct {
	Levels []Level `json:"levels"`
	Now    string  `json:"now" format:"date-time"`
}

// Level is one delay level.
type Level struct {
	Level     int     `json:"level"`
	Delay     string  `json:"delay"`
	DelayMs   int64   `json:"delay_ms"`
	Waiting   int64   `json:"waiting"`
	InPerSec  float64 `json:"in_per_s" doc:"messages that were stored, over the last minute"`
	OutPerSec float64 `json:"out_per_s" doc:"messages that fell due, over the last minute"`
	HeadDue   string  `json:"head_due,omitempty" format:"date-time" doc:"when the next one is due"`
	HeadDueMs int64   `json:"head_due_ms,omitempty"`
	HeadAgeMs int64   `json:"head_age_ms,omitempty" doc:"how long that one has waited"`
}

// levels tells of the delay levels.
func (a *API) levels(c *call) error {
	infos, err := a.b.LevelInfos()
	if err != nil {
		return err
	}
	now := a.b.NowMs()
	out := Levels{Levels: []Level{}, Now: instantText(now)}
	const window = float64(engine.LevelWindowMs) / 1000
	for _, l := range infos {
		level := Level{
			Level: l.Level, Delay: config.Duration(time.Duration(l.DelayMs) * time.Millisecond).String(), DelayMs: l.DelayMs,
			Waiting: l.Waiting, InPerSec: float64(l.Came) / window, OutPerSec: float64(l.Due) / window,
		}
		if l.HeadDueMs != 0 {
			level.HeadDue, level.HeadDueMs = instantText(l.HeadDueMs), l.HeadDueMs
			level.HeadAgeMs = max(now-(l.HeadDueMs-l.DelayMs), 0)
		}
		out.Levels = append(out.Levels, level)
	}
	return c.answer(out)
}

// StoredMessage is a message by its id.
type StoredMessage struct {
	ID         string            `json:"id"`
	Topic      string            `json:"topic,omitempty" doc:"none: it was deleted"`
	Queue      int               `json:"queue"`
	Position   Int64             `json:"position" doc:"in the log"`
	Key        string            `json:"key,omitempty"`
	Tag        string            `json:"tag,omitempty"`
	Properties map[string]string `json:"properties,omitempty"`
	Body       *string           `json:"body,omitempty"`
	BodyBase64 []byte            `json:"body_base64,omitempty" doc:"instead of body, of one that is not UTF-8"`
	DelayLevel int               `json:"delay_level,omitempty"`
	DueMs      int64             `json:"due_ms,omitempty"`
	StoredMs   int64             `json:"stored_ms,omitempty"`
	BornMs     int64             `json:"born_ms,omitempty"`
}

// showMessage reads a message by its id.
func (a *API) showMessage(c *call) error {
	id := c.path("id")
	m, err := a.b.View(id)
	if err != nil {
		return messageProblem(id, err)
	}
	topics, err := a.b.Topics(c.ctx())
	if err != nil {
		return err
	}
	_, own := m.IdempotencyKey()
	out := StoredMessage{
		ID: id, Queue: int(m.Queue), Position: Int64(m.Position), Key: string(m.Key), Tag: string(m.Tag),
		Properties: wireProperties(own), DelayLevel: int(m.Level), DueMs: m.DueMs, StoredMs: m.StoreMs, BornMs: m.BornMs,
	}
	out.Body, out.BodyBase64 = wireBody(m.Body)
	for i := range topics {
		if topics[i].ID == m.Topic {
			out.Topic = topics[i].Name
		}
	}
	return c.answer(out)
}

// messageProblem says why a message cannot be read by its id: what is not there, and what may not be seen yet.
func messageProblem(id string, err error) error {
	if !isAny(err, engine.ErrNoMessage, engine.ErrPending) {
		return err
	}
	p := problem("unknown_message")
	p.Field, p.Got, p.Detail = "id", shorten(id), beyond(err, engine.ErrNoMessage)
	return p
}

package httpapi

import (
	"encoding/hex"
	"errors"
	"math"
	"net/http"
	"strconv"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/instant"
)

// maxLetters is the most that a page of dead letters has.
const maxLetters = 1000

var letterFilter = []param{
	groupParam,
	{in: inQuery, name: "topic", text: "only those that were put into this topic"},
	{in: inQuery, name: "key", text: "only with this key"},
	{in: inQuery, name: "tag", text: "only with this tag"},
	{in: inQuery, name: "reason", text: "only with this in their reason, in any case"},
	{in: inQuery, name: "from", kind: kindWhen, text: "given up at or after"},
	{in: inQuery, name: "to", kind: kindWhen, text: "given up before"},
	{in: inQuery, name: "limit", kind: kindWhole, min: 1, max: maxLetters, def: "100", text: "the most of the page"},
	{in: inQuery, name: "page", text: "next of the page before; none: the first"},
}

var letterRoutes = []route{
	{
		method: "GET", pattern: "/v1/dlq", id: "listDeadGroups", group: "Dead letters", role: RoleRead,
		summary: "How many dead letters each group has", text: "Groups without any are left out.",
		gives: jsonOf[DeadGroups](), handle: (*API).listDeadGroups,
	},
	{
		method: "GET", pattern: "/v1/dlq/{group}", id: "listDeadLetters", group: "Dead letters", role: RoleRead,
		summary: "List the messages that a group gave up, in that order", params: letterFilter,
		gives: jsonOf[DeadLetters](), problems: []string{"group_name", "unknown_group", "bad_request"}, handle: (*API).listDeadLetters,
	},
	{
		method: "GET", pattern: "/v1/dlq/{group}/{offset}", id: "showDeadLetter", group: "Dead letters", role: RoleRead,
		summary: "Show a dead letter",
		params:  []param{groupParam, {in: inPath, name: "offset", kind: kindWhole, max: math.MaxInt64, text: "its offset"}},
		gives:   jsonOf[DeadLetter](), problems: []string{"unknown_message", "group_name"}, handle: (*API).showDeadLetter,
	},
	{
		method: "POST", pattern: "/v1/dlq/{group}/retry", id: "retryDeadLetters", group: "Dead letters", role: RoleOperate,
		summary: "Have dead letters delivered again, as if for the first time",
		text: "Those that match, or all. With dry_run they are counted, and before of the answer keeps to those that were counted. " +
			"They go to their topic, for all its groups, or with to_group to the group alone.",
		params: []param{groupParam}, takes: jsonOf[DeadSelection](), gives: jsonOf[DeadDone](),
		problems: append([]string{"group_name", "unknown_group", "unknown_topic", "bad_request"}, putProblems...), handle: (*API).retryDeadLetters,
	},
	{
		method: "POST", pattern: "/v1/dlq/{group}/drop", id: "dropDeadLetters", group: "Dead letters", role: RoleOperate,
		summary: "Remove dead letters", text: "Those that match, or all; dry_run and before are as with retry.",
		params: []param{groupParam}, takes: jsonOf[DeadSelection](), gives: jsonOf[DeadDone](),
		problems: []string{"group_name", "unknown_group", "bad_request", "unknown_outcome", "failed"}, handle: (*API).dropDeadLetters,
	},
}

// DeadGroups says how many dead letters groups have.
type DeadGroups struct {
	Groups []DeadGroup `json:"groups"`
}

// DeadGroup is a group with dead letters.
type DeadGroup struct {
	Group       string `json:"group"`
	DeadLetters int64  `json:"dead_letters"`
}

// DeadLetters is a page of dead letters.
type DeadLetters struct {
	Letters []DeadLetter `json:"letters"`
	Next    string       `json:"next,omitempty" doc:"the page that follows; none: that was all"`
}

// DeadLetter is a message that a group gave up.
type DeadLetter struct {
	Offset      Int64             `json:"offset" doc:"names it among the group's dead letters"`
	Topic       string            `json:"topic" doc:"that it was put into"`
	Queue       int               `json:"queue"`
	TopicOffset Int64             `json:"topic_offset" doc:"where it stood in that queue"`
	ID          string            `json:"id" doc:"of the message at its first delivery"`
	Attempts    int               `json:"attempts"`
	Reason      string            `json:"reason,omitempty" doc:"why the last one failed"`
	Plugin      string            `json:"plugin,omitempty" doc:"that gave it up, if one did"`
	Hook        string            `json:"hook,omitempty" doc:"where it did: publish, due, consume or deliver"`
	Code        int               `json:"code,omitempty" doc:"why, as a number of the plugin's own"`
	Digest      string            `json:"digest,omitempty" doc:"SHA-256 of the plugin's file"`
	FirstMs     int64             `json:"first_ms,omitempty" doc:"when the first one failed"`
	DiedMs      int64             `json:"died_ms,omitempty" doc:"when it was given up"`
	Key         string            `json:"key,omitempty"`
	Tag         string            `json:"tag,omitempty"`
	Properties  map[string]string `json:"properties,omitempty"`
	Body        *string           `json:"body,omitempty"`
	BodyBase64  []byte            `json:"body_base64,omitempty" doc:"instead of body, of one that is not UTF-8"`
	BornMs      int64             `json:"born_ms,omitempty"`
	Problem     *Problem          `json:"problem,omitempty" doc:"why it cannot be read; the rest but offset is empty then"`
}

// DeadSelection says which dead letters are meant; of what is there, all must hold.
type DeadSelection struct {
	Offsets []Int64 `json:"offsets,omitempty" doc:"one of these"`
	Topic   string  `json:"topic,omitempty"`
	Key     string  `json:"key,omitempty"`
	Tag     string  `json:"tag,omitempty"`
	Reason  string  `json:"reason,omitempty" doc:"part of the reason, in any case"`
	From    string  `json:"from,omitempty" doc:"given up at or after"`
	To      string  `json:"to,omitempty" doc:"given up before"`
	Before  Int64   `json:"before,omitempty" doc:"only offsets below it"`
	All     bool    `json:"all,omitempty" doc:"needed when nothing else is there"`
	ToGroup bool    `json:"to_group,omitempty" doc:"of a retry: to the group alone"`
	DryRun  bool    `json:"dry_run,omitempty" doc:"count only"`
}

// DeadDone says how many dead letters there were.
type DeadDone struct {
	Matched int64  `json:"matched"`
	Before  *Int64 `json:"before,omitempty" doc:"of a count: send it to keep to what was counted"`
}

func (a *API) listDeadGroups(c *call) error {
	groups, err := a.b.Groups(c.ctx())
	if err != nil {
		return err
	}
	out := DeadGroups{Groups: []DeadGroup{}}
	for i := range groups {
		if groups[i].DeadLetters > 0 {
			out.Groups = append(out.Groups, DeadGroup{groups[i].Name, groups[i].DeadLetters})
		}
	}
	return c.answer(out)
}

func (a *API) listDeadLetters(c *call) error {
	q, now := c.query(), a.b.NowMs()
	f := broker.DeadFilter{
		Topic: q.text("topic"), Key: q.text("key"), Tag: q.text("tag"), Reason: q.text("reason"),
		FromMs: q.instant("from", now, 0), ToMs: q.instant("to", now, 0),
	}
	limit, page := q.number("limit"), q.text("page")
	if q.err != nil {
		return q.err
	}
	p, err := a.b.DeadLettersPage(c.ctx(), c.path("group"), f, page, int(limit))
	if err != nil {
		return err
	}
	if len(p.Letters) == 0 && page == "" {
		if err := a.knowsGroup(c); err != nil {
			return err
		}
	}
	out := DeadLetters{Letters: []DeadLetter{}, Next: p.Next}
	for i := range p.Letters {
		out.Letters = append(out.Letters, wireLetter(&p.Letters[i]))
	}
	return c.answer(out)
}

// knowsGroup says that there is no such group, unless it had dead letters once.
func (a *API) knowsGroup(c *call) error {
	_, err := a.b.Topic(c.ctx(), broker.DeadLetterTopic(c.path("group")))
	if errors.Is(err, engine.ErrNoTopic) {
		_, err = a.b.Group(c.ctx(), c.path("group"))
	}
	return err
}

func wireLetter(l *broker.DeadLetter) DeadLetter {
	out := DeadLetter{Offset: Int64(l.Offset)}
	if l.Err != nil {
		out.Problem = asProblem(l.Err)
		return out
	}
	out.Topic, out.Queue, out.TopicOffset, out.ID = l.Topic, l.Queue, Int64(l.TopicOffset), l.ID
	out.Attempts, out.Reason, out.FirstMs, out.DiedMs = l.Attempts, l.Reason, l.FirstMs, l.DiedMs
	if l.Plugin != "" {
		out.Plugin, out.Hook, out.Code, out.Digest = l.Plugin, l.Hook, int(l.Code), hex.EncodeToString(l.Digest[:])
	}
	out.Key, out.Tag, out.Properties, out.BornMs = l.Key, l.Tag, l.Properties, l.BornMs
	out.Body, out.BodyBase64 = wireBody(l.Body)
	return out
}

func (a *API) showDeadLetter(c *call) error {
	text := c.path("offset")
	offset, err := strconv.ParseInt(text, 10, 64)
	if err != nil || offset < 0 {
		return badField("offset", text, "a whole number, 0 or more", "")
	}
	l, err := a.b.DeadLetter(c.ctx(), c.path("group"), offset)
	if errors.Is(err, engine.ErrNoMessage) {
		p := problem("unknown_message")
		p.Field, p.Got, p.Detail = "offset", text, beyond(err, engine.ErrNoMessage)
		return p
	}
	if err != nil {
		return err
	}
	return c.answer(wireLetter(&l))
}

func (a *API) retryDeadLetters(c *call) error {
	return a.deadLetters(c, func(group string, f broker.DeadFilter, toGroup bool) (int64, error) {
		to := broker.ToTopic
		if toGroup {
			to = broker.ToGroup
		}
		return a.b.RetryDeadLetters(c.ctx(), group, f, to)
	})
}

func (a *API) dropDeadLetters(c *call) error {
	return a.deadLetters(c, func(group string, f broker.DeadFilter, toGroup bool) (int64, error) {
		if toGroup {
			return 0, badField("to_group", "true", "nothing, when dead letters are dropped", "")
		}
		return a.b.DropDeadLetters(c.ctx(), group, f)
	})
}

// deadLetters counts what a selection means, or does something with it.
func (a *API) deadLetters(c *call, do func(group string, f broker.DeadFilter, toGroup bool) (int64, error)) error {
	var req DeadSelection
	if err := c.json(&req); err != nil {
		return err
	}
	f, err := a.deadFilter(&req)
	if err != nil {
		return err
	}
	deadline(http.NewResponseController(c.w).SetWriteDeadline, previewTime+answerTime)
	group := c.path("group")
	if req.DryRun {
		n, err := a.b.CountDeadLetters(c.ctx(), group, f)
		if err == nil && n.Count == 0 {
			err = a.knowsGroup(c)
		}
		if err != nil {
			return err
		}
		end := Int64(n.End)
		return c.answer(DeadDone{Matched: n.Count, Before: &end})
	}
	n, err := do(group, f, req.ToGroup)
	if err != nil {
		return err
	}
	return c.answer(DeadDone{Matched: n})
}

// deadFilter is what a selection means. One that means everything has to say so.
func (a *API) deadFilter(req *DeadSelection) (broker.DeadFilter, error) {
	f := broker.DeadFilter{Topic: req.Topic, Key: req.Key, Tag: req.Tag, Reason: req.Reason, Before: int64(req.Before)}
	for _, o := range req.Offsets {
		f.Offsets = append(f.Offsets, int64(o))
	}
	now := a.b.NowMs()
	for _, t := range []struct {
		field, text string
		into        *int64
	}{{"from", req.From, &f.FromMs}, {"to", req.To, &f.ToMs}} {
		if t.text == "" {
			continue
		}
		ms, err := instant.Parse(t.text, now)
		if err != nil {
			return f, badField(t.field, t.text, "RFC 3339 with its offset, @ms since 1970, or a duration from now", "")
		}
		*t.into = max(ms, 1)
	}
	narrow := f.Offsets != nil || f.Topic != "" || f.Key != "" || f.Tag != "" || f.Reason != "" || f.FromMs != 0 || f.ToMs != 0
	switch {
	case !narrow && !req.All && !req.DryRun:
		return f, badField("all", "false", "true, when nothing says which are meant", "")
	case narrow && req.All:
		return f, badField("all", "true", "nothing, when something says which are meant", "")
	}
	return f, nil
}

package httpapi

import (
	"net/http"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/host/config"
	"github.com/tidewheel/tidewheel/host/instant"
)

// maxTimers is the most that a page has.
const maxTimers = 1000

// listTimers lists waiting messages.
func (a *API) listTimers(w http.ResponseWriter, r *http.Request) error {
	q := newQuery(r, "topic", "from", "to", "tag", "key", "limit", "page")
	now := a.b.NowMs()
	f := engine.Filter{Topic: q.text("topic"), FromMs: q.instant("from", now, 0), ToMs: q.instant("to", now, 0)}
	for _, tag := range q.values["tag"] {
		f.Tags = append(f.Tags, message.TagHash(tag))
	}
	if key := q.text("key"); key != "" {
		f.KeyHash = message.KeyHash(key)
	}
	limit := q.number("limit", 1, maxTimers, 100)
	if q.err == nil && q.text("to") != "" && f.ToMs <= f.FromMs {
		q.fail("to", q.text("to"), "a time after from", "")
	}
	if q.err != nil {
		return q.err
	}
	p, err := a.b.TimersPage(r.Context(), f, q.text("page"), int(limit))
	if err != nil {
		return err
	}
	out := Timers{Timers: []Waiting{}, Next: p.Next, Now: instantText(now)}
	for i := range p.Messages {
		m := &p.Messages[i]
		out.Timers = append(out.Timers, Waiting{
			Handle: m.Handle, Topic: m.Topic, Queue: int(m.Queue), Due: instantText(m.DueMs), DueMs: m.DueMs,
			DueIn: dueIn(m.DueMs, now), Size: int(m.Size), DelayLevel: m.Level,
		})
	}
	if p.Next != "" {
		// Before anything was looked at it is the time before from, which may be none.
		out.ScannedToMs = max(p.ScannedTo, 0)
		out.ScannedTo = instantText(out.ScannedToMs)
	}
	return answer(w, http.StatusOK, out)
}

// horizonSteps is how many steps a horizon has whose end is not said.
const horizonSteps = 24

// horizon counts waiting messages by due time.
func (a *API) horizon(w http.ResponseWriter, r *http.Request) error {
	q := newQuery(r, "topic", "from", "to", "step")
	now := a.b.NowMs()
	step := q.duration("step", time.Hour)
	from := q.instant("from", now, now)
	if q.err == nil && step < time.Millisecond {
		q.fail("step", q.text("step"), "1ms or more", "")
	}
	if q.err != nil {
		return q.err
	}
	// Whole steps, so that hours are the hours that are counted anyway.
	ms := step.Milliseconds()
	from = max(from, 0) / ms * ms
	to := q.instant("to", now, min(from+horizonSteps*ms, maxDueMs))
	if q.err == nil && to <= from {
		q.fail("to", q.text("to"), "a time after from", "")
	}
	if q.err != nil {
		return q.err
	}
	if to = min(to, maxDueMs); to%ms != 0 && to <= maxDueMs-ms {
		to += ms - to%ms
	}
	h, err := a.b.Horizon(r.Context(), q.text("topic"), from, to, ms)
	if err != nil {
		return err
	}
	out := Horizon{
		Topic: q.text("topic"), FromMs: h.FromMs, ToMs: to, StepMs: h.StepMs, Counts: h.Counts, ScannedToMs: h.ScannedTo,
		Complete: h.ScannedTo >= to, Now: instantText(now),
	}
	for _, n := range h.Counts {
		out.Total += n
	}
	return answer(w, http.StatusOK, out)
}

// instant reads a time, ms since 1970; absent it is what missing says. A time before 1970 is its begin.
func (q *query) instant(name string, nowMs, missing int64) int64 {
	values := q.values[name]
	if len(values) == 0 {
		return missing
	}
	ms, err := instant.Parse(values[0], nowMs)
	if err != nil {
		q.fail(name, values[0], "RFC 3339 with its offset, @ms since 1970, or a duration from now", "in a query + is written %2B")
	}
	return max(ms, 0)
}

// duration reads a duration; absent it is what missing says.
func (q *query) duration(name string, missing time.Duration) time.Duration {
	values := q.values[name]
	if len(values) == 0 {
		return missing
	}
	d, err := config.ParseDuration(values[0])
	if err != nil {
		q.fail(name, values[0], "whole numbers with units, of y w d h m s ms", `as in "1h"`)
	}
	return time.Duration(d)
}

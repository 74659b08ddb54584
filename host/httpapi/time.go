package httpapi

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/config"
	"github.com/tidewheel/tidewheel/host/instant"
)

// asked is one answer to the question when a message becomes visible.
type asked struct {
	field, got string
	read       func(a *API, f asked) (broker.When, error)
}

// headerTime is the time of a raw message. A header that is there and empty is refused: it was meant to say something.
func (a *API) headerTime(h http.Header) (broker.When, error) {
	var all []asked
	for _, f := range []asked{
		{HeaderLevel, "", (*API).level}, {HeaderDelay, "", (*API).delay}, {HeaderDeliver, "", (*API).deliverAt},
		{HeaderMs, "", (*API).deliverAtMs},
	} {
		if values := h.Values(f.field); len(values) > 0 {
			f.got = values[0]
			all = append(all, f)
		}
	}
	return a.onlyTime(all)
}

// envelopeTime is the time of an envelope.
func (a *API) envelopeTime(e *Envelope) (broker.When, error) {
	var all []asked
	if e.DelayLevel != 0 {
		all = append(all, asked{"delay_level", strconv.Itoa(e.DelayLevel), (*API).level})
	}
	return a.onlyTime(append(all, e.asked()...))
}

// asked lists what is set.
func (t *Time) asked() []asked {
	var all []asked
	if t.Delay != nil {
		all = append(all, asked{"delay", *t.Delay, (*API).delay})
	}
	if t.DeliverAt != nil {
		all = append(all, asked{"deliver_at", *t.DeliverAt, (*API).deliverAt})
	}
	if t.DeliverAtMs != nil {
		all = append(all, asked{"deliver_at_ms", strconv.FormatInt(*t.DeliverAtMs, 10), (*API).deliverAtMs})
	}
	return all
}

// onlyTime reads the one time there is; none means at once.
func (a *API) onlyTime(all []asked) (broker.When, error) {
	switch len(all) {
	case 0:
		return broker.When{}, nil
	case 1:
		return all[0].read(a, all[0])
	}
	return broker.When{}, twoTimes(all)
}

func twoTimes(all []asked) error {
	return badField(all[1].field, all[1].got+" beside "+all[0].field, "one time", "leave one of them out")
}

func (a *API) level(f asked) (broker.When, error) {
	level, err := strconv.Atoi(f.got)
	if err != nil {
		return broker.When{}, badField(f.field, f.got, "a whole number, 0 or more", "1 is the first of: "+a.b.Levels())
	}
	return broker.Level(level), nil
}

func (a *API) delay(f asked) (broker.When, error) {
	d, err := config.ParseDuration(f.got)
	if err != nil {
		return broker.When{}, badField(f.field, f.got, "whole numbers with units, of y w d h m s ms", `as in "7d12h" or "30m"`)
	}
	if time.Duration(d) > a.b.MaxDelay() {
		return broker.When{}, a.tooLong(f)
	}
	if d == 0 {
		return broker.When{}, nil
	}
	return broker.In(time.Duration(d)), nil
}

func (a *API) deliverAt(f asked) (broker.When, error) {
	ms, err := instant.RFC3339(f.got)
	if err != nil {
		return broker.When{}, badField(f.field, f.got, "RFC 3339 with its offset", `as in "2026-12-24T18:00:00+01:00"`)
	}
	return a.at(f, ms)
}

func (a *API) deliverAtMs(f asked) (broker.When, error) {
	ms, err := strconv.ParseInt(f.got, 10, 64)
	if err != nil {
		return broker.When{}, badField(f.field, f.got, "a whole number", "ms since 1970")
	}
	return a.at(f, ms)
}

// at checks a time. The engine judges by its own clock; this says which field it was.
func (a *API) at(f asked, ms int64) (broker.When, error) {
	if ms < 0 || ms > maxDueMs {
		return broker.When{}, a.withField(engine.ErrDue, f)
	}
	if ms-a.b.NowMs() > a.b.MaxDelay().Milliseconds() {
		return broker.When{}, a.tooLong(f)
	}
	return broker.At(ms), nil
}

// maxDueMs is the end of the year 9999.
const maxDueMs = 253402300799999

// tooLong is the refusal of a time too far ahead.
func (a *API) tooLong(f asked) *Problem { return a.withField(engine.ErrDelay, f) }

func (a *API) withField(err error, f asked) *Problem {
	p := asProblem(err)
	p.Field, p.Got, p.Detail = f.field, shorten(f.got), ""
	if errors.Is(err, engine.ErrDelay) {
		p.Limit = config.Duration(a.b.MaxDelay()).String()
	}
	return p
}

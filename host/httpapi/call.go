package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidewheel/tidewheel/host/config"
	"github.com/tidewheel/tidewheel/host/instant"
)

// call is one request on its way through a route.
type call struct {
	w     *recorder
	r     *http.Request
	route *route
	role  Role // of who asks
}

func (c *call) ctx() context.Context { return c.r.Context() }

// path is the value of a parameter of the path.
func (c *call) path(name string) string { return c.r.PathValue(name) }

// answer sends JSON with the route's status.
func (c *call) answer(v any) error { return c.answerAs(c.route.code(), v) }

// answerAs sends JSON with another status.
func (c *call) answerAs(status int, v any) error {
	c.w.Header().Set("Content-Type", jsonMedia)
	c.w.Header().Set("Cache-Control", "no-store")
	c.w.WriteHeader(status)
	writeBody(c.w, v)
	return nil
}

// done answers that it is done, and nothing else.
func (c *call) done() error {
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// body reads the body, at most limit bytes. The bytes are the caller's.
func (c *call) body(limit int) ([]byte, error) { return readBody(c.w.ResponseWriter, c.r, limit) }

// json decodes the body.
func (c *call) json(into any) error {
	b, err := c.body(maxEnvelope)
	if err != nil {
		return err
	}
	return readJSON(b, into)
}

// query reads the parameters of a request's query. The first that is wrong is in err.
type query struct {
	route  *route
	values map[string][]string
	err    error
}

func (c *call) query() *query {
	q := &query{route: c.route, values: c.r.URL.Query()}
	for name, values := range q.values {
		p, known := c.route.param(inQuery, name)
		switch {
		case !known:
			q.fail(name, values[0], strings.Join(c.route.names(inQuery), ", "), "look at the spelling")
		case len(values) > 1 && !p.list:
			q.fail(name, strings.Join(values, " and "), "one value", "")
		}
	}
	return q
}

func (q *query) fail(field, got, limit, fix string) {
	if q.err == nil {
		q.err = badField(field, got, limit, fix)
	}
}

// first is a parameter's value, or its default; there says whether it was sent.
func (q *query) first(name string) (text string, p param, there bool) {
	p, _ = q.route.param(inQuery, name)
	if v := q.values[name]; len(v) > 0 {
		return v[0], p, true
	}
	return p.def, p, false
}

func (q *query) text(name string) string {
	text, p, there := q.first(name)
	if there && p.words != nil && !slices.Contains(p.words, text) {
		q.fail(name, text, strings.Join(p.words, ", "), "")
	}
	return text
}

// number reads a whole number.
func (q *query) number(name string) int64 {
	text, p, there := q.first(name)
	if !there {
		n, _ := strconv.ParseInt(text, 10, 64) // a default, or none
		return n
	}
	return q.whole(p, text)
}

// numbers reads a whole number as often as it is there.
func (q *query) numbers(name string) []int64 {
	p, _ := q.route.param(inQuery, name)
	var numbers []int64
	for _, text := range q.values[name] {
		numbers = append(numbers, q.whole(p, text))
	}
	return numbers
}

func (q *query) whole(p param, text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < p.min || n > p.max {
		q.fail(p.name, text, fmt.Sprintf("a whole number from %d to %d", p.min, p.max), "")
	}
	return n
}

// wait reads how long to wait.
func (q *query) wait(name string, most time.Duration) time.Duration {
	text, _, there := q.first(name)
	if !there || text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > most {
		q.fail(name, text, "a duration with its unit, 0s to "+most.String(), "as in wait=20s")
	}
	return d
}

// instant reads a time, ms since 1970; absent it is what missing says. A time before 1970 is its begin.
func (q *query) instant(name string, nowMs, missing int64) int64 {
	text, _, there := q.first(name)
	if !there {
		return missing
	}
	ms, err := instant.Parse(text, nowMs)
	if err != nil {
		q.fail(name, text, "RFC 3339 with its offset, @ms since 1970, or a duration from now", "in a query + is written %2B")
	}
	return max(ms, 0)
}

// duration reads a duration.
func (q *query) duration(name string) time.Duration {
	text, _, _ := q.first(name)
	d, err := config.ParseDuration(text)
	if err != nil {
		q.fail(name, text, "whole numbers with units, of y w d h m s ms", `as in "1h"`)
	}
	return time.Duration(d)
}

// both is a context that ends with either.
func both(ctx, other context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(other, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/host/broker"
)

// Limits of a request's body in bytes. An envelope may be larger than a message, for base64 and quotes.
const (
	maxRaw      = message.MaxBody
	maxEnvelope = 8 << 20
	maxBatch    = 10_000 // messages
)

// readBody reads the body, at most limit bytes and within bodyTime. The bytes are the caller's.
func readBody(w http.ResponseWriter, r *http.Request, limit int) ([]byte, error) {
	rc := http.NewResponseController(w)
	deadline(rc.SetReadDeadline, bodyTime)
	// Without an end of the deadline a long answer would be cut off by it.
	defer func() { _ = rc.SetReadDeadline(time.Time{}) }()
	if r.ContentLength > int64(limit) {
		return nil, tooLarge(limit)
	}
	var buf bytes.Buffer
	if r.ContentLength > 0 {
		buf.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	_, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, int64(limit)))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, tooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, problem(http.StatusRequestTimeout, "body_timeout", "The body took too long to arrive")
	case err != nil:
		p := problem(http.StatusBadRequest, "body_unreadable", "The body could not be read")
		p.Detail = err.Error()
		return nil, p
	}
	return buf.Bytes(), nil
}

// readJSON decodes exactly one JSON value with no unknown member.
func readJSON(b []byte, into any) error {
	if !utf8.Valid(b) {
		p := problem(http.StatusBadRequest, "bad_json", "The JSON is not valid")
		p.Detail = "it is not UTF-8"
		return p
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	err := dec.Decode(into)
	if err == nil {
		if _, end := dec.Token(); end != io.EOF {
			err = errors.New("something follows the value")
		}
	}
	if err == nil {
		err = repeated(b)
	}
	if err == nil {
		return nil
	}
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) && kind.Field != "" {
		// The members of Time are in no object of their own, but the decoder says so.
		return badField(strings.TrimPrefix(kind.Field, "Time."), "a JSON "+kind.Value, jsonKinds[kind.Type.Kind()], "")
	}
	p := problem(http.StatusBadRequest, "bad_json", "The JSON is not valid")
	p.Detail = strings.TrimPrefix(err.Error(), "json: ")
	return p
}

// jsonKinds are what JSON calls the types of our members.
var jsonKinds = map[reflect.Kind]string{
	reflect.String: "a string", reflect.Int: "a whole number", reflect.Int64: "a whole number", reflect.Bool: "true or false",
	reflect.Map: "an object", reflect.Struct: "an object", reflect.Slice: "an array",
}

// repeated refuses an object that has a member twice, of which the decoder silently takes the last. The decoder does
// not tell upper from lower case in our own members, which are those of the outermost object. The bytes are valid JSON.
func repeated(b []byte) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	type object struct {
		names map[string]bool // nil: an array
		value bool            // a value comes next, not a name
	}
	var open []object
	for {
		token, err := dec.Token()
		if err != nil {
			return nil // the end
		}
		if token == json.Delim('}') || token == json.Delim(']') {
			open = open[:len(open)-1]
			continue
		}
		if n := len(open); n > 0 && open[n-1].names != nil {
			in := &open[n-1]
			in.value = !in.value
			if in.value {
				name := token.(string)
				if n == 1 {
					name = strings.ToLower(name)
				}
				if in.names[name] {
					return fmt.Errorf("member %q is there twice", shorten(name))
				}
				in.names[name] = true
				continue
			}
		}
		switch token {
		case json.Delim('{'):
			open = append(open, object{names: map[string]bool{}})
		case json.Delim('['):
			open = append(open, object{})
		}
	}
}

// knownHeaders are the ones a raw message may have. A misspelt one would be a message without its delay.
var knownHeaders = []string{
	HeaderLevel, HeaderDelay, HeaderDeliver, HeaderMs, HeaderKey, HeaderTag, HeaderQueue, HeaderProperty,
}

// ourHeaders checks that the headers of ours are known and, but for properties, there once.
func ourHeaders(h http.Header) error {
	for name, values := range h {
		if !strings.HasPrefix(name, "Tidewheel-") {
			continue
		}
		if !slices.Contains(knownHeaders, name) {
			return badField(name, values[0], strings.Join(knownHeaders, ", "), "look at the spelling")
		}
		if len(values) > 1 && name != HeaderProperty {
			return badField(name, strings.Join(values, " and "), "one value", "send it once")
		}
	}
	if key := h.Get("Idempotency-Key"); key != "" {
		return notYet("Idempotency-Key", key, "leave it out, and expect a repeated put twice")
	}
	return nil
}

// rawMessage is a message whose body is the request's.
func (a *API) rawMessage(topic string, h http.Header, body []byte) (broker.Message, error) {
	m := broker.Message{Topic: topic, Key: h.Get(HeaderKey), Tag: h.Get(HeaderTag), Body: body}
	var err error
	if m.At, err = a.headerTime(h); err != nil {
		return m, err
	}
	if text := h.Get(HeaderQueue); text != "" {
		queue, err := strconv.Atoi(text)
		if err != nil {
			return m, badField(HeaderQueue, text, "a whole number, 0 or more", "leave it out for any queue")
		}
		m.Pin, m.Queue = true, queue
	}
	for _, text := range h.Values(HeaderProperty) {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return m, badField(HeaderProperty, text, "name=value", "")
		}
		if _, twice := m.Properties[name]; twice {
			return m, badField(HeaderProperty, text, "each name once", "")
		}
		if m.Properties == nil {
			m.Properties = map[string]string{}
		}
		m.Properties[name] = value
	}
	return m, textOnly(m)
}

// textOnly refuses text that JSON could not give back.
func textOnly(m broker.Message) error {
	check := func(field, s string) error {
		if utf8.ValidString(s) {
			return nil
		}
		return badField(field, strings.ToValidUTF8(s, "�"), "UTF-8", "")
	}
	err := errors.Join(check("key", m.Key), check("tag", m.Tag))
	for name, value := range m.Properties {
		err = errors.Join(err, check("property", name), check("property "+name, value))
	}
	return err
}

// message is what an envelope asks for.
func (a *API) message(e *Envelope) (broker.Message, error) {
	m := broker.Message{
		Topic: e.Topic, Key: e.Key, Tag: e.Tag, Properties: e.Properties, Body: e.BodyBase64, BornMs: e.BornMs,
	}
	var err error
	if m.At, err = a.envelopeTime(e); err != nil {
		return m, err
	}
	if e.Body != nil {
		if e.BodyBase64 != nil {
			return m, badField("body_base64", "beside body", "one of both", "")
		}
		m.Body = []byte(*e.Body)
	}
	if e.Queue != nil {
		m.Pin, m.Queue = true, *e.Queue
	}
	return m, nil
}

// query reads the parameters of a GET; what it doesn't know is refused, since a misspelt one would be ignored.
type query struct {
	values map[string][]string
	err    error // the first
}

// lists are the parameters that may be there more than once.
var lists = []string{"tag", "queue", "offset"}

func newQuery(r *http.Request, known ...string) *query {
	q := &query{values: r.URL.Query()}
	for name, values := range q.values {
		if !slices.Contains(known, name) {
			q.fail(name, values[0], strings.Join(known, ", "), "look at the spelling")
		} else if len(values) > 1 && !slices.Contains(lists, name) {
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

func (q *query) text(name string) string {
	if v := q.values[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// number reads a whole number; absent it is what missing says.
func (q *query) number(name string, min, max, missing int64) int64 {
	if numbers := q.numbers(name, min, max); len(numbers) > 0 {
		return numbers[0]
	}
	return missing
}

// numbers reads whole numbers within [min, max].
func (q *query) numbers(name string, min, max int64) []int64 {
	var numbers []int64
	for _, text := range q.values[name] {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < min || n > max {
			q.fail(name, text, fmt.Sprintf("a whole number from %d to %d", min, max), "")
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// wait reads how long to wait.
func (q *query) wait(name string, most time.Duration) time.Duration {
	text := q.text(name)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > most {
		q.fail(name, text, "a duration with its unit, 0s to "+most.String(), "as in wait=20s")
	}
	return d
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

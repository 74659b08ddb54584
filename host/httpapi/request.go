package httpapi

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
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

// readBody reads the body, at most limit bytes and within bodyTime; one that is compressed with gzip as what it holds. The
// bytes are the caller's. After an error nothing more is read of it.
func readBody(w http.ResponseWriter, r *http.Request, limit int) ([]byte, error) {
	rc := http.NewResponseController(w)
	began := time.Now()
	deadline(rc.SetReadDeadline, bodyTime)
	b, err := readWhole(w, r, limit)
	if time.Since(began) > time.Second { // the body has used up some of the time of the answer
		deadline(rc.SetWriteDeadline, answerTime)
	}
	if err != nil {
		leaveBody(w)
		return nil, err
	}
	// Without an end of the deadline a long answer would be cut off by it.
	_ = rc.SetReadDeadline(time.Time{})
	return b, nil
}

// leaveBody ends the connection after the answer. Else the server would read what is left of the body, to use the
// connection again, and wait for it however slowly it comes.
func leaveBody(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Now())
}

func readWhole(w http.ResponseWriter, r *http.Request, limit int) ([]byte, error) {
	if r.ContentLength > int64(limit) {
		return nil, tooLarge(limit)
	}
	var from io.Reader = http.MaxBytesReader(w, r.Body, int64(limit))
	var buf bytes.Buffer
	switch encoding := r.Header.Get("Content-Encoding"); {
	case strings.EqualFold(encoding, "gzip"):
		unpacked, err := gzip.NewReader(from)
		if err != nil {
			return nil, bodyError(err, limit)
		}
		// A few bytes may become very many: what counts is what comes out.
		from = io.LimitReader(unpacked, int64(limit)+1)
	case encoding != "" && !strings.EqualFold(encoding, "identity"):
		p := problem("unsupported_encoding")
		p.Field, p.Got, p.Limit = "Content-Encoding", shorten(encoding), "gzip"
		return nil, p
	case r.ContentLength > 0:
		buf.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	if _, err := buf.ReadFrom(from); err != nil {
		return nil, bodyError(err, limit)
	}
	if buf.Len() > limit {
		return nil, tooLarge(limit)
	}
	return buf.Bytes(), nil
}

// bodyError says why a body could not be read.
func bodyError(err error, limit int) error {
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return tooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return problem("body_timeout")
	}
	p := problem("body_unreadable")
	p.Detail = err.Error()
	return p
}

// readJSON decodes exactly one JSON value with no unknown member.
func readJSON(b []byte, into any) error {
	if !utf8.Valid(b) {
		p := problem("bad_json")
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
	p := problem("bad_json")
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

// ourHeaders checks that the headers of ours are known and, but for properties, there once: a misspelt one would be a
// message without its delay.
func (c *call) ourHeaders() error {
	for name, values := range c.r.Header {
		if !strings.HasPrefix(name, "Tidewheel-") {
			continue
		}
		p, known := c.route.param(inHeader, name)
		if !known {
			return badField(name, values[0], strings.Join(c.route.names(inHeader), ", "), "look at the spelling")
		}
		if len(values) > 1 && !p.list {
			return badField(name, strings.Join(values, " and "), "one value", "send it once")
		}
	}
	return nil
}

// idempotencyKey is the key of the header, as it is or as a string of structured fields, in quotes.
func idempotencyKey(h http.Header) (string, error) {
	values := h.Values(HeaderIdempotency)
	if len(values) == 0 {
		return "", nil
	}
	key, ok := values[0], len(values) == 1
	if strings.HasPrefix(key, `"`) {
		key, ok = unquote(key)
	}
	if !ok || key == "" {
		return "", badField(HeaderIdempotency, strings.Join(values, " and "), `one key, as order-42 or "order-42"`, "")
	}
	return key, nil
}

// unquote reads a string of RFC 8941: a backslash stands before a quote and before itself, and nowhere else.
func unquote(text string) (string, bool) {
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return b.String(), i == len(text)-1
		case c == '\\':
			if i++; i == len(text) || text[i] != '"' && text[i] != '\\' {
				return "", false
			}
			b.WriteByte(text[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}

// rawMessage is a message whose body is the request's.
func (a *API) rawMessage(topic string, h http.Header, body []byte) (broker.Message, error) {
	m := broker.Message{Topic: topic, Key: h.Get(HeaderKey), Tag: h.Get(HeaderTag), Body: body}
	var err error
	if m.At, err = a.headerTime(h); err != nil {
		return m, err
	}
	if m.IdempotencyKey, err = idempotencyKey(h); err != nil {
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
	err := errors.Join(check("key", m.Key), check("tag", m.Tag), check(HeaderIdempotency, m.IdempotencyKey))
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
	if e.IdempotencyKey != nil {
		if m.IdempotencyKey = *e.IdempotencyKey; m.IdempotencyKey == "" {
			return m, badField("idempotency_key", "", "a key", "leave it out for none")
		}
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

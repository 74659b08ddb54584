package golden

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/tidewheel/tidewheel/plugins/abi"
)

// DefaultNowMs is the time of a call whose records name none: 2026-01-01 00:00 UTC, in ms since the epoch.
const DefaultNowMs = 1767225600000

// TagHeader is the name of the header that holds a message's tag.
const TagHeader = "TAGS"

// Record is one line of a file of records; doc.go says what its members mean.
type Record struct {
	Why        string
	ID         uint64
	Topic      string
	Key        string
	Tag        string
	Properties map[string]string
	Body       []byte
	StoredMs   int64
	DueMs      int64
	Attempt    uint32
	Status     int  // HTTP status, for result
	Cut        bool // for result
	NowMs      int64
}

// recordLine is a Record as it is written.
type recordLine struct {
	Why        string            `json:"why,omitempty"`
	ID         uint64            `json:"id,omitempty"`
	Topic      string            `json:"topic,omitempty"`
	Key        string            `json:"key,omitempty"`
	Tag        string            `json:"tag,omitempty"`
	Properties map[string]string `json:"properties,omitempty"`
	bodyLine
	StoredMs int64  `json:"stored_ms,omitempty"`
	DueMs    int64  `json:"due_ms,omitempty"`
	Attempt  uint32 `json:"attempt,omitempty"`
	Status   int    `json:"status,omitempty"`
	Cut      bool   `json:"cut,omitempty"`
	NowMs    int64  `json:"now_ms,omitempty"`
}

// bodyLine is a body as it is written: at most one of the two is there.
type bodyLine struct {
	Body   json.RawMessage `json:"body,omitempty"`
	Base64 []byte          `json:"body_base64,omitempty"`
}

var errBody = errors.New("body and body_base64 exclude each other")

// bytes are the bytes of the body: those of the string, or the JSON value itself.
func (l bodyLine) bytes() ([]byte, error) {
	switch {
	case l.Body == nil:
		return l.Base64, nil
	case l.Base64 != nil:
		return nil, errBody
	case l.Body[0] != '"':
		return l.Body, nil
	}
	var text string
	err := json.Unmarshal(l.Body, &text)
	return []byte(text), err
}

// newBodyLine writes a body so that bytes gives it back: a JSON object or array without spaces as itself, other text as a
// string, the rest in base64.
func newBodyLine(body []byte) bodyLine {
	switch {
	case len(body) == 0:
		return bodyLine{}
	case !utf8.Valid(body):
		return bodyLine{Base64: body}
	case body[0] == '{' || body[0] == '[':
		var compact bytes.Buffer
		if json.Compact(&compact, body) == nil && bytes.Equal(compact.Bytes(), body) {
			return bodyLine{Body: body}
		}
	}
	return bodyLine{Body: line(string(body))}
}

func (r Record) line() recordLine {
	now := r.NowMs
	if now == DefaultNowMs {
		now = 0
	}
	return recordLine{Why: r.Why, ID: r.ID, Topic: r.Topic, Key: r.Key, Tag: r.Tag, Properties: r.Properties,
		bodyLine: newBodyLine(r.Body), StoredMs: r.StoredMs, DueMs: r.DueMs, Attempt: r.Attempt, Status: r.Status, Cut: r.Cut, NowMs: now}
}

func (l recordLine) record() (Record, error) {
	body, err := l.bytes()
	if l.Status < 0 || l.Status > 999 {
		err = errors.Join(err, errors.New("status is not 0 to 999"))
	}
	if l.NowMs == 0 {
		l.NowMs = DefaultNowMs
	}
	return Record{Why: l.Why, ID: l.ID, Topic: l.Topic, Key: l.Key, Tag: l.Tag, Properties: l.Properties,
		Body: body, StoredMs: l.StoredMs, DueMs: l.DueMs, Attempt: l.Attempt, Status: l.Status, Cut: l.Cut, NowMs: l.NowMs}, err
}

// ABI is the record as a plugin sees it in a call of a hook.
func (r Record) ABI(hook abi.Hook) abi.Record {
	out := abi.Record{ID: r.ID, StoredMs: r.StoredMs, DueMs: r.DueMs, Attempt: r.Attempt,
		Topic: []byte(r.Topic), Key: []byte(r.Key), Headers: Headers(r.Tag, r.Properties), Body: r.Body}
	if hook == abi.Result {
		out.Flags = uint32(r.Status) << 16
		if r.Status == 0 {
			out.Flags = abi.FlagNoResponse
		}
		if r.Cut {
			out.Flags |= abi.FlagCut
		}
	}
	return out
}

// Headers are a tag and properties as headers: the tag first, then the properties sorted by name.
func Headers(tag string, properties map[string]string) abi.Headers {
	var h abi.Headers
	if tag != "" {
		h = h.Append([]byte(TagHeader), []byte(tag))
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		h = h.Append([]byte(name), []byte(properties[name]))
	}
	return h
}

// Properties is the inverse of Headers. Of several headers with one name the first counts.
func Properties(h abi.Headers) (tag string, properties map[string]string) {
	for {
		k, v, rest, ok := h.Next()
		if !ok {
			return tag, properties
		}
		h = rest
		name, value := string(k), string(v)
		if name == TagHeader {
			if tag == "" {
				tag = value
			}
			continue
		}
		if _, known := properties[name]; !known {
			if properties == nil {
				properties = map[string]string{}
			}
			properties[name] = value
		}
	}
}

package transfer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/message"
)

// Version is that of the format.
const Version = 1

// The kinds of a line.
const (
	KindExport  = "export"
	KindTopic   = "topic"
	KindMessage = "message"
	KindGroup   = "group"
	KindOffset  = "offset"
)

// The states of a message.
const (
	StateVisible   = "visible"
	StateScheduled = "scheduled"
)

// ErrFormat is the kind of an error of a line that is not understood.
var ErrFormat = errors.New("transfer: not a line of an export")

// Line is one line. Which fields it has depends on its kind; the package comment has examples.
type Line struct {
	Kind    string `json:"kind"`
	Version int    `json:"version,omitempty"`

	Topic  string `json:"topic,omitempty"`
	Queues int    `json:"queues,omitempty"` // that new messages go to
	All    int    `json:"all,omitempty"`    // queues that there are, if they are more
	Attrs  uint32 `json:"attrs,omitempty"`  // of a topic or group
	Paused bool   `json:"paused,omitempty"`
	Staged bool   `json:"staged,omitempty"` // its messages wait for a plugin's verdict when they are due

	State      string            `json:"state,omitempty"`
	Queue      *int              `json:"queue,omitempty"` // nil: any
	Offset     *int64            `json:"offset,omitempty,string"`
	DueMs      int64             `json:"due_ms,omitempty"`
	Due        string            `json:"due,omitempty"` // for people: DueMs counts
	DelayLevel int               `json:"delay_level,omitempty"`
	StoredMs   int64             `json:"stored_ms,omitempty"`
	BornMs     int64             `json:"born_ms,omitempty"`
	BornHost   []byte            `json:"born_host_base64,omitempty"`
	UserFlag   uint32            `json:"user_flag,omitempty"`
	SysFlag    uint32            `json:"sys_flag,omitempty"`
	Attempts   uint16            `json:"attempts,omitempty"`
	Key        string            `json:"key,omitempty"`
	KeyRaw     []byte            `json:"key_base64,omitempty"`
	Tag        string            `json:"tag,omitempty"`
	TagRaw     []byte            `json:"tag_base64,omitempty"`
	Properties map[string]string `json:"properties,omitempty"`
	// PropertiesRaw are properties as package message encodes them, of which a name is there twice or something is no
	// UTF-8.
	PropertiesRaw []byte  `json:"properties_base64,omitempty"`
	Body          *string `json:"body,omitempty"`
	BodyRaw       []byte  `json:"body_base64,omitempty"`

	Group string `json:"group,omitempty"`
	Lag   *int64 `json:"lag,omitempty"` // exported messages of the queue that the group is not done with
}

// ofMessage is the line of a message.
func ofMessage(topic string, m *message.Message) Line {
	queue := int(m.Queue)
	l := Line{
		Kind: KindMessage, State: StateVisible, Topic: topic, Queue: &queue, DueMs: m.DueMs, DelayLevel: int(m.Level),
		StoredMs: m.StoreMs, BornMs: m.BornMs, BornHost: m.BornHost, UserFlag: m.UserFlag, SysFlag: m.SysFlag, Attempts: m.Attempts,
	}
	if m.DueMs != 0 {
		l.Due = time.UnixMilli(m.DueMs).UTC().Format("2006-01-02T15:04:05.000Z")
	}
	l.Key, l.KeyRaw = split(m.Key)
	l.Tag, l.TagRaw = split(m.Tag)
	l.Properties, l.PropertiesRaw = properties(m.Properties, m.Flags&message.Keyed != 0)
	if utf8.Valid(m.Body) {
		body := string(m.Body)
		l.Body = &body
	} else {
		l.BodyRaw = m.Body
	}
	return l
}

// split is bytes as text, or as they are.
func split(b []byte) (text string, raw []byte) {
	if utf8.Valid(b) {
		return string(b), nil
	}
	return "", b
}

// properties are a message's own ones, without its idempotency key, which is another store's.
func properties(p message.Properties, keyed bool) (texts map[string]string, raw []byte) {
	var own message.Properties
	plain := true
	for name, value := range p.All() {
		if keyed && string(name) == message.PropertyKey {
			keyed = false
			continue
		}
		if texts == nil {
			texts = map[string]string{}
		}
		_, twice := texts[string(name)]
		plain = plain && !twice && utf8.Valid(name) && utf8.Valid(value)
		texts[string(name)] = string(value)
		own = message.AppendProperty(own, string(name), string(value))
	}
	if plain {
		return texts, nil
	}
	return nil, own
}

// parse reads a line. What it does not know is ignored, but for the kind and the version.
func parse(b []byte) (l Line, err error) {
	if err := json.Unmarshal(b, &l); err != nil {
		return l, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	switch l.Kind {
	case KindExport:
		if l.Version != Version {
			return l, fmt.Errorf("%w: it has version %d, and this program knows %d", ErrFormat, l.Version, Version)
		}
	case KindTopic, KindMessage, KindGroup, KindOffset:
	default:
		return l, fmt.Errorf("%w: its kind is %q", ErrFormat, l.Kind)
	}
	return l, nil
}

// put is the command that stores a message's line.
func (l *Line) put() (*engine.Put, error) {
	p := &engine.Put{
		Topic: l.Topic, Queue: engine.AnyQueue, Key: join(l.Key, l.KeyRaw), Tag: join(l.Tag, l.TagRaw), BornMs: l.BornMs,
		BornHost: l.BornHost, UserFlag: l.UserFlag, SysFlag: l.SysFlag, Attempts: l.Attempts, Body: l.BodyRaw,
		Properties: l.PropertiesRaw,
	}
	if l.Queue != nil {
		if p.Queue = *l.Queue; p.Queue < 0 {
			return nil, fmt.Errorf("%w: its queue is %d", ErrFormat, p.Queue)
		}
	}
	if l.Body != nil {
		p.Body = []byte(*l.Body)
	}
	for name, value := range l.Properties {
		p.Properties = message.AppendProperty(p.Properties, name, value)
	}
	switch l.State {
	case StateVisible:
		p.Unstaged = true // it was decided about
	case StateScheduled:
		if p.DueMs = l.DueMs; p.DueMs <= 0 {
			return nil, fmt.Errorf("%w: it waits, and its due_ms is %d", ErrFormat, l.DueMs)
		}
	default:
		return nil, fmt.Errorf("%w: its state is %s", ErrFormat, strconv.Quote(l.State))
	}
	return p, nil
}

func join(text string, raw []byte) []byte {
	if len(raw) > 0 {
		return raw
	}
	return []byte(text)
}

// encode is a line with its end.
func (l *Line) encode(into *bytes.Buffer) error {
	enc := json.NewEncoder(into)
	enc.SetEscapeHTML(false)
	return enc.Encode(l)
}

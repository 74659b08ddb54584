package broker

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/message"
)

// When says when a message becomes visible. The zero value means at once.
type When struct {
	level          int
	dueMs, delayMs int64
}

// Level is the delay of a level of the table: 1 is the first. One above the last counts as the last, and the receipt
// says so; 0 is no delay; a negative one is refused.
func Level(n int) When { return When{level: n} }

// Message is what Put stores. Its bytes are only read, and not kept after Put has returned.
type Message struct {
	Topic string
	// At says when it becomes visible; the zero value means at once.
	At When
	// Pin puts the message into Queue. Without it the broker chooses, round robin.
	Pin   bool
	Queue int

	Key, Tag   string            // at most 127 bytes each
	Properties map[string]string // at most 32 KiB together
	Body       []byte            // at most 4 MiB

	// IdempotencyKey, if any, makes a repeated put harmless: for engine.Options.IdempotencyWindow a second put with the key
	// into the topic stores nothing and is answered what the first one was, with Replayed; other content is
	// ErrIdempotencyMismatch. At most 255 bytes.
	IdempotencyKey string

	BornMs int64 // the producer's clock, ms since 1970; 0: the time of storing
}

// Outcome is what became of a request: engine.Stored, engine.Scheduled, engine.Cancelled and so on.
type Outcome = engine.Outcome

// Receipt says what became of a message that was put.
type Receipt struct {
	// Err says why the message was refused; the other fields are zero then.
	Err error

	ID       string  // of the message, for ever
	Topic    string  // the one it was put into, unless a hook chose another
	Outcome  Outcome // engine.Stored: visible now; engine.Scheduled: waits until DueMs
	Queue    int
	Offset   int64         // in the queue; -1 while it waits
	Position engine.Offset // of its record in the log
	Handle   string        // cancels it; empty when it is visible
	DueMs    int64         // ms since 1970; 0 without a delay
	Level    int           // the level that was applied
	Clamped  bool          // the level asked for was above the last
	Past     bool          // a time was asked for that had passed: visible now
	Replayed bool          // it was stored before, by a put with the same idempotency key
}

// propTransaction is RocketMQ's property of a message that a transaction is about. There are none here: it is kept as any
// other, but for one with a delay, of which two would say when it is visible.
const propTransaction = "TRAN_MSG"

// put fills in the engine's command.
func (m *Message) put(p *engine.Put) error {
	*p = engine.Put{
		Topic: m.Topic, Queue: engine.AnyQueue,
		Level: m.At.level, DueMs: m.At.dueMs, DelayMs: m.At.delayMs,
		Key: []byte(m.Key), Tag: []byte(m.Tag), Body: m.Body, BornMs: m.BornMs,
		IdempotencyKey: []byte(m.IdempotencyKey),
	}
	if m.Pin {
		if m.Queue < 0 {
			return fmt.Errorf("%w: %w: %d", ErrRequest, engine.ErrQueue, m.Queue)
		}
		p.Queue = m.Queue
	}
	switch {
	case strings.HasPrefix(m.Topic, retryPrefix) || strings.HasPrefix(m.Topic, deadPrefix):
		return fmt.Errorf("broker: %w: %q belongs to a consumer group", engine.ErrTopicName, m.Topic)
	case strings.HasPrefix(m.Topic, stagePrefix):
		return fmt.Errorf("broker: %w: %q belongs to the hooks of a topic", engine.ErrTopicName, m.Topic)
	}
	if m.At != (When{}) && m.Properties[propTransaction] == "true" {
		return fmt.Errorf("broker: %w: a message of a transaction (%s) takes no delay", engine.ErrProperties, propTransaction)
	}
	var properties message.Properties
	for _, name := range slices.Sorted(maps.Keys(m.Properties)) {
		if ownProperty(name) {
			return fmt.Errorf("broker: %w: name %q is reserved: it says where a message comes from", engine.ErrProperties, name)
		}
		properties = message.AppendProperty(properties, name, m.Properties[name])
	}
	p.Properties = properties
	return nil
}

// size is what a message counts in the queue of requests.
func (m *Message) size() int {
	n := requestOverhead + len(m.Topic) + len(m.IdempotencyKey) + len(m.Key) + len(m.Tag) + len(m.Body)
	for name, value := range m.Properties {
		n += len(name) + len(value)
	}
	return n
}

// requestOverhead is about what a request takes beside its message.
const requestOverhead = 256

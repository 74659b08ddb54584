package httpapi

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// EnvelopeType is the media type of a message in JSON.
const EnvelopeType = "application/vnd.tidewheel+json"

// The headers of a message whose body is raw.
const (
	HeaderLevel    = "Tidewheel-Delay-Level"
	HeaderDelay    = "Tidewheel-Delay"         // "30m"
	HeaderDeliver  = "Tidewheel-Deliver-At"    // RFC 3339 with its offset
	HeaderMs       = "Tidewheel-Deliver-At-Ms" // since 1970
	HeaderKey      = "Tidewheel-Key"
	HeaderTag      = "Tidewheel-Tag"
	HeaderQueue    = "Tidewheel-Queue"
	HeaderProperty = "Tidewheel-Property"

	// HeaderIdempotency makes a repeated put harmless: the second one is answered with the first one's result.
	HeaderIdempotency = "Idempotency-Key"
)

// Int64 is a number that is a string in JSON. It is read from either.
type Int64 int64

// MarshalJSON writes the number as a string.
func (n Int64) MarshalJSON() ([]byte, error) {
	return strconv.AppendQuote(nil, strconv.FormatInt(int64(n), 10)), nil
}

// UnmarshalJSON reads a string or a number.
func (n *Int64) UnmarshalJSON(b []byte) error {
	text := string(b)
	if len(b) > 0 && b[0] == '"' {
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("%q is not a whole number of 64 bits", shorten(text))
	}
	*n = Int64(v)
	return nil
}

// Envelope is a message in JSON.
type Envelope struct {
	Topic          string            `json:"topic,omitempty" doc:"in a batch; elsewhere the path says it"`
	Body           *string           `json:"body,omitempty"`
	BodyBase64     []byte            `json:"body_base64,omitempty" doc:"instead of body"`
	DelayLevel     int               `json:"delay_level,omitempty" doc:"beside no other time; 1 is the first"`
	Key            string            `json:"key,omitempty"`
	Tag            string            `json:"tag,omitempty"`
	Queue          *int              `json:"queue,omitempty" doc:"none: the broker chooses"`
	Properties     map[string]string `json:"properties,omitempty"`
	BornMs         int64             `json:"born_ms,omitempty"`
	IdempotencyKey *string           `json:"idempotency_key,omitempty" doc:"a repeated put with it is answered with the first one's result"`
	Time
}

// Time is when a message becomes visible: at most one is set.
type Time struct {
	Delay       *string `json:"delay,omitempty" doc:"from now, as 30m"`
	DeliverAt   *string `json:"deliver_at,omitempty" doc:"RFC 3339 with its offset"`
	DeliverAtMs *int64  `json:"deliver_at_ms,omitempty" doc:"ms since 1970"`
}

// The states of a message.
const (
	StateVisible    = "visible"
	StateScheduled  = "scheduled"
	StateCancelled  = "cancelled"
	StateSuperseded = "superseded"
	StateDelivered  = "delivered"
)

// Stored says what became of a message that was put.
type Stored struct {
	Handle     string `json:"handle,omitempty" doc:"of a message that waits"`
	ID         string `json:"id"`
	Topic      string `json:"topic"`
	Queue      int    `json:"queue"`
	Offset     *Int64 `json:"offset,omitempty" doc:"in the queue, of a message that is visible"`
	Position   Int64  `json:"position" doc:"in the log"`
	State      string `json:"state" enum:"visible,scheduled"`
	DelayLevel int    `json:"delay_level,omitempty"`
	Clamped    bool   `json:"clamped,omitempty" doc:"the level asked for was above the last"`
	Due        string `json:"due,omitempty" format:"date-time" doc:"RFC 3339, UTC"`
	DueMs      int64  `json:"due_ms,omitempty"`
	DueIn      string `json:"due_in,omitempty"`
	Replayed   bool   `json:"replayed" doc:"it was stored before, by a put with the same idempotency key"`
	Past       bool   `json:"past,omitempty" doc:"the time asked for had passed"`
	Now        string `json:"now" format:"date-time" doc:"the server's clock"`
}

// BatchResult is one line of a batch's answer: Stored or Problem.
type BatchResult struct {
	Line int `json:"line" doc:"of the request, from 1"`
	*Stored
	Problem *Problem `json:"problem,omitempty"`
}

// Message is a message that was read.
type Message struct {
	Queue      int               `json:"queue"`
	Offset     Int64             `json:"offset"`
	Position   Int64             `json:"position"`
	ID         string            `json:"id,omitempty"`
	Key        string            `json:"key,omitempty"`
	Tag        string            `json:"tag,omitempty"`
	Properties map[string]string `json:"properties,omitempty"`
	Body       *string           `json:"body,omitempty"`
	BodyBase64 []byte            `json:"body_base64,omitempty"`
	DelayLevel int               `json:"delay_level,omitempty"`
	DueMs      int64             `json:"due_ms,omitempty"`
	StoredMs   int64             `json:"stored_ms,omitempty"`
	BornMs     int64             `json:"born_ms,omitempty"`
	Problem    *Problem          `json:"problem,omitempty" doc:"why the message cannot be read; the rest but queue and offset is missing then"`

	Receipt    string `json:"receipt,omitempty" doc:"of a message that a group has: for ack, retry and extend"`
	Attempt    int    `json:"attempt,omitempty" doc:"which delivery to the group it is"`
	AckUntilMs int64  `json:"ack_until_ms,omitempty" doc:"when it comes again"`
	Retried    bool   `json:"retried,omitempty" doc:"it was put off before: queue and offset are those of the group's retries"`
}

// Bytes is the body, however it came.
func (m *Message) Bytes() []byte {
	if m.Body != nil {
		return []byte(*m.Body)
	}
	return m.BodyBase64
}

// QueueOffset is a place in a queue.
type QueueOffset struct {
	Queue  int   `json:"queue"`
	Offset Int64 `json:"offset"`
}

// QueueState is a queue that was read: Offset is where to go on, and what to ack when the messages are done with.
type QueueState struct {
	QueueOffset
	Min Int64 `json:"min" doc:"the first message that is not deleted"`
	Max Int64 `json:"max" doc:"where the next message goes"`
}

// Messages is what was read.
type Messages struct {
	Topic    string       `json:"topic"`
	Messages []Message    `json:"messages"`
	Next     []QueueState `json:"next"`
	NowMs    int64        `json:"now_ms"`
}

// TopicSpec is what PUT takes.
type TopicSpec struct {
	Queues int `json:"queues"`
}

// Topic describes a topic.
type Topic struct {
	Name      string       `json:"name"`
	Paused    bool         `json:"paused" doc:"groups are kept from reading it"`
	Pending   int64        `json:"pending" doc:"messages that wait for their time"`
	Staged    bool         `json:"staged,omitempty" doc:"what falls due waits for a plugin's verdict"`
	StageLag  int64        `json:"stage_lag,omitempty" doc:"messages that are due and wait for it"`
	PutQueues int          `json:"put_queues" doc:"queues that take messages: the first ones; the others were taken away, and can be read"`
	Queues    []QueueRange `json:"queues"`
}

// QueueRange is what of a queue can be read.
type QueueRange struct {
	Queue int   `json:"queue"`
	Min   Int64 `json:"min"`
	Max   Int64 `json:"max"`
}

// Topics lists topics by name.
type Topics struct {
	Topics []Topic `json:"topics"`
}

// Limits says what is refused.
type Limits struct {
	Levels              string `json:"levels" doc:"level 1 first"`
	MaxDelay            string `json:"max_delay" doc:"how far ahead a due time may lie"`
	MaxDelayMs          int64  `json:"max_delay_ms"`
	BodyBytes           int    `json:"body_bytes"`
	RequestBytes        int    `json:"request_bytes" doc:"of an envelope or a batch"`
	PropertyBytes       int    `json:"property_bytes"`
	KeyBytes            int    `json:"key_bytes"`
	IdempotencyKeyBytes int    `json:"idempotency_key_bytes"`
	TagBytes            int    `json:"tag_bytes"`
	MessagesPull        int    `json:"messages_pull"`
	MessagesBatch       int    `json:"messages_batch"`
	TimersPage          int    `json:"timers_page"`
	WaitMs              int64  `json:"wait_ms"`
	TopicNameBytes      int    `json:"topic_name_bytes"`
}

// ServerTime is the server's clock.
type ServerTime struct {
	Now   string `json:"now" format:"date-time"`
	NowMs int64  `json:"now_ms"`
}

package httpapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"unicode/utf8"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/host/broker"
)

// whenText is what the headers of a raw message have in common that say when it becomes visible.
const whenText = "at most one of the four times may be there; none: visible at once"

var messageRoutes = []route{
	{
		method: "POST", pattern: "/v1/topics/{topic}/messages", id: "putMessage", group: "Messages", role: RoleProduce,
		summary: "Store a message",
		text: "The body is the message, whatever its content type; the rest stands in headers. Or it is an Envelope: JSON with body or " +
			"body_base64, and the rest beside it. It is one with Content-Type " + EnvelopeType + ", with envelope=true in the query, and with Content-Type " +
			"application/json if it has body or body_base64, no member that an Envelope has not, and no header of ours beside it. What looks like that with another " +
			"content type is refused; envelope=false stores it as it is. The answer leaves when the message is durable. A time that cannot be read is " +
			"refused and never means at once; one that has passed does, and the answer says past.",
		params: []param{
			topicParam,
			{in: inQuery, name: "envelope", kind: kindYes,
				text: "whether the body is an Envelope; none: the content type and the body say it"},
			{in: inHeader, name: HeaderDelay, kind: kindSpan, text: "how long to wait; " + whenText},
			{in: inHeader, name: HeaderDeliver, text: "the due time, RFC 3339 with its offset"},
			{in: inHeader, name: HeaderMs, kind: kindWhole, max: maxDueMs, text: "the due time, ms since 1970"},
			{in: inHeader, name: HeaderLevel, kind: kindWhole, max: math.MaxInt32,
				text: "the level of the table: 1 is the first, above the last counts as the last, 0 is visible at once"},
			{in: inHeader, name: HeaderKey, text: "of the message, to find it by"},
			{in: inHeader, name: HeaderTag, text: "of the message, to filter by"},
			{in: inHeader, name: HeaderQueue, kind: kindWhole, max: math.MaxInt32, text: "the queue; none: the broker chooses"},
			{in: inHeader, name: HeaderProperty, list: true, text: "name=value, as often as needed"},
			{in: inHeader, name: HeaderIdempotency,
				text: "a second put with it into the topic is answered with the first one's result, for a day unless the server is set otherwise"},
		},
		takes: []content{
			{rawMedia, nil, "the message; any other content type but that of an Envelope is the same"},
			{EnvelopeType, reflect.TypeFor[Envelope](), ""},
			{jsonMedia, reflect.TypeFor[Envelope](), "an Envelope, or any other JSON, which is the message"},
		},
		gives: jsonOf[Stored](), status: http.StatusCreated,
		problems: append([]string{"topic_name", "unknown_topic", "queue_out_of_range", "idempotency_mismatch", "idempotency_busy", "broadcast", "envelope_or_message", "dropped_by_plugin", "plugin_unavailable"}, putProblems...),
		handle:   (*API).putMessage,
	},
	{
		method: "POST", pattern: "/v1/messages/batch", id: "putBatch", group: "Messages", role: RoleProduce,
		summary: "Store many messages",
		text: "One Envelope a line, with a topic in each. Each line that is not empty gets a line, in the same order, with what " +
			"was stored or why not: one that is refused does not harm the others. The answer leaves when all are durable.",
		takes:    []content{{lineMedia, reflect.TypeFor[Envelope](), ""}},
		gives:    []content{{lineMedia, reflect.TypeFor[BatchResult](), ""}},
		problems: []string{"too_large", "too_many", "unknown_outcome", "failed"},
		handle:   (*API).putBatch,
	},
	{
		method: "GET", pattern: "/v1/topics/{topic}/messages", id: "pullMessages", group: "Messages", role: RoleRead,
		summary: "Read messages, waiting for them if asked to",
		text: "With a group and no queue, those that are to be delivered to it: each comes with a receipt and is leased to the " +
			"reader, who acks, retries or extends it before ack_timeout is over; else it comes again. That takes the role produce. " +
			"Otherwise it looks and changes nothing: at all queues, or at those that are named, each with its offset in the same " +
			"order.",
		params: []param{
			topicParam,
			{in: inQuery, name: "group", text: "who reads; with queues, whose committed offsets count"},
			{in: inQuery, name: "ack_timeout", kind: kindSpan, text: "how long the messages are leased to a group's reader; none: as the server is set"},
			{in: inQuery, name: "queue", kind: kindWhole, max: math.MaxInt32, list: true, text: "which queues; none: all"},
			{in: inQuery, name: "offset", kind: kindWhole, min: broker.Committed, max: math.MaxInt64, list: true,
				text: "where to begin in each of them; -1 is where the group stands"},
			{in: inQuery, name: "wait", kind: kindSpan, text: "how long to wait for the first message, up to 1m; none: not at all"},
			{in: inQuery, name: "max", kind: kindWhole, min: 1, max: broker.MaxPull, def: "32", text: "the most messages"},
			{in: inQuery, name: "tag", list: true, text: "only messages with one of these tags"},
		},
		gives: jsonOf[Messages](), waits: true,
		problems: []string{"reserved_name", "unknown_topic", "group_name", "queue_out_of_range", "offset", "trimmed", "broadcast", "bad_request"},
		handle:   (*API).pullMessages,
	},
}

// putProblems are those of whatever stores a message.
var putProblems = []string{
	"delay_level", "delay_too_long", "due_time", "properties", "too_large", "disk_full", "backlog", "unknown_outcome", "failed",
}

// putMessage stores one message.
func (a *API) putMessage(c *call) error {
	if err := c.ourHeaders(); err != nil {
		return err
	}
	topic := c.path("topic")
	b, envelope, err := c.putBody()
	if err != nil {
		return err
	}
	var m broker.Message
	if envelope {
		m, err = a.decode(b, topic)
	} else {
		m, err = a.rawMessage(topic, c.r.Header, b)
	}
	if err != nil {
		return err
	}
	receipt, err := a.b.Put(c.ctx(), m)
	if err != nil {
		return err
	}
	s := a.stored(topic, receipt)
	if s.Handle != "" {
		c.w.Header().Set("Location", a.opts.Prefix+"/v1/timers/"+s.Handle)
	}
	return c.answer(s)
}

// decode reads an envelope; the topic is the path's, or in a batch, where it is empty, the envelope's.
func (a *API) decode(b []byte, topic string) (broker.Message, error) {
	var e Envelope
	if err := readJSON(b, &e); err != nil {
		return broker.Message{}, err
	}
	switch {
	case topic == "" && e.Topic == "":
		return broker.Message{}, badField("topic", "", "a topic's name", "each line of a batch has one")
	case topic != "" && e.Topic != "" && e.Topic != topic:
		return broker.Message{}, badField("topic", e.Topic, topic, "leave it out: the path says it")
	case topic != "":
		e.Topic = topic
	}
	return a.message(&e)
}

// stored says what became of a message.
func (a *API) stored(topic string, r broker.Receipt) *Stored {
	now := a.b.NowMs()
	s := &Stored{
		ID: r.ID, Topic: cmp.Or(r.Topic, topic), Queue: r.Queue, Position: Int64(r.Position), State: StateVisible, Now: instantText(now),
		DelayLevel: r.Level, Clamped: r.Clamped, Past: r.Past, Replayed: r.Replayed,
	}
	if r.Outcome == engine.Scheduled {
		s.Handle, s.State = r.Handle, StateScheduled
		s.Due, s.DueMs = instantText(r.DueMs), r.DueMs
		s.DueIn = dueIn(r.DueMs, now)
		return s
	}
	offset := Int64(r.Offset)
	s.Offset = &offset
	return s
}

// putBatch stores the messages of an NDJSON body; each line gets its line.
func (a *API) putBatch(c *call) error {
	b, err := c.body(maxEnvelope)
	if err != nil {
		return err
	}
	var (
		results  []BatchResult
		messages []broker.Message
		places   []int // in results, of each message
	)
	number := 0
	for line := range bytes.Lines(b) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if len(results) == maxBatch {
			p := problem("too_many")
			p.Field, p.Got, p.Limit, p.Fix = "body", "more", "10000 lines", "send several batches"
			return p
		}
		result := BatchResult{Line: number}
		m, err := a.decode(line, "")
		if err != nil {
			result.Problem = asProblem(err)
		} else {
			messages, places = append(messages, m), append(places, len(results))
		}
		results = append(results, result)
	}
	receipts, err := a.b.PutBatch(c.ctx(), messages)
	if err != nil {
		return err
	}
	for i, receipt := range receipts {
		if receipt.Err != nil {
			results[places[i]].Problem = asProblem(receipt.Err)
		} else {
			results[places[i]].Stored = a.stored(messages[i].Topic, receipt)
		}
	}
	c.w.Header().Set("Content-Type", "application/x-ndjson")
	c.w.Header().Set("Cache-Control", "no-store")
	enc := json.NewEncoder(c.w)
	enc.SetEscapeHTML(false)
	for i := range results {
		if enc.Encode(&results[i]) != nil {
			break // the peer is gone
		}
	}
	return nil
}

// pullMessages reads messages: of all queues, or of those that are named. Each queue=q may have its offset=o, in the
// same order; -1 is where the group stands.
func (a *API) pullMessages(c *call) error {
	q := c.query()
	req := broker.PullRequest{
		Topic: c.path("topic"), Group: q.text("group"), Tags: q.values["tag"],
		MaxCount: int(q.number("max")), Wait: q.wait("wait", broker.MaxWait),
	}
	queues := q.numbers("queue")
	offsets := q.numbers("offset")
	if len(offsets) != 0 && len(offsets) != len(queues) {
		q.fail("offset", fmt.Sprintf("there %d times", len(offsets)), fmt.Sprintf("as often as queue, %d times", len(queues)),
			"say which queue each offset is in")
	}
	if _, _, there := q.first("ack_timeout"); there {
		req.AckTimeout = q.duration("ack_timeout")
		if q.err == nil && (req.AckTimeout <= 0 || req.AckTimeout > broker.MaxAckTimeout) {
			q.fail("ack_timeout", q.text("ack_timeout"), "1ms to "+broker.MaxAckTimeout.String(), "")
		}
	}
	if q.err != nil {
		return q.err
	}
	if req.Group != "" && len(queues) == 0 { // it leases
		if err := c.needs(RoleProduce); err != nil {
			return err
		}
		if a.opts.ReadOnly {
			return problem("read_only")
		}
	}
	for i, queue := range queues {
		from := broker.QueueOffset{Queue: int(queue), Offset: broker.Committed}
		if len(offsets) > 0 {
			from.Offset = offsets[i]
		}
		req.From = append(req.From, from)
	}
	ctx, cancel := both(c.ctx(), a.drained)
	defer cancel()
	deadline(http.NewResponseController(c.w).SetWriteDeadline, req.Wait+answerTime)
	into := a.pulled.Get().(*broker.Pulled)
	defer a.pulled.Put(into)
	err := a.b.Pull(ctx, req, into)
	if err != nil && !(ctx.Err() != nil && a.drained.Err() != nil && c.ctx().Err() == nil) {
		return err
	}
	return c.answer(a.messages(req.Topic, into))
}

// messages says what was read.
func (a *API) messages(topic string, p *broker.Pulled) *Messages {
	out := &Messages{Topic: topic, Messages: []Message{}, Next: []QueueState{}, NowMs: a.b.NowMs()}
	for i := range p.Queues {
		part := &p.Queues[i]
		retried := part.Topic != topic && part.Topic != ""
		if !retried {
			out.addNext(QueueState{QueueOffset{part.Queue, Int64(part.Next)}, Int64(part.Min), Int64(part.Max)})
		}
		for j := range part.Messages {
			m := a.wireMessage(part.Queue, &part.Messages[j])
			if j < len(part.Leases) {
				m.lease(&part.Leases[j])
			}
			m.Retried = retried
			out.Messages = append(out.Messages, m)
		}
	}
	return out
}

// addNext says where a queue is to be gone on from. A queue of which messages come again has several parts.
func (m *Messages) addNext(s QueueState) {
	for i := range m.Next {
		if n := &m.Next[i]; n.Queue == s.Queue {
			n.Offset = max(n.Offset, s.Offset)
			return
		}
	}
	m.Next = append(m.Next, s)
}

// lease adds the hold that a group has.
func (m *Message) lease(l *broker.Lease) {
	m.Receipt, m.Attempt, m.AckUntilMs = l.Receipt, l.Attempt, l.EndsMs
	if m.Problem == nil {
		m.ID = l.ID
	}
}

func (a *API) wireMessage(queue int, m *engine.Message) Message {
	out := Message{Queue: queue, Offset: Int64(m.Offset), Position: Int64(m.Position)}
	if m.Err != nil {
		out.Problem = asProblem(m.Err)
		return out
	}
	out.ID = a.b.ID(m.First)
	out.Key, out.Tag = string(m.Key), string(m.Tag)
	out.DelayLevel, out.DueMs, out.StoredMs, out.BornMs = int(m.Level), m.DueMs, m.StoreMs, m.BornMs
	_, own := m.IdempotencyKey()
	out.Properties = wireProperties(own)
	out.Body, out.BodyBase64 = wireBody(m.Body)
	return out
}

func wireProperties(p message.Properties) map[string]string {
	var out map[string]string
	for name, value := range p.All() {
		if out == nil {
			out = map[string]string{}
		}
		out[string(name)] = string(value)
	}
	return out
}

// wireBody is a body as text if it is text.
func wireBody(b []byte) (text *string, binary []byte) {
	if utf8.Valid(b) {
		body := string(b)
		return &body, nil
	}
	return nil, bytes.Clone(b)
}

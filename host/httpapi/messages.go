package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"mime"
	"net/http"
	"unicode/utf8"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/host/broker"
)

// putMessage stores one message.
func (a *API) putMessage(w http.ResponseWriter, r *http.Request) error {
	if err := ourHeaders(r.Header); err != nil {
		return err
	}
	topic := r.PathValue("topic")
	var m broker.Message
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == EnvelopeType {
		b, err := readBody(w, r, maxEnvelope)
		if err != nil {
			return err
		}
		for _, name := range knownHeaders {
			if got := r.Header.Get(name); got != "" {
				return badField(name, got, "no header beside an envelope", "say it in the envelope")
			}
		}
		if m, err = a.decode(b, topic); err != nil {
			return err
		}
	} else {
		b, err := readBody(w, r, maxRaw)
		if err != nil {
			return err
		}
		if m, err = a.rawMessage(topic, r.Header, b); err != nil {
			return err
		}
	}
	receipt, err := a.b.Put(r.Context(), m)
	if err != nil {
		return err
	}
	s := a.stored(topic, receipt)
	if s.Handle != "" {
		w.Header().Set("Location", a.opts.Prefix+"/v1/timers/"+s.Handle)
	}
	return answer(w, http.StatusCreated, s)
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
		ID: r.ID, Topic: topic, Queue: r.Queue, Position: Int64(r.Position), State: StateVisible, Now: instantText(now),
		DelayLevel: r.Level, Clamped: r.Clamped, Past: r.Past,
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
func (a *API) putBatch(w http.ResponseWriter, r *http.Request) error {
	b, err := readBody(w, r, maxEnvelope)
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
			p := problem(http.StatusRequestEntityTooLarge, "too_many", "The batch has too many messages")
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
	receipts, err := a.b.PutBatch(r.Context(), messages)
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
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	enc := json.NewEncoder(w)
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
func (a *API) pullMessages(w http.ResponseWriter, r *http.Request) error {
	q := newQuery(r, "group", "queue", "offset", "wait", "max", "tag")
	req := broker.PullRequest{
		Topic: r.PathValue("topic"), Group: q.text("group"), Tags: q.values["tag"],
		MaxCount: int(q.number("max", 1, broker.MaxPull, 32)), Wait: q.wait("wait", broker.MaxWait),
	}
	queues := q.numbers("queue", 0, math.MaxInt32)
	offsets := q.numbers("offset", broker.Committed, math.MaxInt64)
	if len(offsets) != 0 && len(offsets) != len(queues) {
		q.fail("offset", fmt.Sprintf("there %d times", len(offsets)), fmt.Sprintf("as often as queue, %d times", len(queues)),
			"say which queue each offset is in")
	}
	if q.err != nil {
		return q.err
	}
	for i, queue := range queues {
		from := broker.QueueOffset{Queue: int(queue), Offset: broker.Committed}
		if len(offsets) > 0 {
			from.Offset = offsets[i]
		}
		req.From = append(req.From, from)
	}
	ctx, cancel := both(r.Context(), a.drained)
	defer cancel()
	deadline(http.NewResponseController(w).SetWriteDeadline, req.Wait+answerTime)
	into := a.pulled.Get().(*broker.Pulled)
	defer a.pulled.Put(into)
	err := a.b.Pull(ctx, req, into)
	if err != nil && !(ctx.Err() != nil && a.drained.Err() != nil && r.Context().Err() == nil) {
		return err
	}
	return answer(w, http.StatusOK, a.messages(req.Topic, into))
}

// messages says what was read.
func (a *API) messages(topic string, p *broker.Pulled) *Messages {
	out := &Messages{Topic: topic, Messages: []Message{}, Next: []QueueState{}, NowMs: a.b.NowMs()}
	for i := range p.Queues {
		part := &p.Queues[i]
		out.Next = append(out.Next, QueueState{
			QueueOffset{part.Queue, Int64(part.Next)}, Int64(part.Min), Int64(part.Max),
		})
		for j := range part.Messages {
			out.Messages = append(out.Messages, a.wireMessage(part.Queue, &part.Messages[j]))
		}
	}
	return out
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
	out.Properties = wireProperties(m.Properties)
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

// ack commits how far a group has come.
func (a *API) ack(w http.ResponseWriter, r *http.Request) error {
	b, err := readBody(w, r, maxRaw)
	if err != nil {
		return err
	}
	var req Ack
	if err := readJSON(b, &req); err != nil {
		return err
	}
	if len(req.Offsets) == 0 {
		return badField("offsets", "none", "at least one", "")
	}
	offsets := make([]broker.QueueOffset, len(req.Offsets))
	for i, o := range req.Offsets {
		offsets[i] = broker.QueueOffset{Queue: o.Queue, Offset: int64(o.Offset)}
	}
	if err := a.b.CommitOffset(r.Context(), req.Group, r.PathValue("topic"), offsets, req.Seek); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

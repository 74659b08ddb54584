package httpapi

import (
	"net/http"
	"time"

	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/config"
)

var leaseRoutes = []route{
	{
		method: "POST", pattern: "/v1/topics/{topic}/ack", id: "ack", group: "Messages", role: RoleProduce,
		summary: "Say that a group is done with messages",
		text: "With receipts, of the messages that they came with; each gets its outcome: expired means that the lease was over, and " +
			"that the message comes again or has come. Or with a group and offsets, of all messages below them; that is answered " +
			"with 204.",
		params: []param{topicParam}, takes: jsonOf[Ack](), gives: jsonOf[Acked](), also: http.StatusNoContent,
		problems: []string{"unknown_topic", "group_name", "queue_out_of_range", "offset", "unknown_outcome", "failed"},
		handle:   (*API).ack,
	},
	{
		method: "POST", pattern: "/v1/topics/{topic}/retry", id: "retry", group: "Messages", role: RoleProduce,
		summary: "Put a message off that a group has: it comes again later, with a higher attempt",
		text: "The nth time it waits as long as delay level n+2 says, unless delay says how long. After the last attempt, or with " +
			"reject at once, it becomes a dead letter of the group.",
		params: []param{topicParam}, takes: jsonOf[Retry](), gives: jsonOf[Retried](),
		problems: append([]string{"lease_expired", "unknown_receipt", "bad_request"}, putProblems...), handle: (*API).retry,
	},
	{
		method: "POST", pattern: "/v1/topics/{topic}/extend", id: "extend", group: "Messages", role: RoleProduce,
		summary: "Make the lease of a message that a group has end later, or at once",
		params:  []param{topicParam}, takes: jsonOf[Extend](),
		problems: []string{"lease_expired", "unknown_receipt", "bad_request"}, handle: (*API).extend,
	},
}

// Ack says with what a group is done: with the messages of receipts, or with those below offsets.
type Ack struct {
	Receipts []string      `json:"receipts,omitempty" doc:"instead of the rest"`
	Group    string        `json:"group,omitempty"`
	Offsets  []QueueOffset `json:"offsets,omitempty"`
	Seek     bool          `json:"seek,omitempty" doc:"allows going back"`
}

// Acked says what became of receipts, in their order.
type Acked struct {
	Results []AckResult `json:"results"`
}

// AckResult is what became of one receipt.
type AckResult struct {
	Receipt string `json:"receipt"`
	Outcome string `json:"outcome" enum:"acked,expired,not_found"`
}

// The outcomes of an ack.
const (
	OutcomeAcked    = "acked"
	OutcomeExpired  = "expired"
	OutcomeNotFound = "not_found"
)

var ackOutcomes = map[broker.AckOutcome]string{
	broker.Acked: OutcomeAcked, broker.AckExpired: OutcomeExpired, broker.AckNotFound: OutcomeNotFound,
}

// Retry puts a message off.
type Retry struct {
	Receipt string  `json:"receipt"`
	Delay   *string `json:"delay,omitempty" doc:"how long to wait; none: as the attempts so far say"`
	Reason  string  `json:"reason,omitempty" doc:"kept with the message"`
	Reject  bool    `json:"reject,omitempty" doc:"do not try again: it is a dead letter"`
}

// Retried says what became of a message that was put off.
type Retried struct {
	DeadLetter bool   `json:"dead_letter" doc:"it does not come again"`
	Attempt    int    `json:"attempt" doc:"the deliveries that it had"`
	Due        string `json:"due,omitempty" format:"date-time" doc:"when it comes again"`
	DueMs      int64  `json:"due_ms,omitempty"`
	DelayLevel int    `json:"delay_level,omitempty"`
}

// Extend says when a lease ends.
type Extend struct {
	Receipt    string `json:"receipt"`
	AckTimeout string `json:"ack_timeout" doc:"from now; 0s: at once, and the message comes again"`
}

// ack says with what a group is done.
func (a *API) ack(c *call) error {
	var req Ack
	if err := c.json(&req); err != nil {
		return err
	}
	if len(req.Receipts) > 0 {
		return a.ackReceipts(c, &req)
	}
	if len(req.Offsets) == 0 {
		return badField("offsets", "none", "at least one, or receipts", "")
	}
	offsets := make([]broker.QueueOffset, len(req.Offsets))
	for i, o := range req.Offsets {
		offsets[i] = broker.QueueOffset{Queue: o.Queue, Offset: int64(o.Offset)}
	}
	if err := a.b.CommitOffset(c.ctx(), req.Group, c.path("topic"), offsets, req.Seek); err != nil {
		return err
	}
	return c.done()
}

func (a *API) ackReceipts(c *call, req *Ack) error {
	if req.Group != "" || req.Offsets != nil || req.Seek {
		return badField("receipts", "beside group, offsets or seek", "nothing beside them", "they say which messages are meant")
	}
	outcomes, err := a.b.Ack(c.ctx(), req.Receipts...)
	if err != nil {
		return err
	}
	out := Acked{}
	for i, o := range outcomes {
		out.Results = append(out.Results, AckResult{req.Receipts[i], ackOutcomes[o]})
	}
	return c.answer(out)
}

// retry puts a message off, or gives it up.
func (a *API) retry(c *call) error {
	var req Retry
	if err := c.json(&req); err != nil {
		return err
	}
	if req.Receipt == "" {
		return badField("receipt", "", "the receipt of a message", "")
	}
	opts := broker.RetryOptions{Reason: req.Reason}
	if req.Delay != nil {
		d, err := config.ParseDuration(*req.Delay)
		switch {
		case err != nil || d == 0:
			return badField("delay", *req.Delay, "whole numbers with units, of y w d h m s ms", `as in "30s"`)
		case req.Reject:
			return badField("delay", *req.Delay, "nothing beside reject", "what is rejected does not come again")
		}
		opts.Delay = time.Duration(d)
	}
	var r broker.Retried
	var err error
	if req.Reject {
		r, err = a.b.Reject(c.ctx(), req.Receipt, req.Reason)
	} else {
		r, err = a.b.Retry(c.ctx(), req.Receipt, opts)
	}
	if err != nil {
		return err
	}
	out := Retried{DeadLetter: r.DeadLetter, Attempt: r.Attempt, DueMs: r.DueMs, DelayLevel: r.Level}
	if r.DueMs != 0 {
		out.Due = instantText(r.DueMs)
	}
	return c.answer(out)
}

// extend makes a lease longer, or ends it.
func (a *API) extend(c *call) error {
	var req Extend
	if err := c.json(&req); err != nil {
		return err
	}
	d, err := config.ParseDuration(req.AckTimeout)
	if err != nil {
		return badField("ack_timeout", req.AckTimeout, "whole numbers with units, of y w d h m s ms", `as in "1m"`)
	}
	if err := a.b.Extend(c.ctx(), req.Receipt, time.Duration(d)); err != nil {
		return err
	}
	return c.done()
}

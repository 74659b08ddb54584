package delivery

import (
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/egress"
	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
)

// task is a message in hand.
type task struct {
	w *Worker
	d broker.Delivery
}

// answer is what came of a request.
type answer struct {
	record abi.Record    // what result is asked about, but for the message's own fields
	after  time.Duration // how long to wait at least: of Retry-After, or while the host is left alone
	text   string        // for people
}

// send makes a request, has the answer judged and the message settled. It holds a slot.
func (w *Worker) send(t *task, req *egress.Request, digest plugins.Digest) {
	got, err := w.do(req)
	switch {
	case errors.Is(err, egress.ErrRefused):
		w.refused(t, err, digest)
		return
	case err != nil: // stopped: it may have arrived or not
		<-w.slots
		w.giveBack(t)
		return
	}
	defer func() { <-w.slots }()
	var a plugins.Answer
	records := []abi.Record{got.record}
	r := &records[0]
	var message abi.Record
	w.c.Record(&t.d, &message)
	r.ID, r.StoredMs, r.DueMs, r.Attempt, r.Topic, r.Key = message.ID, message.StoredMs, message.DueMs, message.Attempt, message.Topic, message.Key
	if !w.ask(w.sending, abi.Result, t, records, &a) {
		w.giveBack(t)
		return
	}
	w.settle([]settlement{{t, w.decision(t, abi.Result, &a.Decisions[0], &a, got)}})
}

// do makes a request. An error is egress.ErrRefused, or that the worker ends.
func (w *Worker) do(req *egress.Request) (*answer, error) {
	target, err := w.c.Client.Target(req.URL)
	if err != nil {
		w.stats.request("refused", 0, false)
		w.stats.trouble(err.Error(), w.c.Broker.NowMs())
		return nil, err
	}
	host, begun := target.Authority(), time.Now()
	if ok, wait := w.hosts.admits(host, begun); !ok {
		w.stats.request("down", 0, false)
		x := silence("the host does not answer", host)
		x.after = wait // a plugin with a short delay must not use up its attempts meanwhile
		return x, nil
	}
	got, err := w.c.Client.Do(w.sending, req)
	took := time.Since(begun)
	var failed *egress.Error
	switch {
	case err == nil:
		w.hosts.answered(host)
		w.stats.request(fmt.Sprintf("%dxx", got.Status/100), took, true)
		return w.answered(got, host), nil
	case errors.As(err, &failed):
		stopped := failed.Kind == egress.Stopped
		w.hosts.silent(host, time.Now(), !stopped)
		w.stats.request(failed.Kind.String(), took, true)
		if stopped {
			return nil, err
		}
		w.c.Log.Debug("no answer", "host", host, "err", err)
		w.stats.trouble(noAnswer(host, failed.Kind), w.c.Broker.NowMs())
		return silence(failed.Kind.Reason(), host), nil
	}
	w.hosts.silent(host, time.Now(), false)
	w.stats.request("refused", 0, false)
	w.stats.trouble(err.Error(), w.c.Broker.NowMs())
	return nil, err
}

// noAnswer is what an operator is told of a request without a response: the host and no address, as the plugin.
func noAnswer(host string, k egress.Kind) string {
	text := "no answer from " + host + ": " + k.Reason()
	if k == egress.AddressRefused {
		text += "; private_addresses lets networks through that are not public"
	}
	return text
}

// silence is what stands in the place of an answer.
func silence(reason, host string) *answer {
	return &answer{record: abi.Record{Flags: abi.FlagNoResponse, Body: []byte(reason)}, text: reason + " (" + host + ")"}
}

func (w *Worker) answered(got *egress.Response, host string) *answer {
	x := &answer{text: fmt.Sprintf("status %d (%s)", got.Status, host)}
	x.record.Flags = uint32(got.Status) << 16
	if got.Cut {
		x.record.Flags |= abi.FlagCut
	}
	x.record.Body = got.Body
	for _, h := range got.Headers {
		x.record.Headers = x.record.Headers.Append([]byte(h.Name), []byte(h.Value))
		if h.Name == "retry-after" && x.after == 0 {
			x.after, _ = egress.RetryAfter(h.Value, time.UnixMilli(w.c.Broker.NowMs()))
		}
	}
	return x
}

// refused decides about a request that may not be made: the plugin failed on the message, and its policy says what that means.
// It gives the slot back.
func (w *Worker) refused(t *task, err error, digest plugins.Digest) {
	defer func() { <-w.slots }()
	d := broker.Decision{
		Action: broker.ActionDeadLetter, Plugin: w.c.Name, Digest: digest, Asked: [][32]byte{digest}, Reason: err.Error(),
	}
	switch p := &w.c.Policy; p.OnError {
	case plugins.OnErrorSkip, plugins.OnErrorDrop:
		d.Action = broker.ActionDrop
	case plugins.OnErrorRetry:
		if uint32(t.d.Attempt) < p.RetryMax {
			w.retry(t, &d, p.RetryDelayMs, nil)
		}
	case plugins.OnErrorBlock:
		w.trouble("a request may not be made, and the plugin blocks", err)
		w.working.Go(func() {
			if pause(w.pulling, longestPause) {
				w.prepare([]*task{t})
				return
			}
			w.giveBack(t)
		})
		return
	}
	w.settle([]settlement{{t, d}})
}

// retry puts a message off, for as long as the plugin and the receiver want at least, or makes it a dead letter when it had its
// attempts.
func (w *Worker) retry(t *task, d *broker.Decision, delayMs uint32, answer *answer) {
	if t.d.Attempt >= w.c.MaxAttempts {
		d.Action = broker.ActionDeadLetter
		d.Reason = fmt.Sprintf("attempt %d of %d: %s", t.d.Attempt, w.c.MaxAttempts, d.Reason)
		return
	}
	d.Action, d.Delay = broker.ActionRetry, time.Duration(delayMs)*time.Millisecond
	if d.Delay == 0 {
		d.Delay = t.backoff()
	}
	if answer != nil {
		d.Delay = max(d.Delay, answer.after)
	}
}

// Backoff of a plugin that leaves it to the host.
const (
	firstBackoff   = 5 * time.Second
	longestBackoff = time.Hour
)

// backoff doubles from attempt to attempt, and is up to a fifth longer, so that what failed together does not come again
// together. The same attempt gets the same.
func (t *task) backoff() time.Duration {
	d := firstBackoff << min(max(t.d.Attempt-1, 0), 20)
	d = min(d, longestBackoff)
	h := fnv.New32a()
	h.Write([]byte(t.d.ID))
	return d + time.Duration(uint64(d/5)*uint64(h.Sum32())>>32)
}

// settlement is a task and what is to become of it.
type settlement struct {
	t *task
	d broker.Decision
}

// settle has messages settled, durably, and lets go of them. What cannot be settled is tried again: the message was delivered,
// and would be sent again otherwise.
func (w *Worker) settle(all []settlement) {
	for wait := firstPause; ; wait = min(2*wait, longestPause) {
		list := make([]broker.Settlement, len(all))
		for i, s := range all {
			list[i] = broker.Settlement{Receipt: s.t.d.Receipt, Decision: s.d}
		}
		var left []settlement
		for i, err := range w.c.Broker.Settle(w.settling, list) {
			if !w.settled(all[i], err) {
				left = append(left, all[i])
			}
		}
		if all = left; len(all) == 0 {
			return
		}
		pause(w.settling, wait)
	}
}

// settled notes what became of a message, and says whether there is nothing more to be done.
func (w *Worker) settled(s settlement, err error) bool {
	became := becomes[s.d.Action]
	switch {
	case err == nil:
	case errors.Is(err, broker.ErrExpired), errors.Is(err, broker.ErrReceipt):
		became = "expired"
		w.trouble("a message was delivered after its lease was over, and comes again", err, "topic", s.t.d.Topic, "id", s.t.d.ID)
	case errors.Is(err, broker.ErrClosed), errors.Is(err, engine.ErrFailed), w.settling.Err() != nil:
		w.trouble("a message is not settled and comes again", err, "topic", s.t.d.Topic, "id", s.t.d.ID)
		w.letGo(s.t)
		return true
	default:
		w.trouble("a message cannot be settled", err, "topic", s.t.d.Topic, "id", s.t.d.ID)
		return false
	}
	w.letGo(s.t)
	w.stats.message(became)
	return true
}

// becomes are the words of metrics.
var becomes = map[broker.Action]string{
	broker.ActionKeep: "acked", broker.ActionDrop: "dropped", broker.ActionRetry: "retried", broker.ActionDeadLetter: "dead_letter",
}

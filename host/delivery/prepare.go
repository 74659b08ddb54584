package delivery

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/egress"
	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
)

// prepare asks the plugin what to send for messages of one topic, and has it sent. It returns when each of them is on its way,
// settled, or given back because the worker ends.
func (w *Worker) prepare(all []*task) {
	all = w.readable(all)
	records := make([]abi.Record, len(all))
	for i, t := range all {
		w.c.Record(&t.d, &records[i])
	}
	for len(all) > 0 {
		a := new(plugins.Answer) // its requests are used after the next answer
		if !w.ask(w.pulling, abi.Prepare, all[0], records, a) {
			w.giveBack(all...)
			return
		}
		n := a.Decided
		w.begin(all[:n], a)
		all, records = all[n:], records[n:]
	}
}

// readable sorts out messages that cannot be read: nobody can deliver them.
func (w *Worker) readable(all []*task) []*task {
	var bad []settlement
	good := all[:0]
	for _, t := range all {
		if t.d.Err == nil {
			good = append(good, t)
			continue
		}
		bad = append(bad, settlement{t, broker.Decision{Action: broker.ActionDeadLetter, Plugin: w.c.Name, Reason: t.d.Err.Error()}})
	}
	if len(bad) > 0 {
		w.settle(bad)
	}
	return good
}

// ask asks the plugin until it has decided about the first record at least. While it is quarantined, or blocks, it is asked again
// and again; false says that the context ended first.
func (w *Worker) ask(ctx context.Context, hook abi.Hook, first *task, records []abi.Record, a *plugins.Answer) bool {
	for wait := firstPause; ctx.Err() == nil; wait = min(2*wait, longestPause) {
		call := plugins.Call{Hook: hook, NowMs: w.c.Broker.NowMs(), Seed: first.seed(hook)}
		err := w.c.Plugin.Decide(ctx, call, records, a)
		if a.Decided > 0 {
			return true
		}
		if err != nil && ctx.Err() == nil && wait == firstPause { // once: it may last
			w.trouble("the plugin does not answer", err, "topic", first.d.Topic)
		}
		pause(ctx, wait)
	}
	return false
}

// seed is a number that an attempt keeps when it is asked about again.
func (t *task) seed(hook abi.Hook) uint64 {
	h := fnv.New64a()
	h.Write([]byte(t.d.ID))
	h.Write(binary.LittleEndian.AppendUint64([]byte{byte(hook)}, uint64(t.d.Attempt)))
	return h.Sum64()
}

// begin does what was decided: settles what needs no request, and sends the others, each as soon as a slot is free.
func (w *Worker) begin(all []*task, a *plugins.Answer) {
	var done []settlement
	for i, t := range all {
		if d := &a.Decisions[i]; d.Verdict.Action() != abi.Replace {
			done = append(done, settlement{t, w.decision(t, abi.Prepare, d, a, nil)})
		}
	}
	if len(done) > 0 {
		w.working.Go(func() { w.settle(done) })
	}
	for i, t := range all {
		d := &a.Decisions[i]
		if d.Verdict.Action() != abi.Replace {
			continue
		}
		select {
		case w.slots <- struct{}{}:
			w.working.Go(func() { w.send(t, w.request(t, &d.Output), a.Digest) })
		case <-w.pulling.Done():
			w.giveBack(t)
		}
	}
}

// request is what a plugin's output asks for.
func (w *Worker) request(t *task, r *abi.Record) *egress.Request {
	req := &egress.Request{
		URL: string(r.Topic), Method: string(r.Key), Body: r.Body,
		ID: t.d.ID, NowMs: w.c.Broker.NowMs(), Secrets: w.c.Secrets,
	}
	for h := r.Headers; ; {
		name, value, rest, ok := h.Next()
		if !ok {
			return req
		}
		req.Headers = append(req.Headers, egress.Header{Name: string(name), Value: string(value)})
		h = rest
	}
}

// decision is the broker's form of a verdict. answer, of the hook result, is what came back.
func (w *Worker) decision(t *task, hook abi.Hook, x *plugins.Decision, a *plugins.Answer, answer *answer) broker.Decision {
	d := broker.Decision{
		Code: x.Verdict.Code(), Plugin: w.c.Name, Digest: a.Digest, Asked: [][32]byte{a.Digest},
	}
	d.Reason = fmt.Sprintf("%v: %v, code %d", hook, x.Verdict.Action(), d.Code)
	if f := x.Failure; f != nil {
		d.Reason = fmt.Sprintf("%v: %v, code %d: %s", hook, f.Class, f.Code, f.Message)
		if f.Stack != "" {
			d.Reason += " at " + strings.ReplaceAll(f.Stack, "\n", ", ")
		}
	}
	if answer != nil {
		d.Reason = answer.text + "; " + d.Reason
	}
	switch x.Verdict.Action() {
	case abi.Keep:
		d.Action = broker.ActionKeep
	case abi.Drop:
		d.Action = broker.ActionDrop
	case abi.Retry:
		w.retry(t, &d, x.Verdict.Arg(), answer)
	default:
		d.Action = broker.ActionDeadLetter
	}
	return d
}

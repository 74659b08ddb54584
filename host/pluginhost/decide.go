package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
)

// question is a call of the broker on its way through a chain. It is used once, by one goroutine.
type question struct {
	h            *Host
	place        place
	group, topic string
	records      []abi.Record
	unreadable   []int // messages without a record

	// of one way through the chain
	decisions []broker.Decision
	current   []abi.Record // as the plugins so far have made them
	replaced  []bool
	live      []int // messages that nobody has decided about yet, in order
	end       int   // messages from here on are undecided
	path      trail
}

// answers are used again and again, since one that was used has the memory it needs.
var answers = sync.Pool{New: func() any { return new(asked) }}

// asked is the memory of one question to one plugin.
type asked struct {
	answer  plugins.Answer
	records []abi.Record
}

// ask takes the messages through the chain. When a plugin of it was closed in between, because the configuration changed, all
// is asked again of the new one.
func (q *question) ask(ctx context.Context) ([]broker.Decision, error) {
	for {
		q.begin()
		var err error
		for _, s := range q.h.chain(q.place, q.group, q.topic) {
			if len(q.live) == 0 {
				break
			}
			if err = q.step(ctx, s); err != nil {
				break
			}
		}
		switch {
		case errors.Is(err, plugins.ErrClosed) && ctx.Err() == nil && !q.h.ended():
			continue
		case err != nil && (q.end == 0 || errors.Is(err, plugins.ErrClosed)):
			return nil, err
		}
		q.finish()
		return q.decisions[:q.end], nil
	}
}

// begin puts all messages before the chain.
func (q *question) begin() {
	q.decisions, q.current = make([]broker.Decision, len(q.records)), slices.Clone(q.records)
	q.replaced = make([]bool, len(q.records))
	q.end, q.live, q.path = len(q.records), q.live[:0], trail{}
	for i := range q.records {
		if !slices.Contains(q.unreadable, i) {
			q.live = append(q.live, i)
		}
	}
}

// finish decides about what came through the chain.
func (q *question) finish() {
	for i := range q.decisions[:q.end] {
		d := &q.decisions[i]
		if d.Action != broker.Undecided {
			continue
		}
		d.Action = broker.ActionKeep
		if q.replaced[i] {
			d.Action, d.Message = broker.ActionReplace, content(&q.current[i])
		}
	}
}

// step asks one plugin about the messages that nobody has decided about.
func (q *question) step(ctx context.Context, s step) error {
	p := s.plugin()
	switch {
	case p != nil:
	case q.h.member(s.table.Name) != s.member: // it was removed, or is another one
		return plugins.ErrClosed
	case !s.table.FailOpen():
		q.leave(q.live[0])
		return nil
	default:
		return nil
	}
	a := answers.Get().(*asked)
	defer answers.Put(a)
	a.records = a.records[:0]
	for _, i := range q.live {
		a.records = append(a.records, q.current[i])
	}
	call := plugins.Call{Hook: s.hook, NowMs: q.h.now(), Seed: seed(&a.records[0])}
	err := s.meter.decide(ctx, p, call, a.records, &a.answer)
	if errors.Is(err, plugins.ErrClosed) {
		return err
	}
	next := q.live[:0]
	for n, i := range q.live {
		if n == a.answer.Decided {
			q.leave(i)
			break
		}
		if q.apply(s, &a.answer, n, i) {
			next = append(next, i)
		}
	}
	q.live = next
	clear(a.records) // the messages are not ours to keep
	return err
}

// leave makes a message, and all behind it, undecided.
func (q *question) leave(i int) {
	q.end = min(q.end, i)
	q.live = q.live[:0]
}

// apply takes a plugin's answer n about message i, and says whether the next plugin is to be asked.
func (q *question) apply(s step, a *plugins.Answer, n, i int) (next bool) {
	answer, d := &a.Decisions[n], &q.decisions[i]
	v, f := answer.Verdict, answer.Failure
	if f != nil && f.Class == plugins.ClassOff {
		return true // it was not asked
	}
	d.Asked = q.path.with(d.Asked, a.Digest)
	action := v.Action()
	if action == abi.Defer || action == abi.Route && a.Targets[v.Arg()] == q.topic && f == nil {
		return true // it is there already
	}
	d.Plugin, d.Digest, d.Code = s.table.Name, a.Digest, v.Code()
	if f != nil {
		d.Reason = reason(f)
	}
	switch action {
	case abi.Keep:
		return true
	case abi.Replace:
		out := clone(answer.Output)
		r := &q.current[i]
		r.Key, r.Headers, r.Body = out.Key, out.Headers, out.Body
		q.replaced[i] = true
		return true
	case abi.Drop:
		d.Action = broker.ActionDrop
	case abi.DeadLetter:
		d.Action = broker.ActionDeadLetter
	case abi.Route:
		d.Action, d.Topic = broker.ActionRoute, a.Targets[v.Arg()]
		if q.replaced[i] { // what a plugin before has taken out is not to come to light there
			d.Message = content(&q.current[i])
		}
	case abi.Retry:
		d.Action, d.Delay = broker.ActionRetry, max(time.Duration(v.Arg())*time.Millisecond, time.Millisecond)
	}
	return false
}

// reason is a failure in one line, with the fuel that was used and the functions it happened in, the innermost first.
func reason(f *plugins.Failure) string {
	text := brief(f)
	if stack := strings.TrimSpace(f.Stack); stack != "" {
		text += ", in " + strings.ReplaceAll(stack, "\n", " < ")
	}
	return strings.Join(strings.Fields(text), " ")
}

// brief is reason without the functions, for tables and banners.
func brief(f *plugins.Failure) string {
	text := f.Class.String() + ": " + f.Message
	if f.Fuel > 0 {
		text += fmt.Sprintf(", after %d fuel", f.Fuel)
	}
	return strings.Join(strings.Fields(text), " ")
}

// trail makes the lists of who was asked. Messages that took the same way share one.
type trail struct {
	before, after [][32]byte
	digest        [32]byte
	known         bool
}

// with is a list and one more.
func (p *trail) with(before [][32]byte, digest plugins.Digest) [][32]byte {
	same := p.known && p.digest == digest && len(before) == len(p.before) && (len(before) == 0 || &before[0] == &p.before[0])
	if !same {
		*p = trail{before, append(before[:len(before):len(before)], digest), digest, true}
	}
	return p.after
}

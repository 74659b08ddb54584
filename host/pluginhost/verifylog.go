package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
)

// Log is what VerifyLog reads: what happened, and the messages that it happened to. A *broker.LogReader is one.
type Log interface {
	// At is where Read goes on.
	At() engine.Offset
	// Read appends the next events to into. None and the same At are the end.
	Read(ctx context.Context, into []engine.Event) ([]engine.Event, error)
	// Pull reads messages of a queue, stages included.
	Pull(req engine.PullRequest, into *engine.Pulled) error
}

// Logged is what VerifyLog found.
type Logged struct {
	Verdicts    int64 // in the log, of the plugin's file
	Compared    int64 // asked again
	Gone        int64 // whose message the log does not hold any more, or can't read
	Other       int64 // that can't be asked again: they depend on a response, or on a retry topic
	Differ      int64 // that the plugin does not give again
	Differences []LoggedDifference

	// Next is where to go on in the log; below 0 when it was read to its end.
	Next engine.Offset
}

// LoggedDifference is a verdict that the plugin does not give again.
type LoggedDifference struct {
	Topic  string
	Queue  int
	Offset int64 // where the message was settled: in the stage, or in the topic
	Key    string
	Logged string // action, and its code if it has one
	Again  string
}

// MostDifferences is how many differences VerifyLog keeps. All are counted.
const MostDifferences = 1000

// VerifyLog asks a plugin again about every message that the log says it decided: verdicts with the digest of its file. It ends at
// the log's end, or, with a Next, when enough says so, which is asked before each verdict; nil is never. Each message is asked
// about in a call of its own. The clock is the one at which the verdict was written, which is a moment after the plugin read it,
// and random numbers are those of a batch that begins with the message: a plugin that decides by those may differ. So may one
// that was asked behind another plugin which changed the message. The plugin is to have the settings that it had, and not to be
// one that serves: its counts and its quarantine would be the verification's.
func VerifyLog(ctx context.Context, log Log, p *plugins.Plugin, enough func(*Logged, engine.Offset) bool) (Logged, error) {
	v := logVerifier{ctx: ctx, log: log, p: p, digest: p.Module().Digest()}
	hooks := p.Module().Hooks()
	if wanted := p.Module().Spec().Hooks; len(wanted) > 0 {
		hooks = wanted
	}
	for _, h := range []abi.Hook{abi.Filter, abi.Transform} { // in the order in which a host asks
		if slices.Contains(hooks, h) {
			v.hooks = append(v.hooks, h)
		}
	}
	stop := func(next engine.Offset) bool {
		v.found.Next = next
		return enough != nil && enough(&v.found, next)
	}
	var events []engine.Event
	for at := log.At(); !stop(at); at = log.At() {
		var err error
		if events, err = log.Read(ctx, events[:0]); err != nil {
			return v.found, fmt.Errorf("pluginhost: verify the log: %w", err)
		}
		for i := range events {
			ev := &events[i]
			if ev.Verdict == nil || !ev.Verdict.Asked || ev.Verdict.Digest != v.digest {
				continue
			}
			if stop(ev.Position) {
				return v.found, nil
			}
			if err := v.event(ev); err != nil {
				return v.found, err
			}
		}
		if len(events) == 0 && log.At() == at {
			v.found.Next = -1
			return v.found, ctx.Err()
		}
	}
	return v.found, nil
}

// logVerifier goes over the events.
type logVerifier struct {
	ctx    context.Context
	log    Log
	p      *plugins.Plugin
	digest plugins.Digest
	hooks  []abi.Hook
	found  Logged
	pulled engine.Pulled
	answer plugins.Answer
}

// event asks again about a verdict of the plugin.
func (v *logVerifier) event(ev *engine.Event) error {
	if err := v.ctx.Err(); err != nil {
		return err
	}
	v.found.Verdicts++
	origin := strings.TrimPrefix(ev.TopicName, engine.StagePrefix)
	place := origin
	if ev.GroupName == engine.StageGroup {
		place = engine.StagePrefix + origin
	}
	if len(v.hooks) == 0 || strings.HasPrefix(origin, "%") {
		v.found.Other++
		return nil
	}
	m, err := v.message(place, int(ev.Verdict.Queue), ev.Verdict.Offset)
	if err != nil {
		return err
	}
	if m == nil {
		v.found.Gone++
		return nil
	}
	again, err := v.ask(origin, m, ev.WallMs)
	if err != nil {
		return err
	}
	v.found.Compared++
	logged := verdictText(abi.Action(ev.Verdict.Action), ev.Verdict.Code)
	if again == logged {
		return nil
	}
	if v.found.Differ++; len(v.found.Differences) < MostDifferences {
		v.found.Differences = append(v.found.Differences, LoggedDifference{
			Topic: origin, Queue: int(ev.Verdict.Queue), Offset: ev.Verdict.Offset, Key: string(m.Key), Logged: logged, Again: again,
		})
	}
	return nil
}

// message reads the message that was decided; nil when it is not there any more.
func (v *logVerifier) message(topic string, queue int, offset int64) (*engine.Message, error) {
	err := v.log.Pull(engine.PullRequest{Topic: topic, Queue: queue, Offset: offset, MaxCount: 1}, &v.pulled)
	switch {
	case errors.Is(err, engine.ErrTrimmed), errors.Is(err, engine.ErrOffset), errors.Is(err, engine.ErrNoTopic):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("pluginhost: verify the log: %s, queue %d, offset %d: %w", topic, queue, offset, err)
	case len(v.pulled.Messages) == 0 || v.pulled.Messages[0].Err != nil:
		return nil, nil
	}
	return &v.pulled.Messages[0], nil
}

// ask decides a message as a chain does: filter comes before transform, and what one keeps or changes goes to the next.
func (v *logVerifier) ask(topic string, m *engine.Message, nowMs int64) (string, error) {
	var records [1]abi.Record
	Record(&records[0], topic, m, nil)
	call := plugins.Call{NowMs: nowMs, Seed: seed(&records[0])}
	action, code := abi.Keep, uint16(0)
	for _, call.Hook = range v.hooks {
		if err := v.p.Decide(v.ctx, call, records[:], &v.answer); err != nil {
			return "", fmt.Errorf("pluginhost: verify the log: %w", err)
		}
		d := &v.answer.Decisions[0]
		if v.answer.Decided == 0 {
			return "nothing, " + reason(d.Failure), nil
		}
		switch a := d.Verdict.Action(); {
		case a == abi.Defer, a == abi.Route && d.Failure == nil && v.target(d.Verdict.Arg()) == topic: // it is there already
		case a == abi.Keep:
			code = d.Verdict.Code()
		case a == abi.Replace:
			action, code = a, d.Verdict.Code()
			out := clone(d.Output)
			records[0].Key, records[0].Headers, records[0].Body = out.Key, out.Headers, out.Body
		default:
			return verdictText(a, d.Verdict.Code()), nil
		}
	}
	return verdictText(action, code), nil
}

// target is a topic to route to; empty when the plugin was loaded without a list.
func (v *logVerifier) target(i uint32) string {
	if int64(i) < int64(len(v.answer.Targets)) {
		return v.answer.Targets[i]
	}
	return ""
}

// verdictText is a verdict in words. A plugin without an opinion lets the message pass, and that is what is logged.
func verdictText(a abi.Action, code uint16) string {
	if a == abi.Defer {
		a = abi.Keep
	}
	if code == 0 {
		return a.String()
	}
	return fmt.Sprintf("%v %d", a, code)
}

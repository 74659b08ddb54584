package author

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/pluginhost"
	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
)

// Logged is what VerifyLog found.
type Logged struct {
	Verdicts    int64 // in the log, of this file
	Compared    int64 // asked again
	Gone        int64 // whose message the log does not hold any more, or can't read
	Other       int64 // that can't be asked again: they depend on a response, or on a retry topic
	Differences []LoggedDifference
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

// MostDifferences is how many differences VerifyLog keeps; all are counted as compared.
const MostDifferences = 1000

// VerifyLog asks a plugin again about every message that the log says it decided: verdicts with its digest. The clock is the
// one at which the verdict was written, which is a moment after the plugin read it, and random numbers are others: a plugin
// that decides by those may differ. So may one that was asked behind another plugin which changed the message. The session is
// to have the settings that the plugin had.
func VerifyLog(ctx context.Context, e *engine.Engine, s *Session) (Logged, error) {
	r, err := e.NewEventReader("", e.First())
	if err != nil {
		return Logged{}, fmt.Errorf("author: verify the log: %w", err)
	}
	v := logVerifier{ctx: ctx, e: e, s: s, digest: s.Module().Digest()}
	hooks := s.Module().Hooks()
	if wanted := s.Module().Spec().Hooks; len(wanted) > 0 {
		hooks = wanted
	}
	for _, h := range []abi.Hook{abi.Filter, abi.Transform} { // in the order in which a host asks
		if slices.Contains(hooks, h) {
			v.hooks = append(v.hooks, h)
		}
	}
	var events []engine.Event
	for {
		at := r.At()
		if events, _, err = r.Read(events[:0]); err != nil {
			return v.found, fmt.Errorf("author: verify the log: %w", err)
		}
		for i := range events {
			if err := v.event(&events[i]); err != nil {
				return v.found, err
			}
		}
		if len(events) == 0 && r.At() == at {
			return v.found, ctx.Err()
		}
	}
}

// logVerifier goes over the events.
type logVerifier struct {
	ctx    context.Context
	e      *engine.Engine
	s      *Session
	digest plugins.Digest
	hooks  []abi.Hook
	found  Logged
	pulled engine.Pulled
}

// event asks again if the event is a verdict of the plugin.
func (v *logVerifier) event(ev *engine.Event) error {
	if ev.Verdict == nil || !ev.Verdict.Asked || ev.Verdict.Digest != v.digest {
		return nil
	}
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
	if got := verdictText(again.Action(), again.Code()); got != logged && len(v.found.Differences) < MostDifferences {
		v.found.Differences = append(v.found.Differences, LoggedDifference{
			Topic: origin, Queue: int(ev.Verdict.Queue), Offset: ev.Verdict.Offset, Key: string(m.Key), Logged: logged, Again: got,
		})
	}
	return nil
}

// message reads the message that was decided; nil when it is not there any more.
func (v *logVerifier) message(topic string, queue int, offset int64) (*engine.Message, error) {
	err := v.e.Pull(engine.PullRequest{Topic: topic, Queue: queue, Offset: offset, MaxCount: 1}, &v.pulled)
	switch {
	case errors.Is(err, engine.ErrTrimmed), errors.Is(err, engine.ErrOffset), errors.Is(err, engine.ErrNoTopic):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("author: verify the log: %s, queue %d, offset %d: %w", topic, queue, offset, err)
	case len(v.pulled.Messages) == 0 || v.pulled.Messages[0].Err != nil:
		return nil, nil
	}
	return &v.pulled.Messages[0], nil
}

// ask decides a message as a host does: filter comes before transform, and what one keeps goes to the next.
func (v *logVerifier) ask(topic string, m *engine.Message, nowMs int64) (abi.Verdict, error) {
	var records [1]abi.Record
	pluginhost.Record(&records[0], topic, m, nil)
	for i, h := range v.hooks {
		if err := v.s.decide(v.ctx, h, nowMs, records[:]); err != nil {
			return 0, err
		}
		verdict := v.s.answer.Decisions[0].Verdict
		if a := verdict.Action(); i == len(v.hooks)-1 || a != abi.Keep && a != abi.Defer {
			return verdict, nil
		}
	}
	return 0, nil // there is a hook
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

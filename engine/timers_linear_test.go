package engine_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/engine/handle"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// tiny is the least broker: one writer at a time, syncs beside it, and an answer that leaves when it is released.
type tiny struct {
	e       *engine.Engine
	writer  sync.Mutex
	syncing sync.Mutex
	clock   atomic.Int64 // of the recorded history, not of the store
}

// do gives a command and waits for the answer to be released.
func (b *tiny) do(c engine.Command) (engine.Answer, error) {
	for {
		b.writer.Lock()
		answers, pos, err := b.e.Append([]engine.Command{c})
		var a engine.Answer
		if err == nil {
			a = answers[0] // valid until the next Append
			err = b.e.Commit()
		}
		b.writer.Unlock()
		if errors.Is(err, engine.ErrBusy) {
			if err := b.tick(); err != nil {
				return a, err
			}
			continue
		}
		if err != nil {
			return a, err
		}
		return a, b.released(pos)
	}
}

// released waits until a position is released.
func (b *tiny) released(pos engine.Offset) error {
	for b.e.Released() < pos {
		if err := b.sync(); err != nil {
			return err
		}
		runtime.Gosched()
	}
	return nil
}

func (b *tiny) sync() error {
	b.syncing.Lock()
	defer b.syncing.Unlock()
	end, err := b.e.Sync()
	if err == nil {
		b.e.Release(end)
	}
	return err
}

// tick does one Tick with its jobs. What a seal appended is written when the job that makes the next segment is done, so
// nobody waits for a release before.
func (b *tiny) tick() error {
	b.writer.Lock()
	status := b.e.Tick()
	jobs := append([]*engine.Job(nil), status.Jobs...)
	err := b.e.Commit()
	b.writer.Unlock()
	if err = errors.Join(err, status.Err); err != nil {
		return err
	}
	for _, j := range jobs {
		_ = j.Run()
		for done := false; !done; {
			b.writer.Lock()
			done = b.e.Install(j)
			b.writer.Unlock()
		}
	}
	b.writer.Lock()
	err = b.e.Commit()
	b.writer.Unlock()
	return errors.Join(err, b.sync())
}

// linearInput is an operation on the message of an id.
type linearInput struct {
	kind string // cancel, move, undo, verdict, fire, look
	id   uint64
}

// The states of a message.
const (
	linearWaiting = iota
	linearCancelled
	linearSuperseded
	linearDelivered
)

// linearModel is what one message does when everything happens one thing after the other: it is cancelled, moved, brought
// back, or fired, by the first that comes.
var linearModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byID := map[uint64][]porcupine.Operation{}
		for _, op := range history {
			id := op.Input.(linearInput).id
			byID[id] = append(byID[id], op)
		}
		var parts [][]porcupine.Operation
		for _, ops := range byID {
			parts = append(parts, ops)
		}
		return parts
	},
	Init: func() any { return linearWaiting },
	Step: func(state, input, output any) (bool, any) {
		s := state.(int)
		refused := [...]engine.Outcome{
			linearWaiting: engine.Scheduled, linearCancelled: engine.AlreadyCancelled, linearSuperseded: engine.Superseded,
			linearDelivered: engine.Delivered,
		}[s]
		switch input.(linearInput).kind {
		case "fire":
			return s == linearWaiting, linearDelivered
		case "look":
			return output.(bool) == (s == linearDelivered), s
		case "verdict":
			return output == refused, s
		case "cancel":
			if s == linearWaiting {
				return output == engine.Cancelled, linearCancelled
			}
		case "move":
			if s == linearWaiting {
				return output == engine.Moved, linearSuperseded
			}
		case "undo":
			if s == linearCancelled {
				// From its due time on it cannot be brought back.
				if output == engine.Refused {
					return true, s
				}
				return output == engine.Restored, linearSuperseded
			}
		}
		return output == refused, s
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%v: %v", input, output) },
}

// linearRun is one round: some messages that are due at the same instant, and everybody at them.
type linearRun struct {
	b       *tiny
	handles []handle.Handle
	records []engine.Pending
	mu      sync.Mutex
	history []porcupine.Operation
	err     error
}

// record takes an operation into the history.
func (r *linearRun) record(client int, in linearInput, run func() (any, error)) {
	call := r.b.clock.Add(1)
	out, err := run()
	end := r.b.clock.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.err = errors.Join(r.err, fmt.Errorf("%+v: %w", in, err))
		return
	}
	r.history = append(r.history, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: end})
}

// ask gives a command about message i.
func (r *linearRun) ask(client int, kind string, i int, dueMs int64) {
	h := r.handles[i]
	r.record(client, linearInput{kind, h.ID}, func() (any, error) {
		var c engine.Command
		switch kind {
		case "cancel":
			c = &engine.Cancel{Handle: h}
		case "move":
			c = &engine.Move{Handle: h, DueMs: dueMs, Record: r.records[i]}
		case "undo":
			c = &engine.Undo{Handle: h, Record: r.records[i]}
		case "verdict":
			outcome, pos, err := r.b.e.Verdict(h)
			if err == nil {
				err = r.b.released(pos)
			}
			return outcome, err
		}
		a, err := r.b.do(c)
		if err == nil && a.Outcome == engine.Refused && kind != "undo" {
			err = a.Err
		}
		return a.Outcome, err
	})
}

// look reads the topic and says whether message i is in it.
func (r *linearRun) look(client, i int, min int64) {
	id := r.handles[i].ID
	r.record(client, linearInput{"look", id}, func() (any, error) {
		seen, err := r.delivered(min)
		return seen[id], err
	})
}

// delivered lists the ids in the topic from an offset on.
func (r *linearRun) delivered(from int64) (map[uint64]bool, error) {
	seen := map[uint64]bool{}
	var p engine.Pulled
	for next := from; ; next = p.Next {
		if err := r.b.e.Pull(engine.PullRequest{Topic: "t", Queue: 0, Offset: next, MaxCount: 1024}, &p); err != nil {
			return nil, err
		}
		if len(p.Messages) == 0 {
			return seen, nil
		}
		for _, m := range p.Messages {
			seen[m.ID] = true
		}
	}
}

// Cancel, move, undo and fire of the same messages at the same instant, from several goroutines: the answers are those of
// some order in which one thing happens after the other, and what the topic shows agrees.
func TestTimerLinearizable(t *testing.T) {
	rounds := enginetest.ReadVolume(t).Pick(25, 1000, 10_000)
	const messages = 24
	o := timers()
	o.FireChunk, o.SecondsEntries, o.SegmentSize = 3, 10, 64<<10
	clock := enginetest.NewClock(enginetest.Epoch)
	fsys := crashfs.New(crashfs.Options{})
	e, err := engine.Open(engine.Env{FS: fsys, Wall: clock.Wall, Mono: clock.Mono}, ".", o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	b := &tiny{e: e}
	outcomes := map[string]int{}
	for round := range rounds {
		r := &linearRun{b: b}
		due := clock.Wall() + 1000
		for i := range messages {
			a, err := b.do(&engine.Put{Topic: "t", Queue: 0, DueMs: due, Body: []byte{byte(i)}})
			if err != nil || a.Outcome != engine.Scheduled {
				t.Fatalf("put: %v: %v %v", a.Outcome, a.Err, err)
			}
			record, err := e.ReadPending(a.Handle())
			if err != nil {
				t.Fatal(err)
			}
			r.handles, r.records = append(r.handles, a.Handle()), append(r.records, record)
			if err := b.tick(); err != nil {
				t.Fatal(err)
			}
		}
		info, _, _ := e.Topic("t")
		r.round(t, clock, due, info.Queues[0].Next)
		if r.err != nil {
			t.Fatalf("round %d: %v", round, r.err)
		}
		if !porcupine.CheckOperations(linearModel, r.history) {
			for _, part := range linearModel.Partition(r.history) {
				if !porcupine.CheckOperations(linearModel, part) {
					for _, op := range part {
						t.Logf("client %d from %d to %d: %+v: %v", op.ClientId, op.Call, op.Return, op.Input, op.Output)
					}
				}
			}
			t.Fatalf("round %d: no order explains these answers", round)
		}
		for _, op := range r.history {
			outcomes[fmt.Sprint(op.Input.(linearInput).kind, " ", op.Output)]++
		}
	}
	for _, kind := range []string{"cancel", "move"} {
		for _, outcome := range []engine.Outcome{engine.Delivered, engine.AlreadyCancelled, engine.Superseded} {
			if outcomes[fmt.Sprint(kind, " ", outcome)] == 0 {
				if enginetest.ReadVolume(t) == enginetest.Plain { // a few rounds may miss it on a busy machine
					t.Logf("no %s was answered with %v in these rounds", kind, outcome)
					continue
				}
				t.Errorf("no %s was answered with %v: the race was none: %v", kind, outcome, outcomes)
			}
		}
	}
}

// round lets everybody loose at once.
func (r *linearRun) round(t *testing.T, clock *enginetest.Clock, due, from int64) {
	var clients sync.WaitGroup
	start := make(chan struct{})
	client := func(n int, run func(i int)) {
		clients.Go(func() {
			<-start
			for k := range r.handles {
				i := k
				if n%2 == 1 { // they meet in the middle
					i = len(r.handles) - 1 - k
				}
				run(i)
			}
		})
	}
	client(0, func(i int) {
		if i%2 == 0 {
			r.ask(0, "cancel", i, 0)
		} else {
			r.ask(0, "move", i, due+3600_000)
		}
	})
	client(1, func(i int) {
		if r.ask(1, "cancel", i, 0); i%3 == 0 {
			r.ask(1, "undo", i, 0)
		}
	})
	client(2, func(i int) { r.ask(2, "move", i, due) })
	client(3, func(i int) { r.look(3, i, from); r.ask(3, "verdict", i, 0) })

	var done atomic.Bool
	ticker := make(chan struct{})
	go func() { // it delivers, and notes what it delivered
		defer close(ticker)
		<-start
		seen, call := map[uint64]bool{}, r.b.clock.Add(1)
		for last := false; !last; {
			last = done.Load()
			err := r.b.tick()
			var now map[uint64]bool
			looked := r.b.clock.Add(1)
			if err == nil {
				now, err = r.delivered(from)
			}
			end := r.b.clock.Add(1)
			r.mu.Lock()
			r.err = errors.Join(r.err, err)
			for id := range now {
				if !seen[id] {
					in := linearInput{"fire", id}
					r.history = append(r.history, porcupine.Operation{ClientId: 4, Input: in, Call: call, Output: nil, Return: end})
				}
			}
			r.mu.Unlock()
			seen, call = now, looked // what is new next time happened after this look began
			if err != nil {
				return
			}
		}
	}()
	clock.Pass(time.Duration(due-clock.Wall()-1) * time.Millisecond)
	close(start)
	clock.Pass(time.Millisecond)
	clients.Wait()
	done.Store(true)
	<-ticker
	for i := range r.handles {
		r.look(4, i, from)
	}
}

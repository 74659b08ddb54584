package powercut

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/handle"
	"golang.org/x/sys/unix"
)

const (
	queues = 3
	group  = "readers"
	steps  = 150 // of a writer
)

var topics = []string{"orders", "reminders"}

// note is one thing that the writer says; all fields but one are empty. What is about to be done is said before,
// what is promised (released by the engine) after.
type note struct {
	Ready    bool      `json:",omitempty"` // formatted, mounted, nothing done
	Wall     int64     `json:",omitempty"` // the clock from now on, ms
	Putting  []put     `json:",omitempty"`
	Put      []put     `json:",omitempty"` // with Offset or Due set
	Taking   int       `json:",omitempty"` // seq of a message about to be cancelled
	Taken    int       `json:",omitempty"` // seq of a cancelled message
	TooLate  int       `json:",omitempty"` // seq of a message that could not be taken back: it is delivered
	Moving   *put      `json:",omitempty"` // about to be moved to Due
	Moved    int       `json:",omitempty"` // seq of a moved message
	Seen     []place   `json:",omitempty"` // read from a queue
	Progress []place   `json:",omitempty"` // committed: Offset is the next to read
	Done     bool      `json:",omitempty"` // closed
	Stats    *progress `json:",omitempty"`
}

// put is a message: visible at once, of a level, or with a delay of its own in ms. Offset is its place when it was visible
// at once, else -1; Due is when it is due, else 0.
type put struct {
	Seq    int
	Topic  string
	Queue  int
	Level  int
	Delay  int64
	Offset int64
	Due    int64
}

// place is where in a topic a message stands.
type place struct {
	Topic  string
	Queue  int
	Offset int64
	Seq    int
}

// progress says what the writer did, so that the test can tell whether it did enough.
type progress struct{ Segments, Delivered, Cancelled, Moved int }

// body is the content of message seq: its number, and filling to a length that differs from message to message.
func body(seq int) []byte {
	n := 8 + seq*7919%3000
	b := append(fmt.Appendf(nil, "%07d ", seq), bytes.Repeat([]byte{byte('a' + seq%26)}, n)...)
	return b
}

func seqOf(body []byte) (seq int, ok bool) {
	n, _ := fmt.Sscanf(string(body[:min(8, len(body))]), "%07d", &seq)
	return seq, n == 1
}

// writer is the child that fills the disk.
type writer struct {
	in  *bufio.Reader
	out *json.Encoder

	r       *rand.Rand
	clock   clock
	store   *engine.Solo
	seq     int
	waiting []put
	handles map[int]handle.Handle
	read    map[place]int64 // next offset to read, by topic and queue
	did     progress
}

// tell says a note and returns when it is recorded.
func (w *writer) tell(n note) error {
	if err := w.out.Encode(n); err != nil {
		return err
	}
	_, err := w.in.ReadByte()
	return err
}

func write(j job, in *bufio.Reader, out *json.Encoder) error {
	if err := mount(j.fileSystem(), j.Disk, j.Dir, true); err != nil {
		return err
	}
	w := &writer{
		in: in, out: out, r: rand.New(rand.NewPCG(j.Seed, 1)), clock: clock{startMs},
		handles: map[int]handle.Handle{}, read: map[place]int64{},
	}
	data := filepath.Join(j.Dir, "data")
	unix.Sync() // the empty file system, not the store
	if err := w.tell(note{Ready: true}); err != nil {
		return err
	}
	fsys, closeDir, err := openDir(data)
	if err != nil {
		return err
	}
	if j.NoSync {
		fsys = syncless{fsys}
	}
	if w.store, err = engine.OpenSolo(env(fsys, &w.clock), ".", options()); err != nil {
		return err
	}
	for range steps {
		if err := w.step(); err != nil {
			return err
		}
	}
	if err := w.store.Close(); err != nil {
		return err
	}
	segments, err := os.ReadDir(filepath.Join(data, "commitlog"))
	if err != nil {
		return err
	}
	w.did.Segments = len(segments)
	if err := w.tell(note{Done: true, Stats: &w.did}); err != nil {
		return err
	}
	if err := closeDir(); err != nil {
		return err
	}
	return unmount(j.Dir)
}

// step moves the clock, stores, delivers, reads, and now and then cancels, moves and commits offsets.
func (w *writer) step() error {
	w.clock.wall += w.r.Int64N(1500)
	if err := w.tell(note{Wall: w.clock.wall}); err != nil {
		return err
	}
	if err := w.put(); err != nil {
		return fmt.Errorf("put: %w", err)
	}
	if w.r.IntN(3) == 0 {
		if err := w.cancel(); err != nil {
			return fmt.Errorf("cancel: %w", err)
		}
	}
	if w.r.IntN(3) == 0 {
		if err := w.move(); err != nil {
			return fmt.Errorf("move: %w", err)
		}
	}
	if _, err := w.store.Step(); err != nil {
		return fmt.Errorf("step: %w", err)
	}
	if err := w.pull(); err != nil {
		return fmt.Errorf("pull: %w", err)
	}
	return nil
}

func (w *writer) put() error {
	var puts []put
	var cmds []engine.Command
	for range 1 + w.r.IntN(6) {
		w.seq++
		p := put{Seq: w.seq, Topic: topics[w.r.IntN(len(topics))], Queue: w.r.IntN(queues), Offset: -1}
		switch w.r.IntN(3) {
		case 0:
			p.Level = 1 + w.r.IntN(6)
		case 1:
			p.Delay = 1 + w.r.Int64N(120_000)
		}
		puts = append(puts, p)
		cmds = append(cmds, &engine.Put{Topic: p.Topic, Queue: p.Queue, Level: p.Level, DelayMs: p.Delay, Body: body(p.Seq)})
	}
	if err := w.tell(note{Putting: puts}); err != nil {
		return err
	}
	answers, err := w.store.Do(cmds...)
	if err != nil {
		return err
	}
	if len(answers) != len(puts) {
		return fmt.Errorf("%d commands, %d answers", len(puts), len(answers))
	}
	for i, a := range answers {
		switch a.Outcome {
		case engine.Stored:
			puts[i].Offset = a.Offset
		case engine.Scheduled:
			puts[i].Due = a.DueMs
			w.waiting = append(w.waiting, puts[i])
			w.handles[puts[i].Seq] = a.Handle()
		default:
			return fmt.Errorf("outcome %d: %w", a.Outcome, a.Err)
		}
	}
	return w.tell(note{Put: puts})
}

func (w *writer) cancel() error {
	if len(w.waiting) == 0 {
		return nil
	}
	i := w.r.IntN(len(w.waiting))
	seq := w.waiting[i].Seq
	w.waiting = append(w.waiting[:i], w.waiting[i+1:]...)
	if err := w.tell(note{Taking: seq}); err != nil {
		return err
	}
	answers, err := w.store.Do(&engine.Cancel{Handle: w.handles[seq]})
	if err != nil {
		return err
	}
	switch answers[0].Outcome {
	case engine.Cancelled:
		w.did.Cancelled++
		return w.tell(note{Taken: seq})
	case engine.Delivered:
		return w.tell(note{TooLate: seq})
	}
	return fmt.Errorf("outcome %d: %w", answers[0].Outcome, answers[0].Err)
}

// move gives a waiting message another time, earlier or later. It keeps its number, and the new handle counts.
func (w *writer) move() error {
	if len(w.waiting) == 0 {
		return nil
	}
	i := w.r.IntN(len(w.waiting))
	p := w.waiting[i]
	h := w.handles[p.Seq]
	record, err := w.store.ReadPending(h)
	if errors.Is(err, engine.ErrNoMessage) {
		return nil // it is delivered
	}
	if err != nil {
		return err
	}
	p.Level, p.Due = 0, w.clock.wall+1+w.r.Int64N(60_000)
	if err := w.tell(note{Moving: &p}); err != nil {
		return err
	}
	answers, err := w.store.Do(&engine.Move{Handle: h, DueMs: p.Due, Record: record})
	if err != nil {
		return err
	}
	switch answers[0].Outcome {
	case engine.Moved:
		w.waiting[i], w.handles[p.Seq] = p, answers[0].Handle()
		w.did.Moved++
		return w.tell(note{Moved: p.Seq})
	case engine.Delivered:
		return w.tell(note{TooLate: p.Seq})
	}
	return fmt.Errorf("outcome %d: %w", answers[0].Outcome, answers[0].Err)
}

// pull reads what is new in every queue and commits the progress of some.
func (w *writer) pull() error {
	var seen, progress []place
	var cmds []engine.Command
	for _, topic := range topics {
		for queue := range queues {
			key := place{Topic: topic, Queue: queue}
			got, err := readQueue(w.store.Engine, topic, queue, w.read[key])
			if errors.Is(err, engine.ErrNoTopic) {
				continue // nothing was put there yet
			}
			if err != nil {
				return err
			}
			seen = append(seen, got...)
			w.read[key] += int64(len(got))
			if len(got) > 0 && w.r.IntN(4) == 0 {
				progress = append(progress, place{Topic: topic, Queue: queue, Offset: w.read[key]})
				cmds = append(cmds, &engine.CommitOffset{Group: group, Topic: topic, Queue: queue, Offset: w.read[key]})
			}
		}
	}
	w.did.Delivered += len(seen)
	if len(seen) > 0 {
		if err := w.tell(note{Seen: seen}); err != nil {
			return err
		}
	}
	if len(cmds) == 0 {
		return nil
	}
	answers, err := w.store.Do(cmds...)
	if err != nil {
		return err
	}
	for _, a := range answers {
		if a.Outcome != engine.Done {
			return fmt.Errorf("commit offset: outcome %d: %w", a.Outcome, a.Err)
		}
	}
	return w.tell(note{Progress: progress})
}

// readQueue reads a queue from an offset to its end. A message that cannot be read or is not the one that was put is an
// error.
func readQueue(e *engine.Engine, topic string, queue int, from int64) ([]place, error) {
	var all []place
	var got engine.Pulled
	for {
		err := e.Pull(engine.PullRequest{Topic: topic, Queue: queue, Offset: from, MaxCount: 64, MaxBytes: 1 << 20}, &got)
		if err != nil {
			return nil, err
		}
		for _, m := range got.Messages {
			if m.Err != nil {
				return nil, fmt.Errorf("%s/%d at %d: %w", topic, queue, m.Offset, m.Err)
			}
			seq, ok := seqOf(m.Body)
			if !ok || !bytes.Equal(m.Body, body(seq)) {
				return nil, fmt.Errorf("%s/%d at %d: not the bytes that were put: %.40q", topic, queue, m.Offset, m.Body)
			}
			if m.Offset != from {
				return nil, fmt.Errorf("%s/%d: offset %d follows %d", topic, queue, m.Offset, from-1)
			}
			all = append(all, place{topic, queue, m.Offset, seq})
			from++
		}
		if len(got.Messages) == 0 {
			return all, nil
		}
	}
}

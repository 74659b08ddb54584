package engine

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/internal/checkpoint"
	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/meta"
	"github.com/tidewheel/tidewheel/engine/internal/state"
)

// dumpKind prints one kind of file.
type dumpKind struct {
	kind  string
	print func(d *dumper)
}

// dumpKinds is a function, and no variable, so that a program that dumps nothing, a guest say, does not carry it.
func dumpKinds() []dumpKind {
	return []dumpKind{
		{"commitlog", (*dumper).commitlog},
		{"consumequeue", (*dumper).consumequeue},
		{"schedule", (*dumper).schedule},
		{"timerlog", (*dumper).timerlog},
		{"timerwheel", (*dumper).timerwheel},
		{"statebits", (*dumper).statebits},
		{"idempotency", (*dumper).idempotency},
		{"checkpoint", (*dumper).checkpoint},
		{"mark", (*dumper).mark},
		{"meta", (*dumper).metaFile},
	}
}

// DumpKinds lists the kinds of files that Dump prints.
func DumpKinds() (kinds []string) {
	for _, d := range dumpKinds() {
		kinds = append(kinds, d.kind)
	}
	return kinds
}

// Dump prints what the files of one kind hold, of a data directory that nobody has open, and changes nothing. It prints one
// line an item: for people, with the values in columns; or as JSON, one object a line, in which every 64-bit number is a
// string, since JSON's own numbers are exact to 2^53 only. RocketMQ's names stand where it has some: a message that waits
// is in topic SCHEDULE_TOPIC_XXXX, queue level-1 (or rmq_sys_wheel_timer, if it has no level), and has a REAL_TOPIC and a
// REAL_QID.
//
// Of a damaged directory it prints what can be read, with a line for each fault where that was met, and returns the first
// faults: damage is of kind ErrCorrupt and names file and byte. The kinds consumequeue, schedule and statebits show what a
// restart would have, and so fold the end of the log; timerlog, timerwheel and idempotency show what the checkpoint refers to.
func Dump(env Env, dir string, kind string, w io.Writer, asJSON bool) error {
	for _, c := range dumpKinds() {
		if c.kind == kind {
			return dump(env, dir, c.print, w, asJSON)
		}
	}
	return fmt.Errorf("engine: dump: unknown kind %q, allowed are %s", kind, strings.Join(DumpKinds(), ", "))
}

func dump(env Env, dir string, print func(d *dumper), w io.Writer, asJSON bool) error {
	// The size is given so that nobody tries what the file system can do.
	e, err := prepare(env, dir, Options{NoLock: true, SegmentSize: 4 << 20})
	if err != nil {
		return err
	}
	defer func() {
		e.closed.Store(true)
		_ = e.closeFiles() // only read
	}()
	out := bufio.NewWriterSize(w, 64<<10)
	d := &dumper{e: e, out: out, asJSON: asJSON, topics: map[uint32]string{}, groups: map[uint32]string{}}
	m, err := meta.Load(e.fs, e.dir, ours...)
	e.meta = m
	if err == nil {
		print(d)
	} else {
		d.problem(asForeign(err))
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("engine: dump: %w", err)
	}
	if err := errors.Join(d.problems...); err != nil {
		return fmt.Errorf("engine: dump: %w", err)
	}
	return nil
}

// asForeign gives errors of the meta their kind.
func asForeign(err error) error {
	switch {
	case errors.Is(err, meta.ErrForeign):
		return fmt.Errorf("%w: %w", ErrForeign, err)
	case errors.Is(err, meta.ErrNewerFormat):
		return fmt.Errorf("%w: %w", ErrNewer, err)
	}
	return err
}

// dumper is one Dump.
type dumper struct {
	e      *Engine
	out    *bufio.Writer
	asJSON bool
	line   []byte // being made

	topics map[uint32]string // names, as far as they are known
	groups map[uint32]string

	problems []error  // the first ones
	last     string   // of all
	parts    []byte   // of a state record
	rings    []ringAt // as the checkpoint knows them
}

// maxProblems is how many faults an error names; all are printed.
const maxProblems = 8

// problem prints a fault. One that is met again at once, as when a file is missing, is printed once.
func (d *dumper) problem(err error) {
	if err.Error() == d.last {
		return
	}
	d.last = err.Error()
	if len(d.problems) < maxProblems {
		d.problems = append(d.problems, err)
	}
	l := d.item(0, "error")
	var c *corrupt.Error
	if errors.As(err, &c) {
		l.field("file", c.File, 0, true).big("byte", c.Offset).text("reason", c.Reason)
	} else {
		l.text("reason", err.Error())
	}
	l.end()
}

// failed says that the output takes no more: then there is no use in going on.
func (d *dumper) failed() bool {
	_, err := d.out.Write(nil)
	return err != nil
}

// errStop ends a reading that nobody listens to.
var errStop = errors.New("engine: dump: the output takes no more")

// topic is the name of a topic, "#7" for one that is not known.
func (d *dumper) topic(id uint32) string {
	if name, ok := d.topics[id]; ok {
		return name
	}
	return fmt.Sprintf("#%d", id)
}

func (d *dumper) group(id uint32) string {
	if name, ok := d.groups[id]; ok {
		return name
	}
	return fmt.Sprintf("#%d", id)
}

// learn takes the names of topics and groups from a state.
func (d *dumper) learn(st *state.State) {
	for id, t := range st.Topics {
		d.topics[id] = t.Name
	}
	for id, g := range st.Groups {
		d.groups[id] = g.Name
	}
}

// openStore opens the store as a restart would, and as far as it can be; what cannot is printed. It says whether there is
// something to show.
func (d *dumper) openStore() bool {
	e := d.e
	err := e.open(true)
	if err != nil {
		d.problem(err)
	}
	if e.queues == nil || e.schedule == nil || e.bits == nil {
		f := d.loadCheckpoint()
		if f == nil {
			return false
		}
		e.releaseFiles()
		at, _, err := e.loadState(f)
		if err == nil {
			err = e.openCaches(at)
		}
		if err != nil {
			d.problem(err)
		}
	}
	if e.st != nil {
		d.learn(e.st)
	}
	return e.st != nil && e.queues != nil && e.schedule != nil && e.bits != nil
}

// loadCheckpoint returns the checkpoint that a restart would begin with, nil if there is none.
func (d *dumper) loadCheckpoint() *checkpoint.File {
	f, problems, err := checkpoint.Load(d.e.fs, d.e.path(checkpointDir))
	if err != nil {
		d.problem(err)
	}
	for _, p := range problems {
		if !errors.Is(p, fs.ErrNotExist) {
			d.problem(p)
		}
	}
	return f
}

func (d *dumper) metaFile() {
	m := d.e.meta
	d.item(0, "meta").hex("store", m.StoreID).hex("log", m.LogID).hex("node", m.NodeID).num("lanes", int64(m.Lanes)).
		when("created", m.CreatedMs).num("version", meta.Version).end()
}

func (d *dumper) mark() {
	slots, err := commitlog.ReadMark(d.e.fs, d.e.path(logDir), d.e.meta.LogID)
	if err != nil {
		d.problem(err)
		return
	}
	for i, s := range slots {
		l := d.item(0, "mark").num("slot", int64(i)).big("byte", s.Byte)
		if s.Reason != "" {
			l.text("none", s.Reason).end()
			continue
		}
		l.ubig("seq", s.Mark.Seq).pos("durable", s.Mark.Durable).big("logMs", s.Mark.LogMs).num("incarnation", int64(s.Mark.Incarnation)).end()
	}
}

package timer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// State is what a checkpoint records of a lane: where in the TimerLog its entries lie. Schedule queues and TimerWheels
// record themselves.
type State struct {
	Tables []TableState // loose, then seconds and hours if the lane has rings
}

// TableState is what a checkpoint records of a table.
type TableState struct {
	Files  timerlog.State // how far each file is written
	Spills []timerlog.Ref
	Runs   []Run     // of the loose one
	Ends   []FileEnd // of a ring
}

// FileEnd says how long a file of a ring's family is needed: until the frontier has passed the slot, or what lies up to the
// position was rolled.
type FileEnd struct {
	File, Slot int64
	Top        commitlog.Offset
}

// state is what there is now, without what no spill holds.
func (l *Lane) state() State {
	var s State
	for _, t := range l.tables {
		at := TableState{Spills: t.spills()}
		for _, r := range t.runs {
			if left := r.left(); len(left) > 0 {
				at.Runs = append(at.Runs, left)
			}
		}
		if t.ring != nil {
			ends, gone := t.ring.needs(l.cfg.Frontier(), l.rolled())
			l.stale = l.stale || gone
			for file, end := range ends {
				at.Ends = append(at.Ends, FileEnd{file, end.slot, end.top})
			}
			slices.SortFunc(at.Ends, func(a, b FileEnd) int { return int(a.File - b.File) })
		}
		s.Tables = append(s.Tables, at)
	}
	return s
}

// Files lists, for each table, the files that the state needs.
func (s State) Files() []map[int64]bool {
	var files []map[int64]bool
	for _, t := range s.Tables {
		set := map[int64]bool{}
		for _, r := range t.refs() {
			set[r.File] = true
		}
		for _, e := range t.Ends {
			set[e.File] = true
		}
		files = append(files, set)
	}
	return files
}

func (t TableState) refs() []timerlog.Ref {
	refs := slices.Clone(t.Spills)
	for _, run := range t.Runs {
		refs = append(refs, run...)
	}
	return refs
}

// Garbage returns a job that deletes the files that neither a committed state nor the lane needs any more. Writer; no
// other job may write the lane's part of the TimerLog while it runs.
func (l *Lane) Garbage(committed State) func() error {
	needed := committed.Files()
	for i, set := range l.state().Files() {
		for file := range set {
			needed[i][file] = true
		}
	}
	return func() error {
		for i, t := range l.tables {
			if err := t.log.Delete(func(file int64) bool { return needed[i][file] }); err != nil {
				return fmt.Errorf("timer: delete: %w", err)
			}
		}
		return nil
	}
}

// Verify checks that the parts of the TimerLog that a state names are there.
func (l *Lane) Verify(s State) error {
	for i, t := range l.tables {
		if err := t.log.Verify(s.Tables[i].refs()); err != nil {
			return err
		}
		files := make([]int64, 0, len(s.Tables[i].Ends))
		for _, e := range s.Tables[i].Ends {
			files = append(files, e.File)
		}
		if err := t.log.VerifyFiles(files); err != nil {
			return err
		}
	}
	return nil
}

// Load fills a new lane from a checkpoint, after the fold's state and the wheels were loaded: Alive and Frontier must
// answer for the checkpoint's position. Schedule queues are read from the frontier on.
func (l *Lane) Load(s State) error {
	if len(s.Tables) != len(l.tables) {
		return fmt.Errorf("timer: load: %d tables, the lane has %d", len(s.Tables), len(l.tables))
	}
	frontier := l.cfg.Frontier()
	if l.cfg.Queues != nil {
		for q := range l.cfg.Queues.All() {
			at, err := q.Search(frontier)
			if err != nil {
				return fmt.Errorf("timer: load: %w", err)
			}
			l.levels[q.DelayMs()] = newLevelSource(q, at)
			if _, _, err := q.Last(); err != nil { // read now, since a put must not fail by it
				return fmt.Errorf("timer: load: %w", err)
			}
		}
	}
	for i, t := range l.tables {
		if err := l.loadTable(t, s.Tables[i]); err != nil {
			return fmt.Errorf("timer: load: %w", err)
		}
	}
	l.stale, l.begin = true, unknownBegin
	return nil
}

func (l *Lane) loadTable(t *table, s TableState) error {
	for _, run := range s.Runs {
		t.runs = append(t.runs, &runSource{log: t.log, run: run})
	}
	if t.ring != nil {
		start := t.ring.wheel.Number(l.cfg.Frontier().Due)
		t.ring.opened, t.ring.swept = start, start
		t.ring.wheel.ClearBefore(start-int64(t.ring.wheel.Slots())-1, start, 0) // what the last sweep did not come to
		for _, e := range s.Ends {
			t.ring.ends[e.File] = fileEnd{e.Slot, e.Top}
		}
	}
	for _, ref := range s.Spills {
		t.active.spills = append(t.active.spills, ref)
		t.active.held += ref.Count
		err := t.log.Each(ref, func(e timerlog.Entry) error {
			l.entry = e // whose address is given away: e itself would be made on the heap, for each entry
			alive, err := l.cfg.Alive(&l.entry)
			if alive {
				t.active.load(e)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Passed is, for each delay, the index in its schedule queue before which every entry is dead: what lies there may go.
func (l *Lane) Passed() map[int64]int64 {
	passed := make(map[int64]int64, len(l.levels))
	for delay, src := range l.levels {
		passed[delay] = src.at
	}
	return passed
}

// RunCount is how many loose runs there are.
func (l *Lane) RunCount() int { return len(l.tables[0].runs) }

// InMemory is how many entries the memtables hold.
func (l *Lane) InMemory() int {
	n := 0
	for _, t := range l.tables {
		n += t.count()
	}
	return n
}

// ErrState is returned by DecodeState for bytes that Append did not write.
var ErrState = errors.New("timer: bad state")

// Append appends the encoding of a state: for each table its files, spills, runs and ends, lists after their length as
// uvarints.
func (s State) Append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(s.Tables)))
	for _, t := range s.Tables {
		b = timerlog.AppendState(b, t.Files)
		b = appendRefs(b, t.Spills)
		b = binary.AppendUvarint(b, uint64(len(t.Runs)))
		for _, run := range t.Runs {
			b = appendRefs(b, run)
		}
		b = binary.AppendUvarint(b, uint64(len(t.Ends)))
		for _, e := range t.Ends {
			b = binary.AppendUvarint(b, uint64(e.File))
			b = binary.AppendVarint(b, e.Slot)
			b = binary.AppendUvarint(b, uint64(e.Top))
		}
	}
	return b
}

func appendRefs(b []byte, refs []timerlog.Ref) []byte {
	b = binary.AppendUvarint(b, uint64(len(refs)))
	for _, r := range refs {
		b = timerlog.AppendRef(b, r)
	}
	return b
}

// DecodeState reads the state that b begins with, and returns what follows it.
func DecodeState(b []byte) (s State, rest []byte, err error) {
	r := stateReader{b: b}
	for n := r.count(4); n > 0 && r.err == nil; n-- {
		var t TableState
		if t.Files, r.b, err = timerlog.DecodeState(r.b); err != nil {
			return State{}, nil, err
		}
		t.Spills = r.refs()
		for runs := r.count(1); runs > 0 && r.err == nil; runs-- {
			t.Runs = append(t.Runs, r.refs())
		}
		for ends := r.count(3); ends > 0 && r.err == nil; ends-- {
			t.Ends = append(t.Ends, FileEnd{File: int64(r.uvarint()), Slot: r.varint(), Top: commitlog.Offset(r.uvarint())})
		}
		s.Tables = append(s.Tables, t)
	}
	return s, r.b, r.err
}

// stateReader takes fields; after the first fault all are zero.
type stateReader struct {
	b   []byte
	err error
}

func (r *stateReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail("cut off")
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *stateReader) varint() int64 {
	v := r.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

func (r *stateReader) fail(reason string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrState, reason)
	}
	r.b = nil
}

// count takes the length of a list of elements of at least so many bytes.
func (r *stateReader) count(least int) int {
	n := r.uvarint()
	if n > uint64(len(r.b)/least) {
		r.fail("list longer than its bytes")
		return 0
	}
	return int(n)
}

func (r *stateReader) refs() (refs []timerlog.Ref) {
	for n := r.count(timerlog.RefSize); n > 0 && r.err == nil; n-- {
		ref, err := timerlog.DecodeRef(r.b[:timerlog.RefSize])
		if err != nil {
			r.fail(err.Error())
			return nil
		}
		refs, r.b = append(refs, ref), r.b[timerlog.RefSize:]
	}
	return refs
}

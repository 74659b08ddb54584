package crashfs

import (
	"errors"
	"fmt"
	"strings"
)

// Kind names an operation, as the hook and the trace see it.
type Kind string

// The kinds that change something are counted by Ops and CrashAt: power that fails before a read fails before the next
// change too, as far as the disk can tell.
const (
	Create      Kind = "create" // OpenFile that makes the file
	Clear       Kind = "clear"  // OpenFile that truncates it
	Write       Kind = "write"
	Truncate    Kind = "truncate"
	Preallocate Kind = "preallocate"
	Sync        Kind = "sync"    // Sync and SyncData
	SyncDir     Kind = "syncdir" // of a directory
	Mkdir       Kind = "mkdir"   // each directory that MkdirAll makes
	Rename      Kind = "rename"
	Remove      Kind = "remove"
	Lock        Kind = "lock"

	Open    Kind = "open" // OpenFile that changes nothing
	Read    Kind = "read"
	Size    Kind = "size"
	Stat    Kind = "stat"
	ReadDir Kind = "readdir"
	Free    Kind = "free"
)

// Op is one operation.
type Op struct {
	N       int64 // 1 is the first change; a read has the N of the change before it
	Kind    Kind
	Name    string
	NewName string // of Rename
	Off     int64  // of Read and Write; of Truncate and Preallocate the size
	Len     int    // of Read and Write
	Err     error  // what the hook answered; nil in a call of the hook
}

// Changes reports whether the operation is of a kind that changes something.
func (o Op) Changes() bool {
	switch o.Kind {
	case Open, Read, Size, Stat, ReadDir, Free:
		return false
	}
	return true
}

// String prints the operation on one line.
func (o Op) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s %s", o.N, o.Kind, o.Name)
	switch o.Kind {
	case Rename:
		fmt.Fprintf(&b, " to %s", o.NewName)
	case Read, Write:
		fmt.Fprintf(&b, " [%d,%d)", o.Off, o.Off+int64(o.Len))
	case Truncate, Preallocate:
		fmt.Fprintf(&b, " %d", o.Off)
	}
	if o.Err != nil {
		fmt.Fprintf(&b, ": %v", o.Err)
	}
	return b.String()
}

// ErrCrashed is what every operation answers once the power is off.
var ErrCrashed = errors.New("crashfs: the machine is off")

// ShortWrite is an error for the hook to return: the first N bytes are written, then the write fails with Err.
type ShortWrite struct {
	N   int
	Err error
}

func (s ShortWrite) Error() string { return fmt.Sprintf("short write of %d bytes: %v", s.N, s.Err) }

// Unwrap returns Err.
func (s ShortWrite) Unwrap() error { return s.Err }

// step lets o happen, or says why not. It is called with mu held, after every check that needs no luck: what a call can't
// do anyway is no operation.
func (f *FS) step(o Op) error {
	if f.off {
		return ErrCrashed
	}
	changes := o.Changes()
	if changes {
		if f.crashAt > 0 && f.ops+1 >= f.crashAt {
			f.off = true
			return ErrCrashed
		}
		f.ops++
	}
	o.N = f.ops
	if changes && f.watch != nil {
		f.watch(o, f.snapshot)
	}
	if f.inject != nil {
		o.Err = f.inject(o)
	}
	if f.opts.Trace > 0 {
		f.record(o)
	}
	return o.Err
}

// record keeps o in the ring of the last operations.
func (f *FS) record(o Op) {
	if len(f.trace) < f.opts.Trace {
		f.trace = append(f.trace, o)
		return
	}
	f.trace[f.traceNext] = o
	f.traceNext = (f.traceNext + 1) % len(f.trace)
}

// Trace returns the last operations that were tried, oldest first, as many as Options.Trace says. The slice is the
// caller's.
func (f *FS) Trace() []Op {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append(append([]Op(nil), f.trace[f.traceNext:]...), f.trace[:f.traceNext]...)
}

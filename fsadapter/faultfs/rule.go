package faultfs

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
	"syscall"
)

// Op names an operation.
type Op string

// The operations. Sync is also SyncData; Stat is also File.Size; Create is OpenFile with O_CREATE, and Open without.
const (
	Any         Op = ""
	Open        Op = "open"
	Create      Op = "create"
	Read        Op = "read"
	Write       Op = "write"
	Sync        Op = "sync"
	SyncDir     Op = "syncdir"
	Rename      Op = "rename"
	Remove      Op = "remove"
	Truncate    Op = "truncate"
	Preallocate Op = "preallocate"
	Mkdir       Op = "mkdir"
	ReadDir     Op = "readdir"
	Stat        Op = "stat"
	Lock        Op = "lock"
	Free        Op = "free"
)

// changes reports whether an operation may change something.
func (o Op) changes() bool {
	switch o {
	case Open, Read, ReadDir, Stat, Free:
		return false
	}
	return true
}

// Rule says which operations fail, and how. The zero Rule lets the first operation of all fail with EIO.
type Rule struct {
	Op      Op     // which kind; Any is each
	Path    string // pattern of path.Match for the name, or without a slash for its last element; "" is each
	Changes bool   // only operations that may change something: not open, read, readdir, stat, free

	Nth    int64 // which of those that match, counted from 1; 0 is 1
	Sticky bool  // that one and all after it

	Err   error // nil is EIO
	Short int   // a write writes so many bytes first
	After bool  // the operation is done, and fails all the same
}

// String prints the rule on one line, for the log of a failed test.
func (r Rule) String() string {
	var b strings.Builder
	op := r.Op
	switch {
	case op == Any && r.Changes:
		op = "change"
	case op == Any:
		op = "any"
	}
	fmt.Fprintf(&b, "%s %d", op, max(r.Nth, 1))
	if r.Sticky {
		b.WriteString(" and on")
	}
	if r.Path != "" {
		fmt.Fprintf(&b, " of %s", r.Path)
	}
	fmt.Fprintf(&b, ": %v", r.err())
	if r.Short > 0 {
		fmt.Fprintf(&b, " after %d bytes", r.Short)
	}
	if r.After {
		b.WriteString(", but done")
	}
	return b.String()
}

func (r Rule) err() error {
	if r.Err == nil {
		return syscall.EIO
	}
	return r.Err
}

func (r Rule) pathError(op Op, name string) error {
	return &fs.PathError{Op: string(op), Path: name, Err: r.err()}
}

// matches reports whether the rule is about op of name.
func (r Rule) matches(op Op, name string) bool {
	if r.Op != Any && r.Op != op || r.Changes && !op.changes() {
		return false
	}
	if r.Path == "" {
		return true
	}
	if !strings.Contains(r.Path, "/") {
		name = path.Base(name)
	}
	ok, _ := path.Match(r.Path, name) // Add checked the pattern
	return ok
}

package faultfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

// FS is a vfs.FS whose operations fail by rule. It has every capability of package vfs, and answers
// errors.ErrUnsupported where the FS inside does not have it. It is safe for concurrent use if the FS inside is.
type FS struct {
	inner vfs.FS

	mu     sync.Mutex
	rules  []activeRule // guarded by mu
	counts map[Op]int64 // guarded by mu
	fired  int64        // guarded by mu
}

// activeRule is a rule and how often it has matched.
type activeRule struct {
	Rule
	seen int64
}

var (
	_ vfs.FS         = (*FS)(nil)
	_ vfs.DirSyncer  = (*FS)(nil)
	_ vfs.Locker     = (*FS)(nil)
	_ vfs.FreeSpacer = (*FS)(nil)
)

// New returns an FS around inner. It panics on a rule with a malformed pattern, as Add does.
func New(inner vfs.FS, rules ...Rule) *FS {
	f := &FS{inner: inner, counts: map[Op]int64{}}
	for _, r := range rules {
		f.Add(r)
	}
	return f
}

// Add adds a rule, which counts from now. Of several rules that match, the first one added decides. It panics on a
// malformed pattern: that is a mistake in the test.
func (f *FS) Add(r Rule) {
	if _, err := path.Match(r.Path, ""); err != nil {
		panic(fmt.Sprintf("faultfs: rule %v: %v", r, err))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, activeRule{Rule: r})
}

// Clear takes all rules away: the disk is well again.
func (f *FS) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
}

// Ops is how many operations of these kinds were tried since New, those that failed among them; without a kind, of all.
func (f *FS) Ops(kinds ...Op) int64 {
	return f.count(func(op Op) bool {
		if len(kinds) == 0 {
			return true
		}
		for _, k := range kinds {
			if k == op || k == Any {
				return true
			}
		}
		return false
	})
}

// Changes is how many operations that may change something were tried since New. A sweep over Rule{Changes: true} goes so
// far.
func (f *FS) Changes() int64 { return f.count(Op.changes) }

func (f *FS) count(want func(Op) bool) (n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for op, c := range f.counts {
		if want(op) {
			n += c
		}
	}
	return n
}

// Fired is how many operations failed by a rule.
func (f *FS) Fired() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fired
}

// decide counts an operation and returns the rule that lets it fail, if any.
func (f *FS) decide(op Op, name string) (r Rule, fails bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[op]++
	for i := range f.rules {
		a := &f.rules[i]
		if !a.matches(op, name) {
			continue
		}
		a.seen++
		if n := max(a.Nth, 1); !fails && (a.seen == n || a.Sticky && a.seen > n) {
			r, fails = a.Rule, true
		}
	}
	if fails {
		f.fired++
	}
	return r, fails
}

// do runs fn as operation op of name, or lets it fail.
func (f *FS) do(op Op, name string, fn func() error) error {
	r, fails := f.decide(op, name)
	if !fails {
		return fn()
	}
	if r.After {
		if err := fn(); err != nil {
			return err
		}
	}
	return r.pathError(op, name)
}

// OpenFile implements vfs.FS.
func (f *FS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	op := Open
	if flag&os.O_CREATE != 0 {
		op = Create
	}
	var inner vfs.File
	err := f.do(op, name, func() (err error) {
		inner, err = f.inner.OpenFile(name, flag, perm)
		return err
	})
	if err != nil {
		if inner != nil { // done, and failed all the same
			_ = inner.Close()
		}
		return nil, err
	}
	return &file{fs: f, inner: inner, name: name}, nil
}

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error {
	return f.do(Remove, name, func() error { return f.inner.Remove(name) })
}

// Rename implements vfs.FS. Rules see the new name.
func (f *FS) Rename(oldName, newName string) error {
	return f.do(Rename, newName, func() error { return f.inner.Rename(oldName, newName) })
}

// MkdirAll implements vfs.FS.
func (f *FS) MkdirAll(name string, perm fs.FileMode) error {
	return f.do(Mkdir, name, func() error { return f.inner.MkdirAll(name, perm) })
}

// ReadDir implements vfs.FS.
func (f *FS) ReadDir(name string) (list []vfs.Info, err error) {
	err = f.do(ReadDir, name, func() (err error) {
		list, err = f.inner.ReadDir(name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Stat implements vfs.FS.
func (f *FS) Stat(name string) (info vfs.Info, err error) {
	err = f.do(Stat, name, func() (err error) {
		info, err = f.inner.Stat(name)
		return err
	})
	if err != nil {
		return vfs.Info{}, err
	}
	return info, nil
}

// SyncDir implements vfs.DirSyncer.
func (f *FS) SyncDir(name string) error {
	r, fails := f.decide(SyncDir, name)
	d, ok := f.inner.(vfs.DirSyncer)
	if (!fails || r.After) && ok {
		if err := d.SyncDir(name); err != nil {
			return err
		}
	}
	switch l, loses := f.inner.(dirSyncFailer); {
	case fails && loses && !r.After:
		return l.FailSyncDir(name, r.pathError(SyncDir, name))
	case fails:
		return r.pathError(SyncDir, name)
	case !ok:
		return errors.ErrUnsupported
	}
	return nil
}

// dirSyncFailer is an FS that forgets on a failed SyncDir what had changed: crashfs.
type dirSyncFailer interface {
	FailSyncDir(name string, err error) error
}

// Lock implements vfs.Locker.
func (f *FS) Lock(name string) (c io.Closer, err error) {
	err = f.do(Lock, name, func() (err error) {
		c, err = vfs.Lock(f.inner, name)
		return err
	})
	if err != nil {
		if c != nil { // done, and failed all the same
			_ = c.Close()
		}
		return nil, err
	}
	return c, nil
}

// Free implements vfs.FreeSpacer.
func (f *FS) Free() (n uint64, err error) {
	err = f.do(Free, ".", func() (err error) {
		n, err = vfs.Free(f.inner)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

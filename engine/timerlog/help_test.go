package timerlog_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tidewheel/tidewheel/engine/timerlog"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func newFS() *crashfs.FS { return crashfs.New(crashfs.Options{}) }

const (
	dir    = "timerlog"
	family = "loose"
	ident  = 0x0102030405060708
	file1  = dir + "/" + family + "/00000000000000000001"
	file2  = dir + "/" + family + "/00000000000000000002"
	file3  = dir + "/" + family + "/00000000000000000003"
)

func open(t testing.TB, fsys vfs.FS, opts timerlog.Options, at timerlog.State) *timerlog.Log {
	t.Helper()
	opts.Ident = ident
	l, err := timerlog.Open(fsys, dir, family, opts, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil && !errors.Is(err, timerlog.ErrClosed) && !errors.Is(err, crashfs.ErrCrashed) {
			t.Errorf("close: %v", err)
		}
	})
	return l
}

func writeGroup(t testing.TB, l *timerlog.Log, es []timerlog.Entry) timerlog.Ref {
	t.Helper()
	ref, err := l.WriteGroup(timerlog.RingLoose, timerlog.NoSlot, timerlog.Ref{}, es)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func writeSpill(t testing.TB, l *timerlog.Log, es []timerlog.Entry) timerlog.Ref {
	t.Helper()
	ref, err := l.WriteSpill(es)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func syncLog(t testing.TB, l *timerlog.Log) {
	t.Helper()
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
}

// each reads what ref names, as it stands.
func each(l *timerlog.Log, ref timerlog.Ref) (es []timerlog.Entry, err error) {
	err = l.Each(ref, func(e timerlog.Entry) error {
		es = append(es, e)
		return nil
	})
	return es, err
}

// above reads a group from a key on.
func above(l *timerlog.Log, ref timerlog.Ref, after timerlog.Key) (es []timerlog.Entry, err error) {
	c, err := l.Cursor(ref, after)
	if err != nil {
		return nil, err
	}
	for {
		e, ok, err := c.Next()
		if err != nil || !ok {
			return es, err
		}
		es = append(es, e)
	}
}

// before is a key below all that tests use.
var before = timerlog.Key{Due: -1 << 62}

func checkEach(t testing.TB, l *timerlog.Log, ref timerlog.Ref, want []timerlog.Entry) {
	t.Helper()
	if got, err := each(l, ref); err != nil || !slices.Equal(got, want) {
		t.Fatalf("each of %+v: %d entries, %v; want %d", ref, len(got), err, len(want))
	}
}

func checkAbove(t testing.TB, l *timerlog.Log, ref timerlog.Ref, after timerlog.Key, want []timerlog.Entry) {
	t.Helper()
	if got, err := above(l, ref, after); err != nil || !slices.Equal(got, want) {
		t.Fatalf("cursor after %v: %d entries, %v; want %d", after, len(got), err, len(want))
	}
}

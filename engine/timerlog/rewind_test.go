package timerlog_test

import (
	"slices"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/filetest"
	"github.com/tidewheel/tidewheel/engine/timerlog"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// Rewind: a job that failed gives back what it wrote, over any number of files, and the next one writes in its place.
func TestRewind(t *testing.T) {
	r := newRand(1)
	for _, size := range []int64{1 << 20, 9000} { // all in one file; a file a group
		for _, kept := range []int{1, 3} {
			for _, synced := range []bool{false, true} {
				fsys := newFS()
				l := open(t, fsys, timerlog.Options{FileSize: size}, timerlog.State{})
				var refs []timerlog.Ref
				var groups [][]timerlog.Entry
				for i := range uint64(6) {
					es := run(1, 1000*i+1, 100)
					groups = append(groups, es)
					refs = append(refs, writeGroup(t, l, es))
					if synced {
						syncLog(t, l)
					}
				}
				before := open(t, fsys, timerlog.Options{FileSize: size}, stateUpTo(l, refs[kept])).State()
				if err := l.Rewind(refs[kept].Place()); err != nil {
					t.Fatal(err)
				}
				if got := l.State(); !slices.Equal(got.Files, before.Files) {
					t.Fatalf("rewound: %+v, want %+v", got.Files, before.Files)
				}
				again := run(2, 1, 100)
				ref := writeGroup(t, l, again)
				if ref.Place() != refs[kept].Place() {
					t.Errorf("the next group is at %+v, want %+v", ref.Place(), refs[kept].Place())
				}
				checkEach(t, l, ref, again)
				syncLog(t, l)
				after := open(t, fsys.Crash(r, crashfs.Policy{}), timerlog.Options{FileSize: size}, l.State())
				for i := range kept {
					checkEach(t, after, refs[i], groups[i])
				}
				checkEach(t, after, ref, again)
				if err := after.Verify(append(refs[:kept:kept], ref)); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// stateUpTo is the state of a log before a group was written.
func stateUpTo(l *timerlog.Log, ref timerlog.Ref) (s timerlog.State) {
	for _, f := range l.State().Files {
		if f.Number < ref.File {
			s.Files = append(s.Files, f)
		}
		if f.Number == ref.File {
			s.Files = append(s.Files, timerlog.FileState{Number: f.Number, Length: ref.Offset})
		}
	}
	return s
}

func TestRewindRefuses(t *testing.T) {
	l := open(t, newFS(), timerlog.Options{}, timerlog.State{})
	ref := writeGroup(t, l, run(1, 1, 10))
	for _, to := range []timerlog.Place{
		timerlog.NoPlace, {File: 1, Offset: 0}, {File: 1, Offset: ref.Offset + ref.Length + 1}, {File: 2, Offset: ref.Offset},
	} {
		if err := l.Rewind(to); err == nil {
			t.Errorf("rewound to %+v", to)
		}
	}
	checkEach(t, l, ref, run(1, 1, 10))
}

func TestVerifyFiles(t *testing.T) {
	fsys := newFS()
	l := open(t, fsys, timerlog.Options{FileSize: 9000}, timerlog.State{})
	for range 3 {
		writeGroup(t, l, run(1, 1, 100))
	}
	if err := l.VerifyFiles([]int64{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	filetest.Corrupt(t, l.VerifyFiles([]int64{4}), dir+"/"+family+"/00000000000000000004")
	at := l.State()
	if err := fsys.Cut(file2, at.Files[1].Length-1); err != nil {
		t.Fatal(err)
	}
	if err := fsys.Remove(file3); err != nil {
		t.Fatal(err)
	}
	l = open(t, fsys, timerlog.Options{FileSize: 9000}, at)
	if err := l.VerifyFiles([]int64{1}); err != nil {
		t.Error(err)
	}
	filetest.Corrupt(t, l.VerifyFiles([]int64{1, 2}), file2)
	filetest.Corrupt(t, l.VerifyFiles([]int64{3}), file3)
}

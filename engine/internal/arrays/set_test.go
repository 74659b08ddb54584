package arrays_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/arrays"
	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/segment"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/fsadapter/faultfs"
)

func numbers(s *set) (list []uint64) {
	for a := range s.All() {
		list = append(list, a.number)
	}
	return list
}

func TestSetIsSorted(t *testing.T) {
	s := open(t, crashfs.New(crashfs.Options{}), arrays.States{})
	for _, n := range []uint64{5 << 32, 9, 1 << 31, highest, 2, 9} {
		if a := ensure(t, s, n); a.number != n || s.Find(n) != a {
			t.Errorf("%d: got %d", n, a.number)
		}
	}
	want := []uint64{2, 9, 1 << 31, 5 << 32, highest}
	if got := numbers(s); !slices.Equal(got, want) || s.Len() != len(want) {
		t.Errorf("got %v, %d", got, s.Len())
	}
	if s.Find(3) != nil {
		t.Error("an array that nobody made")
	}
	for range s.All() {
		break // an iteration may end early
	}
	for _, n := range []uint64{0, highest + 1, 1 << 63} {
		if _, err := s.Ensure(n); !errors.Is(err, errNumber) || !strings.Contains(err.Error(), fmt.Sprintf("test: array %d: ", n)) {
			t.Errorf("number %d: %v", n, err)
		}
	}
}

func TestSetStart(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	s := open(t, fsys, arrays.States{})
	a, err := s.Start(3, 5000)
	if err != nil {
		t.Fatal(err)
	}
	if a.First() != 5000 || a.Len() != 5000 {
		t.Errorf("bounds [%d, %d)", a.First(), a.Len())
	}
	if _, err := s.Start(3, 0); !errors.Is(err, arrays.ErrExists) || !strings.Contains(err.Error(), "array 3") {
		t.Errorf("again: %v", err)
	}
	if _, err := s.Start(4, -1); err == nil {
		t.Error("a negative start was taken")
	}
	appendTo(a, 5020)
	at := checkpoint(t, s, 0)
	checkCells(t, open(t, fsys, at).Find(3), 7, firstLife)
}

// Files wholly below First go; an array that drained stays.
func TestSetComesBackFromItsStates(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	s := open(t, fsys, arrays.States{})
	lengths := map[uint64]int64{1: 0, 2: 3, 3: 8, 4: 30}
	for n, length := range lengths {
		appendTo(ensure(t, s, n), length)
	}
	s.Find(4).Trim(25)
	s.Find(3).Trim(8)
	encoded := checkpoint(t, s, 4*cellSize).Append(nil)
	at, err := kind.DecodeStates(encoded)
	if err != nil {
		t.Fatal(err)
	}
	// Another number of cells per file is for new arrays of an empty set only: these files have their number.
	s, err = arrays.Open(fsys, dir, &kind, arrays.Options{PerFile: 100, LogID: 77}, at, wrap)
	if err != nil {
		t.Fatal(err)
	}
	clear(encoded) // the set must not need it
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
	for n, length := range lengths {
		a := s.Find(n)
		if a == nil || a.Len() != length {
			t.Fatalf("array %d: %+v", n, a)
		}
		checkCells(t, a, 5, firstLife)
		appendTo(a, length+20)
		checkCells(t, a, 5, firstLife)
	}
	if at := checkpoint(t, s, 0); at.PerFile != 8 {
		t.Errorf("%d cells per file, want 8", at.PerFile)
	}
	for a := range s.All() {
		if n := a.Unflushed(); n != 0 {
			t.Errorf("array %d: %d bytes are unflushed after a checkpoint", a.number, n)
		}
	}
	infos, err := fsys.ReadDir(dir + "/4")
	if err != nil || len(infos) != 4 {
		t.Errorf("%d files, %v; want those of 24, 32, 40 and 48", len(infos), err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); !errors.Is(err, segment.ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
}

func TestSetSeesFilesOfOthers(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	s := open(t, fsys, arrays.States{})
	appendTo(ensure(t, s, 1), 3)
	appendTo(ensure(t, s, 2), 3)
	at := checkpoint(t, s, 0)
	other, err := arrays.Open(fsys, dir, &kind, arrays.Options{LogID: 78}, at, wrap)
	if err != nil {
		t.Fatal(err)
	}
	cell := make([]byte, cellSize)
	if _, err := other.Find(1).Read(0, cell); !errors.Is(err, corrupt.ErrCorrupt) {
		t.Errorf("of another log: %v", err)
	}
	name := func(n int) string { return fmt.Sprintf("%s/%d/%020d", dir, n, 0) }
	if err := fsys.Rename(name(1), name(2)); err != nil {
		t.Fatal(err)
	}
	s = open(t, fsys, at)
	if _, err := s.Find(2).Read(0, cell); !errors.Is(err, corrupt.ErrCorrupt) {
		t.Errorf("of another array: %v", err)
	}
	if err := s.Verify(); !errors.Is(err, corrupt.ErrCorrupt) || !strings.HasPrefix(err.Error(), "test: array 1: ") {
		t.Errorf("a file is missing, Verify says %v", err)
	}
}

func TestSetRefusesBadStates(t *testing.T) {
	for name, at := range map[string]arrays.States{
		"no cells per file": {Arrays: []arrays.State{{Number: 1}}},
		"no such number":    {PerFile: 8, Arrays: []arrays.State{{}}},
		"negative":          {PerFile: 8, Arrays: []arrays.State{{Number: 1, State: segment.State{First: -1}}}},
		"twice":             {PerFile: 8, Arrays: []arrays.State{{Number: 1}, {Number: 1}}},
	} {
		if _, err := arrays.Open(crashfs.New(crashfs.Options{}), dir, &kind, arrays.Options{}, at, wrap); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
}

func TestSetRemove(t *testing.T) {
	fsys := faultfs.New(crashfs.New(crashfs.Options{}))
	s := open(t, fsys, arrays.States{})
	for n := uint64(1); n <= 5; n++ {
		appendTo(ensure(t, s, n), 20)
	}
	old := s.Mark()
	at := checkpoint(t, s, 0)
	reader := s.Find(3)
	removeFiles := s.Remove(2, 4)
	if got := numbers(s); !slices.Equal(got, []uint64{1, 5}) || s.Find(3) != nil || s.Len() != 2 {
		t.Errorf("left are %v", got)
	}
	checkCells(t, reader, 7, firstLife) // its files are there until the job ran
	s.Installed(at)                     // of a checkpoint that still had them
	if err := s.Delete(at); err != nil {
		t.Error(err)
	}
	if _, err := s.Flush(old, 0); err != nil {
		t.Errorf("a mark that still had them: %v", err)
	}
	fsys.Add(faultfs.Rule{Op: faultfs.Remove, Err: syscall.EIO})
	if err := removeFiles(); !errors.Is(err, syscall.EIO) || !strings.HasPrefix(err.Error(), "test: remove array 2: ") {
		t.Errorf("remove fails: %v", err)
	}
	for range 2 {
		if err := removeFiles(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := reader.Read(0, make([]byte, cellSize)); !errors.Is(err, segment.ErrClosed) {
		t.Errorf("read of a removed array: %v", err)
	}
	ensure(t, s, 3) // makes a new one
	for n, want := range map[uint64]bool{1: true, 2: false, 3: false, 4: false, 5: true} {
		if _, err := fsys.Stat(fmt.Sprintf("%s/%d", dir, n)); (err == nil) != want || err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("array %d: %v, want it %t", n, err, want)
		}
	}
	if err := s.Remove(10, 20)(); err != nil {
		t.Errorf("none: %v", err)
	}
	s = open(t, fsys, arrays.States{}) // which does not know 5
	fsys.Add(faultfs.Rule{Op: faultfs.Remove, Err: syscall.EIO})
	if err := s.RemoveFiles(5); !errors.Is(err, syscall.EIO) || !strings.HasPrefix(err.Error(), "test: remove array 5: ") {
		t.Errorf("remove of what the set does not have fails: %v", err)
	}
	if err := s.RemoveFiles(5); err != nil {
		t.Error(err)
	}
	if _, err := fsys.Stat(dir + "/5"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("files of array 5: %v", err)
	}
}

func TestSetFlushGoesOnAfterAFullDisk(t *testing.T) {
	disk := crashfs.New(crashfs.Options{})
	s := open(t, disk, arrays.States{})
	for n := range uint64(10) {
		appendTo(ensure(t, s, n+1), 20)
	}
	disk.SetQuota(60_000)
	m := s.Mark()
	if _, err := s.Flush(m, 0); !vfs.IsNoSpace(err) || errors.Is(err, segment.ErrSync) || !strings.HasPrefix(err.Error(), "test: flush array ") {
		t.Fatalf("on a full disk: %v", err)
	}
	disk.SetQuota(0)
	at, err := s.Flush(m, 0)
	if err != nil {
		t.Fatal(err)
	}
	s = open(t, disk.Crash(newRand(1), crashfs.Policy{}), at)
	if err := s.Verify(); err != nil || s.Len() != 10 {
		t.Errorf("%d arrays, %v", s.Len(), err)
	}
	for a := range s.All() {
		checkCells(t, a, 7, firstLife)
	}
}

// Random histories of several arrays with crashes at any operation: what a checkpoint recorded is always there.
func TestCrashRandom(t *testing.T) {
	rounds := 100
	if testing.Short() {
		rounds = 10
	}
	for seed := range rounds {
		r := newRand(uint64(seed))
		disk := crashfs.New(crashfs.Options{})
		var recorded arrays.States
		lives := map[uint64][]uint32{}
		for life := range uint32(6) {
			s := open(t, disk, recorded)
			if err := s.Verify(); err != nil {
				t.Fatalf("seed %d, life %d: %v", seed, life, err)
			}
			was := lives
			lives = map[uint64][]uint32{}
			for a := range s.All() {
				lives[a.number] = was[a.number][:a.Len()]
			}
			disk.CrashAt(disk.Ops() + 1 + r.Int64N(150))
			for {
				n := 1 + r.Uint64N(4)
				a := ensure(t, s, n)
				for range r.IntN(30) {
					a.Append(cellAt(n, a.Len(), life))
					lives[n] = append(lives[n], life)
				}
				if r.IntN(4) == 0 {
					a.Trim(a.First() + r.Int64N(a.Len()-a.First()+1))
				}
				if r.IntN(2) == 0 && !crashCheckpoint(t, r, s, &recorded) {
					break
				}
				for a := range s.All() {
					checkCells(t, a, 1+r.IntN(40), func(i int64) uint32 { return lives[a.number][i] })
				}
			}
			policies := crashfs.Policies()
			disk = disk.Crash(r, policies[r.IntN(len(policies))])
		}
	}
}

// crashCheckpoint records what was flushed, or says that the power failed.
func crashCheckpoint(t *testing.T, r *rand.Rand, s *set, recorded *arrays.States) bool {
	at, err := s.Flush(s.Mark(), r.IntN(5)*cellSize)
	if err != nil {
		return false
	}
	if *recorded, err = kind.DecodeStates(at.Append(nil)); err != nil {
		t.Fatal(err)
	}
	s.Installed(at)
	return s.Delete(at) == nil
}

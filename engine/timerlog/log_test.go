package timerlog_test

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/filetest"
	"github.com/tidewheel/tidewheel/engine/timerlog"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// Groups of every length around the block boundaries read back from every kind of key: below, equal, between, above.
func TestCursorFromEveryKey(t *testing.T) {
	l := open(t, newFS(), timerlog.Options{}, timerlog.State{})
	for _, n := range []int{1, 2, 255, 256, 257, 511, 512, 513, 1000, 5000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			es := make([]timerlog.Entry, n)
			for i := range es {
				es[i] = sample(1000+int64(i/3), 2*uint64(i)) // odd ids are between
			}
			ref := writeGroup(t, l, es)
			if ref.Count != n || ref.Min != es[0].Key || ref.Max != es[n-1].Key || ref.Kind != timerlog.KindGroup {
				t.Fatalf("ref %+v", ref)
			}
			checkEach(t, l, ref, es)
			checkAbove(t, l, ref, before, es)
			step := max(1, n/97)
			for i := 0; i < n; i += step {
				k := es[i].Key
				checkAbove(t, l, ref, k, es[i+1:])
				checkAbove(t, l, ref, timerlog.Key{Due: k.Due, ID: k.ID + 1}, es[i+1:])
				if k.ID > 0 {
					checkAbove(t, l, ref, timerlog.Key{Due: k.Due, ID: k.ID - 1}, es[i:])
				}
			}
			for _, i := range []int{254, 255, 256, 257, 511, 512, n - 1} {
				if i < n {
					checkAbove(t, l, ref, es[i].Key, es[i+1:])
				}
			}
			checkAbove(t, l, ref, timerlog.Key{Due: 1 << 60}, nil)
		})
	}
}

// A search reads first keys, not blocks; what has no entry above the key is not read at all.
func TestCursorReadsLittle(t *testing.T) {
	disk := newFS()
	l := open(t, disk, timerlog.Options{}, timerlog.State{})
	es := run(1000, 1, 100_000)
	ref := writeGroup(t, l, es)
	checkAbove(t, l, ref, es[len(es)-2].Key, es[len(es)-1:]) // opens the file
	reads, bytes := 0, 0
	disk.SetInject(func(o crashfs.Op) error {
		if o.Kind == crashfs.Read {
			reads, bytes = reads+1, bytes+o.Len
			if o.Len > 16<<10 {
				t.Errorf("read of %d bytes", o.Len)
			}
		}
		return nil
	})
	c, err := l.Cursor(ref, es[70_000].Key)
	if err != nil {
		t.Fatal(err)
	}
	if e, ok, err := c.Next(); err != nil || !ok || e != es[70_001] {
		t.Fatalf("next: %+v, %t, %v", e, ok, err)
	}
	if reads > 12 || bytes > 16<<10 { // 391 blocks: header, 9 keys, a block
		t.Errorf("%d reads of %d bytes", reads, bytes)
	}
	reads = 0
	checkAbove(t, l, ref, ref.Max, nil)
	if reads != 0 {
		t.Errorf("%d reads for a group behind the key", reads)
	}
	small := writeGroup(t, l, run(1, 200_000, 17))
	reads = 0
	checkAbove(t, l, small, timerlog.Key{Due: 2}, run(1, 200_000, 17)[3:])
	if reads != 1 {
		t.Errorf("%d reads for a group of one block", reads)
	}
}

func TestSpillKeepsOrder(t *testing.T) {
	l := open(t, newFS(), timerlog.Options{}, timerlog.State{})
	for _, n := range []int{1, 300, 20_000} {
		es := reversed(run(1000, 1, n))
		es[0], es[n/2] = es[n/2], es[0]
		ref := writeSpill(t, l, es)
		if ref.Kind != timerlog.KindSpill || ref.Slot != timerlog.NoSlot || ref.Count != n ||
			ref.Min != sample(1000, 1).Key || ref.Max != sample(1000+int64((n-1)/3), uint64(n)).Key {
			t.Fatalf("ref %+v", ref)
		}
		checkEach(t, l, ref, es)
		if _, err := l.Cursor(ref, before); err == nil {
			t.Error("a spill has a cursor")
		}
	}
}

func TestEachStops(t *testing.T) {
	l := open(t, newFS(), timerlog.Options{}, timerlog.State{})
	ref := writeSpill(t, l, run(1, 1, 1000))
	stop, n := errors.New("stop"), 0
	err := l.Each(ref, func(timerlog.Entry) error {
		if n++; n == 700 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || n != 700 {
		t.Errorf("%v after %d entries", err, n)
	}
}

func TestWriteNothing(t *testing.T) {
	disk := newFS()
	l := open(t, disk, timerlog.Options{}, timerlog.State{})
	if ref, err := l.WriteSpill(nil); err != nil || !ref.None() {
		t.Errorf("spill: %+v, %v", ref, err)
	}
	if ref, err := l.WriteGroup(0, timerlog.NoSlot, timerlog.Ref{}, nil); err != nil || !ref.None() {
		t.Errorf("group: %+v, %v", ref, err)
	}
	syncLog(t, l)
	if n := disk.Ops(); n != 0 {
		t.Errorf("%d changes", n)
	}
}

func TestWriteGroupOrder(t *testing.T) {
	l := open(t, newFS(), timerlog.Options{}, timerlog.State{})
	for name, es := range map[string][]timerlog.Entry{
		"descending due": {sample(2, 1), sample(1, 2)},
		"descending id":  {sample(1, 2), sample(1, 1)},
		"equal":          {sample(1, 1), sample(1, 1)},
		"at the end":     append(run(1, 1, 300), sample(1, 1)),
	} {
		if _, err := l.WriteGroup(0, 0, timerlog.Ref{}, es); !errors.Is(err, timerlog.ErrOrder) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s := l.State(); len(s.Files) != 0 {
		t.Errorf("state %+v", s)
	}
}

// A slot remembers a place; Lookup finds its groups, newest first.
func TestLookupFollowsPrev(t *testing.T) {
	l := open(t, newFS(), timerlog.Options{FileSize: 1000}, timerlog.State{})
	var refs []timerlog.Ref
	prev := timerlog.Ref{}
	for i := range uint64(5) {
		ref, err := l.WriteGroup(timerlog.RingHours, 77, prev, run(int64(i), 100*i, 5))
		if err != nil {
			t.Fatal(err)
		}
		refs, prev = append(refs, ref), ref
	}
	at := prev.Place()
	for i := len(refs) - 1; i >= 0; i-- {
		ref, older, err := l.Lookup(at)
		if err != nil || ref != refs[i] || ref.Ring != timerlog.RingHours || ref.Slot != 77 {
			t.Fatalf("group %d: %+v, %v; want %+v", i, ref, err, refs[i])
		}
		at = older
	}
	if at != timerlog.NoPlace {
		t.Errorf("the oldest group has one before it at %v", at)
	}
	for _, at := range []timerlog.Place{timerlog.NoPlace, {}, {File: 1, Offset: 0}, {File: 1, Offset: 1 << 40}, {File: 99, Offset: 64}} {
		if _, _, err := l.Lookup(at); err == nil {
			t.Errorf("a group at %v", at)
		}
	}
	filetest.Corrupt(t, second(l.Lookup(timerlog.Place{File: 1, Offset: 65})), file1)
	if _, err := l.WriteGroup(timerlog.RingHours, 77, timerlog.Ref{File: 9, Offset: 64, Kind: timerlog.KindGroup}, run(9, 9, 1)); err == nil {
		t.Error("a group with a previous one that is newer")
	}
}

func second[A, B any](_ A, _ B, err error) error { return err }

func TestFilesAndState(t *testing.T) {
	disk := newFS()
	opts := timerlog.Options{FileSize: 8000, Handles: 1}
	l := open(t, disk, opts, timerlog.State{})
	var refs []timerlog.Ref
	var want [][]timerlog.Entry
	for i := range uint64(20) {
		n := 20
		if i == 10 {
			n = 1000 // longer than a file should be
		}
		es := run(int64(i), 10_000*i, n)
		refs, want = append(refs, writeGroup(t, l, es)), append(want, es)
	}
	s := l.State()
	if len(s.Files) != 5 {
		t.Fatalf("state %+v", s)
	}
	for i, f := range s.Files {
		if f.Number != int64(i+1) {
			t.Errorf("file %d has number %d", i, f.Number)
		}
		if f.Length > 8000 && f.Number != refs[10].File {
			t.Errorf("file %d is %d bytes long", f.Number, f.Length)
		}
	}
	if refs[10].Offset != 64 || refs[11].File == refs[10].File {
		t.Errorf("the long group stands at %d, the next one in file %d", refs[10].Offset, refs[11].File)
	}
	for i, ref := range refs {
		checkEach(t, l, ref, want[i])
	}
	syncLog(t, l)

	// Another life goes on where the state ends.
	b := timerlog.AppendState(nil, s)
	s, rest, err := timerlog.DecodeState(append(b, 7))
	if err != nil || len(rest) != 1 {
		t.Fatalf("state: %v, %x is left", err, rest)
	}
	l = open(t, disk.Crash(newRand(1), crashfs.Policy{}), opts, s)
	if err := l.Verify(refs); err != nil {
		t.Fatal(err)
	}
	es := run(50, 1, 20)
	ref := writeGroup(t, l, es)
	if last := s.Files[len(s.Files)-1]; ref.File != last.Number || ref.Offset != last.Length {
		t.Errorf("goes on at %+v, the state ends at %+v", ref, last)
	}
	refs, want = append(refs, ref), append(want, es)
	for i, ref := range refs {
		checkAbove(t, l, ref, before, want[i])
	}
}

// What lies beyond the state was never committed: it is not read, and the next group goes over it.
func TestBeyondState(t *testing.T) {
	disk := newFS()
	l := open(t, disk, timerlog.Options{FileSize: 4000}, timerlog.State{})
	ref := writeGroup(t, l, run(1, 1, 10))
	s := l.State()
	lost := writeGroup(t, l, run(2, 100, 10))
	lostToo := writeGroup(t, l, run(3, 200, 70)) // in a second file
	syncLog(t, l)

	disk = disk.Kill()
	l = open(t, disk, timerlog.Options{FileSize: 4000}, s)
	if err := l.Verify([]timerlog.Ref{ref}); err != nil {
		t.Fatal(err)
	}
	for _, r := range []timerlog.Ref{lost, lostToo} {
		_, err := each(l, r)
		filetest.Corrupt(t, err, fmt.Sprintf("%s/%s/%020d", dir, family, r.File))
		_, err = above(l, r, before)
		filetest.Corrupt(t, err, fmt.Sprintf("%s/%s/%020d", dir, family, r.File))
		filetest.Corrupt(t, l.Verify([]timerlog.Ref{r}), fmt.Sprintf("%s/%s/%020d", dir, family, r.File))
	}
	es, es2 := run(7, 300, 10), run(8, 400, 60)
	over, over2 := writeGroup(t, l, es), writeGroup(t, l, es2)
	if over.Place() != lost.Place() || over2.Place() != lostToo.Place() {
		t.Errorf("written at %v and %v", over.Place(), over2.Place())
	}
	checkEach(t, l, over, es)
	checkEach(t, l, over2, es2)
	checkEach(t, l, ref, run(1, 1, 10))
	if n := len(filetest.Read(t, disk, file2)); int64(n) != over2.Offset+over2.Length {
		t.Errorf("the second file has %d bytes: the space of the lost group was not given back", n)
	}
	if _, err := each(l, lost); err == nil {
		t.Error("another group was taken for the lost one")
	}
}

// The state may cover what a power cut took: that is no damage until a ref points there.
func TestStateAheadOfDisk(t *testing.T) {
	for _, policy := range crashfs.Policies() {
		t.Run(policy.String(), func(t *testing.T) {
			disk := newFS()
			l := open(t, disk, timerlog.Options{FileSize: 3000}, timerlog.State{})
			ref := writeGroup(t, l, run(1, 1, 10))
			syncLog(t, l)
			for i := range uint64(8) {
				writeGroup(t, l, run(2, 100*i, 20))
			}
			s := l.State()
			l = open(t, disk.Crash(newRand(7), policy), timerlog.Options{FileSize: 3000}, s)
			if err := l.Verify([]timerlog.Ref{ref}); err != nil {
				t.Fatal(err)
			}
			es := run(7, 300, 10)
			next := writeGroup(t, l, es)
			syncLog(t, l)
			checkEach(t, l, next, es)
			checkEach(t, l, ref, run(1, 1, 10))
		})
	}
}

func TestDelete(t *testing.T) {
	disk := newFS()
	l := open(t, disk, timerlog.Options{FileSize: 2000}, timerlog.State{})
	var refs []timerlog.Ref
	for i := range uint64(5) {
		refs = append(refs, writeGroup(t, l, run(1, 100*i, 30)))
	}
	// From another life; foreign files are nobody's business.
	filetest.Write(t, disk, dir+"/"+family+"/00000000000000000099", []byte("left over"))
	filetest.Write(t, disk, dir+"/"+family+"/notes.txt", []byte("mine"))
	checkEach(t, l, refs[0], run(1, 0, 30)) // the file is open for reading
	if err := l.Delete(func(file int64) bool { return file == 3 }); err != nil {
		t.Fatal(err)
	}
	if got, want := names(t, disk), []string{"00000000000000000003", "00000000000000000005", "notes.txt"}; !slices.Equal(got, want) {
		t.Errorf("left: %q, want %q", got, want)
	}
	if s := l.State(); len(s.Files) != 2 || s.Files[0].Number != 3 || s.Files[1].Number != 5 {
		t.Errorf("state %+v", s)
	}
	_, err := each(l, refs[0])
	filetest.Corrupt(t, err, file1)
	checkEach(t, l, refs[2], run(1, 200, 30))
	if ref := writeGroup(t, l, run(1, 1000, 30)); ref.File != 6 {
		t.Errorf("next file is %d", ref.File)
	}
	syncLog(t, l) // of a file that is gone there is nothing to sync

	// The removals are durable.
	after := disk.Crash(newRand(1), crashfs.Policy{})
	if got, want := names(t, after), []string{"00000000000000000003", "00000000000000000005", "00000000000000000006", "notes.txt"}; !slices.Equal(got, want) {
		t.Errorf("after a power cut: %q, want %q", got, want)
	}
}

func TestDeleteOfNothing(t *testing.T) {
	disk := newFS()
	l := open(t, disk, timerlog.Options{}, timerlog.State{})
	if err := l.Delete(func(int64) bool { return false }); err != nil {
		t.Fatal(err)
	}
	ref := writeGroup(t, l, run(1, 1, 30))
	syncLog(t, l)
	ops := disk.Ops()
	if err := l.Delete(func(int64) bool { return false }); err != nil || disk.Ops() != ops {
		t.Errorf("%v, %d changes", err, disk.Ops()-ops)
	}
	checkEach(t, l, ref, run(1, 1, 30)) // the file being written stays
}

func TestRemoveAll(t *testing.T) {
	disk := newFS()
	l := open(t, disk, timerlog.Options{FileSize: 2000}, timerlog.State{})
	var refs []timerlog.Ref
	for i := range uint64(5) {
		refs = append(refs, writeGroup(t, l, run(1, 100*i, 30)))
	}
	checkEach(t, l, refs[0], run(1, 0, 30))
	s := l.State()
	s.Files = s.Files[:3]
	l = open(t, disk.Kill(), timerlog.Options{FileSize: 2000}, s) // a rebuild knows little
	if err := l.RemoveAll(); err != nil {
		t.Fatal(err)
	}
	if s := l.State(); len(s.Files) != 0 {
		t.Errorf("state %+v", s)
	}
	es := run(9, 9, 30)
	ref := writeGroup(t, l, es)
	checkEach(t, l, ref, es)
	syncLog(t, l)
	if err := l.RemoveAll(); err != nil {
		t.Fatal(err)
	}
	ref = writeGroup(t, l, es)
	checkEach(t, l, ref, es)
	if _, err := each(l, refs[4]); err == nil {
		t.Error("a removed group is there")
	}
}

func names(t *testing.T, disk *crashfs.FS) []string {
	t.Helper()
	infos, err := disk.ReadDir(dir + "/" + family)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, info := range infos {
		out = append(out, info.Name)
	}
	return out
}

func TestOpenRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		family string
		opts   timerlog.Options
		state  timerlog.State
		want   string
	}{
		{"no family", "", timerlog.Options{}, timerlog.State{}, "bad name"},
		{"long family", strings.Repeat("x", 17), timerlog.Options{}, timerlog.State{}, "bad name"},
		{"family with a slash", "a/b", timerlog.Options{}, timerlog.State{}, "bad name"},
		{"family in capitals", "Loose", timerlog.Options{}, timerlog.State{}, "bad name"},
		{"file size", family, timerlog.Options{FileSize: -1}, timerlog.State{}, "file size"},
		{"handles", family, timerlog.Options{Handles: -1}, timerlog.State{}, "handles"},
		{"file 0", family, timerlog.Options{}, timerlog.State{Files: []timerlog.FileState{{0, 64}}}, "file 0"},
		{"files descend", family, timerlog.Options{}, timerlog.State{Files: []timerlog.FileState{{2, 64}, {1, 64}}}, "file 1 after file 2"},
		{"no header", family, timerlog.Options{}, timerlog.State{Files: []timerlog.FileState{{2, 63}}}, "length 63"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := timerlog.Open(newFS(), dir, c.family, c.opts, c.state); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestClosed(t *testing.T) {
	l := open(t, newFS(), timerlog.Options{}, timerlog.State{})
	ref := writeGroup(t, l, run(1, 1, 300))
	c, err := l.Cursor(ref, before)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for range 256 {
		if _, ok, err := c.Next(); !ok || err != nil {
			t.Fatalf("what was read already: %t, %v", ok, err)
		}
	}
	for name, err := range map[string]error{
		"next":       second(c.Next()),
		"close":      l.Close(),
		"sync":       l.Sync(),
		"delete":     l.Delete(func(int64) bool { return true }),
		"remove all": l.RemoveAll(),
		"verify":     l.Verify([]timerlog.Ref{ref}),
		"each":       l.Each(ref, func(timerlog.Entry) error { return nil }),
		"lookup":     second(l.Lookup(ref.Place())),
		"cursor":     second(0, 0, func() error { _, err := l.Cursor(ref, before); return err }()),
		"group":      second(0, 0, func() error { _, err := l.WriteGroup(0, 0, timerlog.Ref{}, run(1, 1, 1)); return err }()),
	} {
		if !errors.Is(err, timerlog.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReadErrorIsNoDamage(t *testing.T) {
	disk := newFS()
	l := open(t, disk, timerlog.Options{}, timerlog.State{})
	es := run(1, 1, 1000)
	ref := writeGroup(t, l, es)
	c, err := l.Cursor(ref, before)
	if err != nil {
		t.Fatal(err)
	}
	broken := false
	disk.SetInject(func(o crashfs.Op) error {
		if broken && o.Kind == crashfs.Read {
			return fs.ErrPermission
		}
		return nil
	})
	var got []timerlog.Entry
	for len(got) < len(es) {
		broken = len(got) == 512
		e, ok, err := c.Next()
		if broken {
			if !errors.Is(err, fs.ErrPermission) || strings.Contains(err.Error(), "corrupt") {
				t.Fatalf("got %v", err)
			}
			broken = false
			e, ok, err = c.Next() // nothing was passed over
		}
		if !ok || err != nil {
			t.Fatalf("entry %d: %t, %v", len(got), ok, err)
		}
		got = append(got, e)
	}
	if !slices.Equal(got, es) {
		t.Error("other entries")
	}
}

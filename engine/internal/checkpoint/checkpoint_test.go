package checkpoint_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/checkpoint"
	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/filetest"
	"github.com/tidewheel/tidewheel/engine/internal/golden"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/fsadapter/faultfs"
)

const dir = "checkpoint"

func newFS() *crashfs.FS { return crashfs.New(crashfs.Options{}) }

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// sample is a checkpoint whose sections follow from seq.
func sample(seq uint64) *checkpoint.File {
	r := newRand(seq)
	big := make([]byte, 3000)
	for i := range big {
		big[i] = byte(r.Uint32())
	}
	return &checkpoint.File{
		Seq: seq, X: 4096, StoreID: 0x0102030405060708, LogID: 0x1112131415161718,
		Sections: []checkpoint.Section{
			{Kind: 1, Flags: checkpoint.MustUnderstand, Parts: [][]byte{[]byte("tide"), []byte("wheel")}},
			{Kind: 7},
			{Kind: 2, Parts: [][]byte{nil, big, {}}},
		},
	}
}

// equal says whether two checkpoints are the same, however their data is cut.
func equal(a, b *checkpoint.File) bool {
	if a.Seq != b.Seq || a.X != b.X || a.StoreID != b.StoreID || a.LogID != b.LogID {
		return false
	}
	return slices.EqualFunc(a.Sections, b.Sections, func(x, y checkpoint.Section) bool {
		return x.Kind == y.Kind && x.Flags == y.Flags && bytes.Equal(bytes.Join(x.Parts, nil), bytes.Join(y.Parts, nil))
	})
}

func write(t testing.TB, fsys vfs.FS, name string, f *checkpoint.File) {
	t.Helper()
	if err := checkpoint.Write(fsys, dir, name, f); err != nil {
		t.Fatal(err)
	}
}

// load checks that seq is loaded, and how many problems there are.
func load(t testing.TB, fsys vfs.FS, seq uint64, problems int) []error {
	t.Helper()
	f, ps, err := checkpoint.Load(fsys, dir)
	if err != nil || len(ps) != problems {
		t.Fatalf("problems %v, error %v; want %d problems", ps, err, problems)
	}
	if seq == 0 {
		if f != nil {
			t.Fatalf("loaded checkpoint %d", f.Seq)
		}
		return ps
	}
	if f == nil || !equal(f, sample(seq)) || f.Version != 1 {
		t.Fatalf("loaded %+v, want checkpoint %d", f, seq)
	}
	return ps
}

func TestNewerCopyWins(t *testing.T) {
	fsys := newFS()
	for _, p := range load(t, fsys, 0, 2) {
		if !errors.Is(p, fs.ErrNotExist) {
			t.Errorf("problem of a new directory: %v", p)
		}
	}
	write(t, fsys, checkpoint.CopyA, sample(1))
	if p := load(t, fsys, 1, 1); !errors.Is(p[0], fs.ErrNotExist) {
		t.Errorf("problem %v", p)
	}
	write(t, fsys, checkpoint.CopyB, sample(1))
	load(t, fsys, 1, 0)
	write(t, fsys, checkpoint.CopyA, sample(2))
	load(t, fsys, 2, 0)
	write(t, fsys, checkpoint.CopyB, sample(3))
	load(t, fsys, 3, 0)
	filetest.Write(t, fsys, dir+"/"+checkpoint.CopyB, []byte("rubbish"))
	var bad *corrupt.Error
	if p := load(t, fsys, 2, 1); !errors.As(p[0], &bad) || bad.File != dir+"/b" {
		t.Errorf("problem %v", p)
	}
	filetest.Write(t, fsys, dir+"/"+checkpoint.CopyA, nil)
	load(t, fsys, 0, 2)
}

func TestSections(t *testing.T) {
	fsys := newFS()
	write(t, fsys, checkpoint.CopyA, sample(1))
	f, _, err := checkpoint.Load(fsys, dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range []*checkpoint.File{f, sample(1)} { // as loaded, and in parts
		if data, ok := from.Section(1); !ok || string(data) != "tidewheel" {
			t.Errorf("section 1: %q, %t", data, ok)
		}
		if data, ok := from.Section(7); !ok || len(data) != 0 {
			t.Errorf("section 7: %q, %t", data, ok)
		}
		if _, ok := from.Section(3); ok {
			t.Error("section 3")
		}
	}
	if n := f.Sections[2].Size(); n != 3000 {
		t.Errorf("section 2 has %d bytes", n)
	}
	knows := func(kinds ...uint16) func(uint16) bool {
		return func(kind uint16) bool { return slices.Contains(kinds, kind) }
	}
	if err := f.Understood(knows(1)); err != nil { // 7 and 2 may be passed over
		t.Error(err)
	}
	if err := f.Understood(knows(2, 7)); !errors.Is(err, checkpoint.ErrNewerFormat) || !strings.Contains(err.Error(), "kind 1") {
		t.Errorf("got %v", err)
	}
}

// Parts of every size around those of the writer's buffer and writes come out as they went in.
func TestPartSizes(t *testing.T) {
	fsys := newFS()
	largest := 0
	fsys.SetInject(func(o crashfs.Op) error {
		if o.Kind == crashfs.Write {
			largest = max(largest, o.Len)
		}
		return nil
	})
	r := newRand(9)
	for _, sizes := range [][]int{
		{}, {0}, {1}, {64<<10 - 80}, {64 << 10}, {64<<10 + 1}, {1 << 20}, {1<<20 + 1}, {3<<20 + 17},
		{10, 64 << 10, 10, 1 << 20, 0, 100_000, 5}, {30_000, 30_000, 30_000, 30_000},
	} {
		f := &checkpoint.File{Seq: 1}
		for i, n := range sizes {
			part := make([]byte, n)
			for k := range part {
				part[k] = byte(r.Uint32())
			}
			f.Sections = append(f.Sections, checkpoint.Section{Kind: uint16(i), Parts: [][]byte{part[:n/3], part[n/3:]}})
		}
		write(t, fsys, checkpoint.CopyA, f)
		got, _, err := checkpoint.Load(fsys, dir)
		if err != nil || got == nil || !equal(got, f) {
			t.Errorf("sizes %v: %v", sizes, err)
		}
	}
	if largest > 1<<20 {
		t.Errorf("a write of %d bytes", largest)
	}
}

func TestWriteRefusesTooMuch(t *testing.T) {
	part := make([]byte, 64<<20)
	f := &checkpoint.File{}
	for i := range 16 {
		f.Sections = append(f.Sections, checkpoint.Section{Kind: uint16(i), Parts: [][]byte{part}})
	}
	fsys := newFS()
	if err := checkpoint.Write(fsys, dir, checkpoint.CopyA, f); err == nil || fsys.Ops() != 0 {
		t.Errorf("%v after %d changes", err, fsys.Ops())
	}
}

// A file that says it is huge takes no memory, and neither does a number of sections.
func TestLoadIsBounded(t *testing.T) {
	fsys := newFS()
	write(t, fsys, checkpoint.CopyA, sample(1))
	f, err := fsys.OpenFile(dir+"/a", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(1 << 35); err != nil {
		t.Fatal(err)
	}
	largest := 0
	fsys.SetInject(func(o crashfs.Op) error {
		if o.Kind == crashfs.Read {
			largest = max(largest, o.Len)
		}
		return nil
	})
	load(t, fsys, 0, 2)
	if largest > 64 {
		t.Errorf("a read of %d bytes", largest)
	}
}

func TestUnreadableCopy(t *testing.T) {
	disk := newFS()
	write(t, disk, checkpoint.CopyA, sample(2))
	write(t, disk, checkpoint.CopyB, sample(1))
	for _, op := range []faultfs.Op{faultfs.Open, faultfs.Stat, faultfs.Read} {
		fsys := faultfs.New(disk, faultfs.Rule{Op: op, Path: "a", Sticky: true})
		if p := load(t, fsys, 1, 1); errors.Is(p[0], corrupt.ErrCorrupt) {
			t.Errorf("%s: %v", op, p)
		}
	}
}

// After a Load that could not read a copy, that copy must not come back.
func TestSettle(t *testing.T) {
	for _, nothing := range []bool{false, true} {
		disk := newFS()
		write(t, disk, checkpoint.CopyA, sample(2))
		if !nothing {
			write(t, disk, checkpoint.CopyB, sample(1))
		}
		fsys := faultfs.New(disk, faultfs.Rule{Op: faultfs.Read, Path: "a", Sticky: true})
		f, problems, err := checkpoint.Load(fsys, dir)
		if err != nil || (f == nil) != nothing || len(problems) == 0 {
			t.Fatalf("%v, %v, %v", f, problems, err)
		}
		if err := checkpoint.Settle(fsys, dir, f); err != nil {
			t.Fatal(err)
		}
		// The fault is gone, and the power too.
		after := disk.Crash(newRand(1), crashfs.Policy{})
		if nothing {
			load(t, after, 0, 2)
		} else {
			load(t, after, 1, 0) // in both copies
		}
	}
}

func TestSettleWritesWhatDiffers(t *testing.T) {
	disk := newFS()
	if err := checkpoint.Settle(disk, dir, nil); err != nil || disk.Ops() != 0 {
		t.Errorf("nothing there: %v, %d changes", err, disk.Ops())
	}
	write(t, disk, checkpoint.CopyA, sample(2))
	writes := 0
	disk.SetInject(func(o crashfs.Op) error {
		if o.Kind == crashfs.Write {
			writes++
		}
		return nil
	})
	foreign := sample(2)
	foreign.StoreID++
	for _, c := range []struct {
		name   string
		b      *checkpoint.File
		writes int
	}{{"of another store", foreign, 1}, {"missing", nil, 1}, {"older", sample(1), 1}, {"equal", sample(2), 0}, {"newer, unreadable before", sample(3), 1}} {
		if c.b != nil {
			write(t, disk, checkpoint.CopyB, c.b)
		} else if err := disk.Remove(dir + "/" + checkpoint.CopyB); err != nil {
			t.Fatal(err)
		}
		writes = 0
		if err := checkpoint.Settle(disk, dir, sample(2)); err != nil {
			t.Fatal(err)
		}
		if writes != c.writes {
			t.Errorf("%s: %d writes, want %d", c.name, writes, c.writes)
		}
		for _, name := range []string{checkpoint.CopyA, checkpoint.CopyB} {
			after := disk.Snapshot(newRand(1), crashfs.Policy{})
			if err := after.Remove(dir + "/" + name); err != nil {
				t.Fatal(err)
			}
			load(t, after, 2, 1)
		}
	}
	if err := checkpoint.Settle(disk, dir, nil); err != nil {
		t.Fatal(err)
	}
	load(t, disk.Crash(newRand(1), crashfs.Policy{}), 0, 2)
}

func TestSettleFaults(t *testing.T) {
	for n := int64(1); ; n++ {
		disk := newFS()
		write(t, disk, checkpoint.CopyA, sample(2))
		write(t, disk, checkpoint.CopyB, sample(1))
		fsys := faultfs.New(disk, faultfs.Rule{Changes: true, Nth: n})
		err := checkpoint.Settle(fsys, dir, sample(2))
		if fsys.Fired() == 0 {
			return
		}
		if err == nil {
			t.Errorf("change %d: no error", n)
		}
		load(t, disk, 2, 0)
	}
}

// Both copies in turn, with a power cut at any operation, or the death of the process. A new life settles; what it found
// then is there in both copies, whatever comes.
func TestCrash(t *testing.T) {
	policies := crashfs.Policies()
	for seed := range uint64(300) {
		r := newRand(seed)
		disk := newFS()
		both, one := uint64(0), uint64(0) // in both copies; at least in one
		for range 5 {
			disk.CrashAt(disk.Ops() + 1 + r.Int64N(40))
			err := func() error {
				f, problems, err := checkpoint.Load(disk, dir)
				if err != nil {
					return err
				}
				for _, p := range problems {
					if !errors.Is(p, fs.ErrNotExist) || both > 0 {
						return p
					}
				}
				seq := uint64(0)
				if f != nil {
					if seq = f.Seq; !equal(f, sample(seq)) {
						return errors.New("not what was written")
					}
				}
				if seq < one {
					return fmt.Errorf("loaded %d after %d", seq, one)
				}
				if err := checkpoint.Settle(disk, dir, f); err != nil {
					return err
				}
				if err := checkpoint.Clean(disk, dir); err != nil {
					return err
				}
				if infos, err := disk.ReadDir(dir); err == nil && len(infos) > 2 {
					return fmt.Errorf("left %v", infos)
				}
				both, one = seq, seq
				for {
					seq++
					for _, name := range []string{checkpoint.CopyA, checkpoint.CopyB} {
						if err := checkpoint.Write(disk, dir, name, sample(seq)); err != nil {
							return err
						}
						one = seq
					}
					both = seq
				}
			}()
			if !errors.Is(err, crashfs.ErrCrashed) {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if r.IntN(3) == 0 {
				disk = disk.Kill()
				continue
			}
			disk = disk.Crash(r, policies[r.IntN(len(policies))])
			for _, name := range []string{checkpoint.CopyA, checkpoint.CopyB} {
				alone := disk.Clone() // the other copy is damaged as well
				if err := alone.Remove(dir + "/" + name); both == 0 {
					break
				} else if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if f, _, err := checkpoint.Load(alone, dir); err != nil || f == nil || f.Seq < both {
					t.Fatalf("seed %d: without copy %s: %+v, %v; both had %d", seed, name, f, err, both)
				}
			}
		}
	}
}

// Each operation fails in turn: an error, the old checkpoint is whole, and the next Write succeeds.
func TestWriteFaults(t *testing.T) {
	count := faultfs.New(newFS())
	write(t, count, checkpoint.CopyA, sample(1))
	ops := count.Ops()
	for n := int64(1); n <= ops; n++ {
		for _, rule := range []faultfs.Rule{{Nth: n}, {Nth: n, After: true}, {Nth: n, Sticky: true}, {Nth: n, Short: 99}} {
			disk := newFS()
			write(t, disk, checkpoint.CopyA, sample(1))
			write(t, disk, checkpoint.CopyB, sample(1))
			fsys := faultfs.New(disk, rule)
			if err := checkpoint.Write(fsys, dir, checkpoint.CopyA, sample(2)); err == nil {
				t.Errorf("%v: no error", rule)
			}
			if f, problems, err := checkpoint.Load(disk, dir); err != nil || len(problems) > 0 || !equal(f, sample(f.Seq)) {
				t.Errorf("%v: %v, %v", rule, problems, err)
			}
			fsys.Clear()
			write(t, fsys, checkpoint.CopyA, sample(2))
			load(t, disk, 2, 0)
		}
	}
}

func TestGolden(t *testing.T) {
	fsys := newFS()
	f := sample(9)
	f.Sections[2].Parts = [][]byte{[]byte("delay"), []byte(" engine")}
	write(t, fsys, checkpoint.CopyA, f)
	b := filetest.Read(t, fsys, dir+"/"+checkpoint.CopyA)
	head := func(name string, size int) []golden.Field {
		fs := []golden.Field{{2, name + ": kind"}, {2, name + ": flags"}, {4, name + ": crc"}, {8, name + ": length"}}
		if size > 0 {
			fs = append(fs, golden.Field{size, name + ": data"})
		}
		return fs
	}
	fields := slices.Concat([]golden.Field{
		{8, "magic"}, {4, "version"}, {4, "sections"}, {8, "seq"}, {8, "X"}, {8, "store id"}, {8, "log id"}, {8, "length"},
		{4, "reserved"}, {4, "crc of the header"},
	}, head("first, must be understood", 9), head("second", 0), head("third", 12), []golden.Field{{4, "end"}, {4, "crc of the file"}})
	b = golden.Match(t, "checkpoint", golden.Annotate(t, "a copy of a checkpoint with three sections", 24, b, fields))
	filetest.Write(t, fsys, dir+"/"+checkpoint.CopyA, b)
	if got, _, err := checkpoint.Load(fsys, dir); err != nil || got == nil || !equal(got, f) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(golden.Read(f, "checkpoint"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		fsys := newFS()
		filetest.Write(t, fsys, dir+"/"+checkpoint.CopyB, b)
		got, problems, err := checkpoint.Load(fsys, dir)
		if err != nil && !errors.Is(err, checkpoint.ErrNewerFormat) {
			t.Fatal(err)
		}
		if err == nil && got == nil && !errors.Is(problems[1], corrupt.ErrCorrupt) {
			t.Fatal(problems)
		}
		if got == nil {
			return
		}
		write(t, fsys, checkpoint.CopyA, got)
		again, problems, err := checkpoint.Load(fsys, dir)
		if err != nil || len(problems) > 0 || !equal(again, got) {
			t.Errorf("%+v became %+v, %v, %v", got, again, problems, err)
		}
	})
}

// A checkpoint of 8 MiB of bits.
func BenchmarkWrite(b *testing.B) {
	f := benchFile()
	fsys := newFS()
	b.SetBytes(8 << 20)
	b.ReportAllocs()
	for b.Loop() {
		write(b, fsys, checkpoint.CopyA, f)
	}
}

func BenchmarkLoad(b *testing.B) {
	fsys := newFS()
	write(b, fsys, checkpoint.CopyA, benchFile())
	b.SetBytes(8 << 20)
	b.ReportAllocs()
	for b.Loop() {
		if f, _, err := checkpoint.Load(fsys, dir); f == nil || err != nil {
			b.Fatal(err)
		}
	}
}

func benchFile() *checkpoint.File {
	s := checkpoint.Section{Kind: 1}
	for range 512 {
		s.Parts = append(s.Parts, make([]byte, 8), make([]byte, 16<<10))
	}
	return &checkpoint.File{Seq: 1, Sections: []checkpoint.Section{s}}
}

package crashfs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

const chunk = 4096

func TestQuota(t *testing.T) {
	f := crashfs.New(crashfs.Options{Quota: 10 * chunk})
	a, b := open(t, f, "a"), open(t, f, "b")
	must(t, vfs.Preallocate(a, 6*chunk))
	wantKind(t, vfs.Preallocate(b, 5*chunk), vfs.ErrNoSpace)
	wantUsed(t, f, 6)
	write(t, a, strings.Repeat("a", 6*chunk), 0) // what is set aside is there
	wantUsed(t, f, 6)

	n, err := b.WriteAt([]byte(strings.Repeat("b", 5*chunk)), 100)
	if n != 4*chunk-100 || !errors.Is(err, vfs.ErrNoSpace) || !vfs.IsNoSpace(err) {
		t.Errorf("write beyond the quota is %d, %v; want the part that fits and ErrNoSpace", n, err)
	}
	wantUsed(t, f, 10)
	if size, err := b.Size(); err != nil || size != 4*chunk {
		t.Errorf("size after the short write is %d, %v", size, err)
	}
	write(t, b, "overwriting is free", 0)
	if n, err := b.WriteAt([]byte("x"), 100*chunk); n != 0 || !errors.Is(err, vfs.ErrNoSpace) {
		t.Errorf("write far away is %d, %v", n, err)
	}
	if free, err := f.Free(); err != nil || free != 0 {
		t.Errorf("free is %d, %v", free, err)
	}

	must(t, a.Truncate(2*chunk+1))
	wantUsed(t, f, 7)
	must(t, f.Remove("b")) // its handle still needs the space
	wantUsed(t, f, 7)
	must(t, b.Close())
	wantUsed(t, f, 3)
	must(t, f.Rename("a", "c"))
	put(t, f, "d", strings.Repeat("d", chunk))
	wantUsed(t, f, 4)
	must(t, f.Rename("d", "c")) // a is gone, but for its handle
	wantUsed(t, f, 4)
	must(t, a.Close())
	wantUsed(t, f, 1)

	f.SetQuota(1)
	if free, err := f.Free(); err != nil || free != 0 {
		t.Errorf("free below the quota is %d, %v", free, err)
	}
	f.SetQuota(0)
	write(t, open(t, f, "c"), strings.Repeat("c", 50*chunk), 0)
	wantUsed(t, f, 50)
}

func wantUsed(t *testing.T, f *crashfs.FS, chunks int64) {
	t.Helper()
	if got := f.Used(); got != chunks*chunk {
		t.Errorf("%d bytes used, want %d chunks of %d", got, chunks, chunk)
	}
}

// The account of a life is that of what it has, and preallocated space is kept by a crash if it was synced.
func TestQuotaAcrossCrashes(t *testing.T) {
	f := crashfs.New(crashfs.Options{Quota: 20 * chunk})
	put(t, f, "synced", strings.Repeat("x", 3*chunk))
	h := open(t, f, "synced")
	must(t, vfs.Preallocate(h, 5*chunk))
	must(t, h.Sync())
	must(t, vfs.Preallocate(h, 8*chunk))
	put(t, f, "removed", strings.Repeat("x", 2*chunk))
	must(t, f.Remove("removed"))
	write(t, open(t, f, "new"), "x", 0)
	wantUsed(t, f, 9)
	wantUsed(t, f.Clone(), 9)
	wantUsed(t, f.Snapshot(rng(1), all), 9)
	after := f.Crash(rng(1), nothing)
	wantUsed(t, after, 7)
	must(t, vfs.Preallocate(open(t, after, "synced"), 18*chunk))
	wantKind(t, vfs.Preallocate(open(t, after, "synced"), 19*chunk), vfs.ErrNoSpace)
	write(t, open(t, after, "synced"), strings.Repeat("y", chunk), 17*chunk)
	wantUsed(t, after, 20)
}

// A GiB of files that are mostly holes costs next to nothing, and so do many lives of them.
func TestSparseFilesAreFree(t *testing.T) {
	f := crashfs.New(crashfs.Options{})
	before := heap()
	lives := make([]*crashfs.FS, 0, 100)
	for i := range 16 {
		h := open(t, f, fmt.Sprint(i))
		must(t, vfs.Preallocate(h, 64<<20))
		write(t, h, "first", 0)
		write(t, h, "middle", 30<<20)
		write(t, h, "last", 64<<20-4)
		must(t, h.Sync())
		must(t, f.SyncDir("."))
		must(t, h.Close())
	}
	for i := range uint64(100) {
		life := f.Snapshot(rng(i), nothing)
		write(t, open(t, life, "3"), "another", 40<<20)
		lives = append(lives, life)
	}
	if grown := heap() - before; grown > 8<<20 {
		t.Errorf("a GiB and 100 lives of it take %d KiB", grown>>10)
	}
	for _, life := range lives {
		h := open(t, life, "3")
		p := make([]byte, 7)
		if _, err := h.ReadAt(p, 40<<20); err != nil || string(p) != "another" {
			t.Fatalf("read %q, %v", p, err)
		}
	}
}

// heap is how many bytes are alive.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestFilesHaveALimit(t *testing.T) {
	f := crashfs.New(crashfs.Options{})
	h := open(t, f, "f")
	_, err := h.WriteAt([]byte("x"), 1<<60)
	wantKind(t, err, fs.ErrInvalid)
	_, err = h.WriteAt([]byte("x"), 1<<63-1)
	wantKind(t, err, fs.ErrInvalid)
	wantKind(t, h.Truncate(1<<60), fs.ErrInvalid)
	wantKind(t, vfs.Preallocate(h, 1<<60), fs.ErrInvalid)
	wantFile(t, f, "f", "")
}

func TestBadSectors(t *testing.T) {
	f := crashfs.New(crashfs.Options{})
	put(t, f, "f", strings.Repeat("x", 4*512))
	must(t, f.SetBad("f", 1))
	f = f.Crash(rng(1), nothing) // the disk keeps its scratches
	h := open(t, f, "f")
	for _, r := range []struct {
		off, n int64
		bad    bool
	}{{0, 512, false}, {1024, 1024, false}, {0, 513, true}, {1023, 1, true}, {600, 10, true}, {0, 4096, true}} {
		n, err := h.ReadAt(make([]byte, r.n), r.off)
		if r.bad != errors.Is(err, syscall.EIO) || r.bad && n != 0 {
			t.Errorf("ReadAt of %d bytes at %d is %d, %v", r.n, r.off, n, err)
		}
	}
	write(t, h, "part", 600)
	if _, err := h.ReadAt(make([]byte, 1), 600); !errors.Is(err, syscall.EIO) {
		t.Errorf("a write of a part heals: %v", err)
	}
	write(t, h, strings.Repeat("y", 512), 512)
	wantFile(t, f, "f", strings.Repeat("x", 512)+strings.Repeat("y", 512)+strings.Repeat("x", 1024))
	wantKind(t, f.SetBad("f", -1), fs.ErrInvalid)
}

func TestDamage(t *testing.T) {
	const sector = 512
	abc := strings.Repeat("a", sector) + strings.Repeat("b", sector) + strings.Repeat("c", sector)
	for _, c := range []struct {
		name       string
		do         func(f *crashfs.FS) error
		now, after string // with "pending" written behind abc; after losing what was not synced
	}{
		{"Rot", func(f *crashfs.FS) error { return f.Rot("d/f", 8*sector+1) },
			abc[:sector] + "`" + abc[sector+1:] + "pending", abc[:sector] + "`" + abc[sector+1:]},
		{"RotOfWhatIsPending", func(f *crashfs.FS) error { return f.Rot("d/f", 8*3*sector) }, abc + "qending", abc},
		{"SwapSectors", func(f *crashfs.FS) error { return f.SwapSectors("d/f", 0, 2) },
			abc[2*sector:] + abc[sector:2*sector] + abc[:sector] + "pending", abc[2*sector:] + abc[sector:2*sector] + abc[:sector]},
		{"Cut", func(f *crashfs.FS) error { return f.Cut("d/f", 10) }, abc[:10], abc[:10]},
		{"Forget", func(f *crashfs.FS) error { return f.Forget("d/f") }, abc + "pending", abc},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := crashfs.New(crashfs.Options{})
			put(t, f, "d/f", abc)
			write(t, open(t, f, "d/f"), "pending", 3*sector)
			other := f.Clone()
			must(t, c.do(f))
			wantFile(t, f, "d/f", c.now)
			wantFile(t, f.Crash(rng(1), nothing), "d/f", c.after)
			wantFile(t, other, "d/f", abc+"pending")
		})
	}
}

func TestForgetIsForEver(t *testing.T) {
	f := crashfs.New(crashfs.Options{})
	put(t, f, "f", "old")
	h := open(t, f, "f")
	write(t, h, "new", 0)
	must(t, f.Forget("f"))
	must(t, h.Sync())
	wantFile(t, f.Crash(rng(1), all), "f", "old")
}

func TestVanish(t *testing.T) {
	f := crashfs.New(crashfs.Options{})
	put(t, f, "d/f", "x")
	put(t, f, "d/g", "y")
	must(t, f.Rename("d/g", "d/f"))
	h := open(t, f, "d/f")
	must(t, f.Vanish("d/f"))
	wantNone(t, f, "d/f")
	write(t, h, "Y", 0)
	must(t, h.Close())
	for _, p := range []crashfs.Policy{nothing, all} {
		wantNone(t, f.Snapshot(rng(1), p), "d/f")
	}
	if n := f.Used(); n != 0 {
		t.Errorf("%d bytes used", n)
	}
	put(t, f, "d/f", "z")
	wantFile(t, f.Crash(rng(1), nothing), "d/f", "z")
}

func TestDamageOfWhatIsNotThere(t *testing.T) {
	f := crashfs.New(crashfs.Options{})
	put(t, f, "d/f", "x")
	for call, fn := range map[string]func(name string) error{
		"Rot":         func(name string) error { return f.Rot(name, 0) },
		"SwapSectors": func(name string) error { return f.SwapSectors(name, 0, 1) },
		"SetBad":      func(name string) error { return f.SetBad(name, 0) },
		"Forget":      f.Forget,
		"Cut":         func(name string) error { return f.Cut(name, 0) },
		"Vanish":      f.Vanish,
		"Durable":     func(name string) error { _, err := f.Durable(name); return err },
	} {
		for name, kind := range map[string]error{"none": fs.ErrNotExist, "d": fs.ErrInvalid, "../d": fs.ErrInvalid, "none/f": fs.ErrNotExist} {
			if err := fn(name); !errors.Is(err, kind) {
				t.Errorf("%s of %q: %v, want %v", call, name, err, kind)
			}
		}
	}
	wantKind(t, f.Rot("d/f", 8), fs.ErrInvalid)
	wantKind(t, f.Rot("d/f", -1), fs.ErrInvalid)
	wantKind(t, f.SwapSectors("d/f", 0, 1), fs.ErrInvalid)
	wantKind(t, f.SwapSectors("d/f", -1, 0), fs.ErrInvalid)
	wantKind(t, f.Cut("d/f", 2), fs.ErrInvalid)
	wantKind(t, f.Cut("d/f", -1), fs.ErrInvalid)
	wantFile(t, f, "d/f", "x")
}

func TestDurable(t *testing.T) {
	f := crashfs.New(crashfs.Options{})
	put(t, f, "d/f", "old")
	h := open(t, f, "d/f")
	write(t, h, "newer", 0)
	must(t, f.Rename("d/f", "d/g"))
	if b, err := f.Durable("d/f"); err != nil || string(b) != "old" {
		t.Errorf("Durable is %q, %v", b, err)
	}
	_, err := f.Durable("d/g")
	wantKind(t, err, fs.ErrNotExist)
	must(t, h.Sync())
	must(t, f.SyncDir("d"))
	if b, err := f.Durable("d/g"); err != nil || string(b) != "newer" {
		t.Errorf("Durable is %q, %v", b, err)
	}
	_, err = f.Durable("d/f")
	wantKind(t, err, fs.ErrNotExist)
}

// everyKind does one operation of each kind, in the order of want, and returns the errors.
func everyKind(f *crashfs.FS) []error {
	var errs []error
	add := func(err error) { errs = append(errs, err) }
	add(f.MkdirAll("d", 0o700))
	h, err := f.OpenFile("d/f", os.O_RDWR|os.O_CREATE, 0o600)
	add(err)
	if h == nil {
		return errs
	}
	_, err = h.WriteAt([]byte("abc"), 5)
	add(err)
	_, err = h.ReadAt(make([]byte, 2), 6)
	add(err)
	_, err = h.Size()
	add(err)
	add(h.Truncate(4))
	add(vfs.Preallocate(h, 100))
	add(vfs.SyncData(h))
	add(f.SyncDir("d"))
	_, err = f.OpenFile("d/f", os.O_RDONLY, 0)
	add(err)
	_, err = f.OpenFile("d/f", os.O_RDWR|os.O_TRUNC, 0)
	add(err)
	add(f.Rename("d/f", "d/g"))
	_, err = f.Stat("d/g")
	add(err)
	_, err = f.ReadDir("d")
	add(err)
	_, err = f.Lock("LOCK")
	add(err)
	_, err = f.Free()
	add(err)
	add(f.Remove("d/g"))
	return errs
}

func TestTraceAndHookSeeEveryOperation(t *testing.T) {
	want := []string{
		"1 mkdir d", "2 create d/f", "3 write d/f [5,8)", "3 read d/f [6,8)", "3 size d/f", "4 truncate d/f 4",
		"5 preallocate d/f 100", "6 sync d/f", "7 syncdir d", "7 open d/f", "8 clear d/f", "9 rename d/f to d/g",
		"9 stat d/g", "9 readdir d", "10 lock LOCK", "10 free .", "11 remove d/g",
	}
	f := crashfs.New(crashfs.Options{Trace: 100})
	var seen []string
	f.SetInject(func(op crashfs.Op) error { seen = append(seen, op.String()); return nil })
	for i, err := range everyKind(f) {
		if err != nil {
			t.Errorf("%s: %v", want[i], err)
		}
	}
	if !slices.Equal(seen, want) {
		t.Errorf("the hook saw %q\nwant %q", seen, want)
	}
	if got := lines(f.Trace()); !slices.Equal(got, want) {
		t.Errorf("the trace is %q\nwant %q", got, want)
	}
	if f.Ops() != 11 {
		t.Errorf("%d changes, want 11", f.Ops())
	}

	f = crashfs.New(crashfs.Options{Trace: 5})
	everyKind(f)
	if got := lines(f.Trace()); !slices.Equal(got, want[len(want)-5:]) {
		t.Errorf("the last 5 are %q", got)
	}
	if got := crashfs.New(crashfs.Options{}).Trace(); len(got) != 0 {
		t.Errorf("a trace nobody asked for: %v", got)
	}
}

func lines(ops []crashfs.Op) (list []string) {
	for _, op := range ops {
		list = append(list, op.String())
	}
	return list
}

// An error of the hook is the outcome of the operation, which does nothing; the next one works.
func TestHookFailsEachOperation(t *testing.T) {
	whole := crashfs.New(crashfs.Options{Trace: 100})
	everyKind(whole)
	for i, failing := range whole.Trace() {
		f := crashfs.New(crashfs.Options{Trace: 100})
		n := -1
		f.SetInject(func(op crashfs.Op) error {
			if n++; n == i {
				return syscall.EMFILE
			}
			return nil
		})
		errs := everyKind(f)
		wantKind(t, errs[i], syscall.EMFILE)
		if pathErr := (*fs.PathError)(nil); !errors.As(errs[i], &pathErr) {
			t.Errorf("%v: %#v is no *fs.PathError", failing, errs[i])
		}
		if got := f.Trace()[i]; got.Err != syscall.EMFILE || !strings.HasSuffix(got.String(), ": "+syscall.EMFILE.Error()) {
			t.Errorf("the trace has %v for the one that failed", got)
		}
	}
}

func TestFailedOperationsDoNothing(t *testing.T) {
	f := crashfs.New(crashfs.Options{})
	put(t, f, "d/f", "abc")
	h := open(t, f, "d/f")
	want, used := tree(t, f), f.Used()
	f.SetInject(func(op crashfs.Op) error {
		if op.Changes() {
			return syscall.EIO
		}
		return nil
	})
	_, err := h.WriteAt([]byte("x"), 0)
	wantKind(t, err, syscall.EIO)
	wantKind(t, h.Truncate(0), syscall.EIO)
	wantKind(t, vfs.Preallocate(h, 9000), syscall.EIO)
	wantKind(t, f.MkdirAll("e/f", 0o700), syscall.EIO)
	wantKind(t, f.Rename("d/f", "d/g"), syscall.EIO)
	wantKind(t, f.Remove("d/f"), syscall.EIO)
	_, err = f.OpenFile("d/new", os.O_RDWR|os.O_CREATE, 0)
	wantKind(t, err, syscall.EIO)
	_, err = f.OpenFile("d/f", os.O_RDWR|os.O_TRUNC, 0)
	wantKind(t, err, syscall.EIO)
	_, err = f.Lock("LOCK")
	wantKind(t, err, syscall.EIO)
	f.SetInject(nil)
	wantTree(t, f, want)
	if f.Used() != used {
		t.Errorf("%d bytes used, before %d", f.Used(), used)
	}
	wantTree(t, f.Crash(rng(1), all), want)
}

func TestShortWrite(t *testing.T) {
	f := crashfs.New(crashfs.Options{})
	h := open(t, f, "f")
	var short crashfs.ShortWrite
	f.SetInject(func(op crashfs.Op) error {
		if op.Kind == crashfs.Write {
			return short
		}
		return nil
	})
	for _, c := range []struct{ ask, want int }{{3, 3}, {100, 6}, {0, 0}, {-1, 0}} {
		short = crashfs.ShortWrite{N: c.ask, Err: vfs.ErrNoSpace}
		if n, err := h.WriteAt([]byte("abcdef"), 0); n != c.want || !errors.Is(err, vfs.ErrNoSpace) {
			t.Errorf("short write of %d bytes is %d, %v", c.ask, n, err)
		}
		must(t, h.Truncate(int64(c.want)))
		wantFile(t, f, "f", "abcdef"[:c.want])
	}
	short = crashfs.ShortWrite{N: 1}
	if _, err := h.WriteAt([]byte("x"), 0); err == nil {
		t.Error("a short write without an error is no error")
	}
	if s := (crashfs.ShortWrite{N: 2, Err: syscall.EIO}); s.Error() != "short write of 2 bytes: input/output error" {
		t.Errorf("it prints as %q", s.Error())
	}
}

func TestPolicyPrintsAsGo(t *testing.T) {
	want := "crashfs.Policy{Sector: 4096, KeepPct: 1, MetaPct: 2, MetaAny: true, Garbage: false}"
	if got := (crashfs.Policy{Sector: 4096, KeepPct: 1, MetaPct: 2, MetaAny: true}).String(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

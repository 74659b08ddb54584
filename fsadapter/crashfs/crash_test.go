package crashfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

func TestCrashLosesWhatWasNotSynced(t *testing.T) {
	f := crashfs.New(crashfs.Options{})
	put(t, f, "log", "synced")
	h := open(t, f, "log")
	write(t, h, "SYN", 0)
	write(t, h, " and more", 6)
	wantFile(t, f, "log", "SYNced and more")

	wantFile(t, f.Snapshot(rng(1), nothing), "log", "synced")
	wantFile(t, f.Snapshot(rng(1), all), "log", "SYNced and more")
	must(t, h.Sync())
	wantFile(t, f.Crash(rng(1), nothing), "log", "SYNced and more")
}

func TestCrashLosesLengths(t *testing.T) {
	f := crashfs.New(crashfs.Options{})
	put(t, f, "log", "0123456789")
	h := open(t, f, "log")
	must(t, h.Truncate(3))
	wantFile(t, f.Snapshot(rng(1), nothing), "log", "0123456789")
	wantFile(t, f.Snapshot(rng(1), all), "log", "012")
	must(t, h.Sync())
	wantFile(t, f.Snapshot(rng(1), nothing), "log", "012")
	must(t, vfs.Preallocate(h, 5))
	wantFile(t, f.Snapshot(rng(1), nothing), "log", "012")
	wantFile(t, f.Snapshot(rng(1), all), "log", "012\x00\x00")
	must(t, vfs.SyncData(h))
	wantFile(t, f.Crash(rng(1), nothing), "log", "012\x00\x00")
}

// A directory entry is durable after SyncDir of its directory, and of those above it.
func TestCrashLosesNames(t *testing.T) {
	f := crashfs.New(crashfs.Options{})
	must(t, f.MkdirAll("a/b", 0o700))
	h := open(t, f, "a/b/log")
	write(t, h, "x", 0)
	must(t, h.Sync())
	for _, step := range []struct {
		sync string
		want map[string]string
	}{
		{"a/b", map[string]string{}},
		{"a", map[string]string{}},
		{".", map[string]string{"a/": "", "a/b/": "", "a/b/log": "x"}},
	} {
		must(t, f.SyncDir(step.sync))
		wantTree(t, f.Snapshot(rng(1), nothing), step.want)
	}
	wantTree(t, f.Snapshot(rng(1), all), map[string]string{"a/": "", "a/b/": "", "a/b/log": "x"})
}

func TestCrashBringsRemovedFilesBack(t *testing.T) {
	f := crashfs.New(crashfs.Options{})
	put(t, f, "log", "x")
	must(t, f.Remove("log"))
	wantFile(t, f.Snapshot(rng(1), nothing), "log", "x")
	wantNone(t, f.Snapshot(rng(1), all), "log")
	must(t, f.SyncDir("."))
	wantNone(t, f.Snapshot(rng(1), nothing), "log")

	// The name may be taken anew; what comes back is one of the two, with what each had on the disk.
	put(t, f, "log", "first")
	must(t, f.Remove("log"))
	h := open(t, f, "log")
	write(t, h, "second", 0)
	must(t, h.Sync())
	wantFile(t, f.Snapshot(rng(1), nothing), "log", "first")
	wantFile(t, f.Snapshot(rng(1), all), "log", "second")
}

// Whatever is kept: after a power cut the new name of a rename holds the old file or the new one.
func TestRenameIsAtomic(t *testing.T) {
	for _, anyOf := range []bool{false, true} {
		outcomes := map[string]int{}
		for seed := range uint64(200) {
			f := crashfs.New(crashfs.Options{})
			put(t, f, "d/state", "old")
			put(t, f, "e/state.tmp", "new")
			must(t, f.Rename("e/state.tmp", "d/state"))
			f = f.Crash(rng(seed), crashfs.Policy{MetaPct: 50, MetaAny: anyOf})
			outcomes[fmt.Sprint(tree(t, f))]++
		}
		want := []string{
			fmt.Sprint(map[string]string{"d/": "", "e/": "", "d/state": "old", "e/state.tmp": "new"}),
			fmt.Sprint(map[string]string{"d/": "", "e/": "", "d/state": "new"}),
		}
		if len(outcomes) != 2 || outcomes[want[0]] < 50 || outcomes[want[1]] < 50 {
			t.Errorf("MetaAny %t: outcomes %v", anyOf, outcomes)
		}
	}
}

// SyncDir of one parent settles a rename for both, and what came before it for the same name.
func TestSyncDirSettlesBothSidesOfARename(t *testing.T) {
	for _, dir := range []string{"from", "to"} {
		f := crashfs.New(crashfs.Options{})
		put(t, f, "from/log", "x")
		put(t, f, "to/other", "y")
		h := open(t, f, "to/log") // pending, and older than the rename
		write(t, h, "older", 0)
		must(t, h.Sync())
		must(t, f.Rename("from/log", "to/log"))
		must(t, f.SyncDir(dir))
		for seed := range uint64(20) {
			after := f.Snapshot(rng(seed), crashfs.Policy{MetaPct: int(seed) * 5, MetaAny: true})
			wantTree(t, after, map[string]string{"from/": "", "to/": "", "to/log": "x", "to/other": "y"})
		}
	}
}

// In a journal what came later is not there without what came before it.
func TestCrashKeepsAPrefixOfADirectory(t *testing.T) {
	const files = 6
	prefixes, holes := map[int]bool{}, 0
	for seed := range uint64(300) {
		for _, anyOf := range []bool{false, true} {
			f := crashfs.New(crashfs.Options{})
			for i := range files {
				must(t, open(t, f, fmt.Sprint(i)).Close())
			}
			f = f.Crash(rng(seed), crashfs.Policy{MetaPct: 70, MetaAny: anyOf})
			list, err := f.ReadDir(".")
			must(t, err)
			isPrefix := len(list) == 0 || list[len(list)-1].Name == fmt.Sprint(len(list)-1)
			switch {
			case !anyOf && !isPrefix:
				t.Fatalf("seed %d keeps %v", seed, list)
			case !anyOf:
				prefixes[len(list)] = true
			case !isPrefix:
				holes++
			}
		}
	}
	if len(prefixes) != files+1 || holes == 0 {
		t.Errorf("prefixes %v, %d with holes", prefixes, holes)
	}
}

func TestFailedSyncLosesForEver(t *testing.T) {
	f := crashfs.New(crashfs.Options{})
	put(t, f, "log", "old")
	h := open(t, f, "log")
	write(t, h, "new", 0)
	f.SetInject(func(op crashfs.Op) error {
		if op.Kind == crashfs.Sync {
			return syscall.EIO
		}
		return nil
	})
	wantKind(t, h.Sync(), syscall.EIO)
	f.SetInject(nil)
	must(t, h.Sync()) // says nil
	write(t, h, "!", 3)
	must(t, h.Sync())
	wantFile(t, f, "log", "new!")
	for _, p := range []crashfs.Policy{nothing, all} {
		wantFile(t, f.Snapshot(rng(1), p), "log", "old!")
	}

	// The next process reads what the page cache has, and syncing does not help it.
	f = f.Kill()
	wantFile(t, f, "log", "new!")
	must(t, open(t, f, "log").Sync())
	wantFile(t, f.Crash(rng(1), all), "log", "old!")
}

func TestFailedSyncDirLosesForEver(t *testing.T) {
	f := crashfs.New(crashfs.Options{})
	put(t, f, "removed", "x")
	must(t, open(t, f, "log").Close())
	must(t, f.Remove("removed"))
	f.SetInject(func(op crashfs.Op) error {
		if op.Kind == crashfs.SyncDir {
			return syscall.EIO
		}
		return nil
	})
	wantKind(t, f.SyncDir("."), syscall.EIO)
	f.SetInject(nil)
	must(t, f.SyncDir("."))
	f = f.Kill()
	must(t, f.SyncDir("."))
	wantTree(t, f, map[string]string{"log": ""})
	wantTree(t, f.Crash(rng(1), all), map[string]string{"removed": "x"})
}

// FailSync and FailSyncDir are what faultfs calls.
func TestFailSync(t *testing.T) {
	f := crashfs.New(crashfs.Options{})
	put(t, f, "log", "old")
	h := open(t, f, "log")
	write(t, h, "new", 0)
	must(t, open(t, f, "second").Close())
	if err := h.(interface{ FailSync(error) error }).FailSync(syscall.EIO); err != syscall.EIO {
		t.Errorf("FailSync is %v", err)
	}
	if err := f.FailSyncDir(".", syscall.EIO); err != syscall.EIO {
		t.Errorf("FailSyncDir is %v", err)
	}
	wantKind(t, f.FailSyncDir("none", syscall.EIO), fs.ErrNotExist)
	wantKind(t, f.FailSyncDir("..", syscall.EIO), fs.ErrInvalid)
	must(t, h.Sync())
	must(t, f.SyncDir("."))
	wantTree(t, f.Crash(rng(1), all), map[string]string{"log": "old"})
}

// Each sector is old or new, as a whole; both happen, and so do mixtures.
func TestCrashTearsAtSectors(t *testing.T) {
	const size, lo, hi = 32 << 10, 1000, 30_001
	for _, sector := range []int{512, 4096} {
		mixed := false
		for seed := range uint64(30) {
			f := crashfs.New(crashfs.Options{})
			put(t, f, "log", strings.Repeat("o", size))
			write(t, open(t, f, "log"), strings.Repeat("n", hi-lo), lo)
			got, err := read(f.Crash(rng(seed), crashfs.Policy{KeepPct: 50, Sector: sector}), "log")
			must(t, err)
			for s := 0; s < size; s += sector {
				from, to := max(s, lo), min(s+sector, hi)
				if n := strings.Count(got[max(from, 0):max(to, from)], "n"); n != 0 && n != to-from {
					t.Fatalf("sector at %d has %d new bytes of %d", s, n, to-from)
				}
			}
			if got[:lo] != strings.Repeat("o", lo) || got[hi:] != strings.Repeat("o", size-hi) {
				t.Fatal("bytes that were not written have changed")
			}
			n := strings.Count(got, "n")
			mixed = mixed || n > 0 && n < hi-lo
		}
		if !mixed {
			t.Errorf("sector %d: all or nothing in 30 crashes", sector)
		}
	}
}

func TestCrashLeavesGarbageOnlyWhereWritten(t *testing.T) {
	const size, lo, hi = 16 << 10, 700, 15_000
	garbage := 0
	for seed := range uint64(50) {
		f := crashfs.New(crashfs.Options{})
		put(t, f, "log", strings.Repeat("o", size))
		write(t, open(t, f, "log"), strings.Repeat("n", hi-lo), lo)
		got, err := read(f.Crash(rng(seed), crashfs.Policy{KeepPct: 30, Garbage: true}), "log")
		must(t, err)
		if got[:lo] != strings.Repeat("o", lo) || got[hi:] != strings.Repeat("o", size-hi) {
			t.Fatal("garbage outside of what was written")
		}
		garbage += len(strings.Trim(strings.ReplaceAll(got, "n", "o"), "o"))
	}
	if garbage == 0 {
		t.Error("no garbage in 50 crashes")
	}
}

// Without a policy for it there is no garbage, and a file that grew may have grown with holes.
func TestCrashMayGrowAFileWithHoles(t *testing.T) {
	holes := 0
	for seed := range uint64(50) {
		f := crashfs.New(crashfs.Options{})
		put(t, f, "log", "")
		write(t, open(t, f, "log"), strings.Repeat("n", 4096), 0)
		got, err := read(f.Crash(rng(seed), crashfs.Policy{KeepPct: 50}), "log")
		must(t, err)
		if strings.Trim(got, "n\x00") != "" {
			t.Fatalf("bytes that nobody wrote: %q", got)
		}
		if strings.Contains(got, "\x00") {
			holes++
		}
	}
	if holes == 0 {
		t.Error("no holes in 50 crashes")
	}
}

func TestCrashIsDeterministic(t *testing.T) {
	run := func(seed uint64) string {
		r := rng(seed)
		f := crashfs.New(crashfs.Options{})
		var out bytes.Buffer
		for round := range 10 {
			p := crashfs.Policies()[r.IntN(len(crashfs.Policies()))]
			must(t, f.MkdirAll("a/b", 0o700))
			for i := range 8 {
				h := open(t, f, fmt.Sprintf("a/b/%d", r.IntN(12)))
				write(t, h, strings.Repeat(fmt.Sprint(round), 1+r.IntN(9000)), int64(r.IntN(20_000)))
				if i%3 == 0 {
					must(t, h.Sync())
				}
				if i%4 == 0 {
					for _, d := range []string{".", "a", "a/b"} {
						must(t, f.SyncDir(d))
					}
				}
				must(t, h.Close())
			}
			f = f.Crash(r, p)
			fmt.Fprintln(&out, p, tree(t, f))
		}
		return out.String()
	}
	if first, again := run(1), run(1); first != again {
		t.Error("the same seed gives another outcome")
	}
	if run(1) == run(2) {
		t.Error("another seed gives the same outcome")
	}
}

func TestOldLifeAnswersErrCrashed(t *testing.T) {
	for name, end := range map[string]func(f *crashfs.FS) *crashfs.FS{
		"Crash": func(f *crashfs.FS) *crashfs.FS { return f.Crash(rng(1), nothing) },
		"Kill":  (*crashfs.FS).Kill,
	} {
		f := crashfs.New(crashfs.Options{})
		put(t, f, "log", "x")
		h := open(t, f, "log")
		lock, err := f.Lock("LOCK")
		must(t, err)
		after := end(f)
		for call, fn := range map[string]func() error{
			"OpenFile":    func() error { _, err := f.OpenFile("log", 0, 0); return err },
			"Stat":        func() error { _, err := f.Stat("log"); return err },
			"ReadDir":     func() error { _, err := f.ReadDir("."); return err },
			"MkdirAll":    func() error { return f.MkdirAll("d", 0o700) },
			"Rename":      func() error { return f.Rename("log", "l") },
			"Remove":      func() error { return f.Remove("log") },
			"SyncDir":     func() error { return f.SyncDir(".") },
			"FailSyncDir": func() error { return f.FailSyncDir(".", syscall.EIO) },
			"Lock":        func() error { _, err := f.Lock("L"); return err },
			"Free":        func() error { _, err := f.Free(); return err },
			"ReadAt":      func() error { _, err := h.ReadAt(make([]byte, 1), 0); return err },
			"WriteAt":     func() error { _, err := h.WriteAt([]byte("y"), 0); return err },
			"Truncate":    func() error { return h.Truncate(0) },
			"Preallocate": func() error { return vfs.Preallocate(h, 10) },
			"Size":        func() error { _, err := h.Size(); return err },
			"Sync":        h.Sync,
			"FailSync":    func() error { return h.(interface{ FailSync(error) error }).FailSync(syscall.EIO) },
		} {
			if err := fn(); !errors.Is(err, crashfs.ErrCrashed) {
				t.Errorf("%s after %s: %v", call, name, err)
			}
		}
		must(t, h.Close()) // so that a deferred Close of the old life is no noise
		must(t, lock.Close())
		wantFile(t, after, "log", "x")

		lock, err = after.Lock("LOCK")
		if err != nil {
			t.Errorf("%s keeps the lock: %v", name, err)
			continue
		}
		must(t, lock.Close())
	}
}

// CrashAt visits every state between two changes: the sweep that tests of the engine do.
func TestCrashAtEveryChange(t *testing.T) {
	work := func(f *crashfs.FS) error {
		if err := f.MkdirAll("d", 0o700); err != nil {
			return err
		}
		h, err := f.OpenFile("d/tmp", os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		_, err = h.WriteAt([]byte("content"), 0)
		return errors.Join(err, h.Sync(), f.Rename("d/tmp", "d/log"), f.SyncDir("d"), f.SyncDir("."))
	}
	whole := crashfs.New(crashfs.Options{})
	must(t, work(whole))
	if n := whole.Ops(); n != 7 { // mkdir, create, write, sync, rename, syncdir, syncdir
		t.Fatalf("%d changes", n)
	}
	for n := int64(1); n <= whole.Ops()+1; n++ {
		for _, p := range []crashfs.Policy{nothing, all} {
			f := crashfs.New(crashfs.Options{})
			f.CrashAt(n)
			err := work(f)
			if (n <= whole.Ops()) != errors.Is(err, crashfs.ErrCrashed) {
				t.Errorf("power off at %d: %v", n, err)
			}
			after := f.Crash(rng(uint64(n)), p)
			switch {
			case p == nothing && n <= 7, n == 1:
				wantTree(t, after, map[string]string{})
			case n == 2:
				wantTree(t, after, map[string]string{"d/": ""})
			case n == 3:
				wantTree(t, after, map[string]string{"d/": "", "d/tmp": ""})
			case n <= 5:
				wantTree(t, after, map[string]string{"d/": "", "d/tmp": "content"})
			default:
				wantTree(t, after, map[string]string{"d/": "", "d/log": "content"})
			}
		}
	}
}

// What SetWatch offers before each change is what CrashAt makes, and the run goes on undisturbed.
func TestWatchSeesWhatCrashAtMakes(t *testing.T) {
	p := crashfs.Policy{KeepPct: 50, MetaPct: 50}
	work := func(f *crashfs.FS) error {
		h, err := f.OpenFile("log", os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		for i := range 20 {
			if _, err := h.WriteAt([]byte(strings.Repeat(fmt.Sprint(i), 400)), int64(i*700)); err != nil {
				return err
			}
			if i%3 == 0 {
				err = h.Sync()
			} else if i%5 == 0 {
				err = f.SyncDir(".")
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	watched := crashfs.New(crashfs.Options{})
	var seen []map[string]string
	watched.SetWatch(func(op crashfs.Op, crash func(*rand.Rand, crashfs.Policy) *crashfs.FS) {
		if op.N != int64(len(seen))+1 {
			t.Errorf("%v is change %d", op, len(seen)+1)
		}
		seen = append(seen, tree(t, crash(rng(uint64(op.N)), p)))
		crash(rng(0), p)
	})
	must(t, work(watched))
	if watched.Ops() != int64(len(seen)) || len(seen) != 30 {
		t.Errorf("%d changes, %d seen", watched.Ops(), len(seen))
	}
	for i, want := range seen {
		f := crashfs.New(crashfs.Options{})
		f.CrashAt(int64(i) + 1)
		wantKind(t, work(f), crashfs.ErrCrashed)
		wantTree(t, f.Crash(rng(uint64(i)+1), p), want)
	}
	whole := crashfs.New(crashfs.Options{})
	must(t, work(whole))
	wantTree(t, watched, tree(t, whole))
	wantTree(t, watched.Crash(rng(7), p), tree(t, whole.Crash(rng(7), p)))
}

func TestKillKeepsAllAndStillPending(t *testing.T) {
	f := crashfs.New(crashfs.Options{})
	put(t, f, "d/a", "old")
	write(t, open(t, f, "d/a"), "new", 0)
	must(t, f.Rename("d/a", "d/b"))
	unlinked := open(t, f, "d/u")
	write(t, unlinked, "u", 0)
	must(t, f.Remove("d/u"))

	killed := f.Kill()
	wantTree(t, killed, map[string]string{"d/": "", "d/b": "new"})
	wantTree(t, killed.Snapshot(rng(1), nothing), map[string]string{"d/": "", "d/a": "old"})
	must(t, open(t, killed, "d/b").Sync())
	wantTree(t, killed.Snapshot(rng(1), nothing), map[string]string{"d/": "", "d/a": "new"})
	must(t, killed.SyncDir("d"))
	wantTree(t, killed.Crash(rng(1), nothing), map[string]string{"d/": "", "d/b": "new"})
}

// Lives share memory, and nothing else.
func TestLivesAreApart(t *testing.T) {
	const size = 300 << 10 // more than a leaf
	base := strings.Repeat("b", size)
	f := crashfs.New(crashfs.Options{})
	put(t, f, "log", base)
	lives := map[string]*crashfs.FS{
		"snapshot": f.Snapshot(rng(1), nothing), "snapshot2": f.Snapshot(rng(2), all), "clone": f.Clone(),
	}
	lives["crash of clone"] = f.Clone().Crash(rng(1), all)
	lives["clone of snapshot"] = lives["snapshot"].Clone()
	lives["itself"] = f
	offset := map[string]int{}
	for name, life := range lives {
		offset[name] = len(offset) * 70_000 % size
		h := open(t, life, "log")
		write(t, h, name, int64(offset[name]))
		must(t, h.Truncate(size-10))
		must(t, vfs.Preallocate(h, size))
		must(t, h.Sync())
		must(t, open(t, life, "only "+name).Close())
	}
	for name, life := range lives {
		at := offset[name]
		want := base[:at] + name + base[at+len(name):size-10] + strings.Repeat("\x00", 10)
		wantTree(t, life, map[string]string{"log": want, "only " + name: ""})
		wantTree(t, life.Snapshot(rng(1), nothing), map[string]string{"log": want})
	}
}

func TestLockIsNotInTheOtherLives(t *testing.T) {
	f := crashfs.New(crashfs.Options{})
	lock, err := f.Lock("LOCK")
	must(t, err)
	for _, life := range []*crashfs.FS{f.Clone(), f.Snapshot(rng(1), all)} {
		l, err := life.Lock("LOCK")
		must(t, err)
		must(t, l.Close())
	}
	_, err = f.Lock("LOCK")
	wantKind(t, err, vfs.ErrLocked)
	must(t, lock.Close())
}

// A hammer for the race detector: many goroutines on one life while others are made of it.
func TestHammerLives(t *testing.T) {
	f := crashfs.New(crashfs.Options{Quota: 1 << 20, Trace: 10})
	put(t, f, "log", strings.Repeat("x", 10_000))
	var wg sync.WaitGroup
	for g := range 3 {
		wg.Go(func() {
			name := fmt.Sprint("f", g)
			for i := range 100 {
				h := open(t, f, name)
				write(t, h, name, int64(i*100))
				must(t, h.Sync())
				must(t, f.SyncDir("."))
				must(t, h.Close())
			}
		})
	}
	for i := range uint64(100) {
		life := f.Snapshot(rng(i), crashfs.Policy{KeepPct: 50, MetaPct: 50})
		write(t, open(t, life, "log"), "y", 5000)
		life = f.Clone()
		write(t, open(t, life, "f0"), "y", 5000)
		f.Trace()
	}
	wg.Wait()
	wantFile(t, f, "log", strings.Repeat("x", 10_000))
}

// The life that goes on after a Snapshot changes nothing in it, also where both started from the same chunks.
func TestSnapshotStaysAsItWas(t *testing.T) {
	f := crashfs.New(crashfs.Options{})
	put(t, f, "log", strings.Repeat("x", 10_000))
	h := open(t, f, "log")
	snapshot := f.Snapshot(rng(1), nothing)
	write(t, h, "changed", 5000)
	must(t, h.Sync())
	wantFile(t, snapshot, "log", strings.Repeat("x", 10_000))
}

// Of one state, a seed makes one outcome, and seeds make many.
func TestSeedDecides(t *testing.T) {
	f := crashfs.New(crashfs.Options{})
	put(t, f, "log", strings.Repeat("o", 16<<10))
	write(t, open(t, f, "log"), strings.Repeat("n", 16<<10), 0)
	outcomes := map[string]bool{}
	for seed := range uint64(20) {
		p := crashfs.Policy{KeepPct: 50}
		once, err := read(f.Snapshot(rng(seed), p), "log")
		must(t, err)
		wantFile(t, f.Snapshot(rng(seed), p), "log", once)
		outcomes[once] = true
	}
	if len(outcomes) != 20 {
		t.Errorf("20 seeds make %d outcomes", len(outcomes))
	}
}

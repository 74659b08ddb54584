package idempotency_test

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/idempotency"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

var update = flag.Bool("update", false, "write the golden files")

const logID = 0x1d

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// checkpoint does what an engine does: freeze, run, install, sweep.
func checkpoint(t testing.TB, x *idempotency.Index, at, cut commitlog.Offset) idempotency.State {
	t.Helper()
	f := x.NewFreeze(at, cut)
	must(t, f.Run())
	x.Install(f)
	must(t, x.Sweep(f.State()))
	return f.State()
}

// find lists the positions of a hash.
func find(t testing.TB, x *idempotency.Index, hash uint64) (found []commitlog.Offset) {
	t.Helper()
	must(t, x.Find(hash, func(p commitlog.Offset) bool { found = append(found, p); return true }))
	return found
}

// TestIndexFindsAll adds entries, hashes of several among them, with checkpoints and reopening between, and wants all of
// them found, the newest first, and nothing else; what has expired goes.
func TestIndexFindsAll(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 1))
		fsys := crashfs.New(crashfs.Options{})
		x := idempotency.Open(fsys, "keys", logID, idempotency.State{})
		want := map[uint64][]commitlog.Offset{}
		var at idempotency.State
		pos, low := commitlog.Offset(100), commitlog.Offset(0)
		for range 1 + rng.IntN(12) {
			for range rng.IntN([]int{3, 300, 4000}[rng.IntN(3)] + 1) {
				hash := rng.Uint64()
				if rng.IntN(4) == 0 {
					hash = uint64(rng.IntN(20)) << 60
				}
				x.Add(idempotency.Entry{Hash: hash, Position: pos}, int64(pos))
				want[hash] = append([]commitlog.Offset{pos}, want[hash]...)
				pos += 100
			}
			if rng.IntN(3) == 0 {
				low = max(low, pos-commitlog.Offset(rng.IntN(400000)))
			}
			if rng.IntN(4) > 0 {
				at = checkpoint(t, x, pos, low)
				if rng.IntN(2) == 0 {
					decoded, err := idempotency.DecodeState(at.Append(nil))
					must(t, err)
					must(t, x.Close())
					x = idempotency.Open(fsys, "keys", logID, decoded)
					must(t, x.Verify(true))
				}
			}
			for hash, list := range want {
				got := find(t, x, hash)
				expired := func(p commitlog.Offset) bool { return p < low }
				if !slices.Equal(slices.DeleteFunc(slices.Clone(got), expired), slices.DeleteFunc(slices.Clone(list), expired)) {
					t.Fatalf("seed %d: hash %x is at %v, want %v, low %d", seed, hash, got, list, low)
				}
				if x.Since(hash, at.Memory) != (list[0] >= at.Memory) || list[0] >= at.Memory && x.Since(hash, list[0]+1) {
					t.Fatalf("seed %d: hash %x at %v, memory from %d: %v", seed, hash, list, at.Memory, x.Since(hash, at.Memory))
				}
			}
			for range 100 {
				if hash := rng.Uint64(); want[hash] == nil && find(t, x, hash) != nil {
					t.Fatalf("seed %d: hash %x was never added", seed, hash)
				}
			}
			if at.Memory > 0 && !x.Since(1, at.Memory-1) {
				t.Fatalf("seed %d: what is not in memory is known not to be there", seed)
			}
		}
		if len(at.Runs) > 0 && x.Any(0, at.Runs[0].From, 0) || x.Any(pos, pos+1, 0) {
			t.Errorf("seed %d: there are entries where none is", seed)
		}
		must(t, x.Close())
	}
}

// TestIndexMerges wants small runs to become one, and old ones to go with their files.
func TestIndexMerges(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	x := idempotency.Open(fsys, "keys", logID, idempotency.State{})
	var at idempotency.State
	for i := range 50 {
		x.Add(idempotency.Entry{Hash: idempotency.Hash(1, fmt.Append(nil, i)), Position: commitlog.Offset(i * 10)}, int64(i))
		at = checkpoint(t, x, commitlog.Offset(i*10+10), 0)
	}
	if len(at.Runs) != 1 || at.Runs[0].Count != 50 || at.Runs[0].LastMs != 49 {
		t.Fatalf("runs %+v, want one of 50 entries", at.Runs)
	}
	if !x.Any(200, 210, 49) || x.Any(200, 210, 50) || x.Any(500, 600, 0) {
		t.Error("Any is wrong")
	}
	x.Add(idempotency.Entry{Hash: 1, Position: 600}, 60)
	if at = checkpoint(t, x, 610, 300); len(at.Runs) != 1 || at.Runs[0].Count != 21 || at.Runs[0].From != 300 || at.Low != 300 {
		t.Fatalf("runs %+v, want one of 21 entries from 300 on", at)
	}
	infos, err := fsys.ReadDir("keys")
	if err != nil || len(infos) != 1 {
		t.Errorf("files %v, %v; want one", infos, err)
	}
	if at = checkpoint(t, x, 700, 650); len(at.Runs) != 0 {
		t.Errorf("runs %+v, want none", at.Runs)
	}
	if infos, err := fsys.ReadDir("keys"); err != nil || len(infos) != 0 {
		t.Errorf("files %v, %v; want none", infos, err)
	}
	must(t, x.Close())
}

// TestIndexMergesBySize makes many runs that are too large to become one at once, and wants few of each size, and all entries.
func TestIndexMergesBySize(t *testing.T) {
	const each, times = 66_000, 24
	fsys := crashfs.New(crashfs.Options{})
	x := idempotency.Open(fsys, "keys", logID, idempotency.State{})
	rng := rand.New(rand.NewPCG(3, 1))
	var at idempotency.State
	hashes := map[uint64]commitlog.Offset{}
	for i := range times {
		for j := range each {
			e := idempotency.Entry{Hash: rng.Uint64(), Position: commitlog.Offset(i*each + j)}
			if x.Add(e, int64(i)); j%1000 == 0 {
				hashes[e.Hash] = e.Position
			}
		}
		if at = checkpoint(t, x, commitlog.Offset((i+1)*each), 0); len(at.Runs) > 6 {
			t.Fatalf("%d runs after %d checkpoints: %+v", len(at.Runs), i+1, at.Runs)
		}
	}
	must(t, x.Verify(true))
	count := int64(0)
	for _, r := range at.Runs {
		count += r.Count
	}
	if count != each*times {
		t.Errorf("%d entries in %+v, want %d", count, at.Runs, each*times)
	}
	for hash, pos := range hashes {
		if got := find(t, x, hash); !slices.Equal(got, []commitlog.Offset{pos}) {
			t.Fatalf("hash %x is at %v, want %d", hash, got, pos)
		}
	}
	must(t, x.Close())
}

// TestIndexWhileFrozen has a checkpoint that cannot be written for a while, as on a full disk: what it holds is found, and what
// comes meanwhile, also under the same hash, and nothing that was read before counts as if it had been read since.
func TestIndexWhileFrozen(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	x := idempotency.Open(fsys, "keys", logID, idempotency.State{})
	want := map[uint64][]commitlog.Offset{}
	add := func(hash uint64, pos commitlog.Offset) {
		x.Add(idempotency.Entry{Hash: hash, Position: pos}, int64(pos))
		want[hash] = append([]commitlog.Offset{pos}, want[hash]...)
	}
	check := func(when string) {
		t.Helper()
		for hash, list := range want {
			if got := find(t, x, hash); !slices.Equal(got, list) {
				t.Errorf("%s: hash %d is at %v, want %v", when, hash, got, list)
			}
		}
	}
	add(1, 100)
	checkpoint(t, x, 150, 0) // a run that the next one takes in
	add(1, 200)
	add(2, 210)
	f := x.NewFreeze(300, 0)
	if !x.Since(1, 200) || !x.Since(2, 150) || x.Since(1, 201) || !x.Since(9, 149) || x.Since(9, 150) {
		t.Error("Since is wrong while a checkpoint is made")
	}
	if !x.Any(205, 215, 0) || x.Any(220, 900, 0) {
		t.Error("Any is wrong while a checkpoint is made")
	}
	full := errors.New("no room")
	for i := range 6 {
		fails := i
		fsys.SetInject(func(op crashfs.Op) error {
			if fails--; op.Changes() && fails < 0 {
				return full
			}
			return nil
		})
		if err := f.Run(); !errors.Is(err, full) {
			t.Fatalf("run %d: %v", i, err)
		}
		add(2, commitlog.Offset(310+i))
		check("not written")
	}
	fsys.SetInject(nil)
	must(t, f.Run())
	check("written")
	x.Install(f)
	must(t, x.Sweep(f.State()))
	check("installed")
	if x.Since(2, 316) || !x.Since(2, 315) || x.Since(1, 300) || !x.Since(1, 299) {
		t.Error("Since is wrong behind a checkpoint")
	}
	if s := f.State(); len(s.Runs) != 1 || s.Runs[0].Count != 3 || s.Memory != 300 {
		t.Errorf("state %+v, want one run of 3", s)
	}
	must(t, x.Close())
}

// TestSpill reads a log with many keys from its begin, behind a checkpoint's runs: what the checkpoint knows stays, and of what
// was written meanwhile there is no more than one copy.
func TestSpill(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	at, file := run(t, fsys, 600)
	x := idempotency.Open(fsys, "keys", logID, at)
	rng := rand.New(rand.NewPCG(4, 1))
	const n = 6 << 18
	var some []idempotency.Entry
	for i := range n {
		e := idempotency.Entry{Hash: rng.Uint64(), Position: commitlog.Offset(6000 + i)}
		if x.Add(e, int64(i)); i%10_000 == 0 {
			some = append(some, e)
		}
		must(t, x.Spill(e.Position+1))
	}
	infos, err := fsys.ReadDir("keys")
	must(t, err)
	total := int64(0)
	for _, info := range infos {
		total += info.Size
	}
	if len(infos) > 6 || total > n*17+5*4096 {
		t.Errorf("%d files with %d bytes for %d keys", len(infos), total, n)
	}
	if _, err := fsys.Stat(file); err != nil {
		t.Errorf("the file that the checkpoint knows: %v", err)
	}
	must(t, x.Verify(true))
	for _, e := range some {
		if got := find(t, x, e.Hash); !slices.Equal(got, []commitlog.Offset{e.Position}) {
			t.Fatalf("hash %x is at %v, want %d", e.Hash, got, e.Position)
		}
	}
	must(t, x.Close())
}

// TestFindBesideCheckpoints looks for keys while runs are written, merged and deleted: what is there is found at any moment.
func TestFindBesideCheckpoints(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	x := idempotency.Open(fsys, "keys", logID, idempotency.State{})
	var top atomic.Int64 // hashes below are there
	var over atomic.Bool
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 5))
			for !over.Load() {
				n := top.Load()
				if n == 0 {
					continue
				}
				k := rng.Int64N(n)
				found := false
				err := x.Find(idempotency.Hash(1, fmt.Append(nil, k)), func(p commitlog.Offset) bool { found = int64(p) == k; return !found })
				if err != nil || !found {
					t.Errorf("key %d of %d: %v, %v", k, n, found, err)
					return
				}
			}
		})
	}
	for i := range 300 {
		for j := range 50 {
			k := i*50 + j
			x.Add(idempotency.Entry{Hash: idempotency.Hash(1, fmt.Append(nil, k)), Position: commitlog.Offset(k)}, 0)
			top.Store(int64(k + 1))
		}
		checkpoint(t, x, commitlog.Offset(50*(i+1)), 0)
	}
	over.Store(true)
	all.Wait()
	must(t, x.Close())
}

// TestMergeLeavesDamage has a run with a damaged block, or none at all, that the next checkpoints would merge: they are made
// without it, and what is in other blocks and other runs is found.
func TestMergeLeavesDamage(t *testing.T) {
	for _, name := range []string{"block", "missing"} {
		t.Run(name, func(t *testing.T) {
			fsys := crashfs.New(crashfs.Options{})
			at, file := run(t, fsys, 600)
			if name == "missing" {
				must(t, fsys.Remove(file))
			} else {
				f, err := fsys.OpenFile(file, os.O_RDWR, 0)
				must(t, err)
				_, err = f.WriteAt([]byte("damage"), 64+4096+100)
				must(t, err)
				must(t, f.Close())
			}
			x := idempotency.Open(fsys, "keys", logID, at)
			for i := range 20 {
				pos := commitlog.Offset(6000 + 10*i)
				x.Add(idempotency.Entry{Hash: uint64(i), Position: pos}, int64(i))
				at = checkpoint(t, x, pos+10, 0)
			}
			if len(at.Runs) != 2 || at.Runs[0].Count != 600 || at.Runs[1].Count != 20 || at.Runs[1].From < at.Runs[0].To {
				t.Errorf("runs %+v, want the damaged one and one of 20", at.Runs)
			}
			for i := range uint64(20) {
				found := false
				must(t, x.Find(i, func(commitlog.Offset) bool { found = true; return false }))
				if !found {
					t.Errorf("hash %d is not found", i)
				}
			}
			damaged := 0
			for i := range 600 {
				found := false
				err := x.Find(idempotency.Hash(7, fmt.Append(nil, i)), func(commitlog.Offset) bool { found = true; return false })
				if err == nil && !found {
					t.Errorf("entry %d of the damaged run is not there, and no error says why", i)
				}
				if err != nil {
					damaged++
				}
			}
			if damaged == 0 || name == "block" && damaged == 600 {
				t.Errorf("%d of 600 look-ups fail", damaged)
			}
			must(t, x.Close())
		})
	}
}

// run makes a file of three blocks and returns its state and name.
func run(t testing.TB, fsys vfs.FS, n int) (idempotency.State, string) {
	t.Helper()
	x := idempotency.Open(fsys, "keys", logID, idempotency.State{})
	for i := range n {
		x.Add(idempotency.Entry{Hash: idempotency.Hash(7, fmt.Append(nil, i)), Position: commitlog.Offset(1000 + i)}, 5)
	}
	at := checkpoint(t, x, 5000, 0)
	must(t, x.Close())
	return at, path.Join("keys", fmt.Sprintf("%020d-%020d", 0, 5000))
}

// TestRunDamage flips, cuts and lengthens; whole verification names the file, a search never panics.
func TestRunDamage(t *testing.T) {
	for _, c := range []struct {
		name string
		at   int64 // byte to flip; -1: none
		size int64 // new size; -1: as it is
	}{
		{"magic", 0, -1}, {"version", 11, -1}, {"log id", 16, -1}, {"from", 31, -1}, {"count", 47, -1}, {"header crc", 63, -1},
		{"first hash", 64, -1}, {"position", 64 + 15, -1}, {"second block", 64 + 4096 + 5, -1}, {"block crc", 64 + 4095, -1},
		{"padding", 64 + 3*4096 - 30, -1}, {"cut in the header", -1, 20}, {"cut in a block", -1, 64 + 4096 + 100},
		{"empty", -1, 0}, {"longer", -1, 64 + 3*4096 + 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := crashfs.New(crashfs.Options{})
			at, name := run(t, fsys, 600)
			f, err := fsys.OpenFile(name, os.O_RDWR, 0)
			must(t, err)
			if c.at >= 0 {
				var b [1]byte
				if _, err := f.ReadAt(b[:], c.at); err != nil && err != io.EOF {
					t.Fatal(err)
				}
				b[0] ^= 0x10
				_, err = f.WriteAt(b[:], c.at)
				must(t, err)
			}
			if c.size >= 0 {
				must(t, f.Truncate(c.size))
			}
			must(t, f.Close())
			x := idempotency.Open(fsys, "keys", logID, at)
			err = x.Verify(true)
			var damage *corrupt.Error
			if !errors.As(err, &damage) || damage.File != name {
				t.Errorf("got %v, want damage in %s", err, name)
			}
			for i := range 600 {
				_ = x.Find(idempotency.Hash(7, fmt.Append(nil, i)), func(commitlog.Offset) bool { return true })
			}
			must(t, x.Close())
		})
	}
	fsys := crashfs.New(crashfs.Options{})
	at, name := run(t, fsys, 1)
	must(t, fsys.Remove(name))
	x := idempotency.Open(fsys, "keys", logID, at)
	if err := x.Verify(false); !errors.Is(err, corrupt.ErrCorrupt) || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a missing file: %v", err)
	}
	must(t, x.Close())
}

// TestStateDamage refuses sections that no index has.
func TestStateDamage(t *testing.T) {
	good := idempotency.State{Low: 10, Memory: 900, Runs: []idempotency.Run{
		{From: 0, To: 500, Count: 3, LastMs: 7}, {From: 500, To: 900, Count: 1, LastMs: 9},
	}}
	for _, c := range []struct {
		name    string
		corrupt func(b []byte) []byte
	}{
		{"empty", func(b []byte) []byte { return nil }},
		{"cut", func(b []byte) []byte { return b[:len(b)-1] }},
		{"longer", func(b []byte) []byte { return append(b, 0) }},
		{"low above memory", func(b []byte) []byte { b[3] = 1; return b }},
		{"negative memory", func(b []byte) []byte { b[8] = 0x80; return b }},
		{"count", func(b []byte) []byte { b[19]++; return b }},
		{"huge count", func(b []byte) []byte { b[16] = 0xff; return b }},
		{"empty run", func(b []byte) []byte { b[20+23] = 0; return b }},
		{"run ends before it begins", func(b []byte) []byte { clear(b[28:36]); return b }},
		{"run above memory", func(b []byte) []byte { b[20+32+8+2] = 1; return b }},
		{"runs overlap", func(b []byte) []byte { b[20+8+6] = 3; return b }},
	} {
		var damage *corrupt.Error
		if s, err := idempotency.DecodeState(c.corrupt(good.Append(nil))); !errors.As(err, &damage) {
			t.Errorf("%s: %+v, %v; want damage", c.name, s, err)
		}
	}
	s, err := idempotency.DecodeState(good.Append(nil))
	if err != nil || s.Low != good.Low || s.Memory != good.Memory || !slices.Equal(s.Runs, good.Runs) {
		t.Errorf("decoded %+v, %v", s, err)
	}
}

// TestGolden ties the file to its description.
func TestGolden(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	at, name := run(t, fsys, 3)
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	must(t, err)
	b := make([]byte, 64+4096)
	_, err = f.ReadAt(b, 0)
	must(t, err)
	must(t, f.Close())
	var text strings.Builder
	line := func(part []byte, what string) { fmt.Fprintf(&text, "%-36x # %s\n", part, what) }
	for _, p := range []struct {
		width int
		name  string
	}{
		{8, "magic"}, {4, "version"}, {4, "reserved"}, {8, "log id"}, {8, "from"}, {8, "to"}, {8, "count"}, {8, "logTime of the last"},
		{4, "reserved"}, {4, "crc of the header"}, {8, "entry 0: hash"}, {8, "entry 0: position"}, {8, "entry 1: hash"},
		{8, "entry 1: position"}, {8, "entry 2: hash"}, {8, "entry 2: position"},
	} {
		line(b[:p.width], p.name)
		b = b[p.width:]
	}
	fmt.Fprintf(&text, "%-36s # zeros\n", fmt.Sprintf("%d times 00", len(b)-4))
	if strings.Trim(string(b[:len(b)-4]), "\x00") != "" {
		t.Error("there is something behind the last entry")
	}
	line(b[len(b)-4:], "crc of block 0")
	text.WriteString("# the section of a checkpoint\n")
	s := at.Append(nil)
	for _, p := range []struct {
		width int
		name  string
	}{{8, "low"}, {8, "memory"}, {4, "count"}, {8, "from"}, {8, "to"}, {8, "entries"}, {8, "logTime of the last"}} {
		line(s[:p.width], p.name)
		s = s[p.width:]
	}
	const file = "testdata/golden/run.hex"
	if *update {
		must(t, os.MkdirAll(path.Dir(file), 0o755))
		must(t, os.WriteFile(file, []byte(text.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	if text.String() != string(want) {
		t.Errorf("the file is another; a new layout needs a new version. got:\n%s", text.String())
	}
}

// FuzzRun reads a file of any bytes: no panic, and what is found stands in the run.
func FuzzRun(f *testing.F) {
	fsys := crashfs.New(crashfs.Options{})
	at, name := run(f, fsys, 300)
	file, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	must(f, err)
	b := make([]byte, 64+2*4096)
	_, err = file.ReadAt(b, 0)
	must(f, err)
	must(f, file.Close())
	f.Add(b, uint64(1))
	f.Add(b[:64], uint64(1)<<60)
	f.Fuzz(func(t *testing.T, b []byte, hash uint64) {
		fsys := crashfs.New(crashfs.Options{})
		must(t, fsys.MkdirAll("keys", 0o700))
		file, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		must(t, err)
		_, err = file.WriteAt(b, 0)
		must(t, err)
		must(t, file.Close())
		x := idempotency.Open(fsys, "keys", logID, at)
		_ = x.Verify(true)
		err = x.Find(hash, func(p commitlog.Offset) bool {
			if p < at.Runs[0].From || p >= at.Runs[0].To {
				t.Errorf("found position %d", p)
			}
			return true
		})
		if err != nil && !errors.Is(err, corrupt.ErrCorrupt) && !errors.Is(err, idempotency.ErrNewerFormat) {
			t.Error(err)
		}
		must(t, x.Close())
	})
}

// FuzzDecodeState decodes any bytes; what is taken has one encoding.
func FuzzDecodeState(f *testing.F) {
	f.Add(idempotency.State{Low: 10, Memory: 900, Runs: []idempotency.Run{{From: 0, To: 500, Count: 3, LastMs: 7}}}.Append(nil))
	f.Add(idempotency.State{}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := idempotency.DecodeState(b); err == nil && string(s.Append(nil)) != string(b) {
			t.Errorf("%x was taken as %+v", b, s)
		}
	})
}

// BenchmarkFind looks for keys that are there, and for ones that are not, in ten runs of a hundred thousand.
func BenchmarkFind(b *testing.B) {
	fsys := crashfs.New(crashfs.Options{})
	x := idempotency.Open(fsys, "keys", logID, idempotency.State{})
	rng := rand.New(rand.NewPCG(1, 1))
	var hashes []uint64
	for i := range 1_000_000 {
		h := rng.Uint64()
		hashes = append(hashes, h)
		x.Add(idempotency.Entry{Hash: h, Position: commitlog.Offset(i)}, int64(i))
		if i%100_000 == 99_999 {
			checkpoint(b, x, commitlog.Offset(i+1), 0)
		}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		hash := hashes[rng.IntN(len(hashes))] + uint64(i&1)
		must(b, x.Find(hash, func(commitlog.Offset) bool { return false }))
	}
	must(b, x.Close())
}

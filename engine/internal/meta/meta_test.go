package meta_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/filetest"
	"github.com/tidewheel/tidewheel/engine/internal/golden"
	"github.com/tidewheel/tidewheel/engine/internal/meta"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/fsadapter/faultfs"
)

var sample = meta.Meta{
	StoreID: 0x0102030405060708, LogID: 0x1112131415161718, NodeID: 3, Lanes: 8, CreatedMs: 1_796_036_533_123,
}

func newFS() *crashfs.FS { return crashfs.New(crashfs.Options{}) }

func create(t testing.TB, fsys vfs.FS, dir string) {
	t.Helper()
	if err := meta.Create(fsys, dir, sample); err != nil {
		t.Fatal(err)
	}
}

func TestCreateAndLoad(t *testing.T) {
	for _, dir := range []string{".", "data", "var/lib/data"} {
		fsys := newFS()
		if _, err := meta.Load(fsys, dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: nothing there: %v", dir, err)
		}
		create(t, fsys, dir)
		after := fsys.Crash(rand.New(rand.NewPCG(1, 0)), crashfs.Policy{})
		if got, err := meta.Load(after, dir); err != nil || got != sample {
			t.Errorf("%s: %+v, %v", dir, got, err)
		}
		if err := meta.Create(after, dir, meta.Meta{}); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: created twice: %v", dir, err)
		}
		if got, err := meta.Load(after, dir); err != nil || got != sample {
			t.Errorf("%s: %+v, %v", dir, got, err)
		}
	}
}

// A directory that holds something else is not touched.
func TestForeign(t *testing.T) {
	for _, c := range []struct {
		name  string
		ours  []string
		files []string
		dirs  []string
		bad   bool
	}{
		{"empty", nil, nil, []string{"data"}, false},
		{"a file", nil, []string{"data/photo.jpg"}, nil, true},
		{"a directory", nil, nil, []string{"data/commitlog"}, true},
		{"a cut short create", nil, []string{"data/meta.tmp"}, nil, false},
		{"a fresh volume", nil, nil, []string{"data/lost+found"}, false},
		{"our lock", []string{"lock"}, []string{"data/lock"}, nil, false},
		{"another's lock", nil, []string{"data/lock"}, nil, true},
		{"our lock and a file", []string{"lock"}, []string{"data/lock", "data/x"}, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := newFS()
			if err := fsys.MkdirAll("data", 0o700); err != nil {
				t.Fatal(err)
			}
			for _, d := range c.dirs {
				if err := fsys.MkdirAll(d, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			for _, f := range c.files {
				filetest.Write(t, fsys, f, []byte("mine"))
			}
			ops := fsys.Ops()
			_, err := meta.Load(fsys, "data", c.ours...)
			if errors.Is(err, meta.ErrForeign) != c.bad || errors.Is(err, fs.ErrNotExist) == c.bad {
				t.Errorf("load: %v", err)
			}
			if c.bad && !strings.Contains(err.Error(), "not a Tidewheel directory") {
				t.Errorf("load: %v", err)
			}
			if fsys.Ops() != ops {
				t.Error("loading changed something")
			}
			err = meta.Create(fsys, "data", sample, c.ours...)
			if errors.Is(err, meta.ErrForeign) != c.bad || !c.bad && err != nil {
				t.Errorf("create: %v", err)
			}
			if c.bad && fsys.Ops() != ops {
				t.Error("something was touched")
			}
		})
	}
}

func TestCorruption(t *testing.T) {
	fix := func(b []byte) []byte {
		binary.BigEndian.PutUint32(b[60:], crc32.Checksum(b[:60], crc32.MakeTable(crc32.Castagnoli)))
		return b
	}
	for _, c := range []struct {
		name    string
		corrupt func([]byte) []byte
		reason  string // "": good
	}{
		{"good", func(b []byte) []byte { return b }, ""},
		{"reserved used", func(b []byte) []byte { b[50] = 7; return fix(b) }, ""},
		{"empty", func(b []byte) []byte { return nil }, "0 bytes instead of 64"},
		{"cut", func(b []byte) []byte { return b[:63] }, "63 bytes instead of 64"},
		{"longer", func(b []byte) []byte { return append(b, 0) }, "65 bytes instead of 64"},
		{"zero", func(b []byte) []byte { clear(b); return b }, "wrong magic"},
		{"magic", func(b []byte) []byte { b[0] ^= 1; return fix(b) }, "wrong magic"},
		{"crc", func(b []byte) []byte { b[63] ^= 1; return b }, "bad crc"},
		{"version flipped", func(b []byte) []byte { b[11] ^= 2; return b }, "bad crc"},
		{"store flipped", func(b []byte) []byte { b[16] ^= 1; return b }, "bad crc"},
		{"version 0", func(b []byte) []byte { b[11] = 0; return fix(b) }, "version 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := newFS()
			create(t, fsys, "data")
			filetest.Write(t, fsys, "data/meta", c.corrupt(filetest.Read(t, fsys, "data/meta")))
			got, err := meta.Load(fsys, "data")
			if c.reason == "" {
				if err != nil || got != sample {
					t.Errorf("got %+v, %v", got, err)
				}
				return
			}
			var bad *corrupt.Error
			if !errors.As(err, &bad) || bad.File != "data/meta" || !strings.Contains(bad.Reason, c.reason) {
				t.Errorf("got %v, want %q", err, c.reason)
			}
			if err := meta.Create(fsys, "data", sample); !errors.Is(err, corrupt.ErrCorrupt) {
				t.Errorf("create: %v", err)
			}
		})
	}
	t.Run("newer", func(t *testing.T) {
		fsys := newFS()
		create(t, fsys, "data")
		b := filetest.Read(t, fsys, "data/meta")
		b[11] = 2
		filetest.Write(t, fsys, "data/meta", fix(b))
		for _, err := range []error{
			func() error { _, err := meta.Load(fsys, "data"); return err }(),
			meta.Create(fsys, "data", sample),
		} {
			if !errors.Is(err, meta.ErrNewerFormat) || errors.Is(err, corrupt.ErrCorrupt) ||
				!strings.Contains(err.Error(), "version 2, this program knows 1") {
				t.Errorf("got %v", err)
			}
		}
	})
}

// Whenever the power fails while a store is made, the next start finds it whole or can make it again; and after a nil it is
// there.
func TestCreateCrash(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 0))
		disk := newFS()
		if n := r.Int64N(12); n > 0 {
			disk.CrashAt(n)
		}
		err := meta.Create(disk, "var/data", sample)
		policies := crashfs.Policies()
		after := disk.Crash(r, policies[r.IntN(len(policies))])
		got, loaded := meta.Load(after, "var/data")
		switch {
		case loaded == nil && got == sample:
		case err != nil && errors.Is(loaded, fs.ErrNotExist):
			create(t, after, "var/data")
		default:
			t.Fatalf("seed %d: created: %v; loaded: %+v, %v", seed, err, got, loaded)
		}
	}
}

func TestFaults(t *testing.T) {
	count := faultfs.New(newFS())
	create(t, count, "var/data")
	for n := int64(1); n <= count.Ops(); n++ {
		for _, rule := range []faultfs.Rule{{Nth: n}, {Nth: n, Sticky: true}, {Nth: n, Err: syscall.ENOSPC, Short: 10}} {
			fsys := faultfs.New(newFS(), rule)
			if err := meta.Create(fsys, "var/data", sample); err == nil {
				t.Errorf("%v: no error", rule)
			} else if errors.Is(err, meta.ErrForeign) || errors.Is(err, corrupt.ErrCorrupt) {
				t.Errorf("%v: %v", rule, err)
			}
		}
	}
	fsys := newFS()
	create(t, fsys, "data")
	for _, op := range []faultfs.Op{faultfs.Open, faultfs.Read} {
		if _, err := meta.Load(faultfs.New(fsys, faultfs.Rule{Op: op}), "data"); !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: %v", op, err)
		}
	}
	if _, err := meta.Load(faultfs.New(newFS(), faultfs.Rule{Op: faultfs.ReadDir}), "."); !errors.Is(err, syscall.EIO) {
		t.Errorf("list: %v", err)
	}
}

func TestGolden(t *testing.T) {
	fsys := newFS()
	create(t, fsys, "data")
	b := filetest.Read(t, fsys, "data/meta")
	b = golden.Match(t, "meta", golden.Annotate(t, "the file meta", 24, b, []golden.Field{
		{8, "magic"}, {4, "version"}, {4, "lanes"}, {8, "store id"}, {8, "log id"}, {8, "created"}, {8, "node id"},
		{12, "reserved"}, {4, "crc"},
	}))
	filetest.Write(t, fsys, "data/meta", b)
	if got, err := meta.Load(fsys, "data"); err != nil || got != sample {
		t.Errorf("got %+v, %v", got, err)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(golden.Read(f, "meta"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		fsys := newFS()
		filetest.Write(t, fsys, "meta", b)
		m, err := meta.Load(fsys, ".")
		if err != nil {
			if !errors.Is(err, corrupt.ErrCorrupt) && !errors.Is(err, meta.ErrNewerFormat) {
				t.Error(err)
			}
			return
		}
		again := newFS()
		if err := meta.Create(again, ".", m); err != nil {
			t.Fatal(err)
		}
		if got, err := meta.Load(again, "."); err != nil || got != m {
			t.Errorf("%+v became %+v, %v", m, got, err)
		}
	})
}

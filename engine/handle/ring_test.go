package handle_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/tidewheel/tidewheel/engine/handle"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/fsadapter/faultfs"
)

// random is a source of secrets that repeats itself in every run.
func random(seed byte) io.Reader { return rand.NewChaCha8([32]byte{seed}) }

func newFS() *crashfs.FS { return crashfs.New(crashfs.Options{}) }

func newRing(t testing.TB) *handle.Ring {
	t.Helper()
	r, err := handle.Create(newFS(), "keys", random(1))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// some is a handle with a different byte in every place.
func some() handle.Handle {
	return handle.Handle{Lane: 2, Topic: 0x03040506, ID: 0x0708090a0b0c0d0e, Due: 1_796_036_533_123, Position: 0x1f20212223242526}
}

func mustOpen(t *testing.T, r *handle.Ring, text string, want handle.Handle) {
	t.Helper()
	got, err := r.Open(text)
	if err != nil {
		t.Fatalf("open %s: %v", text, err)
	}
	want.KeyID = got.KeyID
	if got != want {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

func mustRefuse(t *testing.T, r *handle.Ring, text, why string) {
	t.Helper()
	h, err := r.Open(text)
	if err != handle.ErrForged { // the very same for all: the answer tells a forger nothing
		t.Errorf("%s: got %v, want ErrForged", why, err)
	}
	if h != (handle.Handle{}) {
		t.Errorf("%s: refused, and still told: %+v", why, h)
	}
}

func TestSealOpen(t *testing.T) {
	r := newRing(t)
	for _, h := range []handle.Handle{
		{}, some(),
		{Lane: 255, Topic: math.MaxUint32, ID: math.MaxUint64, Due: math.MaxInt64, Position: math.MaxInt64},
		{Due: math.MinInt64, Position: math.MinInt64},
		{KeyID: 200, ID: 1}, // whatever the caller says, the ring's key seals
	} {
		text := r.Seal(h)
		if len(text) != 66 || !strings.HasPrefix(text, "tw1.") {
			t.Errorf("text %q of %d bytes", text, len(text))
		}
		mustOpen(t, r, text, h)
		if got, _ := r.Open(text); got.KeyID != 1 {
			t.Errorf("sealed with key %d", got.KeyID)
		}
		if again := string(r.AppendSeal([]byte("x"), h)); again != "x"+text {
			t.Errorf("AppendSeal made %q, Seal %q", again, text)
		}
	}
}

func TestEveryBitFlipIsRefused(t *testing.T) {
	r := newRing(t)
	text := r.Seal(some())
	for i := range len(text) * 8 {
		b := []byte(text)
		b[i/8] ^= 1 << (i % 8)
		mustRefuse(t, r, string(b), "bit of the text")
	}
	raw, err := base64.RawURLEncoding.DecodeString(text[4:])
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(raw) * 8 {
		b := bytes.Clone(raw)
		b[i/8] ^= 1 << (i % 8)
		mustRefuse(t, r, "tw1."+base64.RawURLEncoding.EncodeToString(b), "bit of the bytes")
	}
}

func TestOpenRefusesWhatItDidNotSeal(t *testing.T) {
	r := newRing(t)
	text := r.Seal(some())
	raw, err := base64.RawURLEncoding.DecodeString(text[4:])
	if err != nil {
		t.Fatal(err)
	}
	encode := func(b []byte) string { return "tw1." + base64.RawURLEncoding.EncodeToString(b) }
	edit := func(at int, with ...byte) string {
		b := bytes.Clone(raw)
		copy(b[at:], with)
		return encode(b)
	}
	other, err := handle.Create(newFS(), "keys", random(2))
	if err != nil {
		t.Fatal(err)
	}
	second := some()
	second.ID++
	rawSecond, err := base64.RawURLEncoding.DecodeString(r.Seal(second)[4:])
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, text string }{
		{"empty", ""},
		{"prefix only", "tw1."},
		{"no prefix", text[4:]},
		{"later prefix", "tw2." + text[4:]},
		{"prefix in capitals", "TW1." + text[4:]},
		{"letter missing", text[:len(text)-1]},
		{"letter more", text + "A"},
		{"padding", text + "=="},
		{"padding in place of letters", text[:len(text)-2] + "=="},
		{"space in front", " " + text},
		{"line end behind", text + "\n"},
		{"line end inside, which a decoder of base64 skips", text[:20] + "\n" + text[20:]},
		{"line end in place of a letter", text[:20] + "\r" + text[21:]},
		{"other alphabet", text[:20] + "+/" + text[22:]},
		{"zero byte", text[:20] + "\x00" + text[21:]},
		{"not ASCII", text[:20] + "é" + text[22:]},
		{"one megabyte", "tw1." + strings.Repeat("A", 1<<20)},
		{"all zero", encode(make([]byte, len(raw)))},
		{"no MAC", encode(raw[:30])},
		{"MAC of zeros", edit(30, make([]byte, 16)...)},
		{"key zero", edit(0, 0)},
		{"unknown key", edit(0, 2)},
		{"last key", edit(0, 255)},
		{"MAC of another handle", encode(append(bytes.Clone(raw[:30]), rawSecond[30:]...))},
		{"handle of another store", other.Seal(some())},
		{"spare bits of the last letter set", text[:65] + string(text[65]+1)},
	} {
		if c.text == text {
			t.Errorf("%s: the case is no other text", c.name)
		}
		mustRefuse(t, r, c.text, c.name)
	}
	mustOpen(t, r, text, some())
}

// TestLineEndsAreNoLetters: the decoder skips line ends, so two of them in the place of a last byte of zero are the same
// bytes. A handle has one text all the same.
func TestLineEndsAreNoLetters(t *testing.T) {
	r := newRing(t)
	h := some()
	text := r.Seal(h)
	for !strings.HasSuffix(text, "AA") {
		h.ID++
		text = r.Seal(h)
	}
	mustOpen(t, r, text, h)
	mustRefuse(t, r, text[:len(text)-2]+"\n\n", "line ends in place of zeros")
}

func TestRotate(t *testing.T) {
	fsys := newFS()
	r, err := handle.Create(fsys, "keys", random(1))
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	source := random(3)
	for id := range uint8(4) {
		if got := r.Newest(); got != id+1 {
			t.Errorf("newest key %d, want %d", got, id+1)
		}
		texts = append(texts, r.Seal(some()))
		if err := r.Rotate(source); err != nil {
			t.Fatal(err)
		}
	}
	for i := range texts {
		for j := range i {
			if texts[i] == texts[j] {
				t.Error("two keys made one text")
			}
		}
	}
	loaded, err := handle.Load(fsys, "keys")
	if err != nil {
		t.Fatal(err)
	}
	for _, ring := range []*handle.Ring{r, loaded} {
		for i, text := range texts {
			mustOpen(t, ring, text, some())
			if h, _ := ring.Open(text); int(h.KeyID) != i+1 {
				t.Errorf("key %d, want %d", h.KeyID, i+1)
			}
		}
	}
	if r.Seal(some()) != loaded.Seal(some()) || loaded.Newest() != 5 {
		t.Error("the loaded ring seals with another key")
	}
}

func TestRotateEnds(t *testing.T) {
	r := newRing(t)
	first := r.Seal(some())
	source := random(4)
	for range 254 {
		if err := r.Rotate(source); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Rotate(source); !errors.Is(err, handle.ErrRingFull) {
		t.Errorf("the 256th key: %v", err)
	}
	mustOpen(t, r, first, some())
	mustOpen(t, r, r.Seal(some()), some())
}

// short gives half a secret.
func short() io.Reader { return io.LimitReader(random(5), 16) }

func TestNoSecretNoKey(t *testing.T) {
	broken := errors.New("no entropy")
	for _, source := range []func() io.Reader{short, func() io.Reader { return iotest.ErrReader(broken) }} {
		fsys := newFS()
		if _, err := handle.Create(fsys, "keys", source()); err == nil {
			t.Error("a ring without a secret")
		}
		if _, err := handle.Load(fsys, "keys"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Create left something: %v", err)
		}
		r, err := handle.Create(fsys, "keys", random(1))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Rotate(source()); err == nil || r.Newest() != 1 {
			t.Errorf("a key without a secret: %v, newest %d", err, r.Newest())
		}
		mustOpen(t, r, r.Seal(some()), some())
	}
}

func TestCreateReplacesNothing(t *testing.T) {
	fsys := newFS()
	r, err := handle.Create(fsys, "keys", random(1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := handle.Create(fsys, "keys", random(2)); !errors.Is(err, fs.ErrExist) {
		t.Errorf("the second Create: %v", err)
	}
	loaded, err := handle.Load(fsys, "keys")
	if err != nil {
		t.Fatal(err)
	}
	mustOpen(t, loaded, r.Seal(some()), some())
}

// permFS notes the permissions of files that are made.
type permFS struct {
	vfs.FS
	perms []fs.FileMode
}

func (p *permFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	if perm != 0 {
		p.perms = append(p.perms, perm)
	}
	return p.FS.OpenFile(name, flag, perm)
}

func TestKeysAreNobodyElses(t *testing.T) {
	fsys := &permFS{FS: newFS()}
	r, err := handle.Create(fsys, "keys", random(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Rotate(random(2)); err != nil {
		t.Fatal(err)
	}
	if len(fsys.perms) != 2 || fsys.perms[0] != 0o600 || fsys.perms[1] != 0o600 {
		t.Errorf("files were made with %o", fsys.perms)
	}
}

// TestRotateCrash cuts the power before every change that Create and Rotate make. What was sealed before stays valid,
// and a key is on the disk before it seals.
func TestRotateCrash(t *testing.T) {
	for n := int64(1); ; n++ {
		finished := false
		for i, policy := range crashfs.Policies() {
			finished = crashOnce(t, n, policy, rand.New(rand.NewPCG(uint64(n), uint64(i))))
		}
		if finished {
			return
		}
	}
}

func crashOnce(t *testing.T, n int64, policy crashfs.Policy, rng *rand.Rand) (finished bool) {
	fsys := newFS()
	fsys.CrashAt(n)
	var texts []string
	r, err := handle.Create(fsys, "keys", random(1))
	for i := 0; err == nil && i < 3; i++ {
		texts = append(texts, r.Seal(some()))
		err = r.Rotate(random(byte(10 + i)))
	}
	if err == nil {
		texts = append(texts, r.Seal(some()))
	}
	after := fsys.Crash(rng, policy)
	loaded, loadErr := handle.Load(after, "keys")
	if len(texts) == 0 && errors.Is(loadErr, fs.ErrNotExist) {
		_, loadErr = handle.Create(after, "keys", random(1))
		if loadErr == nil {
			return false
		}
	}
	if loadErr != nil {
		t.Fatalf("crash at %d, %v: %v", n, policy, loadErr)
	}
	for i, text := range texts {
		if _, err := loaded.Open(text); err != nil {
			t.Fatalf("crash at %d, %v: handle %d of %d is lost", n, policy, i, len(texts))
		}
	}
	return err == nil
}

// TestLoadMakesKeysDurable: a process dies between renaming the file and syncing the directory. The next one finds the
// new key and seals with it; a power cut must not take it back.
func TestLoadMakesKeysDurable(t *testing.T) {
	rotate := func(prepare func(*crashfs.FS)) (*crashfs.FS, error) {
		fsys := newFS()
		r, err := handle.Create(fsys, "keys", random(1))
		if err != nil {
			t.Fatal(err)
		}
		prepare(fsys)
		return fsys, r.Rotate(random(2))
	}
	renamed, syncDir := false, int64(0)
	if _, err := rotate(func(fsys *crashfs.FS) {
		fsys.SetInject(func(op crashfs.Op) error {
			renamed = renamed || op.Kind == crashfs.Rename
			if renamed && op.Kind == crashfs.SyncDir {
				syncDir = op.N
			}
			return nil
		})
	}); err != nil {
		t.Fatal(err)
	}
	fsys, err := rotate(func(fsys *crashfs.FS) { fsys.CrashAt(syncDir) })
	if err == nil {
		t.Fatal("Rotate came back alive")
	}
	killed := fsys.Kill()
	loaded, err := handle.Load(killed, "keys")
	if err != nil {
		t.Fatal(err)
	}
	if loaded.Newest() != 2 {
		t.Fatalf("newest key %d: the process did not die where it should", loaded.Newest())
	}
	text := loaded.Seal(some())
	again, err := handle.Load(killed.Crash(rand.New(rand.NewPCG(1, 1)), crashfs.Policy{}), "keys")
	if err != nil {
		t.Fatal(err)
	}
	mustOpen(t, again, text, some())
}

// TestRotateFaults fails every operation of Rotate in turn. The ring is as before; tried again it rotates, and the new
// key survives a power cut.
func TestRotateFaults(t *testing.T) {
	for n := int64(1); ; n++ {
		disk := newFS()
		fsys := faultfs.New(disk)
		r, err := handle.Create(fsys, "keys", random(1))
		if err != nil {
			t.Fatal(err)
		}
		fsys.Add(faultfs.Rule{Nth: n})
		before := r.Seal(some())
		err = r.Rotate(random(2))
		fired := fsys.Fired() > 0
		if fired && err == nil {
			t.Errorf("operation %d failed and nobody heard", n)
		}
		if err != nil && (r.Newest() != 1 || r.Seal(some()) != before) {
			t.Errorf("operation %d failed and the ring changed", n)
		}
		fsys.Clear()
		if err != nil {
			if err := r.Rotate(random(3)); err != nil {
				t.Errorf("operation %d failed; tried again: %v", n, err)
			}
		}
		loaded, err := handle.Load(disk.Crash(rand.New(rand.NewPCG(uint64(n), 1)), crashfs.Policy{}), "keys")
		if err != nil {
			t.Fatalf("operation %d failed: %v", n, err)
		}
		mustOpen(t, loaded, before, some())
		mustOpen(t, loaded, r.Seal(some()), some())
		if !fired {
			return
		}
	}
}

func TestHammerRing(t *testing.T) {
	r := newRing(t)
	first := r.Seal(some())
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			h := some()
			for i := range uint64(500) {
				h.ID = uint64(worker)<<32 | i
				text := r.Seal(h)
				got, err := r.Open(text)
				if h.KeyID = got.KeyID; err != nil || got != h {
					t.Errorf("got %+v, %v", got, err)
				}
				if _, err := r.Open(first); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range byte(20) {
		wg.Go(func() {
			if err := r.Rotate(random(i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if r.Newest() != 21 {
		t.Errorf("newest key %d after 20 rotations", r.Newest())
	}
}

func TestSealAndOpenAllocateLittle(t *testing.T) {
	if race {
		t.Skip("the race detector makes pools forget")
	}
	r := newRing(t)
	h := some()
	text := r.Seal(h)
	buf := make([]byte, 0, len(text))
	for _, c := range []struct {
		name string
		want float64
		fn   func()
	}{
		{"Seal", 1, func() { r.Seal(h) }},
		{"AppendSeal", 0, func() { buf = r.AppendSeal(buf[:0], h) }},
		{"Open", 0, func() { _, _ = r.Open(text) }},
	} {
		if n := testing.AllocsPerRun(100, c.fn); n > c.want {
			t.Errorf("%s: %v allocations, want %v", c.name, n, c.want)
		}
	}
}

// FuzzOpen: nothing that Seal did not make is opened, and nothing panics.
func FuzzOpen(f *testing.F) {
	r, err := handle.Create(newFS(), "keys", random(1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(r.Seal(some()))
	f.Add(r.Seal(handle.Handle{}))
	f.Add("tw1.")
	f.Fuzz(func(t *testing.T, text string) {
		h, err := r.Open(text)
		if err == nil && r.Seal(h) != text {
			t.Fatalf("opened %q, sealed it is %q", text, r.Seal(h))
		}
		if err != nil && err != handle.ErrForged {
			t.Fatal(err)
		}
	})
}

func BenchmarkSeal(b *testing.B) {
	r, h := newRing(b), some()
	b.ReportAllocs()
	for b.Loop() {
		r.Seal(h)
	}
	perSecond(b)
}

func BenchmarkAppendSeal(b *testing.B) {
	r, h := newRing(b), some()
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = r.AppendSeal(buf[:0], h)
	}
	perSecond(b)
}

func BenchmarkOpen(b *testing.B) {
	r := newRing(b)
	text := r.Seal(some())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Open(text); err != nil {
			b.Fatal(err)
		}
	}
	perSecond(b)
}

func BenchmarkOpenParallel(b *testing.B) {
	r := newRing(b)
	text := r.Seal(some())
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := r.Open(text); err != nil {
				b.Error(err)
				return
			}
		}
	})
	perSecond(b)
}

func perSecond(b *testing.B) {
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "handles/s")
}

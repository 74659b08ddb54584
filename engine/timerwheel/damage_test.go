package timerwheel_test

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/filetest"
	"github.com/tidewheel/tidewheel/engine/internal/golden"
	"github.com/tidewheel/tidewheel/engine/timerwheel"
)

// image is a ring on disk whose checkpoint holds no redo: everything is read from the file.
type image struct {
	file  []byte
	table []int
	slots []timerwheel.Slot
}

func newImage(t testing.TB) image {
	t.Helper()
	disk := newFS()
	w := open(t, disk, 1000)
	for _, n := range []int64{2, 5, 127, 130, 999} {
		w.Set(slot(n, uint32(n)))
	}
	checkpoint(t, w)
	return image{filetest.Read(t, disk, name), w.Table(), all(t, w)}
}

func (im image) load(t testing.TB, file []byte, table []int) (*timerwheel.Wheel, error) {
	t.Helper()
	disk := newFS()
	filetest.Write(t, disk, name, file)
	w := open(t, disk, 1000)
	return w, w.Load(table, nil)
}

func TestLoadDamage(t *testing.T) {
	im := newImage(t)
	be := binary.BigEndian
	at := func(index int) int { return header + index*timerwheel.SlotSize }
	header32 := func(off int, v uint32) func(b []byte) []byte {
		return func(b []byte) []byte { be.PutUint32(b[off:], v); sealHeader(b); return b }
	}
	onSlot := func(index int, change func(b []byte)) func(b []byte) []byte {
		return func(b []byte) []byte {
			s := b[at(index):][:timerwheel.SlotSize]
			change(s)
			sealSlot(s, int64(index))
			return b
		}
	}
	for _, c := range []struct {
		name    string
		corrupt func(b []byte) []byte
		offset  int
	}{
		{"empty file", func([]byte) []byte { return nil }, 0},
		{"ends in the header", func(b []byte) []byte { return b[:20] }, 20},
		{"magic", func(b []byte) []byte { b[3] ^= 1; return b }, 0},
		{"version 0", header32(8, 0), 8},
		{"slots of another ring", header32(12, 65536), 12},
		{"width of another ring", header32(20, 3_600_000), 12},
		{"ident of another store", header32(28, 7), 24},
		{"crc of the header", func(b []byte) []byte { b[32] ^= 0x80; return b }, 32},
		{"ends within a page", func(b []byte) []byte { return b[:at(130)+5] }, at(130) + 5},
		{"ends before a page", func(b []byte) []byte { return b[:at(128)] }, at(128)},
		{"time", func(b []byte) []byte { b[at(5)+7] ^= 1; return b }, at(5)},
		{"first", func(b []byte) []byte { b[at(5)+15] ^= 1; return b }, at(5)},
		{"last", func(b []byte) []byte { b[at(5)+20] ^= 1; return b }, at(5)},
		{"num", func(b []byte) []byte { b[at(5)+27] ^= 1; return b }, at(5)},
		{"crc of a slot", func(b []byte) []byte { b[at(5)+30] ^= 1; return b }, at(5)},
		{"a slot that was never used has a byte", func(b []byte) []byte { b[at(6)+9] = 1; return b }, at(6)},
		{"no entries, with a right crc", onSlot(5, func(b []byte) { be.PutUint32(b[24:], 0) }), at(5)},
		{"a time that belongs elsewhere, with a right crc", onSlot(5, func(b []byte) { be.PutUint64(b, 1006) }), at(5)},
		{"a slot behind the ring's end, with a right crc", func(b []byte) []byte {
			copy(b[at(1000):], b[at(2):][:timerwheel.SlotSize])
			sealSlot(b[at(1000):], 1000)
			return b
		}, at(1000)},
		{"two slots swapped", func(b []byte) []byte {
			x, y := b[at(2):at(3)], b[at(5):at(6)]
			for i := range x {
				x[i], y[i] = y[i], x[i]
			}
			return b
		}, at(2)},
		{"two pages swapped", func(b []byte) []byte {
			x, y := b[at(0):at(128)], b[at(128):at(256)]
			for i := range x {
				x[i], y[i] = y[i], x[i]
			}
			return b
		}, at(2)},
		{"a listed page of zeros", func(b []byte) []byte { clear(b[at(128):at(256)]); return b }, at(128)},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := im.load(t, c.corrupt(slices.Clone(im.file)), im.table)
			if bad := checkCorrupt(t, err); bad.Offset != int64(c.offset) {
				t.Errorf("%v: at byte %d, want %d", err, bad.Offset, c.offset)
			}
		})
	}
}

func TestLoadMissingFile(t *testing.T) {
	if err := open(t, newFS(), 1000).Load([]int{0}, nil); !errors.Is(err, corrupt.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	if err := open(t, newFS(), 1000).Load(nil, nil); err != nil {
		t.Errorf("a ring that was never used needs no file: %v", err)
	}
}

func TestLoadNewerVersion(t *testing.T) {
	im := newImage(t)
	b := slices.Clone(im.file)
	binary.BigEndian.PutUint32(b[8:], 2)
	sealHeader(b)
	_, err := im.load(t, b, im.table)
	if !errors.Is(err, timerwheel.ErrNewerFormat) || errors.Is(err, corrupt.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}

// A table that no checkpoint of this ring can hold.
func TestLoadBadTable(t *testing.T) {
	im := newImage(t)
	for _, table := range [][]int{{0, 0}, {1, 0}, {-1}, {8}, {0, 1 << 30}} {
		if _, err := im.load(t, im.file, table); !errors.Is(err, timerwheel.ErrPages) {
			t.Errorf("%v: got %v", table, err)
		}
	}
}

// What the table does not list is not read, and may be anything: it was cleared before the checkpoint.
func TestLoadIgnoresWhatIsNotListed(t *testing.T) {
	im := newImage(t)
	b := slices.Clone(im.file)
	for i := header + pageSize; i < header+2*pageSize; i++ {
		b[i] ^= 0x5a
	}
	w, err := im.load(t, b, []int{0, 7})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := w.Slot(130); ok {
		t.Error("slot 130 is there")
	}
	if w.DirtyBytes() != 0 {
		t.Errorf("%d bytes are dirty after a load from the file", w.DirtyBytes())
	}
}

// A page of the checkpoint's redo is taken from there, whatever the file has, and counts as changed.
func TestLoadPrefersRedo(t *testing.T) {
	disk := newFS()
	w := open(t, disk, 1000)
	w.Set(slot(3, 1))
	w.Set(slot(300, 1))
	checkpoint(t, w)
	w.Set(slot(3, 2))
	pages := w.Freeze()
	s := save(w, pages)

	file := filetest.Read(t, disk, name)
	for i := range pageSize { // torn by a write in place
		file[header+i] = byte(i)
	}
	filetest.Write(t, disk, name, file)
	w = open(t, disk, 1000)
	if err := s.load(w); err != nil {
		t.Fatal(err)
	}
	if got := all(t, w); !slices.Equal(got, []timerwheel.Slot{slot(3, 2), slot(300, 1)}) {
		t.Errorf("the ring has %v", got)
	}
	if w.DirtyBytes() != pageSize {
		t.Errorf("%d bytes are dirty, want the page of the redo", w.DirtyBytes())
	}
	again := w.Freeze()
	if err := w.Write(again); err != nil {
		t.Fatal(err)
	}
	s.redo = nil
	w = open(t, disk, 1000)
	if err := s.load(w); err != nil {
		t.Fatal("the torn page was not written again:", err)
	}
}

// Every bit of the file, one at a time: either damage with file and offset, or the same slots.
func TestEveryBit(t *testing.T) {
	im := newImage(t)
	bits := len(im.file) * 8
	step := 13 // odd: every bit of a byte has its turn
	if large() {
		step = 1
	}
	harmless := 0
	for bit := 0; bit < bits; bit += step {
		b := slices.Clone(im.file)
		b[bit/8] ^= 1 << (bit % 8)
		// Pages 2 to 6 are not listed.
		unlisted := bit/8 >= header+2*pageSize && bit/8 < header+7*pageSize
		reserved := bit/8 >= 36 && bit/8 < header
		if (unlisted || reserved) && bit%64 > 0 {
			continue // all alike
		}
		w, err := im.load(t, b, im.table)
		switch {
		case errors.Is(err, timerwheel.ErrNewerFormat) && bit/8 >= 8 && bit/8 < 12:
		case err != nil:
			checkCorrupt(t, err)
		case !unlisted && !reserved:
			t.Fatalf("bit %d of byte %d flipped: no error", bit%8, bit/8)
		case !slices.Equal(all(t, w), im.slots):
			t.Fatalf("bit %d of byte %d flipped: the ring has %v", bit%8, bit/8, all(t, w))
		default:
			harmless++
		}
	}
	if harmless == 0 {
		t.Error("no flip of a reserved byte was tried")
	}
}

func TestDecodePagesRefuses(t *testing.T) {
	redo := golden.Read(t, "redo")
	for _, b := range [][]byte{redo[:1], redo[:len(redo)-1], append(slices.Clone(redo), 0)} {
		if _, err := timerwheel.DecodePages(b); !errors.Is(err, timerwheel.ErrPages) {
			t.Errorf("%d bytes: %v", len(b), err)
		}
	}
	far := slices.Clone(redo)
	binary.BigEndian.PutUint64(far, 1<<40)
	if _, err := timerwheel.DecodePages(far); !errors.Is(err, timerwheel.ErrPages) {
		t.Errorf("page 2^40: %v", err)
	}
}

func TestDecodeTableRefuses(t *testing.T) {
	for _, b := range [][]byte{
		nil,
		{0x80},
		{2, 1},
		{1, 0x80},
		{0xff, 0xff, 0xff, 0xff, 0x0f, 1},       // longer than its bytes
		{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, // a page that cannot be
	} {
		if table, _, err := timerwheel.DecodeTable(b); !errors.Is(err, timerwheel.ErrPages) {
			t.Errorf("%x: %v, %v", b, table, err)
		}
	}
	for _, table := range [][]int{{}, {0}, {5}, {0, 1, 2, 9449}} {
		b := append(timerwheel.AppendTable(nil, table), "rest"...)
		got, rest, err := timerwheel.DecodeTable(b)
		if err != nil || !slices.Equal(got, table) || string(rest) != "rest" {
			t.Errorf("%v came back as %v, %q, %v", table, got, rest, err)
		}
	}
}

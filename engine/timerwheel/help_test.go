package timerwheel_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/filetest"
	"github.com/tidewheel/tidewheel/engine/timerlog"
	"github.com/tidewheel/tidewheel/engine/timerwheel"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

const (
	name      = "wheels/0/seconds"
	ident     = 0x0102030405060708
	header    = 4096
	pageSlots = 128
	pageSize  = pageSlots * timerwheel.SlotSize
)

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// large asks for more than plain go test: any volume above the plain one.
func large() bool { return os.Getenv("TIDEWHEEL_VOLUME") != "" }

func newFS() *crashfs.FS { return crashfs.New(crashfs.Options{}) }

func params(slots int) timerwheel.Params {
	return timerwheel.Params{Slots: slots, WidthMs: 1000, Ident: ident}
}

func open(t testing.TB, fsys vfs.FS, slots int) *timerwheel.Wheel {
	t.Helper()
	w, err := timerwheel.Open(fsys, name, params(slots))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// slot makes a slot whose places and count follow from its number and a version of it.
func slot(number int64, version uint32) timerwheel.Slot {
	return timerwheel.Slot{
		Time:  number,
		First: timerlog.Place{File: 1, Offset: 64 + 16*(number&0xffff)},
		Last:  timerlog.Place{File: 1 + int64(version), Offset: 64},
		Count: 1 + version,
	}
}

// saved is what a checkpoint holds of a ring.
type saved struct {
	table []byte
	redo  []byte
}

func save(w *timerwheel.Wheel, pages []timerwheel.Page) saved {
	return saved{timerwheel.AppendTable(nil, w.Table()), timerwheel.AppendPages(nil, pages)}
}

// load fills a ring from a checkpoint.
func (s saved) load(w *timerwheel.Wheel) error {
	table, rest, err := timerwheel.DecodeTable(s.table)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return errors.New("bytes behind the table")
	}
	redo, err := timerwheel.DecodePages(s.redo)
	if err != nil {
		return err
	}
	return w.Load(table, redo)
}

// checkpoint does what the engine does: copies of what changed, then in place. It returns the copies.
func checkpoint(t testing.TB, w *timerwheel.Wheel) saved {
	t.Helper()
	pages := w.Freeze()
	s := save(w, pages)
	if err := w.Write(pages); err != nil {
		t.Fatal(err)
	}
	w.Thaw(pages)
	return s
}

// all lists the occupied slots by index.
func all(t testing.TB, w *timerwheel.Wheel) (slots []timerwheel.Slot) {
	t.Helper()
	if err := w.Each(func(s timerwheel.Slot) error { slots = append(slots, s); return nil }); err != nil {
		t.Fatal(err)
	}
	return slots
}

func checkCorrupt(t testing.TB, err error) *corrupt.Error {
	t.Helper()
	return filetest.Corrupt(t, err, name)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealHeader gives the header a right CRC again.
func sealHeader(b []byte) {
	binary.BigEndian.PutUint32(b[32:], crc32.Checksum(b[:32], castagnoli))
}

// sealSlot gives the slot of an index, at the begin of b, a right CRC again.
func sealSlot(b []byte, index int64) {
	var at [8]byte
	binary.BigEndian.PutUint64(at[:], uint64(index))
	sum := crc32.Update(crc32.Checksum(at[:], castagnoli), castagnoli, b[:28])
	binary.BigEndian.PutUint32(b[28:], sum)
}

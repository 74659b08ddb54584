package timerwheel_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/filetest"
	"github.com/tidewheel/tidewheel/engine/internal/golden"
	"github.com/tidewheel/tidewheel/engine/timerwheel"
)

func FuzzDecodeTable(f *testing.F) {
	b := golden.Read(f, "table")
	f.Add(b)
	f.Add([]byte{0})
	f.Fuzz(func(t *testing.T, b []byte) {
		table, rest, err := timerwheel.DecodeTable(b)
		if err != nil {
			if !errors.Is(err, timerwheel.ErrPages) {
				t.Error(err)
			}
			return
		}
		again, none, err := timerwheel.DecodeTable(append(timerwheel.AppendTable(nil, table), rest...))
		if !slices.IsSorted(table) { // its distances went round the end of 64 bits; Load refuses it
			return
		}
		if err != nil || !slices.Equal(again, table) || !bytes.Equal(none, rest) {
			t.Errorf("%v became %v, %x, %v", table, again, none, err)
		}
	})
}

// FuzzDecodePages loads whatever the redo of a checkpoint may hold. What loads is encoded as it was.
func FuzzDecodePages(f *testing.F) {
	b := golden.Read(f, "redo")
	f.Add(b[:8+2*timerwheel.SlotSize], uint16(0))
	f.Add(make([]byte, 8+3*timerwheel.SlotSize), uint16(1))
	f.Fuzz(func(t *testing.T, b []byte, seal uint16) {
		if n := len(b) % (8 + pageSize); n > 8 { // the rest of a page is slots that were never used
			b = append(slices.Clone(b), make([]byte, 8+pageSize-n)...)
		}
		sealPages(b, seal)
		redo, err := timerwheel.DecodePages(b)
		if err != nil {
			if !errors.Is(err, timerwheel.ErrPages) {
				t.Error(err)
			}
			return
		}
		var table []int
		for _, p := range redo {
			table = append(table, p.Number)
		}
		w := open(t, newFS(), 2000)
		if err := w.Load(table, redo); err != nil {
			if !errors.Is(err, timerwheel.ErrPages) && !errors.Is(err, corrupt.ErrCorrupt) {
				t.Error(err)
			}
			return
		}
		if got := timerwheel.AppendPages(nil, w.Freeze()); !bytes.Equal(got, b) {
			t.Errorf("%x was encoded again as %x", b, got)
		}
	})
}

// sealPages gives some slots a right CRC, so that a fuzzer comes behind it: slot i of each page if bit i%16 of mask is set
// and the slot is not of zeros.
func sealPages(b []byte, mask uint16) {
	for ; len(b) >= 8+pageSize; b = b[8+pageSize:] {
		number := int64(binary.BigEndian.Uint64(b))
		for i := range pageSlots {
			s := b[8+i*timerwheel.SlotSize:][:timerwheel.SlotSize]
			if mask>>(i%16)&1 == 1 && !bytes.Equal(s, make([]byte, len(s))) {
				sealSlot(s, number*pageSlots+int64(i))
			}
		}
	}
}

// FuzzFile loads whatever may lie in the file: no panic, and no error but damage.
func FuzzFile(f *testing.F) {
	file := golden.Read(f, "file")
	f.Add(file[:36], file[header:header+100], byte(1))
	f.Add([]byte{}, []byte{}, byte(0))
	f.Fuzz(func(t *testing.T, head, slots []byte, seal byte) {
		file := append(append(make([]byte, 0, 2*header), head[:min(len(head), header)]...), make([]byte, header)...)[:header]
		binary.BigEndian.PutUint32(file[12:], 2000) // of this ring, else hardly any page is read
		file = append(file, slots[:min(len(slots), 2*pageSize)]...)
		if seal&1 == 1 {
			sealHeader(file)
		}
		for i := 0; seal&2 == 2 && header+(i+1)*timerwheel.SlotSize <= len(file); i++ {
			sealSlot(file[header+i*timerwheel.SlotSize:][:timerwheel.SlotSize], int64(i))
		}
		disk := newFS()
		filetest.Write(t, disk, name, file)
		w := open(t, disk, 2000)
		err := w.Load([]int{0}, nil)
		if err != nil && !errors.Is(err, corrupt.ErrCorrupt) && !errors.Is(err, timerwheel.ErrNewerFormat) {
			t.Error(err)
		}
		if err == nil && len(all(t, w)) == 0 {
			t.Error("a listed page gave no slot")
		}
	})
}

package timerwheel_test

import (
	"slices"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/filetest"
	"github.com/tidewheel/tidewheel/engine/internal/golden"
	"github.com/tidewheel/tidewheel/engine/timerlog"
	"github.com/tidewheel/tidewheel/engine/timerwheel"
)

type field = golden.Field

// goldenSlots are the second slot of page 0 and the last of page 9449, the last of the ring.
func goldenSlots() []timerwheel.Slot {
	return []timerwheel.Slot{
		{
			Time:  1_767_225_601, // 2026-01-01 00:00:01: index 1 of the lap
			First: timerlog.Place{File: 7, Offset: 64},
			Last:  timerlog.Place{File: 9, Offset: 13_400},
			Count: 300,
		},
		{Time: 1_767_225_600 - 1, First: timerlog.Place{File: 9, Offset: 64}, Last: timerlog.Place{File: 9, Offset: 64}, Count: 1},
	}
}

func goldenWheel(t testing.TB) (w *timerwheel.Wheel, s saved, file []byte) {
	t.Helper()
	disk := newFS()
	w = open(t, disk, 1_209_600)
	for _, s := range goldenSlots() {
		w.Set(s)
	}
	s = checkpoint(t, w)
	return w, s, filetest.Read(t, disk, name)
}

func slotFields(what string) []field {
	return []field{
		{8, what + ": time"}, {8, what + ": first"}, {8, what + ": last"}, {4, what + ": num"},
		{4, what + ": crc"},
	}
}

func TestGolden(t *testing.T) {
	_, s, file := goldenWheel(t)
	one := open(t, newFS(), 1_209_600)
	one.Set(goldenSlots()[0])
	golden.Check(t, "file", "the ring of seconds with two slots, of which the second is the last", 32, file, slices.Concat(
		[]field{
			{8, "magic"}, {4, "version"}, {4, "slots"}, {8, "width, ms"}, {8, "ident"}, {4, "crc"}, {header - 36, ""},
			{timerwheel.SlotSize, "slot 0 was never used"},
		},
		slotFields("slot 1"),
		[]field{{1_209_597 * timerwheel.SlotSize, ""}},
		slotFields("slot 1209599"),
	))
	golden.Check(t, "redo", "a page as a checkpoint holds it", 32, timerwheel.AppendPages(nil, one.Freeze()), slices.Concat(
		[]field{{8, "number of the page"}, {timerwheel.SlotSize, "slot 0 was never used"}},
		slotFields("slot 1"),
		[]field{{126 * timerwheel.SlotSize, ""}},
	))
	golden.Check(t, "table", "the table of pages 0 and 9449", 32, s.table, []field{
		{1, "how many"}, {1, "the first"}, {2, "distance to the next"},
	})
}

// The golden files can be read, not only written.
func TestGoldenReads(t *testing.T) {
	file := golden.Read(t, "file")
	table := golden.Read(t, "table")
	redo := golden.Read(t, "redo")
	for _, s := range []saved{{table, nil}, {table, redo}} {
		disk := newFS()
		filetest.Write(t, disk, name, file)
		w := open(t, disk, 1_209_600)
		if err := s.load(w); err != nil {
			t.Fatal(err)
		}
		if got := all(t, w); !slices.Equal(got, goldenSlots()) {
			t.Errorf("the ring has %v", got)
		}
	}
}

// The mission's TimerWheel is 1,209,600 slots of 32 bytes: 38,707,200, behind a header of one page.
func TestLiteralSize(t *testing.T) {
	disk := newFS()
	w := open(t, disk, 1_209_600)
	for page := range int64(9450) {
		w.Set(slot(page*pageSlots+page%pageSlots, 1))
	}
	if n := w.DirtyBytes(); n != 38_707_200 {
		t.Errorf("%d bytes are dirty", n)
	}
	s := checkpoint(t, w)
	info, err := disk.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(38_707_200 + header); info.Size != want {
		t.Errorf("the file has %d bytes, want %d", info.Size, want)
	}
	want := all(t, w)
	s.redo = nil
	w = open(t, disk, 1_209_600)
	if err := s.load(w); err != nil {
		t.Fatal(err)
	}
	if got := all(t, w); !slices.Equal(got, want) {
		t.Errorf("%d slots came back of %d, or others", len(got), len(want))
	}
}

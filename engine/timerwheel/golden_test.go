package timerwheel_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/timerlog"
	"github.com/tidewheel/tidewheel/engine/timerwheel"
)

var update = flag.Bool("update", false, "write the golden files")

// field is a run of bytes in a golden file; zeros is a run of zero bytes that the file only tells the length of.
type field struct {
	width int
	name  string
	zeros bool
}

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
	return w, s, readFile(t, disk, name)
}

func slotFields(what string) []field {
	return []field{
		{8, what + ": time", false}, {8, what + ": first", false}, {8, what + ": last", false}, {4, what + ": num", false},
		{4, what + ": crc", false},
	}
}

type golden struct {
	title  string
	b      []byte
	fields []field
}

func goldens(t testing.TB) map[string]golden {
	_, s, file := goldenWheel(t)
	one := open(t, newFS(), 1_209_600)
	one.Set(goldenSlots()[0])
	pages := one.Freeze()
	return map[string]golden{
		"file": {"the ring of seconds with two slots, of which the second is the last", file, slices.Concat(
			[]field{
				{8, "magic", false}, {4, "version", false}, {4, "slots", false}, {8, "width, ms", false}, {8, "ident", false},
				{4, "crc", false}, {header - 36, "", true},
				{timerwheel.SlotSize, "slot 0 was never used", false},
			},
			slotFields("slot 1"),
			[]field{{1_209_597 * timerwheel.SlotSize, "", true}},
			slotFields("slot 1209599"),
		)},
		"redo": {"a page as a checkpoint holds it", timerwheel.AppendPages(nil, pages), slices.Concat(
			[]field{{8, "number of the page", false}, {timerwheel.SlotSize, "slot 0 was never used", false}},
			slotFields("slot 1"),
			[]field{{126 * timerwheel.SlotSize, "", true}},
		)},
		"table": {"the table of pages 0 and 9449", s.table, []field{
			{1, "how many", false}, {1, "the first", false}, {2, "distance to the next", false},
		}},
	}
}

func (g golden) annotate(t *testing.T) string {
	t.Helper()
	var s strings.Builder
	fmt.Fprintf(&s, "# %s\n", g.title)
	b := g.b
	for _, f := range g.fields {
		if f.width > len(b) {
			t.Fatalf("%d bytes are left for %q of %d", len(b), f.name, f.width)
		}
		part := b[:f.width]
		b = b[f.width:]
		if !f.zeros {
			fmt.Fprintf(&s, "%-32x # %s\n", part, f.name)
			continue
		}
		if len(bytes.Trim(part, "\x00")) > 0 {
			t.Errorf("%d bytes before %x are not zero", f.width, b[:min(len(b), 8)])
		}
		fmt.Fprintf(&s, "zeros %d\n", f.width)
	}
	if len(b) > 0 {
		t.Errorf("%x is not described", b)
	}
	return s.String()
}

// readGolden returns text and bytes of a golden file.
func readGolden(t testing.TB, name string) (text string, b []byte) {
	t.Helper()
	file, err := os.ReadFile(filepath.Join("testdata", "golden", name+".hex"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(file)) {
		var zeros int
		if _, err := fmt.Sscanf(line, "zeros %d", &zeros); err == nil {
			b = append(b, make([]byte, zeros)...)
			continue
		}
		digits, _, _ := strings.Cut(line, "#")
		part, err := hex.DecodeString(strings.TrimSpace(digits))
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, part...)
	}
	return string(file), b
}

func TestGolden(t *testing.T) {
	for name, g := range goldens(t) {
		t.Run(name, func(t *testing.T) {
			text := g.annotate(t)
			if *update {
				if err := os.MkdirAll(filepath.Join("testdata", "golden"), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join("testdata", "golden", name+".hex"), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, b := readGolden(t, name)
			if text != want {
				t.Errorf("encoding changed; a new layout needs a new version. got:\n%s", text)
			}
			if !bytes.Equal(b, g.b) {
				t.Error("text and bytes of the golden file differ")
			}
		})
	}
}

// The golden files can be read, not only written.
func TestGoldenReads(t *testing.T) {
	_, file := readGolden(t, "file")
	_, table := readGolden(t, "table")
	_, redo := readGolden(t, "redo")
	for _, s := range []saved{{table, nil}, {table, redo}} {
		disk := newFS()
		writeFile(t, disk, name, file)
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

package timerlog_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/timerlog"
)

var update = flag.Bool("update", false, "write the golden files")

// field is a run of bytes in a golden file.
type field struct {
	width int
	name  string
}

func entryFields(name string) []field {
	return []field{
		{8, name + ": due"}, {8, name + ": id"}, {8, name + ": position"}, {4, name + ": size"}, {4, name + ": topic"},
		{4, name + ": queue"}, {4, name + ": tags"}, {8, name + ": key hash"}, {4, name + ": flags"},
	}
}

func groupFields(kind string) []field {
	return []field{
		{4, "group: magic"}, {4, "group: crc"}, {1, "group: kind: " + kind}, {1, "group: ring"}, {2, "group: reserved"},
		{4, "group: count"}, {8, "group: slot"}, {8, "group: prev file"}, {8, "group: prev offset"}, {8, "group: min due"},
		{8, "group: min id"}, {8, "group: max due"}, {8, "group: max id"}, {8, "group: length of the blocks"},
		{4, "block: crc"}, {2, "block: count"}, {2, "block: reserved"},
	}
}

func join(lists ...[]field) (out []field) {
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

// goldenLog writes a file with a spill, a group, and a second group of the same slot.
func goldenLog(t testing.TB) (l *timerlog.Log, refs []timerlog.Ref, file []byte) {
	t.Helper()
	disk := newFS()
	l, err := timerlog.Open(disk, dir, "hours", timerlog.Options{Ident: ident}, timerlog.State{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	a, b, c := sample(1_796_036_533_123, 77), sample(1_796_036_533_123, 78), sample(1_796_036_533_999, 40)
	spill := writeSpill(t, l, []timerlog.Entry{c, a})
	first, err := l.WriteGroup(timerlog.RingHours, 498_899, timerlog.Ref{}, []timerlog.Entry{a, c})
	if err != nil {
		t.Fatal(err)
	}
	next, err := l.WriteGroup(timerlog.RingHours, 498_899, first, []timerlog.Entry{b})
	if err != nil {
		t.Fatal(err)
	}
	return l, []timerlog.Ref{spill, first, next}, readFile(t, disk, dir+"/hours/00000000000000000001")
}

func goldens(t testing.TB) map[string]struct {
	title  string
	b      []byte
	fields []field
} {
	_, refs, file := goldenLog(t)
	type golden = struct {
		title  string
		b      []byte
		fields []field
	}
	return map[string]golden{
		"file": {"a spill and two groups of one slot of the ring of hours", file, join(
			[]field{
				{8, "file: magic"}, {4, "file: version"}, {4, "file: reserved"}, {16, "file: family"}, {8, "file: ident"},
				{8, "file: number"}, {12, "file: reserved"}, {4, "file: crc"},
			},
			groupFields("spill"), entryFields("c"), entryFields("a"),
			groupFields("group"), entryFields("a"), entryFields("c"),
			groupFields("group"), entryFields("b"),
		)},
		"ref": {"the ref of the last group in the file", timerlog.AppendRef(nil, refs[2]), []field{
			{8, "file"}, {8, "offset"}, {8, "length"}, {4, "count"}, {8, "min due"}, {8, "min id"}, {8, "max due"},
			{8, "max id"}, {1, "kind"}, {1, "ring"}, {2, "reserved"}, {8, "slot"},
		}},
		"state": {"the state of a family of two files", timerlog.AppendState(nil, timerlog.State{
			Files: []timerlog.FileState{{Number: 3, Length: 64}, {Number: 5, Length: 1000}},
		}), []field{
			{1, "number of files"}, {1, "number of the first"}, {1, "its length"}, {1, "distance to the next"}, {2, "its length"},
		}},
	}
}

func annotate(t *testing.T, title string, b []byte, fields []field) string {
	t.Helper()
	var s strings.Builder
	fmt.Fprintf(&s, "# %s\n", title)
	for _, f := range fields {
		if f.width > len(b) {
			t.Fatalf("%d bytes are left for %s", len(b), f.name)
		}
		fmt.Fprintf(&s, "%-32x # %s\n", b[:f.width], f.name)
		b = b[f.width:]
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
			text := annotate(t, g.title, g.b, g.fields)
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

// The golden file can be read, not only written.
func TestGoldenReads(t *testing.T) {
	_, file := readGolden(t, "file")
	_, b := readGolden(t, "ref")
	ref, err := timerlog.DecodeRef(b)
	if err != nil {
		t.Fatal(err)
	}
	disk := newFS()
	if err := disk.MkdirAll(dir+"/hours", 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, disk, dir+"/hours/00000000000000000001", file)
	l, err := timerlog.Open(disk, dir, "hours", timerlog.Options{Ident: ident},
		timerlog.State{Files: []timerlog.FileState{{Number: 1, Length: int64(len(file))}}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, second, c := sample(1_796_036_533_123, 77), sample(1_796_036_533_123, 78), sample(1_796_036_533_999, 40)
	checkAbove(t, l, ref, before, []timerlog.Entry{second})
	_, prev, err := l.Lookup(ref.Place())
	if err != nil {
		t.Fatal(err)
	}
	first, prev, err := l.Lookup(prev)
	if err != nil || prev != timerlog.NoPlace {
		t.Fatalf("%v, %v", prev, err)
	}
	checkAbove(t, l, first, before, []timerlog.Entry{a, c})
	spill, _, err := l.Lookup(timerlog.Place{File: 1, Offset: 64})
	if err != nil {
		t.Fatal(err)
	}
	checkEach(t, l, spill, []timerlog.Entry{c, a})
}

package timerlog_test

import (
	"slices"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/filetest"
	"github.com/tidewheel/tidewheel/engine/internal/golden"
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

type field = golden.Field

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
	return l, []timerlog.Ref{spill, first, next}, filetest.Read(t, disk, dir+"/hours/00000000000000000001")
}

func TestGolden(t *testing.T) {
	_, refs, file := goldenLog(t)
	golden.Check(t, "file", "a spill and two groups of one slot of the ring of hours", 32, file, slices.Concat(
		[]field{
			{8, "file: magic"}, {4, "file: version"}, {4, "file: reserved"}, {16, "file: family"}, {8, "file: ident"},
			{8, "file: number"}, {12, "file: reserved"}, {4, "file: crc"},
		},
		groupFields("spill"), entryFields("c"), entryFields("a"),
		groupFields("group"), entryFields("a"), entryFields("c"),
		groupFields("group"), entryFields("b"),
	))
	golden.Check(t, "ref", "the ref of the last group in the file", 32, timerlog.AppendRef(nil, refs[2]), []field{
		{8, "file"}, {8, "offset"}, {8, "length"}, {4, "count"}, {8, "min due"}, {8, "min id"}, {8, "max due"},
		{8, "max id"}, {1, "kind"}, {1, "ring"}, {2, "reserved"}, {8, "slot"},
	})
	golden.Check(t, "state", "the state of a family of two files", 32, timerlog.AppendState(nil, timerlog.State{
		Files: []timerlog.FileState{{Number: 3, Length: 64}, {Number: 5, Length: 1000}},
	}), []field{
		{1, "number of files"}, {1, "number of the first"}, {1, "its length"}, {1, "distance to the next"}, {2, "its length"},
	})
}

// The golden file can be read, not only written.
func TestGoldenReads(t *testing.T) {
	file := golden.Read(t, "file")
	b := golden.Read(t, "ref")
	ref, err := timerlog.DecodeRef(b)
	if err != nil {
		t.Fatal(err)
	}
	disk := newFS()
	if err := disk.MkdirAll(dir+"/hours", 0o700); err != nil {
		t.Fatal(err)
	}
	filetest.Write(t, disk, dir+"/hours/00000000000000000001", file)
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

package timerlog

import (
	"os"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// What no writer of ours can have written, though every CRC is right: damage, and never entries out of order.
func TestCraftedGroups(t *testing.T) {
	key := func(n int) Key { return Key{Due: int64(n)} }
	entries := func(from, n int) (es []Entry) {
		for i := range n {
			es = append(es, Entry{Key: key(from + i)})
		}
		return es
	}
	swapped := func(es []Entry, i, j int) []Entry {
		es[i], es[j] = es[j], es[i]
		return es
	}
	for _, c := range []struct {
		name     string
		kind     uint8
		min, max int
		prev     Place
		entries  []Entry
		reason   string
	}{
		{"good", KindGroup, 0, 299, NoPlace, entries(0, 300), ""},
		{"least key", KindGroup, 1, 299, NoPlace, entries(0, 300), "keys of the"},
		{"greatest key", KindGroup, 0, 300, NoPlace, entries(0, 300), "keys of the"},
		{"least key of a spill", KindSpill, 1, 299, NoPlace, entries(0, 300), "keys of the"},
		{"greatest key of a spill", KindSpill, 0, 300, NoPlace, entries(0, 300), "keys of the"},
		{"descending in a block", KindGroup, 100, 299, NoPlace, swapped(entries(0, 300), 0, 100), "do not ascend"},
		{"descending blocks", KindGroup, 0, 299, NoPlace, append(entries(0, 256), append(entries(100, 43), entries(299, 1)...)...),
			"do not ascend"},
		{"itself before it", KindGroup, 0, 299, Place{1, fileHeaderSize}, entries(0, 300), "not an older one"},
		{"a newer one before it", KindGroup, 0, 299, Place{2, fileHeaderSize}, entries(0, 300), "not an older one"},
		{"a file header before it", KindGroup, 0, 299, Place{1, 0}, entries(0, 300), "not an older one"},
		{"half a place before it", KindGroup, 0, 299, Place{-1, fileHeaderSize}, entries(0, 300), "not an older one"},
		{"unknown kind", 3, 0, 299, NoPlace, entries(0, 300), "unknown kind 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := crashfs.New(crashfs.Options{})
			l, err := Open(fsys, "timerlog", "loose", Options{}, State{})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			good, err := l.WriteSpill(entries(0, 300))
			if err != nil {
				t.Fatal(err)
			}
			ref := good
			ref.Kind, ref.Min, ref.Max = c.kind, key(c.min), key(c.max)
			var tmp [20]byte
			b, group := appendGroupHeader(nil, &tmp, ref, c.prev)
			b = appendBlock(b, &tmp, Place{1, ref.Offset + int64(len(b))}, group, c.entries[:256])
			b = appendBlock(b, &tmp, Place{1, ref.Offset + int64(len(b))}, group, c.entries[256:])
			f, err := fsys.OpenFile(l.fileName(1), os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt(b, ref.Offset); err != nil {
				t.Fatal(err)
			}

			check := func(how string, err error) {
				t.Helper()
				if c.reason == "" && err != nil || c.reason != "" && (err == nil || !strings.Contains(err.Error(), c.reason)) {
					t.Errorf("%s: got %v, want %q", how, err, c.reason)
				}
			}
			if _, _, err := l.Lookup(ref.Place()); err != nil {
				check("lookup", err)
				return
			}
			if c.kind == KindSpill || c.reason == "" {
				check("each", l.Each(ref, func(Entry) error { return nil }))
			}
			if c.kind == KindSpill {
				return
			}
			cur, err := l.Cursor(ref, Key{Due: -1})
			for ok := true; ok && err == nil; {
				_, ok, err = cur.Next()
			}
			check("cursor", err)
		})
	}
}

// A block that is not what the search found there, because a read went wrong once, is not read from its start: entries
// before it would be passed over.
func TestSearchMisled(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	l, err := Open(fsys, "timerlog", "loose", Options{}, State{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var es []Entry
	for i := range 1000 {
		es = append(es, Entry{Key: Key{Due: int64(i)}})
	}
	ref, err := l.WriteGroup(RingLoose, NoSlot, Ref{}, es)
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.Cursor(ref, Key{Due: 300})
	if err != nil || c.next != 1 {
		t.Fatalf("block %d, %v", c.next, err)
	}
	c.next = 2
	if e, _, err := c.Next(); err == nil || !strings.Contains(err.Error(), "changed while it was searched") {
		t.Errorf("got %+v, %v", e, err)
	}
}

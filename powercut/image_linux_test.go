package powercut

import (
	"math/rand/v2"
	"testing"
)

// sectorSize is what a disk writes whole or not at all.
const sectorSize = 512

// cut returns the disk as a power cut after the first n events may leave it: start, all that was flushed, and of every
// write since the last flush a random subset of its sectors, in random order (of two versions of a sector either may
// survive). keep, 0 to 100, is how many sectors of a hundred survive.
func cut(start *memory, events []event, n int, r *rand.Rand, keep int) *memory {
	img := start.clone()
	var pending []event
	for _, e := range events[:n] {
		switch e.kind {
		case 'w':
			pending = append(pending, e)
		case 'f':
			for _, p := range pending {
				img.writeAt(p.data, p.off)
			}
			pending = pending[:0]
		}
	}
	r.Shuffle(len(pending), func(i, j int) { pending[i], pending[j] = pending[j], pending[i] })
	for _, p := range pending {
		for o := 0; o < len(p.data); o += sectorSize {
			if r.IntN(100) < keep {
				img.writeAt(p.data[o:min(o+sectorSize, len(p.data))], p.off+int64(o))
			}
		}
	}
	return img
}

// cutPlace chooses where to cut: half of the time right behind a promise, where an early one shows.
func cutPlace(events []event, r *rand.Rand) int {
	if r.IntN(2) == 0 {
		var promises []int
		for i, e := range events {
			if e.kind == 'p' {
				promises = append(promises, i+1)
			}
		}
		if len(promises) > 0 {
			return promises[r.IntN(len(promises))]
		}
	}
	return r.IntN(len(events) + 1)
}

func TestCutKeepsWhatWasFlushed(t *testing.T) {
	const sectors = 64
	sector := func(b byte) []byte {
		s := make([]byte, sectorSize)
		for i := range s {
			s[i] = b
		}
		return s
	}
	events := []event{
		{kind: 'w', off: 0, data: append(sector(1), sector(1)...)},
		{kind: 'f'},
		{kind: 'w', off: sectorSize, data: append(sector(2), sector(2)...)},
		{kind: 'w', off: sectorSize, data: sector(3)},
		{kind: 'f'},
	}
	seen := map[[3]byte]int{}
	for seed := range uint64(200) {
		img := cut(newMemory(sectors*sectorSize), events, 4, rand.New(rand.NewPCG(seed, 0)), 50)
		var got [3]byte
		for i := range got {
			b := make([]byte, sectorSize)
			img.readAt(b, int64(i)*sectorSize)
			for _, c := range b {
				if c != b[0] {
					t.Fatalf("seed %d: sector %d is torn", seed, i)
				}
			}
			got[i] = b[0]
		}
		if got[0] != 1 {
			t.Fatalf("seed %d: the flushed sector has %d", seed, got[0])
		}
		seen[got]++
	}
	for _, second := range []byte{1, 2, 3} {
		for _, third := range []byte{0, 2} {
			if seen[[3]byte{1, second, third}] == 0 {
				t.Errorf("no image of 200 has sectors 1, %d, %d: %v", second, third, seen)
			}
		}
	}
	if img := cut(newMemory(sectors*sectorSize), events, 5, rand.New(rand.NewPCG(0, 0)), 0); img.readAt(make([]byte, 1), 0) != 1 {
		t.Error("cannot read")
	} else if b := make([]byte, 1); img.readAt(b, sectorSize) != 1 || b[0] != 3 {
		t.Errorf("after the flush the sector has %d, want the last write", b[0])
	}
}

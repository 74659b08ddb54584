package bench

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// span is the sequence numbers [from, to).
type span [2]int

// bitmap is a set of sequence numbers that takes a bit each and grows by pages. It is safe for concurrent use.
type bitmap struct {
	mu    sync.RWMutex
	pages []*bitPage
}

const (
	pageWords   = 8 << 10
	pageNumbers = pageWords * 64
)

type bitPage [pageWords]uint64

// add puts a number in; true when it was in already.
func (b *bitmap) add(n int) (again bool) {
	bit := uint64(1) << (n % 64)
	return atomic.OrUint64(&b.page(n / pageNumbers)[n%pageNumbers/64], bit)&bit != 0
}

// addSpan puts numbers in.
func (b *bitmap) addSpan(s span) {
	for n := s[0]; n < s[1]; n++ {
		b.add(n)
	}
}

func (b *bitmap) page(i int) *bitPage {
	b.mu.RLock()
	if i < len(b.pages) {
		defer b.mu.RUnlock()
		return b.pages[i]
	}
	b.mu.RUnlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	for i >= len(b.pages) {
		b.pages = append(b.pages, new(bitPage))
	}
	return b.pages[i]
}

// has says whether a number is in.
func (b *bitmap) has(n int) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	i := n / pageNumbers
	return i < len(b.pages) && atomic.LoadUint64(&b.pages[i][n%pageNumbers/64])>>(n%64)&1 != 0
}

// count is how many are in.
func (b *bitmap) count() int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	sum := 0
	for _, p := range b.pages {
		for i := range p {
			sum += bits.OnesCount64(atomic.LoadUint64(&p[i]))
		}
	}
	return sum
}

// spans lists what is in. Little is missing, as a rule, so it is short.
func (b *bitmap) spans() []span {
	b.mu.RLock()
	end := len(b.pages) * pageNumbers
	b.mu.RUnlock()
	var list []span
	for n := 0; n < end; n++ {
		switch last := len(list) - 1; {
		case !b.has(n):
		case last >= 0 && list[last][1] == n:
			list[last][1]++
		default:
			list = append(list, span{n, n + 1})
		}
	}
	return list
}

// ledger is the account of a load. It is safe for concurrent use, but for judge.
type ledger struct {
	acked bitmap // answered: stored
	seen  bitmap // read
	twice atomic.Int64
	early atomic.Int64
	alien atomic.Int64 // numbers that were never sent
}

// saw notes that a number was read at a place where nothing was read before.
func (l *ledger) saw(n int) {
	if l.seen.add(n) {
		l.twice.Add(1)
	}
}

// judge counts what went wrong.
func (l *ledger) judge() (lost, twice, early int) {
	for i, p := range l.acked.pages {
		var seen bitPage
		if i < len(l.seen.pages) {
			seen = *l.seen.pages[i]
		}
		for j, w := range p {
			lost += bits.OnesCount64(w &^ seen[j])
		}
	}
	return lost, int(l.twice.Load() + l.alien.Load()), int(l.early.Load())
}

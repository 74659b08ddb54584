package bench

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestLedgerJudge(t *testing.T) {
	type want struct{ lost, twice, early int }
	for name, c := range map[string]struct {
		story func(l *ledger)
		want  want
	}{
		"nothing": {func(*ledger) {}, want{}},
		"all there": {func(l *ledger) {
			l.acked.addSpan(span{0, 1000})
			for n := range 1000 {
				l.saw(n)
			}
		}, want{}},
		"one lost": {func(l *ledger) {
			l.acked.addSpan(span{0, 1000})
			for n := range 999 {
				l.saw(n)
			}
		}, want{lost: 1}},
		"a page lost": {func(l *ledger) {
			l.acked.addSpan(span{0, pageNumbers + 3})
			for n := range pageNumbers {
				l.saw(n)
			}
		}, want{lost: 3}},
		"stored without an answer": {func(l *ledger) {
			l.acked.addSpan(span{0, 10})
			for n := range 12 {
				l.saw(n)
			}
		}, want{}},
		"twice": {func(l *ledger) {
			l.acked.addSpan(span{0, 2})
			l.saw(0)
			l.saw(1)
			l.saw(1)
		}, want{twice: 1}},
		"never sent": {func(l *ledger) { l.alien.Add(2) }, want{twice: 2}},
		"early":      {func(l *ledger) { l.early.Add(3) }, want{early: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			l := new(ledger)
			c.story(l)
			var got want
			got.lost, got.twice, got.early = l.judge()
			if got != c.want {
				t.Errorf("judged %+v, want %+v", got, c.want)
			}
		})
	}
}

// A bitmap that many goroutines fill holds what they put in, and says of each number to exactly one of them that it is new.
func TestHammerBitmap(t *testing.T) {
	const numbers, goroutines = 3 * pageNumbers, 4
	var b bitmap
	var wg sync.WaitGroup
	var fresh [goroutines]int
	for g := range goroutines {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(g)))
			for range 200_000 {
				if !b.add(r.IntN(numbers)) {
					fresh[g]++
				}
			}
		})
	}
	wg.Wait()
	sum, inSpans := 0, 0
	for _, n := range fresh {
		sum += n
	}
	for _, s := range b.spans() {
		inSpans += s[1] - s[0]
	}
	if b.count() != sum || inSpans != sum {
		t.Errorf("%d were new, %d are counted, %d are in the spans", sum, b.count(), inSpans)
	}
}

func TestBitmapSpans(t *testing.T) {
	var b bitmap
	b.addSpan(span{5, 10})
	b.addSpan(span{10, 11})
	b.addSpan(span{pageNumbers - 1, pageNumbers + 2})
	want := []span{{5, 11}, {pageNumbers - 1, pageNumbers + 2}}
	if got := b.spans(); !slices.Equal(got, want) {
		t.Errorf("spans %v, want %v", got, want)
	}
}

// Percentiles are those of the sorted values, to 1 %, and never above the greatest.
func TestHistogram(t *testing.T) {
	h := new(histogram)
	if h.times() != nil {
		t.Error("an empty histogram has times")
	}
	r := rand.New(rand.NewPCG(7, 7))
	values := make([]int64, 50_000)
	for i := range values {
		values[i] = int64(float64(1) + r.ExpFloat64()*float64(int64(1)<<r.IntN(22)))
		h.add(time.Duration(values[i]) * time.Microsecond)
	}
	slices.Sort(values)
	got := h.times()
	for _, c := range []struct {
		perMille int
		got      float64
	}{{500, got.P50}, {990, got.P99}, {999, *got.P999}, {1000, *got.Max}} {
		want := ms(values[(len(values)*c.perMille+999)/1000-1])
		if c.got < want || c.got > want*1.01+0.001 {
			t.Errorf("%d per mille is %.3f ms, want %.3f", c.perMille, c.got, want)
		}
	}
}

func TestHistogramBuckets(t *testing.T) {
	for _, us := range []int64{-1, 0, 1, 127, 128, 255, 256, 257, 1000, 1 << 20, 1<<32 - 1, 1 << 40} {
		b := bucketOf(us)
		if b < 0 || b >= buckets {
			t.Fatalf("%d µs is in bucket %d of %d", us, b, buckets)
		}
		in := min(max(us, 0), 1<<32-1)
		if end := bucketEnd(b); end < in || float64(end) > float64(in)*1.01 || b > 0 && bucketEnd(b-1) >= in {
			t.Errorf("%d µs is in bucket %d, which ends at %d, after one that ends at %d", us, b, end, bucketEnd(b-1))
		}
	}
}

func TestBody(t *testing.T) {
	const nonce = "0123456789abcdef"
	want := letter{123_456, 1_800_000_000_123}
	b := append(appendBody(nil, nonce, want), "...."...)
	if got, err := parseBody(b, nonce); got != want || err != nil {
		t.Errorf("parsed %+v, %v; want %+v", got, err, want)
	}
	for name, b := range map[string][]byte{
		"short":         b[:minBody-1],
		"another run":   append([]byte("f123456789abcdef"), b[nonceSize:]...),
		"no hex":        append(append([]byte(nil), b[:nonceSize]...), make([]byte, 2*nonceSize)...),
		"great numbers": appendBody(nil, nonce, letter{maxNumbers, 0}),
	} {
		if l, err := parseBody(b, nonce); err == nil {
			t.Errorf("%s: parsed %+v", name, l)
		}
	}
}

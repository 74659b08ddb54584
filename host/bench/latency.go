package bench

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// histogram counts times in buckets that are 1 % wide, from a microsecond to an hour. It is safe for concurrent use.
type histogram struct {
	buckets [buckets]atomic.Int64
	max     atomic.Int64 // µs
}

const (
	subBits = 7 // 128 buckets for each doubling
	buckets = (32 - subBits + 1) << subBits
)

// bucketOf is the bucket of a time in µs.
func bucketOf(us int64) int {
	us = min(max(us, 0), 1<<32-1)
	shift := max(bits.Len64(uint64(us))-subBits-1, 0)
	return shift<<subBits + int(us>>shift)
}

// bucketEnd is the greatest time of a bucket, µs.
func bucketEnd(bucket int) int64 {
	if bucket < 2<<subBits {
		return int64(bucket)
	}
	shift := bucket>>subBits - 1
	return int64(bucket-shift<<subBits+1)<<shift - 1
}

func (h *histogram) add(d time.Duration) {
	us := d.Microseconds()
	h.buckets[bucketOf(us)].Add(1)
	for {
		old := h.max.Load()
		if us <= old || h.max.CompareAndSwap(old, us) {
			return
		}
	}
}

// times is the histogram in figures; nil when it is empty.
func (h *histogram) times() *Times {
	total := int64(0)
	for i := range h.buckets {
		total += h.buckets[i].Load()
	}
	if total == 0 {
		return nil
	}
	at := func(perMille int64) float64 {
		rank, sum := (total*perMille+999)/1000, int64(0)
		for i := range h.buckets {
			if sum += h.buckets[i].Load(); sum >= rank {
				return ms(min(bucketEnd(i), h.max.Load()))
			}
		}
		return ms(h.max.Load())
	}
	t := &Times{P50: at(500), P99: at(990)}
	p999, max := at(999), ms(h.max.Load())
	t.P999, t.Max = &p999, &max
	return t
}

func ms(us int64) float64 { return float64(us) / 1000 }

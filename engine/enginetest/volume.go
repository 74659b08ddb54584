package enginetest

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// Volume is how much a sweep does.
type Volume int

// The volumes.
const (
	Plain    Volume = iota // as part of go test: seconds
	CI                     // TIDEWHEEL_VOLUME=ci: minutes
	Campaign               // TIDEWHEEL_VOLUME=campaign: an hour
)

// ReadVolume reads TIDEWHEEL_VOLUME. An unknown word is a failure of the test: a sweep that silently does little is
// worse than none.
func ReadVolume(t testing.TB) Volume {
	t.Helper()
	switch v := os.Getenv("TIDEWHEEL_VOLUME"); v {
	case "":
		return Plain
	case "ci":
		return CI
	case "campaign":
		return Campaign
	default:
		t.Fatalf("TIDEWHEEL_VOLUME is %q, allowed are ci and campaign", v)
		return Plain
	}
}

// Pick returns the number for the volume.
func (v Volume) Pick(plain, ci, campaign int) int {
	return [...]int{plain, ci, campaign}[v]
}

// Seed reads TIDEWHEEL_SEED; ok is false without it.
func Seed(t testing.TB) (seed uint64, ok bool) {
	t.Helper()
	text := os.Getenv("TIDEWHEEL_SEED")
	if text == "" {
		return 0, false
	}
	seed, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		t.Fatalf("TIDEWHEEL_SEED is %q: %v", text, err)
	}
	return seed, true
}

// Seeds calls run for the seeds from to from+n-1, or for TIDEWHEEL_SEED alone, as many at once as there are
// processors. After the first error no new seed is begun; the error of the smallest seed that failed is reported with
// the way to replay it. It returns how many seeds were run.
func Seeds(t *testing.T, from uint64, n int, run func(seed uint64) error) int {
	t.Helper()
	if seed, ok := Seed(t); ok {
		from, n = seed, 1
	}
	var next, done atomic.Int64
	var mu sync.Mutex
	failed := map[uint64]error{}
	var wg sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for {
				i := next.Add(1) - 1
				mu.Lock()
				stop := len(failed) > 0
				mu.Unlock()
				if i >= int64(n) || stop {
					return
				}
				seed := from + uint64(i)
				if err := guard(func() error { return run(seed) }); err != nil {
					mu.Lock()
					failed[seed] = err
					mu.Unlock()
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	if len(failed) > 0 {
		first := ^uint64(0)
		for seed := range failed {
			first = min(first, seed)
		}
		t.Fatalf("seed %d: %v\nreplay: TIDEWHEEL_SEED=%d go test -run '^%s$'", first, failed[first], first, t.Name())
	}
	return int(done.Load())
}

// guard turns a panic, which is a bug of the engine or of the test, into an error with its stack.
func guard(run func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			buf := make([]byte, 16<<10)
			err = fmt.Errorf("panic: %v\n%s", p, buf[:runtime.Stack(buf, false)])
		}
	}()
	return run()
}

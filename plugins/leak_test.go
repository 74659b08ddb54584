package plugins_test

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

// usage is what the process holds.
type usage struct {
	heap, rss, fds, goroutines int64
}

func measure() usage {
	runtime.GC()
	runtime.GC()
	var ms runtime.MemStats
	runtime.ReadMemStats(&ms)
	u := usage{heap: int64(ms.HeapAlloc), goroutines: int64(runtime.NumGoroutine())}
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		if f := strings.Fields(string(text)); len(f) > 1 {
			pages, _ := strconv.ParseInt(f[1], 10, 64)
			u.rss = pages * int64(os.Getpagesize())
		}
	}
	if list, err := os.ReadDir("/proc/self/fd"); err == nil {
		u.fds = int64(len(list))
	}
	return u
}

// TestNothingLeaks: reloads, deaths and calls leave the process as it was. TIDEWHEEL_VOLUME=ci makes it the full volume.
func TestNothingLeaks(t *testing.T) {
	reloads, traps, calls := 20, 200, 20_000
	if os.Getenv("TIDEWHEEL_VOLUME") == "ci" {
		reloads, traps, calls = 200, 2000, 300_000
	} else if testing.Short() {
		reloads, traps, calls = 5, 50, 2000
	}
	r := open(t, plugins.Options{CacheDir: t.TempDir()})
	s := spec()
	s.Policy.QuarantineAfter = 1 << 30
	p := load(t, r, plugintest.Scripted(), s)
	var a plugins.Answer
	work := func(reloads, traps, calls int) {
		for range reloads {
			m, err := r.Load(ctx, plugintest.Scripted(), s)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Swap(m); err != nil {
				t.Fatal(err)
			}
			if err := p.Decide(ctx, filter, bodies("a"), &a); err != nil {
				t.Fatal(err)
			}
		}
		poison, fine := bodies("a", "!", "d"), bodies("a", "d", "a", "d")
		for range traps {
			if err := p.Decide(ctx, filter, poison, &a); err != nil {
				t.Fatal(err)
			}
		}
		for range calls {
			if err := p.Decide(ctx, filter, fine, &a); err != nil {
				t.Fatal(err)
			}
		}
	}
	work(3, 20, 100) // what is made once: both generations, the answer
	before := measure()
	work(reloads, traps, calls)
	after := measure()
	t.Logf("%d reloads, %d traps, %d calls: before %+v, after %+v", reloads, traps, calls, before, after)
	// The heap holds at most one more instance than before; RSS is what the collector has not given back yet.
	if after.heap > before.heap+4<<20 || after.rss > before.rss+64<<20 || after.fds > before.fds+2 || after.goroutines > before.goroutines+2 {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if n := p.Stats().Instances; n > 1 {
		t.Errorf("%d instances are open, 1 is allowed", n)
	}
}

package plugins_test

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
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

// TestNothingLeaks: reloads, deaths and calls leave the process as it was, whatever the guest is written in.
// TIDEWHEEL_VOLUME=ci makes it the full volume, and adds the Go guest, whose every death costs a start of some milliseconds.
func TestNothingLeaks(t *testing.T) {
	full := os.Getenv("TIDEWHEEL_VOLUME") == "ci"
	t.Run("assembled", func(t *testing.T) {
		noLeak(t, plugintest.Scripted(), spec(), "!", volume(full, 200, 2000, 300_000))
	})
	for name, build := range map[string]func(testing.TB) []byte{"c": buildC, "as": buildAS} {
		t.Run(name, func(t *testing.T) {
			s := spec()
			s.Grants = plugins.Grants{JSON: true, Headers: true, Match: true}
			noLeak(t, build(t), s, "!", volume(full, 200, 2000, 300_000))
		})
	}
	t.Run("go", func(t *testing.T) {
		if !full {
			t.Skip("only with TIDEWHEEL_VOLUME=ci")
		}
		noLeak(t, buildGo(t), goSpec(), "w", volume(full, 10, 200, 300_000))
	})
}

// work is how much a plugin has to do.
type work struct{ reloads, traps, calls int }

func volume(full bool, reloads, traps, calls int) work {
	switch {
	case full:
		return work{reloads, traps, calls}
	case testing.Short():
		return work{reloads / 40, traps / 40, calls / 150}
	}
	return work{reloads / 10, traps / 10, calls / 15}
}

// noLeak has a plugin work and compares the process before and after. The body poison kills an instance.
func noLeak(t *testing.T, module []byte, s plugins.Spec, poison string, w work) {
	r := open(t, plugins.Options{CacheDir: t.TempDir()})
	s.Policy.QuarantineAfter = 1 << 30
	p := load(t, r, module, s)
	deadly, fine := bodies("a", poison, "d"), bodies("a", "d", "a", "d")
	var a plugins.Answer
	ask := func(records []abi.Record, deaths int) {
		t.Helper()
		if err := p.Decide(ctx, filter, records, &a); err != nil || a.Deaths != deaths {
			t.Fatalf("%d deaths, want %d: %v", a.Deaths, deaths, err)
		}
	}
	do := func(w work) {
		for range w.reloads {
			m, err := r.Load(ctx, module, s)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Swap(m); err != nil {
				t.Fatal(err)
			}
			ask(fine, 0)
		}
		for range w.traps {
			ask(deadly, 1)
		}
		for range w.calls {
			ask(fine, 0)
		}
	}
	do(work{3, 20, 100}) // what is made once: both generations, the answer
	before := measure()
	do(w)
	after := measure()
	t.Logf("%+v: before %+v, after %+v", w, before, after)
	// The heap holds at most one more instance than before; RSS is what the collector has not given back yet.
	if after.heap > before.heap+s.Limits.MemoryMax+3<<20 || after.rss > before.rss+64<<20 || after.fds > before.fds+2 || after.goroutines > before.goroutines+2 {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if n := p.Stats().Instances; n > 1 {
		t.Errorf("%d instances are open, 1 is allowed", n)
	}
}

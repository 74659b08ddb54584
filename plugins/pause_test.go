package plugins_test

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

// chaser is a filter of loads that each wait for the one before, over 8 MiB in an order that no prefetcher guesses: the most
// time that can be had for a unit of fuel.
func chaser() []byte {
	m := plugintest.Guest()
	m.Func("_initialize", "", "$n:i32 $p:i32", `
		i32.const 254 memory.grow drop
		loop $l
			local.get $p i32.const 4 i32.shl i32.const 0x100000 i32.add
			local.get $p i32.const 1664525 i32.mul i32.const 12345 i32.add i32.const 0x7ffff i32.and local.tee $p
			i32.const 4 i32.shl i32.const 0x100000 i32.add i32.store
			local.get $n i32.const 1 i32.add local.tee $n i32.const 0x80000 i32.lt_u br_if $l
		end`)
	m.Hook("tw_filter", `i32.const 0x100000 local.set $x loop local.get $x `+strings.Repeat("i32.load ", 2000)+` local.tee $x br_if 0 end i64.const 1`)
	return m.Bytes()
}

// TestOthersGoOn: while a guest burns its whole budget and collections follow one another, another goroutine goes on. Without
// the slices of package fuel the whole process stood still for each call: 0.15 s for divisions, 4 s for the chaser.
func TestOthersGoOn(t *testing.T) {
	if testing.Short() {
		t.Skip("burns seconds")
	}
	for name, guest := range map[string][]byte{
		"loop":   attack("loop br 0 end", nil),
		"divide": attack("loop "+strings.Repeat("i64.const 3 i64.const 7 i64.div_u drop ", 8000)+" br 0 end", nil),
		"fill":   attack("loop i32.const 0 i32.const 0 i32.const 65536 memory.fill br 0 end", nil),
		"chase":  chaser(),
	} {
		t.Run(name, func(t *testing.T) {
			s := spec()
			s.Limits.FuelPerRecord, s.Limits.MemoryMax, s.Policy.QuarantineAfter = 9_900_000, 16<<20, 1<<30
			switch name {
			case "chase":
				s.Limits.FuelPerRecord = 2_000_000
			case "loop", "fill": // so that a call takes longer than a collection
				s.Limits.FuelPerRecord, s.Limits.FuelCallMax = 150_000_000, 200_000_000
			}
			p := load(t, open(t, plugins.Options{}), guest, s)
			var calls, collections, late []time.Duration
			stop := make(chan struct{})
			repeat := func(f func(), took *[]time.Duration) func() {
				return func() {
					for {
						select {
						case <-stop:
							return
						default:
							t0 := time.Now()
							f()
							*took = append(*took, time.Since(t0))
						}
					}
				}
			}
			var wg sync.WaitGroup
			var a plugins.Answer
			var turn atomic.Int64 // odd during a call
			within := 0           // collections that began and ended during one call
			wg.Go(repeat(func() {
				turn.Add(1)
				p.Decide(ctx, filter, bodies("a"), &a)
				turn.Add(1)
			}, &calls))
			wg.Go(repeat(func() {
				at := turn.Load()
				runtime.GC()
				if at%2 == 1 && turn.Load() == at {
					within++
				}
			}, &collections))
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			begin := time.Now()
			for last := begin; time.Since(begin) < time.Second; last = time.Now() {
				<-tick.C
				late = append(late, max(0, time.Since(last)-time.Millisecond))
			}
			close(stop)
			wg.Wait()
			if f := a.Decisions[0].Failure; f == nil || f.Class != plugins.ClassFuel {
				t.Errorf("the guest did not burn its budget: %v", f)
			}
			at := func(all []time.Duration, share int) time.Duration {
				slices.Sort(all)
				return all[(len(all)-1)*share/100]
			}
			t.Logf("a call takes %v; a collection %v, p99 %v; another goroutine is late by %v, p99 %v, at most %v",
				at(calls, 50), at(collections, 50), at(collections, 99), at(late, 50), at(late, 99), at(late, 100))
			// A collection has to stop the world for a moment. If a call could not be stopped, none would end before the call does.
			if within == 0 {
				t.Errorf("%d collections, none of them within a call", len(collections))
			}
		})
	}
}

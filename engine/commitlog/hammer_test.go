package commitlog_test

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// TestLogHammer runs every thread of a host at once: the writer, the one that syncs, jobs, readers of records and of
// whole ranges, and one that drops segments under them.
func TestLogHammer(t *testing.T) {
	const batches = 2000
	fsys := crashfs.New(crashfs.Options{})
	opts := commitlog.Options{SegmentSize: 16 << 10, TailSize: 8 << 10, Reserve: 1}
	x := newTester(t, fsys, opts)
	x.mustOpen()

	var (
		wg      sync.WaitGroup
		done    atomic.Bool
		mu      sync.Mutex
		written []entry // what readers may look for
		reads   atomic.Int64
		gone    atomic.Int64
		jobs    = make(chan func() error, 1)
	)
	run := func(name string, do func() error) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for !done.Load() {
				if err := do(); err != nil {
					t.Errorf("%s: %v", name, err)
					done.Store(true)
				}
				runtime.Gosched()
			}
		}()
	}
	run("sync", func() error {
		end, err := x.log.Sync()
		if d := x.log.Durable(); err == nil && d < end {
			return errors.New("the durable end moved back")
		}
		return err
	})
	run("jobs", func() error {
		select {
		case job := <-jobs:
			return job()
		default:
			return nil
		}
	})
	for i := range 3 {
		r := random(uint64(i))
		var buf []byte
		run("reader", func() error {
			mu.Lock()
			n := len(written)
			if n == 0 {
				mu.Unlock()
				return nil
			}
			e := written[max(n-1-r.IntN(200), 0)]
			mu.Unlock()
			for _, want := range e.recs {
				got, b, err := x.log.ReadRecord(want.pos, r.IntN(2)*want.size, buf)
				buf = b
				switch {
				case errors.Is(err, commitlog.ErrOutOfLog) && want.pos < x.log.First():
					gone.Add(1)
					return nil
				case err != nil:
					return err
				case string(got.Payload) != want.payload:
					return errors.New("a record differs")
				}
				reads.Add(1)
			}
			raw := make([]byte, e.end-e.base)
			if err := x.log.ReadRaw(e.base, raw); err != nil && !errors.Is(err, commitlog.ErrOutOfLog) {
				return err
			}
			return nil
		})
	}
	run("lists", func() error {
		segs := x.log.Segments()
		for i := 1; i < len(segs); i++ {
			if segs[i-1].End != segs[i].Base {
				return errors.New("a gap between segments")
			}
		}
		if len(segs) > 6 {
			return x.log.DropBefore(segs[len(segs)-3].Base)
		}
		return nil
	})

	must(t, hammerWriter(x, &done, jobs, batches, func(e entry) {
		mu.Lock()
		written = append(written, e)
		mu.Unlock()
	}))
	done.Store(true)
	wg.Wait()
	must(t, x.flush())
	t.Logf("%d reads, %d of dropped records", reads.Load(), gone.Load())
	for len(x.all) > 0 && x.all[0].base < x.log.First() {
		x.all = x.all[1:]
	}
	must(t, x.log.Close())
	x.fs = fsys.Kill()
	x.mustOpen()
	must(t, same(x.seen, x.all))
}

// hammerWriter is the writer: it appends, commits now and then, and hands jobs over.
func hammerWriter(x *tester, done *atomic.Bool, jobs chan<- func() error, batches int, publish func(entry)) error {
	r := rand.New(rand.NewPCG(9, 9))
	offer := func(job func() error) {
		select {
		case jobs <- job:
		default:
		}
	}
	for n := 0; n < batches && !done.Load(); {
		var err error
		switch room := x.log.Room(2000); room {
		case commitlog.Fits:
			if err = x.batch(0, kindMessage, 1+r.IntN(600), 1+r.IntN(600)); err == nil {
				n++
				publish(x.all[len(x.all)-1])
			}
		case commitlog.NeedsState:
			err = x.state(2)
		case commitlog.NeedsSeal:
			err = x.seal()
		case commitlog.NotReady:
			err = x.log.Commit()
			runtime.Gosched()
		}
		if err == nil && r.IntN(3) == 0 {
			err = x.log.Commit()
		}
		if err != nil {
			return err
		}
		switch {
		case x.log.RotateNeeded():
			offer(x.log.Rotate)
		case x.log.SpareNeeded():
			offer(x.log.PrepareSpare)
		case x.log.ReserveMissing() > 0:
			offer(x.log.PrepareReserve)
		case r.IntN(50) == 0:
			d, ms := x.log.Durable(), int64(n)
			offer(func() error { return x.log.WriteMark(d, ms) })
		}
	}
	return nil
}

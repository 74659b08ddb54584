package engine_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter"
)

// The benchmarks run on the disk of the temporary directory; docs/performance.md has figures and commands.

// bench is a store on a real disk. Its wall clock is moved by the benchmark, its running time is real.
type bench struct {
	*engine.Solo
	tb  testing.TB
	fs  vfs.FS
	dir string
	now int64
}

func newBench(tb testing.TB, opts engine.Options) *bench {
	tb.Helper()
	s := &bench{tb: tb, dir: tb.TempDir(), now: 1_800_000_000_000}
	root, err := fsadapter.OpenRoot(s.dir)
	if err != nil {
		tb.Fatal(err)
	}
	s.fs = fsadapter.New(root)
	s.open(opts)
	return s
}

func (s *bench) env() engine.Env {
	start := time.Now()
	return engine.Env{FS: s.fs, Wall: func() int64 { return s.now }, Mono: func() int64 { return int64(time.Since(start)) }}
}

func (s *bench) open(opts engine.Options) {
	s.tb.Helper()
	solo, err := engine.OpenSolo(s.env(), ".", opts)
	if err != nil {
		s.tb.Fatal(err)
	}
	s.Solo = solo
	s.tb.Cleanup(func() {
		if err := solo.Close(); err != nil && !errors.Is(err, engine.ErrClosed) {
			s.tb.Error(err)
		}
	})
}

// drain does what others do beside the writer: syncs, releases and jobs.
func (s *bench) drain() {
	s.tb.Helper()
	if _, err := s.Step(); err != nil {
		s.tb.Fatal(err)
	}
}

// append appends and writes a batch, without a sync. What the writer does not do itself (the sync at the end of a segment,
// jobs) is done when the engine asks for it, outside of the time that is measured.
func (s *bench) append(b *testing.B, cmds []engine.Command) int {
	b.Helper()
	for {
		answers, _, err := s.Append(cmds)
		if err == nil && answers[0].Err != nil {
			err = answers[0].Err
		}
		switch {
		case errors.Is(err, engine.ErrBusy), errors.Is(err, engine.ErrBacklog):
			if err := s.Commit(); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			s.drain()
			b.StartTimer()
			continue
		case err != nil:
			b.Fatal(err)
		}
		if err := s.Commit(); err != nil {
			b.Fatal(err)
		}
		return len(answers)
	}
}

// benchPut is how a message of a benchmark waits.
type benchPut struct {
	name    string
	level   int
	delayMs int64
}

var benchPuts = []benchPut{{"visible", 0, 0}, {"level", 5, 0}, {"timed", 0, 3_600_000}}

// messages makes n commands of so many bytes each.
func (p benchPut) messages(n, size int) []engine.Command {
	cmds := make([]engine.Command, n)
	for i := range cmds {
		c := &engine.Put{Topic: "orders", Queue: engine.AnyQueue, Level: p.level, Body: make([]byte, size)}
		if p.delayMs > 0 {
			c.DelayMs = p.delayMs + int64(i)*7919%p.delayMs // in no order
		}
		cmds[i] = c
	}
	return cmds
}

func perSecond(b *testing.B, n int) {
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkAppend decides, encodes, folds and writes batches of 100 messages of 200 B, without fsync.
func BenchmarkAppend(b *testing.B) {
	for _, p := range benchPuts {
		b.Run(p.name, func(b *testing.B) {
			s := newBench(b, engine.Options{Reserve: -1})
			cmds := p.messages(100, 200)
			s.append(b, cmds)
			b.ReportAllocs()
			b.ResetTimer()
			n := 0
			for n < b.N {
				s.now++
				n += s.append(b, cmds)
			}
			perSecond(b, n)
		})
	}
}

// BenchmarkAppendSync makes messages of 200 B durable. With alone each batch of so many has its own fsync, and the writer
// waits for it; with beside the writer goes on while one fsync runs, as host/broker does, so that the next has all batches
// that came meanwhile, up to 16.
func BenchmarkAppendSync(b *testing.B) {
	for _, batch := range []int{100, 1000} {
		b.Run(fmt.Sprintf("alone/batch=%d", batch), func(b *testing.B) { benchSyncAlone(b, batch) })
	}
	b.Run("beside/batch=100", benchSyncBeside)
}

func benchSyncAlone(b *testing.B, batch int) {
	s := newBench(b, engine.Options{Reserve: -1})
	cmds := benchPut{}.messages(batch, 200)
	s.append(b, cmds)
	b.ReportAllocs()
	b.ResetTimer()
	n, groups := 0, 0
	for n < b.N {
		for left := cmds; len(left) > 0; { // a batch has at most 256 KiB
			k := s.append(b, left)
			n, left = n+k, left[k:]
		}
		pos, err := s.Sync()
		if err != nil {
			b.Fatal(err)
		}
		s.Release(pos)
		groups++
	}
	perSecond(b, n)
	b.ReportMetric(float64(n)/float64(groups), "records/fsync")
}

func benchSyncBeside(b *testing.B) {
	s := newBench(b, engine.Options{Reserve: -1})
	cmds := benchPut{}.messages(100, 200)
	s.append(b, cmds)
	const most = 16
	written := make(chan int, most) // records of each batch
	var wg sync.WaitGroup
	durable, groups := 0, 0
	syncer := func() {
		defer wg.Done()
		for n := range written {
			for more := true; more; {
				select {
				case k, ok := <-written:
					n, more = n+k, ok
				default:
					more = false
				}
			}
			pos, err := s.Sync()
			if err != nil {
				b.Error(err)
			}
			s.Release(pos)
			durable, groups = durable+n, groups+1
		}
	}
	wg.Add(1)
	go syncer()
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; {
		answers, _, err := s.Append(cmds)
		if err == nil {
			err = answers[0].Err
		}
		if errors.Is(err, engine.ErrBusy) || errors.Is(err, engine.ErrBacklog) {
			close(written) // the end of a segment: the syncer has to stand still for jobs
			wg.Wait()
			if err := s.Commit(); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			s.drain()
			b.StartTimer()
			written = make(chan int, most)
			wg.Add(1)
			go syncer()
			continue
		}
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Commit(); err != nil {
			b.Fatal(err)
		}
		n += len(answers)
		written <- len(answers)
	}
	close(written)
	wg.Wait()
	perSecond(b, durable)
	b.ReportMetric(float64(durable)/float64(max(groups, 1)), "records/fsync")
}

// BenchmarkDurableKiB makes groups of 100 messages of 1 KiB durable, one fsync each, by turns with a loop that writes as many
// bytes into a preallocated file and calls fdatasync: what the disk can do in the same seconds.
func BenchmarkDurableKiB(b *testing.B) {
	s := newBench(b, engine.Options{Reserve: -1})
	cmds := benchPut{}.messages(100, 1024)
	s.append(b, cmds)
	s.drain()
	before := s.Stats().End
	s.append(b, cmds)
	group := make([]byte, s.Stats().End-before) // with all that the log adds
	raw := newRaw(b, s.fs)
	var engineTime, rawTime time.Duration
	var latencies []time.Duration
	n, rawN := 0, 0
	b.ReportAllocs()
	b.ResetTimer()
	for n < b.N {
		start := time.Now()
		for range 8 {
			n += s.appendOrDrain(b, cmds, &start)
			pos, err := s.Sync()
			if err != nil {
				b.Fatal(err)
			}
			s.Release(pos)
		}
		engineTime += time.Since(start)
		b.StopTimer()
		for range 8 {
			start := time.Now()
			raw.write(b, group)
			latencies = append(latencies, time.Since(start))
			rawN += len(cmds)
		}
		b.StartTimer()
	}
	b.StopTimer()
	for _, l := range latencies {
		rawTime += l
	}
	slices.Sort(latencies)
	own, other := float64(n)/engineTime.Seconds(), float64(rawN)/rawTime.Seconds()
	b.ReportMetric(own, "records/s")
	b.ReportMetric(other, "raw-records/s")
	b.ReportMetric(100*own/other, "%raw")
	b.ReportMetric(float64(latencies[len(latencies)/2].Microseconds()), "fsync-us")
}

// appendOrDrain is append for a benchmark with a clock of its own, which is moved on by what it does not count.
func (s *bench) appendOrDrain(b *testing.B, cmds []engine.Command, clock *time.Time) int {
	b.Helper()
	before := b.Elapsed()
	wall := time.Now()
	n := s.append(b, cmds)
	*clock = clock.Add(time.Since(wall) - (b.Elapsed() - before))
	return n
}

// raw is a preallocated file that is written from begin to end, again and again.
type raw struct {
	f        vfs.File
	at, size int64
}

func newRaw(b *testing.B, fsys vfs.FS) *raw {
	b.Helper()
	f, err := fsys.OpenFile("raw", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = f.Close() })
	r := &raw{f: f, size: 128 << 20}
	if err := vfs.Preallocate(f, r.size); err != nil {
		b.Skipf("the file system cannot preallocate: %v", err)
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	return r
}

func (r *raw) write(b *testing.B, p []byte) {
	b.Helper()
	if r.at+int64(len(p)) > r.size {
		r.at = 0
	}
	if _, err := r.f.WriteAt(p, r.at); err != nil {
		b.Fatal(err)
	}
	r.at += int64(len(p))
	if err := vfs.SyncData(r.f); err != nil {
		b.Fatal(err)
	}
}

// fill stores n messages that wait or are visible, and makes them durable.
func (s *bench) fill(p benchPut, n, size int) {
	s.tb.Helper()
	cmds := p.messages(1000, size)
	for n > 0 {
		answers, err := s.Do(cmds[:min(len(cmds), n)]...)
		if err != nil {
			s.tb.Fatal(err)
		}
		for _, a := range answers {
			if errors.Is(a.Err, engine.ErrBacklog) {
				s.drain()
				continue
			}
			if a.Err != nil {
				s.tb.Fatal(a.Err)
			}
			n--
		}
		s.now++
	}
	s.drain()
}

// BenchmarkFire delivers messages that are due, in chunks of 1,024, with a write each and a sync every 64 chunks.
func BenchmarkFire(b *testing.B) {
	for _, p := range benchPuts[1:] {
		b.Run(p.name, func(b *testing.B) {
			const most = 1 << 20
			s := newBench(b, engine.Options{Reserve: -1})
			b.ReportAllocs()
			fired, left := 0, 0
			for fired < b.N {
				if left == 0 {
					b.StopTimer()
					left = min(b.N-fired, most)
					s.fill(p, left, 16)
					s.now += 3 * 3_600_000
					b.StartTimer()
				}
				status := s.Tick()
				if status.Err != nil {
					b.Fatal(status.Err)
				}
				if err := s.Commit(); err != nil {
					b.Fatal(err)
				}
				fired, left = fired+status.Fired, left-status.Fired
				if len(status.Jobs) > 0 || status.Blocked {
					b.StopTimer()
					pos, err := s.Sync()
					if err != nil {
						b.Fatal(err)
					}
					s.Release(pos)
					for _, job := range status.Jobs {
						_ = job.Run() // Install hears of it
						for !s.Install(job) {
						}
					}
					b.StartTimer()
				}
			}
			perSecond(b, fired)
		})
	}
}

// BenchmarkPull reads messages of 200 B that lie in the tail of the log, in memory.
func BenchmarkPull(b *testing.B) {
	for _, count := range []int{32, 1024} {
		b.Run(fmt.Sprintf("count=%d", count), func(b *testing.B) {
			s := newBench(b, engine.Options{Reserve: -1, Queues: 1})
			const stored = 64 << 10 // 20 MiB of the 32 that the tail holds
			s.fill(benchPut{}, stored, 200)
			var p engine.Pulled
			req := engine.PullRequest{Topic: "orders", MaxCount: count, MaxBytes: 4 << 20}
			b.ReportAllocs()
			b.ResetTimer()
			n := 0
			for n < b.N {
				if err := s.Pull(req, &p); err != nil {
					b.Fatal(err)
				}
				if len(p.Messages) == 0 {
					req.Offset = 0
					continue
				}
				for i := range p.Messages {
					if p.Messages[i].Err != nil {
						b.Fatal(p.Messages[i].Err)
					}
				}
				n, req.Offset = n+len(p.Messages), p.Next
			}
			perSecond(b, n)
		})
	}
}

// BenchmarkOpen opens a store: with 64 MiB of log behind the checkpoint (messages of 300 B, half of them waiting), and with
// nothing to fold: a million messages wait in schedule queues, or half a million in memtables, which are read again.
func BenchmarkOpen(b *testing.B) {
	opts := engine.Options{Reserve: -1, CheckpointEvery: 1 << 30}
	b.Run("replay=64MiB", func(b *testing.B) {
		s := newBench(b, opts)
		for s.Stats().End < 64<<20 {
			s.fill(benchPut{}, 10_000, 300)
			s.fill(benchPut{level: 18}, 5000, 300)
			s.fill(benchPut{delayMs: 5_000_000}, 5000, 300)
		}
		s.reopen(b, opts, 63<<20)
	})
	for _, c := range []struct {
		name string
		put  benchPut
		n    int
	}{{"levels", benchPut{level: 18}, 1_000_000}, {"timed", benchPut{delayMs: 5_000_000}, 500_000}} {
		b.Run("replay=0/"+c.name, func(b *testing.B) {
			s := newBench(b, opts)
			s.fill(c.put, c.n, 16)
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			if err := engine.Rebuild(s.env(), ".", opts); err != nil { // makes a checkpoint at the end
				b.Fatal(err)
			}
			s.open(opts)
			s.reopen(b, opts, 0)
		})
	}
}

// reopen opens a store again and again, and wants so many bytes of log to be folded each time, or none.
func (s *bench) reopen(b *testing.B, opts engine.Options, least int64) {
	b.Helper()
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	replayed := int64(0)
	for b.Loop() {
		e, err := engine.Open(s.env(), ".", opts)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		replayed = e.Stats().Replayed
		if err := e.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	if replayed < least || least == 0 && replayed > 0 {
		b.Fatalf("%d bytes were folded, want %d", replayed, least)
	}
	b.ReportMetric(float64(replayed)/(1<<20), "MiB-folded")
}

// BenchmarkIdleTick is what a Tick costs when nothing is due and a million messages wait.
func BenchmarkIdleTick(b *testing.B) {
	s := newBench(b, engine.Options{Reserve: -1})
	s.fill(benchPut{level: 18}, 500_000, 16)
	s.fill(benchPut{delayMs: 5_000_000}, 500_000, 16)
	s.drain()
	b.ReportAllocs()
	for b.Loop() {
		if status := s.Tick(); status.Fired > 0 || status.Err != nil {
			b.Fatal(status.Fired, status.Err)
		}
	}
}

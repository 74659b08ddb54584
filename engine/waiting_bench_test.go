package engine_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/handle"
	"github.com/tidewheel/tidewheel/engine/timerlog"
	"github.com/tidewheel/tidewheel/fsadapter"
)

// BenchmarkWaiting is what millions of waiting messages cost: it stores TIDEWHEEL_WAITING of them (1,000,000) with 200 B
// bodies, due uniformly over the next 7 days, then cancels and moves some at random, is reopened without a clean stop, and
// fires. It does so once: run it with -benchtime 1x. TIDEWHEEL_PROFILE=edge takes the edge profile.
//
//	go test ./engine -run xxx -bench Waiting -benchtime 1x
func BenchmarkWaiting(b *testing.B) {
	count := 1_000_000
	if text := os.Getenv("TIDEWHEEL_WAITING"); text != "" {
		var err error
		if count, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	opts, limit := engine.Options{Reserve: -1}, int64(220<<20)
	if os.Getenv("TIDEWHEEL_PROFILE") == "edge" {
		opts.Profile, limit = engine.ProfileEdge, 48<<20
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit)) // as a host does, from the budgets
	d := &driver{b: b, dir: b.TempDir(), opts: opts, now: 1_800_000_000_000, start: time.Now(), r: rand.New(rand.NewPCG(1, 2))}
	d.open()
	const rounds = 10 // by turns, so that both meet the same disk
	var plain, timed time.Duration
	visible := min(count, 1_000_000)
	for range rounds {
		plain += d.fill(visible/rounds, false)
		timed += d.fill(count/rounds, true)
	}
	b.ReportMetric(float64(visible)/plain.Seconds(), "plain_puts/s")
	b.ReportMetric(float64(count)/timed.Seconds(), "timed_puts/s")
	d.settle()
	slices.Sort(d.calls)
	b.ReportMetric(float64(d.calls[len(d.calls)*99/100].Microseconds()), "writer_p99_µs")
	b.ReportMetric(float64(d.calls[len(d.calls)-1].Microseconds()), "writer_max_µs")
	st := d.s.Stats()
	b.ReportMetric(float64(d.bytes("commitlog", "mark")-0)/1e6, "log_MB")
	b.ReportMetric(float64(d.bytes("timerlog")+d.bytes("timerwheel")+d.bytes("statebits")+d.bytes("checkpoint"))/float64(st.Pending), "disk_B/waiting")
	b.ReportMetric(d.idle(), "idle_tick_µs")
	n := min(count/4, 200_000)
	b.ReportMetric(d.cancel(n), "cancels/s")
	b.ReportMetric(d.move(n/4), "moves/s")
	d.handles, d.calls = nil, nil
	debug.FreeOSMemory() // of the handles and the calls
	b.ReportMetric(rssMiB(b, "VmRSS"), "rss_MiB")
	d.reopen() // as after a kill: nothing is flushed at the end
	b.ReportMetric(d.opened.Seconds()*1000, "reopen_ms")
	b.ReportMetric(float64(d.s.Stats().Replayed)/1e6, "replayed_MB")
	dropCaches(b)
	read, before := readBytes(b), d.s.Stats()
	b.ReportMetric(d.fire(6*time.Hour), "fired_cold/s")
	after := d.s.Stats()
	fromDisk := (after.Fired - before.Fired) - int64(before.InMemory-after.InMemory)
	b.ReportMetric(float64(readBytes(b)-read)/float64(fromDisk*timerlog.EntrySize), "read/entry")
	b.ReportMetric(rssMiB(b, "VmHWM"), "rss_peak_MiB")
	d.settle()
	d.check(d.s.Close())
}

// driver is a host in small: one goroutine for the engine, one for its syncs, one for its jobs.
type driver struct {
	b      *testing.B
	dir    string
	opts   engine.Options
	now    int64
	start  time.Time
	r      *rand.Rand
	s      *engine.Solo
	opened time.Duration
	calls  []time.Duration // of the writer

	synced  chan engine.Offset // nil while no sync runs
	jobs    chan *engine.Job
	running int
	handles []handle.Handle
	seen    int // handles that were offered to keep
}

func (d *driver) check(err error) {
	if err != nil {
		d.b.Helper()
		d.b.Fatal(err)
	}
}

func (d *driver) open() {
	root, err := fsadapter.OpenRoot(d.dir)
	d.check(err)
	env := engine.Env{
		FS:   fsadapter.New(root),
		Wall: func() int64 { return d.now },
		Mono: func() int64 { return int64(time.Since(d.start)) },
	}
	began := time.Now()
	d.s, err = engine.OpenSolo(env, ".", d.opts)
	d.check(err)
	d.opened = time.Since(began)
	d.jobs = make(chan *engine.Job, 16)
}

func (d *driver) reopen() {
	d.settle()
	d.check(d.s.Close())
	d.open()
}

// timed runs a call of the writer and notes how long it took.
func (d *driver) timed(call func()) {
	began := time.Now()
	call()
	d.calls = append(d.calls, time.Since(began))
}

// pump writes what was appended and keeps one sync running.
func (d *driver) pump() {
	d.timed(func() { d.check(d.s.Commit()) })
	if d.synced == nil {
		d.synced = make(chan engine.Offset, 1)
		go func(to chan<- engine.Offset) {
			pos, err := d.s.Sync()
			if err != nil {
				panic(err)
			}
			to <- pos
		}(d.synced)
	}
	select {
	case pos := <-d.synced:
		d.s.Release(pos)
		d.synced = nil
	default:
	}
}

// tick ticks, starts jobs, and installs those that are done.
func (d *driver) tick() engine.Status {
	var st engine.Status
	d.timed(func() { st = d.s.Tick() })
	d.check(st.Err)
	d.run(st.Jobs)
	for {
		select {
		case j := <-d.jobs:
			for done := false; !done; {
				d.timed(func() { done = d.s.Install(j) })
			}
			d.running--
		default:
			return st
		}
	}
}

// run starts jobs.
func (d *driver) run(jobs []*engine.Job) {
	for _, j := range jobs {
		d.running++
		go func() {
			_ = j.Run()
			d.jobs <- j
		}()
	}
}

// settle waits for the sync and the jobs under way.
func (d *driver) settle() {
	for d.running > 0 || d.synced != nil || d.s.Released() < d.s.Stats().End {
		d.pump()
		d.tick()
		runtime.Gosched()
	}
}

// do appends commands, as many as the engine takes, and returns how many.
func (d *driver) do(cmds []engine.Command, see func(i int, a engine.Answer)) int {
	var answers []engine.Answer
	var err error
	d.timed(func() { answers, _, err = d.s.Append(cmds) })
	if errors.Is(err, engine.ErrBusy) {
		d.pump()
		d.tick()
		runtime.Gosched()
		return 0
	}
	d.check(err)
	for i, a := range answers {
		if errors.Is(a.Err, engine.ErrBacklog) {
			d.pump()
			d.tick()
			return i
		}
		d.check(a.Err)
		see(i, a)
	}
	d.pump()
	return len(answers)
}

// fill stores messages in batches of 100, durable in groups, and returns how long it took.
func (d *driver) fill(count int, waits bool) time.Duration {
	cmds, body := make([]engine.Command, 100), make([]byte, 200)
	began := time.Now()
	for done, ticked := 0, 0; done < count; {
		for i := range cmds {
			p := &engine.Put{Topic: "t", Queue: engine.AnyQueue, Body: body}
			if waits {
				p.DueMs = d.now + 1000 + d.r.Int64N(7*24*3600_000-1000)
			}
			cmds[i] = p
		}
		done += d.do(cmds[:min(100, count-done)], func(_ int, a engine.Answer) {
			if waits {
				d.keep(a.Handle())
			}
		})
		if done-ticked >= 1000 {
			d.tick()
			ticked = done
		}
	}
	for d.s.Released() < d.s.Stats().End {
		d.pump()
		runtime.Gosched()
	}
	return time.Since(began)
}

// keep remembers a sample of the handles, not more than are used: they would count as the store's memory.
func (d *driver) keep(h handle.Handle) {
	const most = 260_000
	if d.seen++; len(d.handles) < most {
		d.handles = append(d.handles, h)
	} else if i := d.r.IntN(d.seen); i < most {
		d.handles[i] = h
	}
}

// take draws a handle that was not drawn before.
func (d *driver) take() handle.Handle {
	i, last := d.r.IntN(len(d.handles)), len(d.handles)-1
	h := d.handles[i]
	d.handles[i], d.handles = d.handles[last], d.handles[:last]
	return h
}

func (d *driver) cancel(count int) float64 {
	return d.each(count, func() engine.Command { return &engine.Cancel{Handle: d.take()} }, engine.Cancelled)
}

func (d *driver) move(count int) float64 {
	return d.each(count, func() engine.Command {
		h := d.take()
		record, err := d.s.ReadPending(h)
		d.check(err)
		return &engine.Move{Handle: h, DueMs: d.now + 1000 + d.r.Int64N(7*24*3600_000-1000), Record: record}
	}, engine.Moved)
}

func (d *driver) each(count int, command func() engine.Command, want engine.Outcome) float64 {
	var cmds []engine.Command
	began := time.Now()
	for done := 0; done < count; {
		for len(cmds) < 100 {
			cmds = append(cmds, command())
		}
		n := d.do(cmds, func(_ int, a engine.Answer) {
			if a.Outcome != want {
				d.b.Fatalf("outcome %d, want %d", a.Outcome, want)
			}
		})
		cmds = cmds[n:]
		if done += n; done%10_000 < 100 {
			d.tick()
		}
	}
	return float64(count) / time.Since(began).Seconds()
}

// idle is how long a Tick takes that finds nothing to do, in µs.
func (d *driver) idle() float64 {
	const n = 2000
	began := time.Now()
	for range n {
		st := d.s.Tick()
		if st.Fired > 0 {
			d.b.Fatal("something is due")
		}
		d.run(st.Jobs)
	}
	return float64(time.Since(began).Microseconds()) / n
}

// fire lets time pass and returns how many messages fired in a second.
func (d *driver) fire(pass time.Duration) float64 {
	d.now += pass.Milliseconds()
	fired := 0
	began := time.Now()
	for {
		st := d.tick()
		fired += st.Fired
		d.pump()
		if st.Fired == 0 && !st.Blocked && st.Next > d.now {
			break
		}
	}
	return float64(fired) / time.Since(began).Seconds()
}

// bytes is what files of the named directories take on disk.
func (d *driver) bytes(names ...string) (sum int64) {
	for _, name := range names {
		_ = filepath.WalkDir(filepath.Join(d.dir, name), func(_ string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				if info, err := e.Info(); err == nil {
					sum += allocated(info)
				}
			}
			return nil
		})
	}
	return sum
}

// dropCaches makes the system read files from the disk again, where the process may ask for that.
func dropCaches(b *testing.B) {
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("1"), 0); err != nil {
		b.Logf("files may be read from the page cache: %v", err)
	}
}

// readBytes is what the process has read from files so far, cached or not; 0 where nobody says so.
func readBytes(b *testing.B) int64 {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0
	}
	var n int64
	if _, err := fmt.Sscanf(string(text), "rchar: %d", &n); err != nil {
		b.Fatal(err)
	}
	return n
}

// rssMiB reads a line of the process's status; 0 where there is none.
func rssMiB(b *testing.B, name string) float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			var kib float64
			if _, err := fmt.Sscan(rest, &kib); err != nil {
				b.Fatal(err)
			}
			return kib / 1024
		}
	}
	return 0
}

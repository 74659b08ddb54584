package broker_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/afero"
	"go.uber.org/goleak"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/fsadapter/faultfs"
	"github.com/tidewheel/tidewheel/host/broker"
)

// syncFS is a file system whose syncs of the log's segments can be counted, held up and made to fail, and whose reads of
// them can be held up.
type syncFS struct {
	*fsadapter.FS
	hook  atomic.Pointer[func() error]
	read  atomic.Pointer[func()]
	count atomic.Int64
}

func newSyncFS() *syncFS { return &syncFS{FS: fsadapter.New(afero.NewMemMapFs())} }

func (f *syncFS) onSync(hook func() error) { f.hook.Store(&hook) }

// onRead has something done within the next read.
func (f *syncFS) onRead(hook func()) { f.read.Store(&hook) }

func (f *syncFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := f.FS.OpenFile(name, flag, perm)
	if err != nil || !strings.HasPrefix(name, "commitlog/") {
		return file, err
	}
	return &syncFile{file, f}, nil
}

type syncFile struct {
	vfs.File
	fs *syncFS
}

func (f *syncFile) ReadAt(p []byte, off int64) (int, error) {
	if hook := f.fs.read.Swap(nil); hook != nil {
		(*hook)()
	}
	return f.File.ReadAt(p, off)
}

func (f *syncFile) Sync() error { return f.SyncData() }

func (f *syncFile) SyncData() error {
	f.fs.count.Add(1)
	if hook := f.fs.hook.Load(); hook != nil {
		if err := (*hook)(); err != nil {
			return err
		}
	}
	return f.File.Sync()
}

// TestMain fails if a test has left a goroutine.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, fsys vfs.FS, opts broker.Options) *broker.Broker {
	t.Helper()
	b, err := broker.Open(broker.Env{FS: fsys}, ".", opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil && !errors.Is(err, broker.ErrClosed) {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

func mustPut(t *testing.T, b *broker.Broker, m broker.Message) broker.Receipt {
	t.Helper()
	r, err := b.Put(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// bodies pulls what is there, queue after queue.
func bodies(t *testing.T, b *broker.Broker, req broker.PullRequest) []string {
	t.Helper()
	var p broker.Pulled
	if err := b.Pull(t.Context(), req, &p); err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, q := range p.Queues {
		for _, m := range q.Messages {
			if m.Err != nil {
				t.Fatal(m.Err)
			}
			list = append(list, string(m.Body))
		}
	}
	return list
}

// A reader waits two hours for a message of level 18 and gets it in its millisecond; nothing takes real time.
func TestLevelOfTwoHoursInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, fsadapter.New(afero.NewMemMapFs()), broker.Options{})
		start := time.Now()
		r := mustPut(t, b, broker.Message{Topic: "orders", Body: []byte("late"), At: broker.Level(18)})
		if r.Outcome != engine.Scheduled || r.DueMs != start.Add(2*time.Hour).UnixMilli() || r.Handle == "" {
			t.Fatalf("receipt %+v", r)
		}
		for {
			got := bodies(t, b, broker.PullRequest{Topic: "orders", Wait: time.Minute})
			if len(got) == 0 {
				continue
			}
			if got[0] != "late" || len(got) != 1 {
				t.Errorf("got %q", got)
			}
			break
		}
		if took := time.Since(start); took < 2*time.Hour || took > 2*time.Hour+2*time.Millisecond {
			t.Errorf("it took %v, want two hours and no more than 2 ms", took)
		}
	})
}

// While a sync runs, nothing that depends on it may leave: no answer, no message, no refusal computed from it.
func TestNothingLeavesBeforeTheSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newSyncFS()
		b := open(t, fsys, broker.Options{Engine: engine.Options{Queues: 1}})
		mustPut(t, b, broker.Message{Topic: "t", Body: []byte("first")})
		waiting := mustPut(t, b, broker.Message{Topic: "t", At: broker.Level(18)})
		time.Sleep(time.Second) // the mark is written, the log is still

		free := make(chan struct{})
		fsys.onSync(func() error { <-free; return nil })
		var put, cancel, topics, reader atomic.Bool
		go func() {
			var p broker.Pulled
			req := broker.PullRequest{Topic: "t", From: []broker.QueueOffset{{Queue: 0, Offset: 1}}, Wait: time.Minute}
			if err := b.Pull(t.Context(), req, &p); err != nil || p.Count() != 1 {
				t.Errorf("the waiting reader got %d messages, %v", p.Count(), err)
			}
			reader.Store(true)
		}()
		synctest.Wait()
		go func() {
			mustPut(t, b, broker.Message{Topic: "t", Body: []byte("second")})
			put.Store(true)
		}()
		synctest.Wait()
		go func() {
			if out, err := b.Cancel(t.Context(), waiting.Handle); out != engine.Cancelled || err != nil {
				t.Errorf("cancel: %v, %v", out, err)
			}
			cancel.Store(true)
		}()
		go func() {
			if _, err := b.Topics(t.Context()); err != nil {
				t.Error(err)
			}
			topics.Store(true)
		}()
		synctest.Wait()
		if put.Load() || cancel.Load() || topics.Load() || reader.Load() {
			t.Errorf("answered before the sync: put %v, cancel %v, topics %v, reader %v",
				put.Load(), cancel.Load(), topics.Load(), reader.Load())
		}
		var p broker.Pulled
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		err := b.Pull(ctx, broker.PullRequest{Topic: "t", From: []broker.QueueOffset{{Queue: 0}}}, &p)
		if p.Count() > 1 || err == nil && p.Count() != 1 {
			t.Errorf("pulled %d messages, %v; at most the first one may be seen", p.Count(), err)
		}

		fsys.onSync(func() error { return nil })
		close(free)
		synctest.Wait()
		if !put.Load() || !cancel.Load() || !topics.Load() || !reader.Load() {
			t.Errorf("not answered after the sync: put %v, cancel %v, topics %v, reader %v",
				put.Load(), cancel.Load(), topics.Load(), reader.Load())
		}
		if out, err := b.Cancel(t.Context(), waiting.Handle); out != engine.AlreadyCancelled || err != nil {
			t.Errorf("second cancel: %v, %v", out, err)
		}
	})
}

// A lone put waits for one fsync; what gathers during an fsync waits for that one and one more, however many they are.
func TestGroupCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newSyncFS()
		b := open(t, fsys, broker.Options{})
		mustPut(t, b, broker.Message{Topic: "t"})
		time.Sleep(time.Second)
		before := fsys.count.Load()
		mustPut(t, b, broker.Message{Topic: "t"})
		if n := fsys.count.Load() - before; n != 1 {
			t.Errorf("a lone put took %d syncs of the log, want 1", n)
		}
		time.Sleep(time.Second)

		const fsync, puts = 10 * time.Millisecond, 1000
		fsys.onSync(func() error { time.Sleep(fsync); return nil })
		before = fsys.count.Load()
		start := time.Now()
		var wg sync.WaitGroup
		for range puts {
			wg.Go(func() { mustPut(t, b, broker.Message{Topic: "t", Body: []byte("x")}) })
		}
		wg.Wait()
		if took := time.Since(start); took != 2*fsync && took != fsync {
			t.Errorf("%d puts at once took %v, want one or two fsyncs of %v", puts, took, fsync)
		}
		if n := fsys.count.Load() - before; n > 2 {
			t.Errorf("%d puts at once took %d syncs, want 1 or 2", puts, n)
		}
	})
}

// A put that fills the queue waits for room; a context that ends takes back what the engine has not seen.
func TestPutContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newSyncFS()
		b := open(t, fsys, broker.Options{QueueBytes: 1})
		mustPut(t, b, broker.Message{Topic: "t", Body: []byte("0")})
		time.Sleep(time.Second)
		free := make(chan struct{})
		fsys.onSync(func() error { <-free; return nil })

		var errs [3]error
		var wg sync.WaitGroup
		for i := range errs {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*time.Second)
			defer cancel()
			wg.Go(func() { _, errs[i] = b.Put(ctx, broker.Message{Topic: "t", Body: fmt.Append(nil, i+1)}) })
			synctest.Wait() // the first is in the engine, the second in the queue, the third finds no room
		}
		wg.Wait()
		for i, err := range errs {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("put %d: %v", i, err)
			}
			if unknown := errors.Is(err, broker.ErrUnknown); unknown != (i == 0) {
				t.Errorf("put %d: %v; unknown is %v", i, err, unknown)
			}
		}
		fsys.onSync(func() error { return nil })
		close(free)
		synctest.Wait()
		got := bodies(t, b, broker.PullRequest{Topic: "t"})
		if fmt.Sprint(got) != "[0 1]" && fmt.Sprint(got) != "[1 0]" {
			t.Errorf("stored are %q, want 0 and 1", got)
		}
	})
}

// After a failed sync nothing is stored any more, nothing in doubt is shown, and reads go on.
func TestFailedSyncIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newSyncFS()
		b := open(t, fsys, broker.Options{})
		mustPut(t, b, broker.Message{Topic: "t", Body: []byte("safe")})
		time.Sleep(time.Second)
		broken := errors.New("the disk is broken")
		fsys.onSync(func() error { return broken })
		_, err := b.Put(t.Context(), broker.Message{Topic: "t", Body: []byte("in doubt")})
		if !errors.Is(err, broker.ErrUnknown) || !errors.Is(err, broken) {
			t.Errorf("put during the failure: %v; want unknown", err)
		}
		fsys.onSync(func() error { return nil })
		time.Sleep(10 * time.Second)
		_, err = b.Put(t.Context(), broker.Message{Topic: "t", Body: []byte("after")})
		if !errors.Is(err, broker.ErrFailed) || errors.Is(err, broker.ErrUnknown) {
			t.Errorf("put after the failure: %v; want failed, and definite", err)
		}
		if !errors.Is(b.Err(), broker.ErrFailed) {
			t.Errorf("Err() is %v", b.Err())
		}
		var p broker.Pulled
		if got := bodies(t, b, broker.PullRequest{Topic: "t", Group: "g"}); fmt.Sprint(got) != "[safe]" {
			t.Errorf("after the failure %q can be read, want what was durable", got)
		}
		if err := b.Pull(t.Context(), broker.PullRequest{Topic: "u"}, &p); !errors.Is(err, broker.ErrFailed) {
			t.Errorf("pull of a topic that may not be there: %v, want failed", err)
		}
	})
}

// Close answers what the engine has, refuses the rest, sends readers away, and leaves no goroutine.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newSyncFS()
		b := open(t, fsys, broker.Options{})
		mustPut(t, b, broker.Message{Topic: "t"})
		time.Sleep(time.Second)
		fsys.onSync(func() error { time.Sleep(100 * time.Millisecond); return nil })
		var inEngine, queued, reader error
		var wg sync.WaitGroup
		wg.Go(func() { _, inEngine = b.Put(t.Context(), broker.Message{Topic: "t"}) })
		synctest.Wait()
		wg.Go(func() { _, queued = b.Put(t.Context(), broker.Message{Topic: "t"}) })
		wg.Go(func() {
			var p broker.Pulled
			reader = b.Pull(t.Context(), broker.PullRequest{Topic: "t", Group: "g", Tags: []string{"none"}, Wait: time.Minute}, &p)
		})
		synctest.Wait()
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if inEngine != nil {
			t.Errorf("put in the engine: %v, want an answer", inEngine)
		}
		if !errors.Is(queued, broker.ErrClosed) || errors.Is(queued, broker.ErrUnknown) {
			t.Errorf("queued put: %v, want a definite ErrClosed", queued)
		}
		if !errors.Is(reader, broker.ErrClosed) {
			t.Errorf("waiting reader: %v, want ErrClosed", reader)
		}
		if err := b.Close(); !errors.Is(err, broker.ErrClosed) {
			t.Errorf("second close: %v", err)
		}
		if _, err := b.Topics(t.Context()); !errors.Is(err, broker.ErrClosed) {
			t.Errorf("topics after close: %v", err)
		}
	})
}

// While the next segment cannot be made, puts wait and can be taken back; when it can, they go on. Close does not wait
// for it.
func TestBusyEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := faultfs.New(fsadapter.New(afero.NewMemMapFs()))
		b := open(t, fsys, broker.Options{Engine: engine.Options{SegmentSize: 16 << 10}})
		fsys.Add(faultfs.Rule{Op: faultfs.Create, Path: "commitlog/next", Sticky: true})
		put := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := b.Put(ctx, broker.Message{Topic: "t", Body: make([]byte, 1024)})
			return err
		}
		stored := 0
		var err error
		for err == nil && stored < 100 {
			if err = put(); err == nil {
				stored++
			}
		}
		if stored == 0 || stored > 20 || errors.Is(err, broker.ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%d puts were stored, then %v; want some, then a definite end of the wait", stored, err)
		}
		if s, err := b.Stats(); err != nil || s.JobFailures == 0 || s.QueuedRequests != 0 {
			t.Errorf("stats %+v, %v; want failed jobs, and nothing queued", s, err)
		}
		fsys.Clear()
		if err := put(); err != nil {
			t.Errorf("put after the fault: %v", err)
		}
		if got := bodies(t, b, broker.PullRequest{Topic: "t", MaxCount: 100}); len(got) != stored+1 {
			t.Errorf("%d messages, want %d", len(got), stored+1)
		}

		fsys.Add(faultfs.Rule{Op: faultfs.Create, Path: "commitlog/next", Sticky: true})
		for put() == nil {
		}
		var waiting error
		var wg sync.WaitGroup
		wg.Go(func() { waiting = put() })
		synctest.Wait()
		start := time.Now()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if took := time.Since(start); took > 5*time.Second || !errors.Is(waiting, broker.ErrClosed) {
			t.Errorf("close took %v, the put that waited got %v", took, waiting)
		}
	})
}

// Readers that say From where they read go on where their group has committed, and see messages again until then.
func TestGroups(t *testing.T) {
	b := open(t, crashfs.New(crashfs.Options{}), broker.Options{Engine: engine.Options{Queues: 2}})
	for i := range 10 {
		mustPut(t, b, broker.Message{Topic: "t", Pin: true, Queue: i % 2, Body: fmt.Append(nil, i)})
	}
	var p broker.Pulled
	from := []broker.QueueOffset{{Queue: 0, Offset: broker.Committed}, {Queue: 1, Offset: broker.Committed}}
	req := broker.PullRequest{Topic: "t", Group: "g", From: from, MaxCount: 4}
	for range 2 { // uncommitted: the same again
		if err := b.Pull(t.Context(), req, &p); err != nil || p.Count() != 4 {
			t.Fatalf("pulled %d, %v", p.Count(), err)
		}
	}
	seen := map[string]int{}
	for p.Count() > 0 {
		var done []broker.QueueOffset
		for _, q := range p.Queues {
			for _, m := range q.Messages {
				seen[string(m.Body)]++
			}
			done = append(done, broker.QueueOffset{Queue: q.Queue, Offset: q.Next})
		}
		if err := b.CommitOffset(t.Context(), "g", "t", done, false); err != nil {
			t.Fatal(err)
		}
		if err := b.Pull(t.Context(), req, &p); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 10 {
		t.Errorf("seen %v, want each of ten", seen)
	}
	for body, n := range seen {
		if n != 1 {
			t.Errorf("%s was seen %d times after commits", body, n)
		}
	}
	if got := bodies(t, b, broker.PullRequest{Topic: "t", Group: "other"}); len(got) != 10 {
		t.Errorf("another group sees %d messages, want all", len(got))
	}
	err := b.CommitOffset(t.Context(), "g", "t", []broker.QueueOffset{{Queue: 0, Offset: 1}}, false)
	if !errors.Is(err, engine.ErrOffset) {
		t.Errorf("going back without seek: %v", err)
	}
	if err := b.CommitOffset(t.Context(), "g", "t", []broker.QueueOffset{{Queue: 0, Offset: 1}}, true); err != nil {
		t.Errorf("seek: %v", err)
	}
	if got := bodies(t, b, req); fmt.Sprint(got) != "[2 4 6 8]" {
		t.Errorf("after the seek: %q", got)
	}
}

// Tags with the same hash are told apart, and a filter that passes nothing waits on.
func TestTags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, fsadapter.New(afero.NewMemMapFs()), broker.Options{})
		for _, tag := range []string{"Aa", "BB", "", "C"} { // Java gives Aa and BB the same hash
			mustPut(t, b, broker.Message{Topic: "t", Tag: tag, Body: []byte(tag)})
		}
		if got := bodies(t, b, broker.PullRequest{Topic: "t", Tags: []string{"BB"}}); fmt.Sprint(got) != "[BB]" {
			t.Errorf("tag BB: %q", got)
		}
		if got := bodies(t, b, broker.PullRequest{Topic: "t", Tags: []string{"Aa", "C"}}); len(got) != 2 {
			t.Errorf("tags Aa and C: %q", got)
		}
		go func() {
			time.Sleep(3 * time.Second)
			mustPut(t, b, broker.Message{Topic: "t", Tag: "other"})
			time.Sleep(3 * time.Second)
			mustPut(t, b, broker.Message{Topic: "t", Tag: "D", Body: []byte("D")})
		}()
		start := time.Now()
		got := bodies(t, b, broker.PullRequest{Topic: "t", Tags: []string{"D"}, Wait: time.Minute})
		if fmt.Sprint(got) != "[D]" || time.Since(start) != 6*time.Second {
			t.Errorf("tag D: %q after %v", got, time.Since(start))
		}
		start = time.Now()
		got = bodies(t, b, broker.PullRequest{Topic: "t", Tags: []string{"E"}, Wait: time.Minute})
		if len(got) != 0 || time.Since(start) != time.Minute {
			t.Errorf("tag E: %q after %v, want nothing after a minute", got, time.Since(start))
		}
	})
}

func TestRefusals(t *testing.T) {
	b := open(t, crashfs.New(crashfs.Options{}), broker.Options{Engine: engine.Options{NoAutoTopics: true}})
	if err := b.DefineTopic(t.Context(), "t", 3); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		m    broker.Message
		want error
	}{
		"topic name":  {broker.Message{Topic: "../x"}, engine.ErrTopicName},
		"no topic":    {broker.Message{Topic: "u"}, engine.ErrNoTopic},
		"queue":       {broker.Message{Topic: "t", Pin: true, Queue: 3}, engine.ErrQueue},
		"queue < 0":   {broker.Message{Topic: "t", Pin: true, Queue: -1}, engine.ErrQueue},
		"level":       {broker.Message{Topic: "t", At: broker.Level(-1)}, engine.ErrLevel},
		"key":         {broker.Message{Topic: "t", Key: strings.Repeat("k", 128)}, engine.ErrTooLarge},
		"transaction": {broker.Message{Topic: "t", At: broker.In(time.Second), Properties: map[string]string{"TRAN_MSG": "true"}}, engine.ErrProperties},
		"property":    {broker.Message{Topic: "t", Properties: map[string]string{"REAL_TOPIC": "x"}}, engine.ErrProperties},
	} {
		if _, err := b.Put(t.Context(), c.m); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	receipts, err := b.PutBatch(t.Context(), []broker.Message{{Topic: "t"}, {Topic: "t", At: broker.Level(-1)}, {Topic: "t", At: broker.Level(99)}})
	if err != nil || receipts[0].Err != nil || receipts[1].Err == nil || receipts[2].Level != 18 || !receipts[2].Clamped {
		t.Errorf("batch: %+v, %v", receipts, err)
	}
	if out, err := b.Cancel(t.Context(), "tw1.forged"); out != engine.NotFound || err != nil {
		t.Errorf("forged handle: %v, %v", out, err)
	}
	var p broker.Pulled
	for name, c := range map[string]struct {
		req  broker.PullRequest
		want error
	}{
		"topic": {broker.PullRequest{Topic: "u"}, engine.ErrNoTopic},
		"queue": {broker.PullRequest{Topic: "t", From: []broker.QueueOffset{{Queue: 3}}}, engine.ErrQueue},
		"count": {broker.PullRequest{Topic: "t", MaxCount: broker.MaxPull + 1}, broker.ErrRequest},
		"wait":  {broker.PullRequest{Topic: "t", Wait: broker.MaxWait + 1}, broker.ErrRequest},
	} {
		if err := b.Pull(t.Context(), c.req, &p); !errors.Is(err, c.want) {
			t.Errorf("pull, %s: %v, want %v", name, err, c.want)
		}
	}
	if _, err := broker.Open(broker.Env{FS: fsadapter.New(afero.NewMemMapFs())}, ".", broker.Options{Workers: -1}); err == nil {
		t.Error("a negative number of workers was taken")
	}
}

// Many goroutines put, cancel and read at once; every message comes once, but for those that were cancelled.
func TestBrokerHammer(t *testing.T) {
	const producers, each = 16, 60
	b, err := broker.Open(broker.Env{FS: crashfs.New(crashfs.Options{})}, ".", broker.Options{
		Engine: engine.Options{Levels: "5ms 20ms", SegmentSize: 64 << 10, CheckpointEvery: 32 << 10, LooseEntries: 64},
	})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	cancelled, seen := map[string]bool{}, map[string]int{}
	var puts, reads sync.WaitGroup
	for p := range producers {
		puts.Go(func() {
			for i := range each {
				body := fmt.Sprintf("%d-%d", p, i)
				m := broker.Message{Topic: "t", Body: []byte(body), At: broker.Level(i % 3)}
				r, err := b.Put(t.Context(), m)
				for errors.Is(err, engine.ErrBacklog) { // the machine is busy, and checkpoints are tiny here
					r, err = b.Put(t.Context(), m)
				}
				if err != nil {
					t.Errorf("put %s: %v", body, err)
					return
				}
				if i%5 != 2 || r.Handle == "" {
					continue
				}
				out, err := b.Cancel(t.Context(), r.Handle)
				if err != nil || out != engine.Cancelled && out != engine.Delivered {
					t.Errorf("cancel %s: %v, %v", body, out, err)
				}
				if out == engine.Cancelled {
					mu.Lock()
					cancelled[body] = true
					mu.Unlock()
				}
			}
		})
	}
	ctx, stop := context.WithCancel(t.Context())
	for range 2 {
		reads.Go(func() {
			for g := 0; ctx.Err() == nil; g++ {
				var p broker.Pulled
				_ = b.Pull(ctx, broker.PullRequest{Topic: "t", Group: fmt.Sprint("g", g%3), Wait: 10 * time.Millisecond}, &p)
				if _, err := b.Stats(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	puts.Wait()
	next := [4]int64{}
	for deadline := time.Now().Add(5 * time.Second); len(seen)+len(cancelled) < producers*each && time.Now().Before(deadline); {
		var from []broker.QueueOffset
		for q, offset := range next {
			from = append(from, broker.QueueOffset{Queue: q, Offset: offset})
		}
		var p broker.Pulled
		if err := b.Pull(t.Context(), broker.PullRequest{Topic: "t", From: from, MaxCount: 1000, Wait: 100 * time.Millisecond}, &p); err != nil {
			t.Fatal(err)
		}
		for _, q := range p.Queues {
			for i, m := range q.Messages {
				if m.Offset != next[q.Queue]+int64(i) {
					t.Fatalf("queue %d has offset %d after %d", q.Queue, m.Offset, next[q.Queue]+int64(i))
				}
				seen[string(m.Body)]++
			}
			next[q.Queue] = q.Next
		}
	}
	stop()
	reads.Wait()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if len(seen)+len(cancelled) != producers*each {
		t.Errorf("%d seen and %d cancelled of %d", len(seen), len(cancelled), producers*each)
	}
	for body, n := range seen {
		if n != 1 || cancelled[body] {
			t.Errorf("%s: seen %d times, cancelled %v", body, n, cancelled[body])
		}
	}
}

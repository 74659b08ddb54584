package bulk_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/bulk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB) (*broker.Broker, *bulk.Manager) {
	t.Helper()
	b, err := broker.Open(broker.Env{FS: crashfs.New(crashfs.Options{})}, ".", broker.Options{
		Engine: engine.Options{SegmentSize: 4 << 20, Levels: "1h"},
	})
	if err != nil {
		t.Fatal(err)
	}
	m := bulk.New(b)
	t.Cleanup(func() {
		m.Close()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b, m
}

// fill puts messages a minute apart, the first due in a minute. Every second one has the tag x, every fifth a key.
func fill(t testing.TB, b *broker.Broker, topic string, n int) {
	t.Helper()
	var list []broker.Message
	for i := range n {
		m := broker.Message{Topic: topic, Body: []byte("m"), At: broker.In(time.Duration(i+1) * time.Minute)}
		if i%2 == 0 {
			m.Tag = "x"
		}
		if i%5 == 0 {
			m.Key = fmt.Sprint(i)
		}
		list = append(list, m)
	}
	receipts, err := b.PutBatch(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range receipts {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

// finish runs a spec to its end.
func finish(t testing.TB, m *bulk.Manager, spec bulk.Spec) bulk.Job {
	t.Helper()
	p, err := m.Preview(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	j, err := m.Start(p.Confirm)
	if err != nil {
		t.Fatal(err)
	}
	for ok := true; j.State == bulk.Running; runtime.Gosched() {
		if j, ok = m.Job(j.ID); !ok {
			t.Fatal("the job is forgotten")
		}
	}
	if j.Matched != p.Matched || j.Ended.Before(j.Began) {
		t.Errorf("%+v, the preview said %d", j, p.Matched)
	}
	return j
}

// count is how many messages of a topic wait, and the sum of their due times in minutes from a time on.
func count(t testing.TB, b *broker.Broker, topic string, fromMs int64) (n, minutes int64) {
	t.Helper()
	for w, err := range b.Timers(t.Context(), engine.Filter{Topic: topic}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		minutes += (w.DueMs - fromMs) / 60_000
	}
	return n, minutes
}

func TestActions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, m := open(t)
		fill(t, b, "a", 300)
		fill(t, b, "b", 10)
		began := b.NowMs()
		// A message that is moved within the range is moved once.
		if j := finish(t, m, bulk.Spec{Action: bulk.Move, By: 2 * time.Hour, Filter: bulk.Filter{Topic: "a", ToMs: began + 1000*60_000}}); j.Changed != 300 || j.State != bulk.Done {
			t.Errorf("moved: %+v", j)
		}
		if n, minutes := count(t, b, "a", began); n != 300 || minutes != 300*301/2+300*120 {
			t.Errorf("after the move %d wait, %d min", n, minutes)
		}
		if j := finish(t, m, bulk.Spec{Action: bulk.Cancel, Filter: bulk.Filter{Topic: "a", Tags: []string{"x", "y"}}}); j.Changed != 150 {
			t.Errorf("cancelled: %+v", j)
		}
		if j := finish(t, m, bulk.Spec{Action: bulk.Cancel, Filter: bulk.Filter{Topic: "a", Key: "5"}}); j.Changed != 1 {
			t.Errorf("cancelled by key: %+v", j)
		}
		if j := finish(t, m, bulk.Spec{Action: bulk.Fire, Filter: bulk.Filter{Topic: "a", FromMs: began + 200*60_000, ToMs: began + 300*60_000}}); j.Changed != 50 {
			t.Errorf("fired: %+v", j)
		}
		if j := finish(t, m, bulk.Spec{Action: bulk.Move, DueMs: began + 9*24*3600_000, Filter: bulk.Filter{Topic: "b"}}); j.Changed != 0 || j.Refused != 10 || j.Error == "" || j.State != bulk.Done {
			t.Errorf("moved too far: %+v", j)
		}
		if j := finish(t, m, bulk.Spec{Action: bulk.Move, DueMs: began + 3600_000}); j.Changed != j.Matched || j.Matched == 0 {
			t.Errorf("all at one time: %+v", j)
		}
		if jobs := m.Jobs(); len(jobs) != 6 || jobs[0].ID != "bk_6" {
			t.Errorf("%+v", jobs)
		}
	})
}

// What is put between preview and start is not touched, and what is gone is passed over.
func TestOnlyWhatWasPreviewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, m := open(t)
		fill(t, b, "a", 20)
		p, err := m.Preview(t.Context(), bulk.Spec{Action: bulk.Cancel, Filter: bulk.Filter{Topic: "a"}})
		if err != nil || p.Matched != 20 {
			t.Fatalf("%+v, %v", p, err)
		}
		fill(t, b, "a", 3)
		time.Sleep(5*time.Minute + time.Second) // five of them fire, and three of the new ones
		j, err := m.Start(p.Confirm)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if j, _ = m.Job(j.ID); j.Changed != 15 || j.State != bulk.Done || j.Matched != 20 {
			t.Errorf("%+v", j)
		}
		if _, err := m.Start(p.Confirm); !errors.Is(err, bulk.ErrExpired) {
			t.Errorf("started twice: %v", err)
		}
	})
}

func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, m := open(t)
		fill(t, b, "a", 5)
		for name, spec := range map[string]bulk.Spec{
			"no action": {}, "unknown": {Action: "drop"}, "no time": {Action: bulk.Move}, "two times": {Action: bulk.Move, By: 1, DueMs: 1},
			"time": {Action: bulk.Cancel, By: time.Hour}, "range": {Action: bulk.Fire, Filter: bulk.Filter{FromMs: 5, ToMs: 5}},
		} {
			if _, err := m.Preview(t.Context(), spec); !errors.Is(err, bulk.ErrSpec) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := m.Preview(t.Context(), bulk.Spec{Action: bulk.Fire, Filter: bulk.Filter{Topic: "nosuch"}}); !errors.Is(err, engine.ErrNoTopic) {
			t.Errorf("unknown topic: %v", err)
		}
		p, err := m.Preview(t.Context(), bulk.Spec{Action: bulk.Fire})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(bulk.Expiry)
		for _, confirm := range []string{p.Confirm, "", "nosuch"} {
			if _, err := m.Start(confirm); !errors.Is(err, bulk.ErrExpired) {
				t.Errorf("%q: %v", confirm, err)
			}
		}
		if _, ok := m.Stop("bk_1"); ok {
			t.Error("a job that is not there was stopped")
		}
	})
}

// A job that is stopped ends where it is; only some run at once; closing ends all.
func TestStop(t *testing.T) {
	b, m := open(t)
	fill(t, b, "a", 5000)
	start := func() (bulk.Job, error) {
		p, err := m.Preview(t.Context(), bulk.Spec{Action: bulk.Move, By: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return m.Start(p.Confirm)
	}
	var ids []string
	for range bulk.MaxRunning {
		j, err := start()
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := m.Stop(j.ID); !ok {
			t.Error("it is unknown")
		}
		ids = append(ids, j.ID)
	}
	for _, id := range ids {
		j, _ := m.Job(id)
		for ; j.State == bulk.Running; j, _ = m.Job(id) {
			runtime.Gosched()
		}
		if j.State != bulk.Stopped || j.Changed+j.Passed == 5000 {
			t.Errorf("%+v", j)
		}
	}
	if n, _ := count(t, b, "a", b.NowMs()); n != 5000 {
		t.Errorf("%d wait", n)
	}
	m.Close()
	if _, err := m.Preview(t.Context(), bulk.Spec{Action: bulk.Fire}); !errors.Is(err, bulk.ErrClosed) {
		t.Errorf("preview after Close: %v", err)
	}
	if _, err := m.Start("x"); !errors.Is(err, bulk.ErrClosed) {
		t.Errorf("start after Close: %v", err)
	}
}

// A change is previewed with its exact count, and then started.
func Example() {
	b, err := broker.Open(broker.Env{FS: crashfs.New(crashfs.Options{})}, ".", broker.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	m := bulk.New(b)
	defer m.Close()
	ctx := context.Background()
	for _, tag := range []string{"summer", "winter", "summer"} {
		_, _ = b.Put(ctx, broker.Message{Topic: "promo", Tag: tag, At: broker.In(time.Hour)})
	}
	p, err := m.Preview(ctx, bulk.Spec{Action: bulk.Cancel, Filter: bulk.Filter{Topic: "promo", Tags: []string{"summer"}}})
	fmt.Println(p.Matched, err)
	job, err := m.Start(p.Confirm)
	fmt.Println(job.ID, job.Matched, err)
	// Output:
	// 2 <nil>
	// bk_1 2 <nil>
}

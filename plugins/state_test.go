package plugins

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/tidewheel/tidewheel/plugins/abi"
	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

// crowd is a plugin, an instance that the test has taken, and batches that have entered. When it is the only one they wait for it.
type crowd struct {
	t    *testing.T
	p    *Plugin
	in   *instance
	done sync.WaitGroup
}

func newCrowd(t *testing.T, policy Policy, instances, n int, body string) *crowd {
	t.Helper()
	r, err := NewRuntime(Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := r.Load(t.Context(), plugintest.Scripted(), Spec{Name: "p", Policy: policy, Limits: Limits{MemoryMax: 1 << 20, Instances: instances}})
	if err != nil {
		t.Fatal(err)
	}
	c := &crowd{t: t}
	if c.p, err = r.NewPlugin(m); err != nil {
		t.Fatal(err)
	}
	c.in = <-m.slots
	c.enter(n, body)
	return c
}

func (c *crowd) enter(n int, body string) {
	c.p.mu.Lock()
	want := c.p.busy + n
	c.p.mu.Unlock()
	for range n {
		c.done.Go(func() {
			var a Answer
			c.p.Decide(context.Background(), Call{Hook: abi.Filter, NowMs: 1000}, []abi.Record{{Body: []byte(body)}}, &a)
		})
	}
	for busy := 0; busy < want; runtime.Gosched() {
		c.p.mu.Lock()
		busy = c.p.busy
		c.p.mu.Unlock()
	}
}

// release gives the instance back and waits for the batches.
func (c *crowd) release() {
	c.in.m.giveBack(c.in)
	c.done.Wait()
}

// TestQuarantineIsOne: batches that die at the same time are one quarantine with one pause, however many they are.
func TestQuarantineIsOne(t *testing.T) {
	c := newCrowd(t, Policy{OnError: OnErrorDeadLetter, QuarantineAfter: 1}, 1, 4, "!")
	c.release()
	if c.p.state != Quarantined || c.p.counters.quarantines != 1 || c.p.pause != 1000 || c.p.until != 2000 {
		t.Errorf("%v, %d quarantines, a pause of %d ms until %d", c.p.state, c.p.counters.quarantines, c.p.pause, c.p.until)
	}
	if err := c.p.Close(); err != nil {
		t.Error(err)
	}
}

// TestRollbackDuringProbe: a probe that ends after an operator has rolled the plugin back and forth changes nothing.
func TestRollbackDuringProbe(t *testing.T) {
	c := newCrowd(t, Policy{OnError: OnErrorDeadLetter}, 1, 0, "")
	c.p.state, c.p.until = Quarantined, 0
	c.enter(1, "!") // it probes
	m, err := c.p.host.Load(t.Context(), plugintest.Scripted(), c.p.current.m.spec)
	if err != nil {
		t.Fatal(err)
	}
	first := c.p.current
	if err := c.p.Swap(m); err != nil {
		t.Fatal(err)
	}
	if err := c.p.Rollback(); err != nil || c.p.current != first {
		t.Fatal(err)
	}
	c.release()
	if c.p.state != Active || c.p.counters.quarantines != 0 {
		t.Errorf("%v, %d quarantines", c.p.state, c.p.counters.quarantines)
	}
	if err := c.p.Close(); err != nil {
		t.Error(err)
	}
}

// TestCloseWaits: Close and a generation that is retired wait for the batches that they have.
func TestCloseWaits(t *testing.T) {
	c := newCrowd(t, Policy{OnError: OnErrorDeadLetter}, 1, 3, "d")
	for range 2 { // the first generation is retired, with its batches in hand
		m, err := c.p.host.Load(t.Context(), plugintest.Scripted(), c.p.current.m.spec)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.p.Swap(m); err != nil {
			t.Fatal(err)
		}
	}
	closed := make(chan error)
	go func() { closed <- c.p.Close() }()
	for shut := false; !shut; runtime.Gosched() {
		c.p.mu.Lock()
		shut = c.p.closed
		c.p.mu.Unlock()
	}
	select {
	case err := <-closed:
		t.Fatalf("closed with three batches in hand: %v", err)
	default:
	}
	c.in.m.giveBack(c.in)
	c.done.Wait()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if n := c.p.counters.verdicts[abi.Drop]; n != 3 {
		t.Errorf("%d batches were decided, want 3", n)
	}
	if err := c.p.host.Close(); err != nil {
		t.Error(err)
	}
}

// TestRollbackClosesInstances: a generation that is put aside keeps no instance, whoever has put it aside; its memory is not
// reserved any more.
func TestRollbackClosesInstances(t *testing.T) {
	c := newCrowd(t, Policy{OnError: OnErrorDeadLetter, QuarantineAfter: 1}, 2, 0, "")
	c.release()
	second, err := c.p.host.Load(t.Context(), plugintest.Scripted(), c.p.current.m.spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.p.Swap(second); err != nil {
		t.Fatal(err)
	}
	if n := c.in.m.open.Load(); n != 0 {
		t.Errorf("after Swap the old generation has %d instances", n)
	}
	if err := c.p.Rollback(); err != nil {
		t.Fatal(err)
	}
	if n := second.open.Load(); n != 0 {
		t.Errorf("after Rollback the new generation has %d instances", n)
	}
	third, err := c.p.host.Load(t.Context(), plugintest.Scripted(), c.p.current.m.spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.p.Swap(third); err != nil {
		t.Fatal(err)
	}
	var a Answer
	if err := c.p.Decide(t.Context(), Call{Hook: abi.Filter, NowMs: 1000}, []abi.Record{{Body: []byte("!")}}, &a); err != nil {
		t.Fatal(err)
	}
	if c.p.current.m == third || third.open.Load() != 0 {
		t.Errorf("after a rollback by itself the generation has %d instances", third.open.Load())
	}
	if err := c.p.Close(); err != nil {
		t.Error(err)
	}
}

// TestShedAfterClose: a reload that puts a generation aside while the plugin is closed finds nothing to put aside.
func TestShedAfterClose(t *testing.T) {
	c := newCrowd(t, Policy{OnError: OnErrorDeadLetter}, 2, 0, "")
	c.release()
	if err := c.p.Close(); err != nil {
		t.Fatal(err)
	}
	c.in.m.shed()
	if n := c.in.m.open.Load(); n != 0 {
		t.Errorf("%d instances are open", n)
	}
}

// TestHammerSwapClose: plugins are closed while they are reloaded and rolled back.
func TestHammerSwapClose(t *testing.T) {
	r, err := NewRuntime(Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := Spec{Name: "p", Policy: Policy{OnError: OnErrorDeadLetter}, Limits: Limits{MemoryMax: 1 << 20, Instances: 2}}
	load := func() *Module {
		m, err := r.Load(t.Context(), plugintest.Scripted(), s)
		if err != nil {
			t.Error(err)
		}
		return m
	}
	for range 20 {
		p, err := r.NewPlugin(load())
		if err != nil {
			t.Fatal(err)
		}
		next := load()
		var wg sync.WaitGroup
		for _, f := range []func(){
			func() { p.Swap(next) },
			func() { p.Rollback(); p.Rollback() },
			func() {
				var a Answer
				p.Decide(context.Background(), Call{Hook: abi.Filter, NowMs: 1000}, []abi.Record{{Body: []byte("!")}, {Body: []byte("d")}}, &a)
			},
			func() { runtime.Gosched(); p.Close() },
		} {
			wg.Go(f)
		}
		wg.Wait()
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestLine: what a guest writes stays on its line and keeps its hands off the terminal.
func TestLine(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{
		{"plain", 10, "plain"}, {"two\nlines\r\n", 20, "two lines  "}, {"\x1b[31mred\x9b\u009b\x7f", 20, " [31mred?  "}, {"föhn", 2, "f"}, {"föhn", 3, "fö"},
		{"\xff\xfe", 9, "?"}, {"", 5, ""}, {"日本", 5, "日"},
	} {
		if got := line(c.in, c.n); got != c.want {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
	if got := lines("a\tb\nc\x00", 10); got != "a b\nc " {
		t.Errorf("lines: %q", got)
	}
}

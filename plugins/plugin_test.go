package plugins_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ctx = context.Background()

// engines runs a test in both engines of the runtime.
func engines(t *testing.T, f func(t *testing.T, r *plugins.Runtime)) {
	t.Helper()
	for _, interpreter := range []bool{false, true} {
		name := "compiler"
		if interpreter {
			name = "interpreter"
		}
		t.Run(name, func(t *testing.T) { f(t, open(t, plugins.Options{Interpreter: interpreter})) })
	}
}

func open(t testing.TB, o plugins.Options) *plugins.Runtime {
	t.Helper()
	r, err := plugins.NewRuntime(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func spec() plugins.Spec {
	return plugins.Spec{
		Name:   "p",
		Policy: plugins.Policy{OnError: plugins.OnErrorDeadLetter},
		Limits: plugins.Limits{MemoryMax: 1 << 20, Instances: 1, FuelBase: 20_000, FuelPerRecord: 20_000, RecordBytes: 1 << 18},
	}
}

func load(t testing.TB, r *plugins.Runtime, wasm []byte, s plugins.Spec) *plugins.Plugin {
	t.Helper()
	m, err := r.Load(ctx, wasm, s)
	if err != nil {
		t.Fatal(err)
	}
	p, err := r.NewPlugin(m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil && !errors.Is(err, plugins.ErrClosed) {
			t.Error(err)
		}
	})
	return p
}

func bodies(all ...string) []abi.Record {
	records := make([]abi.Record, len(all))
	for i, b := range all {
		records[i] = abi.Record{ID: uint64(i), Topic: []byte("orders"), Key: []byte(fmt.Sprint("k", i)), Body: []byte(b)}
	}
	return records
}

var filter = plugins.Call{Hook: abi.Filter, NowMs: 1_700_000_000_000, Seed: 1}

func decide(t testing.TB, p *plugins.Plugin, call plugins.Call, records []abi.Record) *plugins.Answer {
	t.Helper()
	a := new(plugins.Answer)
	if err := p.Decide(ctx, call, records, a); err != nil {
		t.Fatal(err)
	}
	return a
}

// actions writes an answer as "keep drop:7 dead_letter(trap)".
func actions(a *plugins.Answer) string {
	var all []string
	for _, d := range a.Decisions {
		s := d.Verdict.Action().String()
		if d.Verdict.Code() != 0 {
			s += fmt.Sprint(":", d.Verdict.Code())
		}
		if d.Failure != nil {
			s += "(" + d.Failure.Class.String() + ")"
		}
		all = append(all, s)
	}
	return strings.Join(all, " ")
}

// TestDecide: a death blames one record, in whatever way the plugin dies; the rest of the batch goes on.
func TestDecide(t *testing.T) {
	engines(t, func(t *testing.T, r *plugins.Runtime) {
		p := load(t, r, plugintest.Scripted(), spec())
		for _, c := range []struct {
			bodies, want string
			deaths       int
		}{
			{"a", "keep", 0},
			{"a d a", "keep drop:7 keep", 0},
			{"a ! d", "keep dead_letter(trap) drop:7", 1},
			{"! !", "dead_letter(trap) dead_letter(trap)", 2},
			{"a s d", "keep dead_letter(fuel) drop:7", 2}, // once in the batch, once alone
			{"a m d", "keep dead_letter(memory) drop:7", 2},
			{"a e d", "keep dead_letter:5(error) drop:7", 0},
			{"a u d", "keep dead_letter(protocol) drop:7", 0},
			{"a i d", "keep dead_letter(protocol) drop:7", 0},
			{"s m ! e u i d", "dead_letter(fuel) dead_letter(memory) dead_letter(trap) dead_letter:5(error) dead_letter(protocol) dead_letter(protocol) drop:7", 5},
		} {
			p.Decide(ctx, filter, bodies("a"), new(plugins.Answer)) // an answer, so that no streak of deaths is carried on
			a := decide(t, p, filter, bodies(strings.Fields(c.bodies)...))
			if got := actions(a); got != c.want || a.Deaths != c.deaths || a.Decided != len(a.Decisions) {
				t.Errorf("%s: %s with %d deaths, %d decided, want %s with %d", c.bodies, got, a.Deaths, a.Decided, c.want, c.deaths)
			}
		}
		if s := p.Stats(); s.Instances > 1 || s.Failures["trap"] == 0 || s.LastFailure == nil || s.State != plugins.Active {
			t.Errorf("stats %+v", s)
		}
	})
}

// TestDecideRecursion: the frames of a recursion are paid for, so that it ends before they fill the memory of the host.
func TestDecideRecursion(t *testing.T) {
	engines(t, func(t *testing.T, r *plugins.Runtime) {
		p := load(t, r, plugintest.Scripted(), spec())
		a := decide(t, p, filter, bodies("a", "r", "d"))
		if got := actions(a); got != "keep dead_letter(fuel) drop:7" && got != "keep dead_letter(trap) drop:7" {
			t.Error(got)
		}
	})
}

// TestDecidePoisonEverywhere: wherever the bad record is, exactly that one is blamed.
func TestDecidePoisonEverywhere(t *testing.T) {
	engines(t, func(t *testing.T, r *plugins.Runtime) {
		p := load(t, r, plugintest.Scripted(), spec())
		const n = 20
		for at := range n {
			for _, poison := range []string{"!", "s", "u"} {
				all := strings.Split(strings.Repeat("a", n), "")
				all[at] = poison
				a := decide(t, p, filter, bodies(all...))
				for i, d := range a.Decisions {
					if (d.Failure != nil) != (i == at) || (d.Verdict.Action() == abi.Keep) != (i != at) {
						t.Fatalf("%s at %d: record %d has %v, %v", poison, at, i, d.Verdict.Action(), d.Failure)
					}
				}
			}
		}
	})
}

// TestFailureSaysWhy: what a dead letter carries.
func TestFailureSaysWhy(t *testing.T) {
	m := plugintest.Guest()
	m.Func("$inner", "", "", "unreachable")
	m.Hook("tw_filter", "call $inner i64.const 1")
	m.Custom("name", []byte("\x01\x08\x01\x02\x05inner"))
	engines(t, func(t *testing.T, r *plugins.Runtime) {
		p := load(t, r, m.Bytes(), spec())
		f := decide(t, p, filter, bodies("a")).Decisions[0].Failure
		if f == nil || f.Class != plugins.ClassTrap || f.Message != "unreachable" || !strings.Contains(f.Stack, "inner") ||
			f.Digest != p.Module().Digest() || f.Fuel <= 0 || f.Fuel > 1000 {
			t.Errorf("%+v", f)
		}
	})
}

// TestFailureOfFuelSaysWhere: the stack of a spent budget begins with the guest's own function, although another one ended it.
func TestFailureOfFuelSaysWhere(t *testing.T) {
	m := plugintest.Guest()
	m.Func("$inner", "", "", "loop br 0 end")
	m.Hook("tw_filter", "call $inner i64.const 1")
	m.Custom("name", []byte("\x01\x08\x01\x02\x05inner"))
	engines(t, func(t *testing.T, r *plugins.Runtime) {
		p := load(t, r, m.Bytes(), spec())
		if f := decide(t, p, filter, bodies("a")).Decisions[0].Failure; f == nil || f.Class != plugins.ClassFuel || !strings.HasPrefix(f.Stack, ".inner()") {
			t.Errorf("%+v", f)
		}
	})
}

func TestPolicies(t *testing.T) {
	r := open(t, plugins.Options{})
	for _, c := range []struct {
		policy  plugins.Policy
		attempt uint32
		want    string
		decided int
	}{
		{plugins.Policy{OnError: plugins.OnErrorDeadLetter}, 0, "keep dead_letter(trap) drop:7", 3},
		{plugins.Policy{OnError: plugins.OnErrorSkip}, 0, "keep keep(trap) drop:7", 3},
		{plugins.Policy{OnError: plugins.OnErrorDrop}, 0, "keep drop(trap) drop:7", 3},
		{plugins.Policy{OnError: plugins.OnErrorBlock}, 0, "keep unset(trap) unset", 1},
		{plugins.Policy{OnError: plugins.OnErrorBlock, FailOpen: true}, 0, "keep unset(trap) unset", 1},
		{plugins.Policy{OnError: plugins.OnErrorRetry, RetryMax: 3, RetryDelayMs: 500}, 2, "keep retry(trap) drop:7", 3},
		{plugins.Policy{OnError: plugins.OnErrorRetry, RetryMax: 3}, 3, "keep dead_letter(trap) drop:7", 3},
	} {
		s := spec()
		s.Policy = c.policy
		p := load(t, r, plugintest.Scripted(), s)
		records := bodies("a", "!", "d")
		records[1].Attempt = c.attempt
		a := decide(t, p, filter, records)
		if got := actions(a); got != c.want || a.Decided != c.decided {
			t.Errorf("%+v: %s, %d decided, want %s, %d", c.policy, got, a.Decided, c.want, c.decided)
		}
		if v := a.Decisions[1].Verdict; v.Action() == abi.Retry && v.Arg() != 500 {
			t.Errorf("retry after %d ms", v.Arg())
		}
		p.Close()
	}
}

// TestQuarantine: deaths without an answer stop the calls, pauses double, one record is tried, an answer ends it.
func TestQuarantine(t *testing.T) {
	s := spec()
	s.Policy.QuarantineAfter, s.Policy.QuarantineMs, s.Policy.QuarantineMaxMs = 3, 1000, 3000
	p := load(t, open(t, plugins.Options{}), plugintest.Scripted(), s)
	call := filter
	step := func(afterMs int64, want string, state plugins.State, all ...string) {
		t.Helper()
		call.NowMs += afterMs
		if got := actions(decide(t, p, call, bodies(all...))); got != want || p.Stats().State != state {
			t.Errorf("%v after %d ms: %s, %v, want %s, %v", all, afterMs, got, p.Stats().State, want, state)
		}
	}
	step(0, "dead_letter(trap) dead_letter(trap) keep", plugins.Active, "!", "!", "a")
	step(0, "dead_letter(trap) dead_letter(trap) dead_letter(trap) unset", plugins.Quarantined, "!", "!", "!", "a")
	step(999, "unset unset", plugins.Quarantined, "a", "a")
	step(1, "dead_letter(trap) unset", plugins.Quarantined, "!", "a")
	step(1999, "unset", plugins.Quarantined, "a")
	step(1, "dead_letter(trap) unset", plugins.Quarantined, "!", "a")
	step(2999, "unset", plugins.Quarantined, "a")
	step(1, "keep drop:7 keep", plugins.Active, "a", "d", "a")
	step(0, "dead_letter(trap)", plugins.Active, "!")
	step(0, "dead_letter(trap)", plugins.Active, "!")
	step(0, "dead_letter(trap)", plugins.Quarantined, "!") // one record per batch makes a streak as well
	if s := p.Stats(); s.Quarantines != 4 {
		t.Errorf("%d quarantines, want 4", s.Quarantines)
	}
	step(-500, "unset", plugins.Quarantined, "a")
	step(-3_600_000, "keep", plugins.Active, "a") // the clock was set back
}

func TestQuarantineOpen(t *testing.T) {
	s := spec()
	s.Policy.QuarantineAfter, s.Policy.FailOpen = 1, true
	p := load(t, open(t, plugins.Options{}), plugintest.Scripted(), s)
	if got := actions(decide(t, p, filter, bodies("!", "d"))); got != "dead_letter(trap) keep(quarantined)" {
		t.Error(got)
	}
	if got := actions(decide(t, p, filter, bodies("d"))); got != "keep(quarantined)" {
		t.Error(got)
	}
}

// TestSwap: a batch is decided by one generation, and a new one that dies on trial gives way to the old one.
func TestSwap(t *testing.T) {
	r := open(t, plugins.Options{})
	s := spec()
	s.Policy.QuarantineAfter = 2
	p := load(t, r, verdicts(0x10002), s)
	next := func(wasm []byte) {
		t.Helper()
		m, err := r.Load(ctx, wasm, s)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Swap(m); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(want string, generation uint64) {
		t.Helper()
		a := decide(t, p, filter, bodies("a", "a"))
		if got := actions(a); got != want || a.Generation != generation || a.Digest != p.Module().Digest() && want == "drop" {
			t.Errorf("%s by generation %d, want %s by %d", got, a.Generation, want, generation)
		}
	}
	expect("drop:1 drop:1", 1)
	next(verdicts(0x20002))
	expect("drop:2 drop:2", 2)
	if err := p.Rollback(); err != nil {
		t.Fatal(err)
	}
	expect("drop:1 drop:1", 1)
	next(verdicts(0x30002))
	expect("drop:3 drop:3", 3)
	broken := plugintest.Guest()
	broken.Hook("tw_filter", "unreachable")
	next(broken.Bytes())
	expect("dead_letter(trap) dead_letter(trap)", 4)
	expect("drop:3 drop:3", 3)
	if s := p.Stats(); s.Reloads != 3 || s.Rollbacks != 2 {
		t.Errorf("%d reloads, %d rollbacks", s.Reloads, s.Rollbacks)
	}
}

// verdicts is a plugin that answers everything with one verdict, and dies on a body that begins with '!'.
func verdicts(v int64) []byte {
	m := plugintest.Guest()
	for h := abi.Publish; h < abi.Hooks; h++ {
		m.Hook(h.Export(), fmt.Sprintf(`
			local.get $len if result=i32 local.get $body i32.load8_u else i32.const 0 end i32.const 33 i32.eq if unreachable end i64.const %d`, v))
	}
	return m.Bytes()
}

// TestHammerDecideSwap: many goroutines decide while generations change; every batch is whole and by one generation.
func TestHammerDecideSwap(t *testing.T) {
	r := open(t, plugins.Options{})
	s := spec()
	s.Limits.Instances = 3
	p := load(t, r, verdicts(0x10002), s)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			var a plugins.Answer
			for range 200 {
				if err := p.Decide(ctx, filter, bodies("a", "!", "c"), &a); err != nil {
					t.Error(err)
					return
				}
				for i, d := range a.Decisions {
					if (d.Failure != nil) != (i == 1) || i != 1 && uint64(d.Verdict.Code()) != a.Generation {
						t.Errorf("record %d: code %d by generation %d, %v", i, d.Verdict.Code(), a.Generation, d.Failure)
					}
				}
			}
		})
	}
	for i := range 8 {
		m, err := r.Load(ctx, verdicts(int64(i+2)<<16|2), s)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Swap(m); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Decide(ctx, filter, bodies("a"), new(plugins.Answer)); !errors.Is(err, plugins.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := p.Close(); !errors.Is(err, plugins.ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
}

// TestBudget: the memory of all plugins is checked when they are made, not when they are busy.
func TestBudget(t *testing.T) {
	r := open(t, plugins.Options{MemoryTotal: 3 << 20})
	s := spec()
	s.Limits.Instances = 2
	a := load(t, r, verdicts(1), s)
	s.Name = "q"
	m, err := r.Load(ctx, verdicts(1), s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.NewPlugin(m); !errors.Is(err, plugins.ErrBudget) {
		t.Errorf("NewPlugin: %v", err)
	}
	if used, total := r.Reserved(); used != 2<<20 || total != 3<<20 {
		t.Errorf("reserved %d of %d", used, total)
	}
	a.Close()
	b := load(t, r, verdicts(1), s)
	// A namesake has a reservation of its own.
	s.Limits.Instances = 1
	load(t, r, verdicts(1), s)
	if used, _ := r.Reserved(); used != 3<<20 {
		t.Errorf("two plugins of one name have reserved %d", used)
	}
	// A rollback counts what runs, and not what ran before it.
	m, err = r.Load(ctx, verdicts(1), s)
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []func() error{func() error { return b.Swap(m) }, b.Rollback, b.Rollback} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
		if used, _ := r.Reserved(); used != []int64{2 << 20, 3 << 20, 2 << 20}[i] {
			t.Errorf("step %d: reserved %d", i, used)
		}
	}
}

// replacer is a transform that replaces every record by output record 0, whose body is "out", and dies on '!'.
func replacer() []byte {
	m := plugintest.Guest()
	m.Data(1024, string(output("out")))
	m.Hook("tw_transform", `
		local.get $len if result=i32 local.get $body i32.load8_u else i32.const 0 end i32.const 33 i32.eq if unreachable end
		local.get $b i32.const 1024 i32.store offset=32
		local.get $b i32.const `+fmt.Sprint(len(output("out")))+` i32.store offset=36
		i64.const 6`)
	return m.Bytes()
}

// TestReplace: output is copied, belongs to the right record, and survives a death later in the batch.
func TestReplace(t *testing.T) {
	engines(t, func(t *testing.T, r *plugins.Runtime) {
		p := load(t, r, replacer(), spec())
		call := filter
		call.Hook = abi.Transform
		a := decide(t, p, call, bodies("a", "b", "!", "c"))
		if got := actions(a); got != "replace replace dead_letter(trap) replace" {
			t.Fatal(got)
		}
		for _, i := range []int{0, 1, 3} {
			if string(a.Decisions[i].Output.Body) != "out" {
				t.Errorf("record %d replaced by %q", i, a.Decisions[i].Output.Body)
			}
		}
	})
}

func output(body string) []byte {
	b, err := abi.AppendBatch(nil, abi.Head{}, []abi.Record{{Body: []byte(body)}})
	if err != nil {
		panic(err)
	}
	return b
}

// TestDecideSplits: batches are cut by count and bytes, and what is too large is not given to the plugin.
func TestDecideSplits(t *testing.T) {
	s := spec()
	s.Limits.BatchMax, s.Limits.BatchBytes, s.Limits.RecordBytes = 7, 4000, 10_000
	p := load(t, open(t, plugins.Options{}), plugintest.Scripted(), s)
	all := make([]string, 50)
	for i := range all {
		all[i] = "d" + strings.Repeat("x", i*300%15_000)
	}
	a := decide(t, p, filter, bodies(all...))
	for i, d := range a.Decisions {
		tooLarge := len(all[i]) > 9800
		if tooLarge != (d.Failure != nil && d.Failure.Class == plugins.ClassTooLarge) || tooLarge == (d.Verdict.Action() == abi.Drop) {
			t.Errorf("record %d of %d bytes: %v, %v", i, len(all[i]), d.Verdict.Action(), d.Failure)
		}
	}
	if a.Deaths != 0 {
		t.Errorf("%d deaths", a.Deaths)
	}
}

func TestDecideErrors(t *testing.T) {
	m := plugintest.Guest()
	m.Hook("tw_filter", "i64.const 1")
	p := load(t, open(t, plugins.Options{}), m.Bytes(), spec())
	call := filter
	call.Hook = abi.Publish
	var a plugins.Answer
	if err := p.Decide(ctx, call, bodies("a"), &a); !errors.Is(err, plugins.ErrHook) || a.Decided != 0 {
		t.Errorf("a hook it does not have: %v", err)
	}
	if err := p.Decide(ctx, filter, nil, &a); err != nil || len(a.Decisions) != 0 {
		t.Errorf("no records: %v", err)
	}
	if err := p.Rollback(); !errors.Is(err, plugins.ErrNoPrevious) {
		t.Errorf("Rollback: %v", err)
	}
}

// TestDecideAloneBeforeBlame: a record on which a call of several ran out of fuel is asked alone, also by a plugin that one death
// quarantines.
func TestDecideAloneBeforeBlame(t *testing.T) {
	m := plugintest.Guest()
	m.Hook("tw_filter", "i32.const 10000 local.set $x loop $l local.get $x i32.const 1 i32.sub local.tee $x br_if $l end i64.const 1")
	s := spec()
	s.Policy.QuarantineAfter = 1
	engines(t, func(t *testing.T, r *plugins.Runtime) {
		p := load(t, r, m.Bytes(), s) // 20,000 a call and 20,000 a record
		a := decide(t, p, filter, bodies("a", "b", "c", "d"))
		if got := actions(a); got != "keep keep keep keep" || a.Deaths == 0 || p.Stats().State != plugins.Active {
			t.Errorf("%s with %d deaths and %d units, then %v", got, a.Deaths, a.Fuel, p.Stats().State)
		}
	})
}

// TestDecideOutputBeforeQuarantine: what was decided before a death stands although its output is gone with the instance, also
// when that death quarantines.
func TestDecideOutputBeforeQuarantine(t *testing.T) {
	s := spec()
	s.Policy.QuarantineAfter = 1
	engines(t, func(t *testing.T, r *plugins.Runtime) {
		p := load(t, r, replacer(), s)
		call := filter
		call.Hook = abi.Transform
		a := decide(t, p, call, bodies("a", "b", "!", "c"))
		if got := actions(a); got != "replace replace dead_letter(trap) unset" || string(a.Decisions[1].Output.Body) != "out" {
			t.Error(got)
		}
	})
}

// TestLogs: what a plugin writes is one line, and no more lines than its rate.
func TestLogs(t *testing.T) {
	m := plugintest.GuestWith(func(m *plugintest.Module) { m.Import("tw_v1", "log", "i32 i32 i32 -> i32") })
	m.Data(16, "hello\n\x01world\xff")
	m.Hook("tw_filter", "i32.const 4 i32.const 16 i32.const 13 call $log drop i64.const 1")
	var text strings.Builder
	r := open(t, plugins.Options{Log: slog.New(slog.NewTextHandler(&text, nil))})
	s := spec()
	s.Limits.LogPerSecond = 3
	p := load(t, r, m.Bytes(), s)
	decide(t, p, filter, bodies("a", "b", "c", "d", "e"))
	lines := p.Logs()
	if len(lines) != 3 || lines[0].Text != "hello  world?" || lines[0].Level != slog.LevelWarn || p.Stats().LogDropped != 2 {
		t.Errorf("%+v, %d dropped", lines, p.Stats().LogDropped)
	}
	if n := strings.Count(text.String(), `line="hello  world?"`); n != 3 {
		t.Errorf("%d lines in the log:\n%s", n, text.String())
	}
}

// TestDecideAllocatesNothing: in the steady state deciding a batch makes no garbage on the host.
func TestDecideAllocatesNothing(t *testing.T) {
	p := load(t, open(t, plugins.Options{}), plugintest.Scripted(), spec())
	records := bodies(strings.Split(strings.Repeat("ad", 32), "")...)
	var a plugins.Answer
	if n := testing.AllocsPerRun(100, func() {
		if err := p.Decide(ctx, filter, records, &a); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations per batch", n)
	}
}

func ExamplePlugin() {
	r, err := plugins.NewRuntime(plugins.Options{})
	if err != nil {
		panic(err)
	}
	defer r.Close()
	module, err := r.Load(context.Background(), plugintest.Scripted(), plugins.Spec{
		Name:   "script",
		Policy: plugins.Policy{OnError: plugins.OnErrorDeadLetter},
	})
	if err != nil {
		panic(err)
	}
	plugin, err := r.NewPlugin(module)
	if err != nil {
		panic(err)
	}
	defer plugin.Close()
	var answer plugins.Answer
	records := []abi.Record{{ID: 1, Body: []byte("a")}, {ID: 2, Body: []byte("!")}, {ID: 3, Body: []byte("d")}}
	if err := plugin.Decide(context.Background(), plugins.Call{Hook: abi.Filter, NowMs: 1700000000000}, records, &answer); err != nil {
		panic(err)
	}
	for i, d := range answer.Decisions {
		fmt.Println(records[i].ID, d.Verdict.Action())
	}
	// Output:
	// 1 keep
	// 2 dead_letter
	// 3 drop
}

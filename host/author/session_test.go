package author_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/host/author"
	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
	"github.com/tidewheel/tidewheel/plugins/guest/golden"
	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

var ctx = context.Background()

func open(t *testing.T, module []byte) *author.Session {
	t.Helper()
	s, err := author.Open(ctx, module, author.Setting{MemoryMax: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func records(bodies ...string) []golden.Record {
	var all []golden.Record
	for _, b := range bodies {
		all = append(all, golden.Record{Body: []byte(b), Key: "k-" + b, NowMs: golden.DefaultNowMs})
	}
	return all
}

// TestSessionRun: each record has its verdict, its cost and its reason, and a plugin that only dies is asked for ever.
func TestSessionRun(t *testing.T) {
	s := open(t, plugintest.Scripted())
	for _, c := range []struct{ body, want, failure string }{
		{"a", `{"action":"keep"}`, ""},
		{"d", `{"action":"drop","code":7}`, ""},
		{"!", `{"action":"error","failure":"trap"}`, "unreachable"},
		{"s", `{"action":"error","failure":"fuel"}`, "out of fuel"},
		{"e", `{"action":"error","code":5,"failure":"error","text":"error 5"}`, "error 5"},
	} {
		for range 8 { // more than any quarantine
			o, err := s.Run(ctx, abi.Filter, records(c.body)[0])
			if err != nil {
				t.Fatal(err)
			}
			if got := o.Verdict.String(); got != c.want || (o.Failure != nil) != (c.failure != "") || o.Fuel <= 0 || o.Memory != 2<<16 {
				t.Errorf("%s: %s, %+v, fuel %d, memory %d", c.body, got, o.Failure, o.Fuel, o.Memory)
			}
			if o.Failure != nil && !strings.Contains(o.Failure.Message, c.failure) {
				t.Errorf("%s: %v", c.body, o.Failure)
			}
		}
	}
}

// TestSessionLog: what a plugin says belongs to the record at which it said it.
func TestSessionLog(t *testing.T) {
	m := plugintest.GuestWith(func(m *plugintest.Module) { m.Import("tw_v1", "log", "i32 i32 i32 -> i32") })
	m.Hook("tw_filter", `i32.const 4 local.get $body local.get $len call $log drop i64.const 1`)
	s := open(t, m.Bytes())
	for _, body := range []string{"one", "two"} {
		o, err := s.Run(ctx, abi.Filter, records(body)[0])
		if err != nil || fmt.Sprint(o.Log) != "[{WARN "+body+"}]" {
			t.Errorf("%v, %v", o.Log, err)
		}
	}
}

// TestOpenRefuses: the reason is the plugin's, without a name that nobody gave it.
func TestOpenRefuses(t *testing.T) {
	_, err := author.Open(ctx, []byte("nonsense"), author.Setting{})
	if err == nil || strings.Contains(err.Error(), "load plugin") {
		t.Errorf("got %v", err)
	}
	if _, err := author.Open(ctx, plugintest.Scripted(), author.Setting{Config: []byte("[]")}); !errors.Is(err, plugins.ErrSpec) {
		t.Errorf("got %v", err)
	}
}

// remembers is a plugin that drops every record but its first.
func remembers() []byte {
	m := plugintest.Guest()
	m.Hook("tw_filter", `
		i32.const 0 i32.load local.set $x
		i32.const 0 i32.const 1 i32.store
		i64.const 2 i64.const 1 local.get $x select`)
	return m.Bytes()
}

// TestVerify: a plugin that answers by its input agrees with itself; one that remembers is found out.
func TestVerify(t *testing.T) {
	in := []author.Input{{File: "f", Hook: abi.Filter, Records: records("a", "d", "e", "!", "a")}}
	v, err := author.Verify(ctx, plugintest.Scripted(), author.Setting{}, in)
	if err != nil || v.Records != 5 || len(v.Differences)+len(v.State) != 0 {
		t.Errorf("%+v, %v", v, err)
	}
	in[0].Records = records("a", "b", "c")
	v, err = author.Verify(ctx, remembers(), author.Setting{}, in)
	if err != nil || len(v.Differences) != 0 || len(v.State) != 2 {
		t.Fatalf("%+v, %v", v, err)
	}
	if got := v.State[0].String(); !strings.Contains(got, "record 1") || !strings.Contains(got, "k-a") {
		t.Error(got)
	}
}

// TestBench: every size is measured, with its fuel, beside the empty plugin; a plugin that fails is not measured.
func TestBench(t *testing.T) {
	s := open(t, plugintest.Scripted())
	costs, err := author.Bench(ctx, s, abi.Filter, author.Sample(10), []int{1, 4}, 20*time.Millisecond)
	if err != nil || len(costs) != 2 {
		t.Fatal(costs, err)
	}
	for i, c := range costs {
		if c.Batch != []int{1, 4}[i] || c.Ns <= 0 || c.EmptyNs <= 0 || c.Fuel <= 0 || c.Ratio() != c.Ns/c.EmptyNs {
			t.Errorf("%+v", c)
		}
	}
	if _, err := author.Bench(ctx, s, abi.Filter, records("a", "!"), []int{2}, time.Millisecond); !errors.Is(err, author.ErrFails) {
		t.Errorf("got %v", err)
	}
}

// TestEachRecord: bad lines are named and passed over, empty ones count.
func TestEachRecord(t *testing.T) {
	var got []string
	err := author.EachRecord(strings.NewReader("{\"key\":\"a\"}\n\nnonsense\n{\"kye\":1}\n{\"key\":\"b\"}"), func(line int, r golden.Record, bad *author.LineError) error {
		if bad != nil {
			got = append(got, fmt.Sprintf("%d bad", bad.Line))
			return nil
		}
		got = append(got, fmt.Sprintf("%d %s", line, r.Key))
		return nil
	})
	if s := strings.Join(got, ", "); err != nil || s != "1 a, 3 bad, 4 bad, 5 b" {
		t.Errorf("%s, %v", s, err)
	}
	err = author.EachRecord(strings.NewReader("\n"+strings.Repeat("x", golden.MaxLine+1)), func(int, golden.Record, *author.LineError) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "line 2 is longer than 8 MiB") {
		t.Errorf("got %v", err)
	}
}

// TestInputs: files of records are found by their hooks, files of verdicts say how many targets there are.
func TestInputs(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"filter.ndjson": `{"key":"a"}`, "filter-more.ndjson": "{}\n{}", "filter.verdicts.ndjson": `{"action":"route","target":2}`,
		"other.ndjson": "nonsense", "config.json": "{}",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	in, err := author.Inputs(dir)
	if err != nil || len(in) != 2 || len(in[0].Records) != 2 || in[1].Hook != abi.Filter {
		t.Errorf("%+v, %v", in, err)
	}
	if n, err := author.Targets(dir); n != 3 || err != nil {
		t.Errorf("%d targets, %v", n, err)
	}
	if in, err := author.Inputs(filepath.Join(dir, "none")); len(in) != 0 || err != nil {
		t.Errorf("without a directory: %v, %v", in, err)
	}
}

package plugins_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
)

// small runs a test with the C and the AssemblyScript plugin, which do the same, in both engines.
func small(t *testing.T, s plugins.Spec, f func(t *testing.T, lang string, p *plugins.Plugin)) {
	t.Helper()
	s.Grants = plugins.Grants{JSON: true, Headers: true, Match: true}
	for lang, build := range map[string]func(testing.TB) []byte{"c": buildC, "as": buildAS} {
		t.Run(lang, func(t *testing.T) {
			module := build(t)
			engines(t, func(t *testing.T, r *plugins.Runtime) { f(t, lang, load(t, r, module, s)) })
		})
	}
}

// TestSmallGuests: the kits of C and AssemblyScript work in both engines, in every hook.
func TestSmallGuests(t *testing.T) {
	s := spec()
	s.Config = json.RawMessage(`{"limit":3}`)
	small(t, s, func(t *testing.T, lang string, p *plugins.Plugin) {
		if got := actions(decide(t, p, filter, bodies("a", "d", "!", "s", "d", ""))); got != "keep drop:7 dead_letter(trap) dead_letter(fuel) drop:7 keep" {
			t.Error(got)
		}
		call := filter
		call.Hook = abi.Publish
		if got := actions(decide(t, p, call, bodies(`{"paid":true}`, `{"paid":false}`, `{}`))); got != "keep drop:1 drop:1" {
			t.Error(got)
		}
		call.Hook = abi.Result
		responses := bodies("", "", "", "")
		for i, flags := range []uint32{204 << 16, 503 << 16, abi.FlagNoResponse, 200<<16 | abi.FlagCut} {
			responses[i].Flags = flags
		}
		if got := actions(decide(t, p, call, responses)); got != "keep retry:503 dead_letter:1 dead_letter:2" {
			t.Error(got)
		}
	})
}

// TestSmallGuestsMember: what the kits of C and AssemblyScript find in a configuration, and that nothing is read beyond it.
func TestSmallGuestsMember(t *testing.T) {
	s := spec()
	s.Config = json.RawMessage(`{ "a": [1, {"limit": 4}], "limit" : 42 }`)
	cases := []struct {
		text string
		want int // bytes of the member x; -1: it is not there
	}{
		{`{"x":"abc"}`, 3}, {`{"x":""}`, 0}, {`{"x":12.5}`, 4}, {`{"x":true,"y":1}`, 4}, {`{"x":null}`, 4},
		{`{"x":{"y":[1,2]},"z":1}`, 11}, {`{"x":["]"]}`, 5}, {`{"x":"\\"}`, 2}, {`{"x":"a\"b"}`, 4},
		{"\n{ \"y\" : \"x\" ,\t\"x\" : 1 }", 1}, {`{"y":{"x":1},"x":22}`, 2}, {`{"y":"{\"x\":1}","x":333}`, 3},
		{``, -1}, {` `, -1}, {`{`, -1}, {`{}`, -1}, {`[]`, -1}, {`{"y":1}`, -1}, {`{"y":{"x":1}}`, -1}, {`{x:1}`, -1}, {`{"x"}`, -1}, {`{"x":}`, -1},
		{`{"x":,"x":1}`, -1}, {`{"`, -1}, {`{"x`, -1}, {`{"x\`, -1}, {`{"y":"\`, -1}, {`{"y":1 "x":2}`, -1}, {`"x"`, -1}, {`{"xx":1,"X":2}`, -1},
	}
	small(t, s, func(t *testing.T, lang string, p *plugins.Plugin) {
		if got := actions(decide(t, p, filter, bodies("c"))); got != "drop:42" {
			t.Errorf("limit: %s", got)
		}
		for _, c := range cases {
			d := decide(t, p, filter, bodies("j"+c.text)).Decisions[0]
			got := -1
			if d.Verdict.Action() == abi.Route {
				got = int(d.Verdict.Arg())
			}
			if got != c.want || d.Failure != nil {
				t.Errorf("%s: %d bytes, want %d; %v", c.text, got, c.want, d.Failure)
			}
		}
	})
	s.Config = json.RawMessage(`{"limit":3,"refuse":true}`)
	for lang, build := range map[string]func(testing.TB) []byte{"c": buildC, "as": buildAS} {
		t.Run(lang, func(t *testing.T) {
			s.Grants = plugins.Grants{JSON: true, Headers: true, Match: true}
			if _, err := open(t, plugins.Options{}).Load(ctx, build(t), s); err == nil || !strings.Contains(err.Error(), "tw_configure") {
				t.Error(err)
			}
		})
	}
}

// TestSmallGuestsOutput: what the kits of C and AssemblyScript write as output is what the host reads, also when it grows.
func TestSmallGuestsOutput(t *testing.T) {
	s := spec()
	s.Limits.MemoryMax, s.Limits.FuelPerRecord, s.Limits.RecyclePercent = 4<<20, 100_000, 100
	small(t, s, func(t *testing.T, lang string, p *plugins.Plugin) {
		call := filter
		call.Hook = abi.Transform
		for _, n := range []int{1, 3, 100} {
			var texts []string
			for i := range n {
				texts = append(texts, strings.Repeat("x", i*17))
			}
			records := bodies(texts...)
			if n > 2 {
				records[1].Headers = abi.Headers(nil).Append([]byte("a"), []byte("bcdef")).Append([]byte("mode"), []byte("fail"))
				records[2].Headers = abi.Headers(nil).Append([]byte("mode"), []byte("say"))
			}
			for i, d := range decide(t, p, call, records).Decisions {
				if n > 2 && i == 1 {
					if d.Failure == nil || d.Failure.Code != 9 || d.Failure.Message != "told to" {
						t.Errorf("record %d of %d: %+v", i, n, d.Failure)
					}
					continue
				}
				o := d.Output
				was, _, _ := o.Headers.Get("was")
				if d.Failure != nil || string(o.Topic) != "orders" || string(o.Key) != "new" || string(o.Body) != texts[i] || string(was) != fmt.Sprint("k", i) {
					t.Fatalf("record %d of %d: %+v, %+v", i, n, o, d.Failure)
				}
			}
		}
		if l := p.Logs(); len(l) != 2 || l[0].Text != "said it" {
			t.Errorf("log %+v", l)
		}
		call.Hook = abi.Prepare
		records := bodies("x", "")
		records[0].Headers = abi.Headers(nil).Append([]byte("a"), []byte("b"))
		d := decide(t, p, call, records).Decisions
		if o := d[0].Output; string(o.Topic) != "https://example.com/hook" || len(o.Key) != 0 || string(o.Body) != "x" || string(o.Headers) != string(records[0].Headers) {
			t.Errorf("prepare: %+v", o)
		}
		if o := d[1].Output; string(o.Topic) != "https://example.com/hook" || len(o.Body) != 0 || len(o.Headers) != 0 {
			t.Errorf("prepare: %+v", o)
		}
	})
}

// TestSmallGuestsNoRoom: an output for which there is no memory fails its record alone.
func TestSmallGuestsNoRoom(t *testing.T) {
	s := spec()
	s.Limits.MemoryMax, s.Limits.FuelPerRecord, s.Limits.RecordBytes, s.Limits.RecyclePercent = 1<<20, 1_000_000, 500<<10, 100
	small(t, s, func(t *testing.T, lang string, p *plugins.Plugin) {
		call := filter
		call.Hook = abi.Transform
		a := decide(t, p, call, bodies("a", strings.Repeat("x", 490<<10), "b"))
		want := map[string]string{"c": "replace dead_letter:65534(error) replace", "as": "replace dead_letter(memory) replace"}[lang]
		if got := actions(a); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// TestCGuestOwnAlloc: a C plugin with an allocator of its own writes its output where that leaves room, and nowhere else.
func TestCGuestOwnAlloc(t *testing.T) {
	p := load(t, open(t, plugins.Options{}), built(t, ownGuest), spec())
	call := filter
	call.Hook = abi.Transform
	a := decide(t, p, call, bodies("a", strings.Repeat("x", 500), "b"))
	if got := actions(a); got != "replace dead_letter:65534(error) replace" || string(a.Decisions[2].Output.Body) != "b" {
		t.Errorf("%s, %+v", got, a.Decisions)
	}
}

// TestASGuest: what only the AssemblyScript kit has: errors that are thrown and named in the log, columns of headers
// and patterns, and memory that is given back between calls.
func TestASGuest(t *testing.T) {
	s := spec()
	s.Limits.MemoryMax, s.Limits.LogPerSecond = 1<<20, 1000
	s.Limits.FuelPerRecord = 100_000
	s.Config = json.RawMessage(`{"limit":3}`)
	s.Grants = plugins.Grants{JSON: true, Headers: true, Match: true}
	r := open(t, plugins.Options{})
	p := load(t, r, buildAS(t), s)
	records := bodies("e", "!", "r", "o", "f", "t")
	records[5].StoredMs, records[5].DueMs = 1000, 1250
	call := filter
	call.NowMs += 7
	a := decide(t, p, call, records)
	if got := actions(a); got != "dead_letter:3(error) dead_letter(trap) route dead_letter(trap) defer retry:7" || a.Decisions[2].Verdict.Arg() != 2 || a.Decisions[5].Verdict.Arg() != 250 {
		t.Errorf("%s, %v", got, a.Decisions)
	}
	if m := a.Decisions[0].Failure.Message; m != `{"limit":3}` {
		t.Errorf("message %q", m)
	}
	var lines []string
	for _, l := range p.Logs() {
		lines = append(lines, l.Text)
	}
	if text := strings.Join(lines, "\n"); !strings.Contains(text, "poison (testdata/filter.ts:") || !strings.Contains(text, "index outside of the slice (tidewheel.ts:") {
		t.Errorf("log:\n%s", text)
	}

	call.Hook = abi.Publish
	records = bodies(`{"paid":true}`, `{"paid":true}`, `{"paid":true}`)
	records[0].Headers = abi.Headers(nil).Append([]byte("mode"), []byte("föhn"))
	records[1].Topic = []byte("other")
	for range 2 { // the second call asks the host again
		if got := actions(decide(t, p, call, records)); got != "drop:3 drop:2 keep" {
			t.Error(got)
		}
		records[0], records[2] = records[2], records[0]
		if got := actions(decide(t, p, call, records)); got != "keep drop:2 drop:3" {
			t.Error(got)
		}
		records[0], records[2] = records[2], records[0]
	}

	started := p.Stats().Started
	for range 1000 {
		if got := actions(decide(t, p, filter, bodies("m"))); got != "drop:100" {
			t.Fatal(got)
		}
	}
	if n := p.Stats().Started - started; n != 0 {
		t.Errorf("%d instances were started: the garbage of a call is not given back", n)
	}
}

package pluginhost_test

import (
	"crypto/sha256"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/pluginhost"
	"github.com/tidewheel/tidewheel/plugins/abi"
)

// TestMatches: patterns cover whole names.
func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"orders", "orders", true}, {"orders", "orders2", false}, {"orders*", "orders", true}, {"orders-*", "orders", false},
		{"*", "", true}, {"*", "a", true}, {"?", "", false}, {"?", "a", true}, {"?", "ab", false}, {"a?c", "abc", true},
		{"*-eu", "orders-eu", true}, {"*-eu", "orders-eu-2", false}, {"a*b*c", "axxbyyc", true}, {"a*b*c", "axxbyy", false},
		{"a*b*c", "abbbc", true}, {"**", "x", true}, {"", "", true}, {"", "x", false}, {"*a*a*a*", "aa", false}, {"Orders", "orders", false},
	} {
		if got := pluginhost.Matches(c.pattern, c.name); got != c.want {
			t.Errorf("%q, %q: %v", c.pattern, c.name, got)
		}
	}
}

// TestVerdicts: each verdict becomes the broker's action, with its code, delay and target.
func TestVerdicts(t *testing.T) {
	d := newDesk(t)
	d.write("a.wasm", byFirst(verdict(abi.Keep, 0, 0), map[byte]int64{
		'd': verdict(abi.Drop, 7, 0), 'r': verdict(abi.Retry, 8, 1500), 'z': verdict(abi.Retry, 0, 0), 'l': verdict(abi.DeadLetter, 9, 0),
		'0': verdict(abi.Route, 1, 0), '1': verdict(abi.Route, 2, 1), '2': verdict(abi.Route, 3, 2), 'e': verdict(abi.Error, 5, 0), 'n': verdict(abi.Defer, 0, 0),
		'v': verdict(abi.Replace, 0, 0),
	}))
	d.open(table("a", `targets = ["orders-eu", "elsewhere"]`))
	d.expect(d.due("orders-eu", "x", "d", "r", "z", "l", "0", "1", "2", "e", "n", "!", "v", ""),
		"keep drop:7 retry:8+1.5s retry+1ms dead_letter:9 keep route:2>elsewhere dead_letter dead_letter:5 keep dead_letter dead_letter keep")
	ds, err := d.Due(ctx, "orders", messages("d", "!", "n", "x"))
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(byFirst(0, nil))
	for i, x := range ds {
		if x.Digest == digest || len(x.Asked) != 1 {
			t.Errorf("%d: digest %x of %x", i, x.Digest, x.Asked)
		}
	}
	if ds[0].Plugin != "a" || ds[2].Plugin != "" || ds[3].Plugin != "a" || ds[0].Digest != ds[0].Asked[0] {
		t.Errorf("%+v", ds)
	}
	if r := ds[1].Reason; !strings.HasPrefix(r, "trap: unreachable, after ") || !strings.Contains(r, " fuel, in ") || ds[0].Reason != "" {
		t.Errorf("%q, %q", ds[1].Reason, ds[0].Reason)
	}
}

// TestWhere: patterns of topics and groups, the place, and the topics that are nobody's say who is asked.
func TestWhere(t *testing.T) {
	d := newDesk(t)
	d.write("x.wasm", byFirst(verdict(abi.Keep, 0, 0), nil, abi.Publish, abi.Filter, abi.Transform))
	open := func(name, hooks, match, more string) string {
		return "[[plugin]]\nfile = \"x.wasm\"\non_error = \"skip\"\ninstances = 1\nlimits = { memory_max = \"2MiB\" }\nname = \"" + name + "\"\nhooks = " + hooks + "\nmatch = " + match + "\n" + more + "\n"
	}
	d.open(open("p", `["publish"]`, `["in-*"]`, `fail = "open"`) + open("d", `["filter"]`, `["due-*", "both"]`, "") +
		open("c", `["transform"]`, `["*"]`, "at = \"consume\"\ngroups = [\"billing\", \"a*\"]"))
	for _, c := range []struct {
		topic, group           string
		publish, due, consumed bool
	}{
		{"in-x", "billing", true, false, true}, {"due-x", "audit", false, true, true}, {"both", "other", false, true, false},
		{"x", "a", false, false, true}, {"%RETRY%billing", "billing", false, false, false}, {"%STAGE%both", "billing", false, false, false},
	} {
		if p, s, g := d.Publishes(c.topic), d.Stages(c.topic), d.Consumes(c.group, c.topic); p != c.publish || s != c.due || g != c.consumed {
			t.Errorf("%+v: %v %v %v", c, p, s, g)
		}
	}
	if got, err := d.Due(ctx, "x", messages("a", "b")); err != nil || told(got) != "keep keep" || got[0].Asked != nil {
		t.Errorf("nobody is asked: %+v, %v", got, err)
	}
}

// TestOrder: the lowest order is asked first, then the name decides; the first answer that is not keep is the last one.
func TestOrder(t *testing.T) {
	d := newDesk(t)
	d.write("z.wasm", byFirst(verdict(abi.Keep, 0, 0), map[byte]int64{'1': verdict(abi.Drop, 1, 0), '2': verdict(abi.Defer, 0, 0)}))
	d.write("a.wasm", byFirst(verdict(abi.Keep, 0, 0), map[byte]int64{'1': verdict(abi.Drop, 2, 0), '2': verdict(abi.Drop, 2, 0)}))
	d.write("b.wasm", byFirst(verdict(abi.Keep, 0, 0), map[byte]int64{'1': verdict(abi.Drop, 3, 0), '2': verdict(abi.Drop, 3, 0), '3': verdict(abi.Drop, 3, 0)}))
	small := "instances = 1"
	d.open(table("b", small) + table("a", small) + table("z", "order = 1", small))
	ds, err := d.Due(ctx, "orders", messages("1", "2", "3", "4"))
	if err != nil {
		t.Fatal(err)
	}
	d.expect(told(ds), "drop:1 drop:2 drop:3 keep")
	for i, want := range []string{"z", "a", "b", "b"} {
		if n := min(i+1, 3); ds[i].Plugin != want || len(ds[i].Asked) != n || ds[i].Digest != ds[i].Asked[n-1] {
			t.Errorf("%d: %s decided, %d were asked", i, ds[i].Plugin, len(ds[i].Asked))
		}
	}
	var names []string
	for _, v := range d.Plugins() {
		names = append(names, v.Table.Name)
	}
	d.expect(strings.Join(names, " "), "z a b")
}

// TestReplace: the next plugin sees what the one before it made, and the broker gets it as content of its own.
func TestReplace(t *testing.T) {
	d := newDesk(t)
	headers := abi.Headers(nil).Append([]byte("TAGS"), []byte("red")).Append([]byte("n"), []byte("1"))
	d.write("t.wasm", replacing(abi.Record{Topic: []byte("ignored"), Key: []byte("k"), Headers: headers, Body: []byte("made")}))
	d.write("u.wasm", byFirst(verdict(abi.Keep, 0, 0), map[byte]int64{'m': verdict(abi.Drop, 4, 0)}))
	transform := `[[plugin]]
name = "t"
file = "t.wasm"
hooks = ["transform"]
match = ["*"]
on_error = "skip"
`
	d.open(transform + table("u", "order = 200"))
	ds, err := d.Due(ctx, "topic", messages("a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	want := &broker.Content{Key: "k", Tag: "red", Properties: map[string]string{"n": "1"}, Body: []byte("made")}
	for _, x := range ds {
		if x.Action != broker.ActionReplace || !reflect.DeepEqual(x.Message, want) || x.Plugin != "t" {
			t.Errorf("%+v, content %+v", x, x.Message)
		}
	}
	d.due("topic", "c") // its memory is used again
	if string(ds[0].Message.Body) != "made" {
		t.Errorf("the content changed afterwards: %q", ds[0].Message.Body)
	}
	d.expect(d.due("orders", "a"), "drop:4") // u sees what t made
}

// TestReplaceAndRoute: what one plugin has changed and the next one routes goes there changed; what was not changed, as it is.
func TestReplaceAndRoute(t *testing.T) {
	d := newDesk(t)
	d.write("t.wasm", replacing(abi.Record{Body: []byte("made")}))
	d.write("u.wasm", byFirst(verdict(abi.Keep, 0, 0), map[byte]int64{'m': verdict(abi.Route, 0, 0), 'x': verdict(abi.Route, 0, 0)}))
	transform := "[[plugin]]\nname = \"t\"\nfile = \"t.wasm\"\nhooks = [\"transform\"]\nmatch = [\"orders-eu\"]\non_error = \"skip\"\n"
	d.open(transform + table("u", "order = 200", `targets = ["elsewhere"]`))
	for topic, want := range map[string]string{"orders-eu": "made", "orders": ""} {
		ds, err := d.Due(ctx, topic, messages("x"))
		if err != nil || len(ds) != 1 || ds[0].Action != broker.ActionRoute || ds[0].Topic != "elsewhere" {
			t.Fatalf("%s: %+v, %v", topic, ds, err)
		}
		body := ""
		if ds[0].Message != nil {
			body = string(ds[0].Message.Body)
		}
		if body != want {
			t.Errorf("%s: %q is routed, want %q", topic, body, want)
		}
	}
}

// TestRecord: a plugin sees the id, times, attempts, key, tag and properties of a message.
func TestRecord(t *testing.T) {
	m := messages("body")[0]
	m.Key, m.Tag = []byte("k"), []byte("red")
	m.Properties = message.AppendProperty(message.AppendProperty(nil, "a", "1"), "b", "")
	var r abi.Record
	buf := pluginhost.Record(&r, "orders", &m, abi.Headers(nil).Append([]byte("of"), []byte("another")))
	if r.ID != 1 || r.StoredMs != 5 || r.DueMs != 9 || r.Attempt != 2 || string(r.Topic) != "orders" || string(r.Key) != "k" || string(r.Body) != "body" {
		t.Errorf("%+v", r)
	}
	var got []string
	for h := r.Headers; ; {
		name, value, rest, ok := h.Next()
		if !ok {
			break
		}
		got, h = append(got, string(name)+"="+string(value)), rest
	}
	if strings.Join(got, " ") != "TAGS=red a=1 b=" || !buf.Whole() {
		t.Errorf("headers %v", got)
	}
}

// TestUnreadable: a damaged message goes through unasked, and the others are asked.
func TestUnreadable(t *testing.T) {
	d := newDesk(t)
	d.write("a.wasm", byFirst(verdict(abi.Drop, 1, 0), nil))
	d.open(table("a"))
	list := messages("a", "b", "c")
	list[1] = engine.Message{Err: errors.New("damaged")}
	ds, err := d.Due(ctx, "orders", list)
	if err != nil || told(ds) != "drop:1 keep drop:1" || ds[1].Asked != nil {
		t.Errorf("%s, %v", told(ds), err)
	}
}

// TestPublish: what is put is asked about with its key, tag and properties; the same put draws the same.
func TestPublish(t *testing.T) {
	d := newDesk(t)
	d.write("a.wasm", byFirst(verdict(abi.Keep, 0, 0), map[byte]int64{'d': verdict(abi.Drop, 422, 0), 'b': 0}, abi.Publish))
	d.open(strings.ReplaceAll(table("a", `fail = "closed"`), "filter", "publish"))
	put := func(bodies ...string) string {
		var list []*broker.Message
		for _, b := range bodies {
			list = append(list, &broker.Message{Topic: "orders", Tag: "t", Properties: map[string]string{"x": "y"}, Body: []byte(b)})
		}
		ds, err := d.Publish(ctx, "orders", list)
		if err != nil {
			t.Fatal(err)
		}
		return told(ds)
	}
	d.expect(put("a", "d", "b", ""), "keep drop:422 dead_letter keep")
}

// TestBlock: what a plugin that blocks fails on is undecided, and so is what stands behind it.
func TestBlock(t *testing.T) {
	d := newDesk(t)
	d.write("a.wasm", byFirst(verdict(abi.Keep, 0, 0), map[byte]int64{'d': verdict(abi.Drop, 1, 0)}))
	d.write("b.wasm", byFirst(verdict(abi.Keep, 0, 0), map[byte]int64{'e': verdict(abi.Error, 1, 0)}))
	d.open(table("a") + strings.ReplaceAll(table("b"), "dead_letter", "block"))
	d.expect(d.due("orders", "x", "d", "y", "e", "d", "z"), "keep drop:1 keep")
	d.expect(d.due("orders", "e", "d"), "")
}

// TestQuarantine: a plugin that only dies is left alone for a while: closed holds the messages, open lets them pass, both
// say so, and it comes back.
func TestQuarantine(t *testing.T) {
	for _, c := range []struct{ fail, while, says string }{
		{"closed", "", "messages wait"},
		{"open", "keep keep", "messages pass without it"},
	} {
		d := newDesk(t)
		d.write("a.wasm", byFirst(verdict(abi.Keep, 0, 0), nil))
		d.open(table("a", `quarantine_after = 2`, `fail = "`+c.fail+`"`))
		first := "dead_letter dead_letter"
		if c.fail == "open" {
			first += " keep keep"
		}
		d.expect(d.due("orders", "!", "!", "x", "y"), first)
		d.expect(d.due("orders", "x", "y"), c.while)
		if ds, _ := d.Due(ctx, "orders", messages("x")); len(ds) > 0 && (ds[0].Asked != nil || ds[0].Plugin != "") {
			t.Errorf("it was not asked, and is said to have decided: %+v", ds[0])
		}
		if all := d.Attention(); len(all) != 1 || !strings.HasPrefix(all[0], "plugin a is quarantined until 2023-11-14T22:13:21Z (trap: unreachable, after ") ||
			!strings.HasSuffix(all[0], " fuel): "+c.says) {
			t.Errorf("attention: %q", all)
		}
		if v, err := d.Plugin("a"); err != nil || v.State != pluginhost.StateQuarantined || v.Stats.Quarantines != 1 || v.Stats.LastFailure == nil {
			t.Errorf("%+v, %v", v, err)
		}
		d.now += 1001
		d.expect(d.due("orders", "x", "y"), "keep keep")
		if all := d.Attention(); all != nil {
			t.Errorf("attention: %q", all)
		}
	}
}

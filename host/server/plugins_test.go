package server_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/host/client"
	"github.com/tidewheel/tidewheel/host/config"
	"github.com/tidewheel/tidewheel/host/httpapi"
	"github.com/tidewheel/tidewheel/host/server"
	"github.com/tidewheel/tidewheel/plugins/abi"
	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

// byFirst is a module whose hooks answer by the first byte of a body; '!' traps. The mark makes another file of the same code.
func byFirst(mark string, answers map[byte]abi.Verdict, hooks ...abi.Hook) []byte {
	m := plugintest.Guest()
	text := `local.get $len if result=i32 local.get $body i32.load8_u else i32.const 0 end local.set $x
		local.get $x i32.const 33 i32.eq if unreachable end
		i64.const 1`
	for _, c := range slices.Sorted(maps.Keys(answers)) {
		text += fmt.Sprintf(" i64.const %d local.get $x i32.const %d i32.ne select", answers[c], c)
	}
	for _, h := range append(hooks, abi.Filter) {
		m.Hook(h.Export(), text)
	}
	m.Custom("mark", []byte(mark))
	return m.Bytes()
}

// drops is a filter that drops what begins with d.
func drops(mark string) []byte {
	return byFirst(mark, map[byte]abi.Verdict{'d': abi.NewVerdict(abi.Drop, 7, 0)}, abi.Publish)
}

// hosting is a server with plugins in a directory of its own.
type hosting struct {
	*running
	t   *testing.T
	dir string // of data; the plugins are in dir/../plugins
	log *lockedBuffer
}

func (h *hosting) write(name string, data []byte) {
	h.t.Helper()
	file := filepath.Join(h.dir, "..", "plugins", name)
	// A rename, as one should: a file that is being written is left alone only while it changes.
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file+".new", data, 0o644), os.Rename(file+".new", file)); err != nil {
		h.t.Fatal(err)
	}
}

// config is a configuration with plugins.
func (h *hosting) config(doc string) *config.Config {
	h.t.Helper()
	return parse(h.t, h.dir, fmt.Sprintf("[plugins]\ndir = %q\nreload_interval = \"10ms\"\n", filepath.Join(h.dir, "..", "plugins"))+doc)
}

func newHosting(t *testing.T) *hosting {
	return &hosting{t: t, dir: filepath.Join(t.TempDir(), "data"), log: new(lockedBuffer)}
}

func (h *hosting) start(doc string) *hosting {
	h.t.Helper()
	h.running = start(h.t, server.Options{Config: h.config(doc), Log: logTo(h.log)})
	return h
}

// table is a [[plugin]] with a filter.
func table(name, file string, more ...string) string {
	return fmt.Sprintf("[[plugin]]\nname = %q\nfile = %q\ninstances = 1\n", name, file) +
		strings.Join(append([]string{`hooks = ["filter"]`, `match = ["orders*"]`, `on_error = "dead_letter"`}, more...), "\n") + "\n"
}

// put stores messages.
func (h *hosting) put(topic, delay string, bodies ...string) {
	h.t.Helper()
	for _, body := range bodies {
		e := httpapi.Envelope{Body: &body}
		if delay != "" {
			e.Delay = &delay
		}
		if _, err := h.c.Put(h.t.Context(), topic, e); err != nil {
			h.t.Fatal(err)
		}
	}
}

// read reads and acks n messages of a topic as a group, and then waits a little for one too many.
func (h *hosting) read(topic, group string, n int) string {
	h.t.Helper()
	var bodies []string
	for wait := 20 * time.Second; ; {
		if len(bodies) >= n {
			wait = 50 * time.Millisecond
		}
		got, err := h.c.Pull(h.t.Context(), client.Pull{Topic: topic, Group: group, Max: 100, Wait: wait})
		var p *httpapi.Problem
		if errors.As(err, &p) && p.Code == "unknown_topic" {
			return "no topic"
		}
		if err != nil {
			h.t.Fatal(err)
		}
		if len(got.Messages) == 0 {
			break
		}
		var receipts []string
		for _, m := range got.Messages {
			bodies, receipts = append(bodies, *m.Body), append(receipts, m.Receipt)
		}
		if _, err := h.c.AckReceipts(h.t.Context(), topic, receipts...); err != nil {
			h.t.Fatal(err)
		}
	}
	slices.Sort(bodies)
	return strings.Join(bodies, " ")
}

func (h *hosting) expect(got, want string) {
	h.t.Helper()
	if got != want {
		h.t.Errorf("got  %s\nwant %s", got, want)
	}
}

// until waits for something that happens in the background.
func (h *hosting) until(what string, ok func() bool) {
	h.t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			h.t.Fatal("it did not happen: " + what + "\n" + h.log.String())
		}
	}
}

// plugin is how a plugin stands.
func (h *hosting) plugin(name string) httpapi.Plugin {
	h.t.Helper()
	p, err := h.c.Plugin(h.t.Context(), name)
	if err != nil {
		h.t.Fatal(err)
	}
	return p
}

// metrics are the lines of a scrape that have a text in them.
func (h *hosting) metrics(text string) []string {
	h.t.Helper()
	resp, err := http.Get(h.URL() + "/metrics")
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Split(string(all), "\n"), func(line string) bool {
		return strings.HasPrefix(line, "#") || !strings.Contains(line, text)
	})
}

// TestPluginFilter: what is due in a topic of a plugin is filtered before anybody sees it, with a delay or without; other topics
// are as they were, and what was decided is not asked again after a restart.
func TestPluginFilter(t *testing.T) {
	h := newHosting(t)
	h.write("f.wasm", drops("1"))
	doc := table("f", "f.wasm")
	h.start(doc)
	h.put("orders", "", "a", "d1", "b")
	h.put("orders", "30ms", "c", "d2", "e")
	h.put("others", "", "d3")
	h.expect(h.read("others", "g", 1), "d3")
	h.expect(h.read("orders", "g", 4), "a b c e")
	// Nothing is left, neither of the stage nor of the group.
	g, err := h.c.Group(t.Context(), "g")
	if err != nil || g.Lag != 0 || g.Leased != 0 {
		t.Errorf("%+v, %v", g, err)
	}
	if topic, err := h.Broker().Topic(t.Context(), "orders"); err != nil || !topic.Staged || topic.StageLag != 0 {
		t.Errorf("%+v, %v", topic, err)
	}
	p := h.plugin("f")
	if p.Counts.Messages != 6 || p.Counts.Verdicts["keep"] != 4 || p.Counts.Verdicts["drop"] != 2 || p.Attention != "" {
		t.Errorf("%+v, %+v", p, p.Counts)
	}
	if err := h.stop(); err != nil {
		t.Fatal(err)
	}
	h.write("f.wasm", byFirst("all", map[byte]abi.Verdict{'a': abi.NewVerdict(abi.Drop, 1, 0), 'b': abi.NewVerdict(abi.Drop, 1, 0)}))
	h.start(doc)
	h.expect(h.read("orders", "again", 4), "a b c e")
	if n := h.plugin("f").Counts.Messages; n != 0 {
		t.Errorf("%d messages were decided about again", n)
	}
	if err := h.stop(); err != nil {
		t.Fatal(err)
	}
}

// TestPluginHotReload: a file is replaced again and again while messages flow: each message comes once or is dropped once, none
// is lost, and the plugin runs what was written last.
func TestPluginHotReload(t *testing.T) {
	h := newHosting(t)
	h.write("f.wasm", drops("0"))
	h.start(table("f", "f.wasm"))
	const most = 300
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range most {
			body := fmt.Sprintf("%s%04d", string("kd"[i%2]), i)
			if _, err := h.c.Put(context.Background(), "orders", httpapi.Envelope{Body: &body}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	var want []string
	for i := 0; i < most; i += 2 {
		want = append(want, fmt.Sprintf("k%04d", i))
	}
	for i := range 3 {
		next := drops(fmt.Sprint("next", i))
		h.write("f.wasm", next)
		digest := fmt.Sprintf("%x", sha256.Sum256(next))
		h.until("the new file runs", func() bool { return h.plugin("f").SHA256 == digest })
	}
	wg.Wait()
	h.expect(h.read("orders", "g", most/2), strings.Join(want, " "))
	p := h.plugin("f")
	if p.Generation != 4 || p.Counts.Reloads != 3 || p.Counts.Verdicts["keep"] != most/2 || p.Counts.Verdicts["drop"] != most/2 || p.Counts.Deaths != 0 {
		t.Errorf("generation %d, %+v", p.Generation, p.Counts)
	}
}

// TestPluginBrokenAtStart: a file that does not load keeps nobody from starting: the topic's messages wait or pass, others go
// on, the server is ready and says what is wrong; when the file is mended, what waited comes.
func TestPluginBrokenAtStart(t *testing.T) {
	h := newHosting(t)
	h.write("broken.wasm", []byte("not a module"))
	pin := fmt.Sprintf("sha256 = \"%x\"", sha256.Sum256(drops("pinned")))
	h.write("pinned.wasm", drops("other"))
	h.start(table("missing", "missing.wasm") +
		strings.ReplaceAll(table("broken", "broken.wasm", `fail = "open"`), "orders", "forms") +
		strings.ReplaceAll(table("pinned", "pinned.wasm", pin), "orders", "mails"))
	if err := h.c.Ready(t.Context()); err != nil {
		t.Errorf("it is not ready: %v", err)
	}
	h.put("orders", "", "a", "d1")
	h.put("forms", "", "a", "d2")
	h.put("others", "", "a")
	h.expect(h.read("forms", "g", 2), "a d2")
	h.expect(h.read("others", "g", 1), "a")
	h.expect(h.read("orders", "g", 0), "")
	st, err := h.c.Status(t.Context())
	if err != nil || st.State != httpapi.ServerReady || len(st.Attention) != 3 {
		t.Fatalf("%+v, %v", st, err)
	}
	slices.Sort(st.Attention)
	for i, want := range []string{
		"plugin broken is not loaded (wasm: ", "plugin missing is not loaded (/",
		"plugin pinned is not loaded (file differs from its pinned SHA-256: it has " + fmt.Sprintf("%x", sha256.Sum256(drops("other"))),
	} {
		if !strings.HasPrefix(st.Attention[i], want) {
			t.Errorf("%q, want %q", st.Attention[i], want)
		}
	}
	if p := h.plugin("missing"); p.State != "failed" || !strings.HasSuffix(p.Attention, "no such file or directory): messages wait") || p.Counts != nil || p.SHA256 != "" {
		t.Errorf("%+v", p)
	}
	if got := h.metrics(`tidewheel_plugin_state{plugin="missing",state="failed"} 1`); len(got) != 1 {
		t.Errorf("metrics %q", got)
	}
	if got := h.metrics(`tidewheel_plugin_queue_lag{plugin="missing"} 2`); len(got) != 1 {
		t.Errorf("metrics %q", got)
	}
	if log := h.log.String(); strings.Count(log, "a plugin could not be loaded") != 3 {
		t.Errorf("the log has %s", log)
	}
	h.write("missing.wasm", drops("1"))
	h.write("broken.wasm", drops("1"))
	h.write("pinned.wasm", drops("pinned"))
	h.expect(h.read("orders", "g", 1), "a")
	h.until("all is well", func() bool {
		st, err := h.c.Status(t.Context())
		return err == nil && st.Attention == nil
	})
	h.put("forms", "", "d3", "b")
	h.expect(h.read("forms", "g", 1), "b")
}

// TestPluginRollback: the file before decides again at a word over HTTP; a reload that fails says why and changes nothing.
func TestPluginRollback(t *testing.T) {
	h := newHosting(t)
	h.write("f.wasm", drops("1"))
	h.start(table("f", "f.wasm"))
	first := h.plugin("f").SHA256
	code := func(err error) string {
		var p *httpapi.Problem
		if errors.As(err, &p) {
			return p.Code
		}
		return fmt.Sprint(err)
	}
	_, err := h.c.RollbackPlugin(t.Context(), "f")
	h.expect(code(err), "no_previous_plugin")
	h.write("f.wasm", byFirst("2", nil))
	p, err := h.c.ReloadPlugin(t.Context(), "f")
	if err != nil || p.SHA256 == first || p.Generation != 2 || p.Previous != first {
		t.Fatalf("%+v, %v", p, err)
	}
	h.put("orders", "", "d1", "a")
	h.expect(h.read("orders", "g", 2), "a d1")
	p, err = h.c.RollbackPlugin(t.Context(), "f")
	if err != nil || p.SHA256 != first || !strings.HasPrefix(p.Attention, "was rolled back to "+first[:12]) {
		t.Fatalf("%+v, %v", p, err)
	}
	h.put("orders", "", "d2", "b")
	h.expect(h.read("orders", "g", 1), "b")
	h.write("f.wasm", []byte("broken"))
	if _, err = h.c.ReloadPlugin(t.Context(), "f"); code(err) != "plugin_not_loaded" || !strings.Contains(err.Error(), "magic") {
		t.Errorf("%v", err)
	}
	h.put("orders", "", "d3", "c")
	h.expect(h.read("orders", "g", 1), "c")
	for _, do := range []func(context.Context, string) (httpapi.Plugin, error){h.c.Plugin, h.c.ReloadPlugin, h.c.RollbackPlugin} {
		_, err := do(t.Context(), "nosuch")
		h.expect(code(err), "unknown_plugin")
	}
	_, err = h.c.PluginLogs(t.Context(), "nosuch")
	h.expect(code(err), "unknown_plugin")
}

// TestPluginReconfigure: SIGHUP's reload adds a plugin to a topic that is there, changes it, and takes it away: what is put after
// it is decided about, and what waited when it went comes through.
func TestPluginReconfigure(t *testing.T) {
	h := newHosting(t)
	h.write("f.wasm", drops("1"))
	h.start("")
	h.put("orders", "", "d1", "a")
	h.put("orders", "1h", "d9")
	h.expect(h.read("orders", "g", 2), "a d1")
	reload := func(doc, applied string) {
		t.Helper()
		r, err := h.Reload(t.Context(), h.config(doc))
		if err != nil || strings.Join(r.Applied, " ") != applied || len(r.Restart) > 0 {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	reload(table("f", "f.wasm"), "plugin.f")
	reload(table("f", "f.wasm"), "")
	h.put("orders", "", "d2", "b")
	h.expect(h.read("orders", "g", 1), "b")
	reload(table("f", "f.wasm", "order = 3"), "plugin.f")
	if p := h.plugin("f"); p.Order != 3 || p.Generation != 1 {
		t.Errorf("%+v", p)
	}
	r, err := h.Reload(t.Context(), h.config(table("f", "f.wasm")+table("new", "missing.wasm", "order = 1")))
	if err == nil || !strings.Contains(err.Error(), "load new") || strings.Join(r.Applied, " ") != "plugin.f" {
		t.Errorf("a plugin without its file: %+v, %v", r, err)
	}
	h.put("orders", "", "d3", "c")
	h.expect(h.read("orders", "g", 0), "") // the new one comes first, and holds them
	reload("", "plugin.f plugin.new")
	h.expect(h.read("orders", "g", 2), "c d3")
	h.put("orders", "", "d4")
	h.expect(h.read("orders", "g", 1), "d4")
}

// TestPluginPublish: a put that a plugin refuses is a 422 that says who and why; one that nobody can decide about is a 503.
func TestPluginPublish(t *testing.T) {
	h := newHosting(t)
	h.write("f.wasm", drops("1"))
	publish := func(name, file, topic, fail string) string {
		return strings.NewReplacer("filter", "publish", "orders", topic).Replace(table(name, file, "fail = \""+fail+"\""))
	}
	h.start(publish("gate", "f.wasm", "forms", "closed") + publish("shut", "missing.wasm", "closed-", "closed") + publish("ajar", "missing.wasm", "open-", "open"))
	put := func(topic, body string) *httpapi.Problem {
		var p *httpapi.Problem
		if _, err := h.c.Put(t.Context(), topic, httpapi.Envelope{Body: &body}); err != nil && !errors.As(err, &p) {
			t.Fatal(err)
		}
		return p
	}
	if p := put("forms", "a"); p != nil {
		t.Errorf("%+v", p)
	}
	if p := put("forms", "d1"); p == nil || p.Code != "dropped_by_plugin" || p.Status != 422 || !strings.Contains(p.Detail, `plugin "gate", code 7`) {
		t.Errorf("%+v", p)
	}
	if p := put("closed-x", "a"); p == nil || p.Code != "plugin_unavailable" || p.Status != 503 {
		t.Errorf("%+v", p)
	}
	if p := put("open-x", "d1"); p != nil {
		t.Errorf("%+v", p)
	}
	got, err := h.c.PutBatch(t.Context(), []byte(`{"topic":"forms","body":"b"}`+"\n"+`{"topic":"forms","body":"d2"}`+"\n"))
	if err != nil || len(got) != 2 || got[0].Problem != nil || got[1].Problem == nil || got[1].Problem.Code != "dropped_by_plugin" {
		t.Errorf("%+v, %v", got, err)
	}
	h.expect(h.read("forms", "g", 2), "a b")
}

// TestPluginConsume: a filter before a group reads is for that group alone.
func TestPluginConsume(t *testing.T) {
	h := newHosting(t)
	h.write("f.wasm", drops("1"))
	h.start(table("f", "f.wasm", `at = "consume"`, `groups = ["billing"]`))
	h.put("orders", "", "a", "d1", "b")
	h.expect(h.read("orders", "audit", 3), "a b d1")
	h.expect(h.read("orders", "billing", 2), "a b")
}

// TestPluginRoute: a message goes to the topic that the verdict names by its place among the targets.
func TestPluginRoute(t *testing.T) {
	h := newHosting(t)
	h.write("f.wasm", byFirst("1", map[byte]abi.Verdict{'e': abi.NewVerdict(abi.Route, 0, 0), 'u': abi.NewVerdict(abi.Route, 0, 1), 'x': abi.NewVerdict(abi.Route, 0, 2)}))
	h.start(table("f", "f.wasm", `targets = ["eu", "us"]`))
	h.put("orders", "", "e1", "u1", "a", "x1")
	h.expect(h.read("orders", "g", 1), "a")
	h.expect(h.read("eu", "g", 1), "e1")
	h.expect(h.read("us", "g", 1), "u1")
	h.until("a third target is a failure", func() bool {
		d, err := h.c.DeadGroups(t.Context())
		return err == nil && len(d.Groups) == 1 && d.Groups[0].Group == "plugin-f"
	})
	if p := h.plugin("f"); p.Last == nil || p.Last.Class != "protocol" || p.Last.Message != "route to target 2 of 2" {
		t.Errorf("%+v", p.Last)
	}
}

// TestPluginQuarantine: a plugin that only dies is quarantined: plugin, status and metrics say so, other plugins' topics go on,
// and it comes back when the file is mended.
func TestPluginQuarantine(t *testing.T) {
	h := newHosting(t)
	h.write("f.wasm", drops("1"))
	h.start(table("f", "f.wasm", "quarantine_after = 2") + strings.ReplaceAll(table("other", "f.wasm"), "orders", "mails"))
	h.put("orders", "", "!1", "!2", "!3", "a")
	h.until("it is quarantined", func() bool { return h.plugin("f").State != "active" })
	h.put("mails", "", "b", "d1")
	h.expect(h.read("mails", "g", 1), "b")
	h.until("all say so", func() bool {
		p := h.plugin("f")
		st, err := h.c.Status(t.Context())
		return err == nil && len(st.Attention) == 1 && strings.HasPrefix(st.Attention[0], "plugin f is quarantined until ") &&
			p.State == "quarantined" && p.Counts.Quarantines >= 1 && p.Last != nil && p.Last.Class == "trap" && p.Last.Stack != "" && p.QuarantinedUntilMs > 0 &&
			len(h.metrics(`tidewheel_plugin_state{plugin="f",state="quarantined"} 1`)) == 1 && len(h.metrics(`tidewheel_plugin_quarantines_total{plugin="f"}`)) == 1 &&
			len(h.metrics(`tidewheel_plugin_traps_total{class="trap",plugin="f"}`)) == 1
	})
	h.write("f.wasm", byFirst("2", nil))
	h.until("a new file ends it", func() bool { p := h.plugin("f"); return p.State == "active" && p.Generation == 2 })
	h.expect(h.read("orders", "g", 1), "a")
}

// remembers is a plugin that drops all messages once one was put.
func remembers() []byte {
	m := plugintest.Guest()
	m.Hook(abi.Publish.Export(), "i32.const 0 i32.const 1 i32.store i64.const 1")
	m.Hook(abi.Filter.Export(), fmt.Sprintf("i64.const %d i64.const 1 i32.const 0 i32.load select", abi.NewVerdict(abi.Drop, 9, 0)))
	return m.Bytes()
}

// TestPluginVerify: a server asks a plugin again about what its log says: verdicts that hang on the message alone agree, also
// after a rollback and in pieces, and those that hang on what the plugin remembers do not; serving hears nothing of it.
func TestPluginVerify(t *testing.T) {
	h := newHosting(t)
	h.write("f.wasm", drops("1"))
	h.write("m.wasm", remembers())
	h.start(table("f", "f.wasm", "quarantine_after = 1000") +
		strings.NewReplacer("orders", "mails", `["filter"]`, `["publish", "filter"]`).Replace(table("m", "m.wasm", `fail = "closed"`)))
	var bodies []string
	for i := range 40 {
		bodies = append(bodies, fmt.Sprintf("%c%02d", "ad!b"[i%4], i)+strings.Repeat("x", 200<<10)) // more than is read at a time
	}
	h.put("orders", "", bodies...)
	h.until("all is decided", func() bool { return h.plugin("f").Counts.Messages == 40 })
	before := h.plugin("f")
	verify := func(name string, from, until int64, limit int) httpapi.PluginVerified {
		t.Helper()
		v, err := h.c.VerifyPlugin(t.Context(), name, from, until, limit)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	h.until("all verdicts are in the log", func() bool { return verify("f", 0, 0, 0).Verdicts == 40 })
	v := verify("f", 0, 0, 0)
	if v.Digest != before.SHA256 || v.Compared != 40 || v.Gone != 0 || v.Other != 0 || v.Differ != 0 || len(v.Differences) != 0 || v.Next != nil {
		t.Errorf("%+v", v)
	}
	var pieces, verdicts int64
	for from := int64(0); ; pieces++ {
		p := verify("f", from, int64(v.End), 7)
		if verdicts += p.Compared; p.Differ != 0 || p.Verdicts > 7 || p.End != v.End {
			t.Fatalf("%+v", p)
		}
		if p.Next == nil {
			break
		}
		from = int64(*p.Next)
	}
	if verdicts != 40 || pieces < 5 {
		t.Errorf("%d verdicts in %d pieces", verdicts, pieces)
	}
	after := h.plugin("f")
	if a, b := after.Counts, before.Counts; a.Messages != b.Messages || a.Deaths != b.Deaths || a.Fuel != b.Fuel || a.Instances != b.Instances {
		t.Errorf("before %+v, after %+v", b, a)
	}
	all, err := h.c.Plugins(t.Context())
	if err != nil || all.MemoryReserved != 32<<20 {
		t.Errorf("%d bytes are reserved, %v", all.MemoryReserved, err)
	}

	// Another file has decided nothing; after the rollback the first one is asked.
	h.write("f.wasm", byFirst("2", nil))
	if _, err := h.c.ReloadPlugin(t.Context(), "f"); err != nil {
		t.Fatal(err)
	}
	if v := verify("f", 0, 0, 0); v.Verdicts != 0 || v.Digest == before.SHA256 {
		t.Errorf("%+v", v)
	}
	if _, err := h.c.RollbackPlugin(t.Context(), "f"); err != nil {
		t.Fatal(err)
	}
	if v := verify("f", 0, 0, 0); v.Compared != 40 || v.Differ != 0 || v.Digest != before.SHA256 {
		t.Errorf("%+v", v)
	}

	// Nothing was put yet when one begins anew.
	h.put("mails", "", bodies...)
	h.until("all is decided", func() bool { return verify("m", 0, 0, 0).Verdicts == 40 })
	v = verify("m", 0, 0, 0)
	if v.Compared != 40 || v.Differ != 40 || len(v.Differences) != 40 {
		t.Fatalf("%+v", v)
	}
	for _, d := range v.Differences {
		if d.Topic != "mails" || d.Logged != "drop 9" || d.Again != "keep" {
			t.Errorf("%+v", d)
		}
	}
}

// TestPluginVerifyRefused: without memory for one more instance, without a file, and beyond the log, it is said what is wrong.
func TestPluginVerifyRefused(t *testing.T) {
	h := newHosting(t)
	h.write("f.wasm", drops("1"))
	h.start(strings.Replace(table("f", "f.wasm"), "instances = 1", "instances = 4", 1))
	verify := func(name string, from int64, limit int) string {
		_, err := h.c.VerifyPlugin(t.Context(), name, from, 0, limit)
		var p *httpapi.Problem
		if !errors.As(err, &p) {
			t.Fatal(err)
		}
		return fmt.Sprint(p.Status, " ", p.Code, " ", p.Detail)
	}
	h.expect(verify("f", 0, 0), `503 plugin_memory not enough memory budget: one more instance wants 16777216 bytes (memory_max), and memory_total has 0 beyond what is configured`)
	h.expect(verify("nosuch", 0, 0), "404 unknown_plugin ")
	h.expect(strings.Join(strings.Fields(verify("f", 1<<40, 0))[:2], " "), "422 offset")
	h.expect(strings.Join(strings.Fields(verify("f", 0, 100_001))[:2], " "), "422 bad_field")
	if err := h.stop(); err != nil {
		t.Fatal(err)
	}
	h.start(table("missing", "missing.wasm"))
	h.expect(verify("missing", 0, 0), "422 plugin_not_loaded ")
}

package pluginhost_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/afero"
	"go.uber.org/goleak"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/config"
	"github.com/tidewheel/tidewheel/host/pluginhost"
	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ctx = context.Background()

// verdict is what a test's module answers.
func verdict(a abi.Action, code uint16, arg uint32) int64 { return int64(abi.NewVerdict(a, code, arg)) }

// byFirst is a module whose hooks answer by the first byte of a body; '!' traps.
func byFirst(otherwise int64, answers map[byte]int64, hooks ...abi.Hook) []byte {
	m := plugintest.Guest()
	if len(hooks) == 0 {
		hooks = []abi.Hook{abi.Filter}
	}
	text := fmt.Sprintf(`local.get $len if result=i32 local.get $body i32.load8_u else i32.const 0 end local.set $x
		local.get $x i32.const 33 i32.eq if unreachable end
		i64.const %d`, otherwise)
	for _, c := range slices.Sorted(maps.Keys(answers)) {
		text += fmt.Sprintf(" i64.const %d local.get $x i32.const %d i32.ne select", answers[c], c)
	}
	for _, h := range hooks {
		m.Hook(h.Export(), text)
	}
	return m.Bytes()
}

// replacing is a module whose transform puts one record in the place of each.
func replacing(r abi.Record) []byte {
	m := plugintest.Guest()
	out, err := abi.AppendBatch(nil, abi.Head{}, []abi.Record{r})
	if err != nil {
		panic(err)
	}
	m.Data(1024, string(out))
	m.Hook("tw_transform", fmt.Sprintf(
		"local.get $b i32.const 1024 i32.store offset=32 local.get $b i32.const %d i32.store offset=36 i64.const 6", len(out)))
	return m.Bytes()
}

// safe is a log that goroutines may write.
type safe struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safe) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safe) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// desk is a host with files in memory.
type desk struct {
	t   *testing.T
	fs  afero.Fs
	dir string // of data
	now int64
	log safe
	*pluginhost.Host
}

func newDesk(t *testing.T) *desk {
	return &desk{t: t, fs: afero.NewMemMapFs(), dir: t.TempDir(), now: 1_700_000_000_000}
}

func (d *desk) write(file string, data []byte) {
	d.t.Helper()
	if err := afero.WriteFile(d.fs, "/etc/plugins/"+file, data, 0o644); err != nil {
		d.t.Fatal(err)
	}
}

// config is a configuration without looking at files by itself.
func (d *desk) config(doc string) *config.Config {
	d.t.Helper()
	head := fmt.Sprintf("data_dir = %q\n[plugins]\nreload_interval = \"0\"\n", d.dir)
	c, err := config.Parse(config.Source{File: "/etc/t.toml"}, []byte(head+doc))
	if err != nil {
		d.t.Fatal(err)
	}
	return c
}

func (d *desk) open(doc string) {
	d.t.Helper()
	h, err := pluginhost.Open(ctx, pluginhost.Options{
		Config: d.config(doc), FS: d.fs, Now: func() int64 { return d.now }, Log: slog.New(slog.NewTextHandler(&d.log, nil)),
	})
	if err != nil {
		d.t.Fatal(err)
	}
	d.Host = h
	d.t.Cleanup(func() {
		if err := h.Close(); err != nil && !errors.Is(err, plugins.ErrClosed) { // the test has closed it
			d.t.Error(err)
		}
	})
}

// table is a [[plugin]] with a filter of its own file.
func table(name string, more ...string) string {
	return fmt.Sprintf("[[plugin]]\nname = %q\nfile = %q\n", name, name+".wasm") +
		strings.Join(append([]string{`hooks = ["filter"]`, `match = ["orders*"]`, `on_error = "dead_letter"`}, more...), "\n") + "\n"
}

// messages are messages that are due, with ids from 1 on.
func messages(bodies ...string) (list []engine.Message) {
	for i, b := range bodies {
		list = append(list, engine.Message{Message: message.Message{First: engine.Offset(i + 1), Body: []byte(b), StoreMs: 5, DueMs: 9, Attempts: 2}})
	}
	return list
}

// due asks about due messages and tells the answers.
func (d *desk) due(topic string, bodies ...string) string {
	d.t.Helper()
	ds, err := d.Due(ctx, topic, messages(bodies...))
	if err != nil {
		return "error: " + err.Error()
	}
	return told(ds)
}

// told are decisions as text, each with the code that is not 0.
func told(ds []broker.Decision) string {
	var words []string
	for _, x := range ds {
		w := x.Action.String()
		if x.Code != 0 {
			w += fmt.Sprintf(":%d", x.Code)
		}
		if x.Topic != "" {
			w += ">" + x.Topic
		}
		if x.Delay != 0 {
			w += "+" + x.Delay.String()
		}
		words = append(words, w)
	}
	return strings.Join(words, " ")
}

func (d *desk) expect(got, want string) {
	d.t.Helper()
	if got != want {
		d.t.Errorf("got  %s\nwant %s", got, want)
	}
}

// until waits for something that happens in the background, for as long as a test may take.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it did not happen: " + what)
		}
	}
}

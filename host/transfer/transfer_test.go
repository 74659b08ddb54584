package transfer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/broker/brokertest"
	"github.com/tidewheel/tidewheel/host/transfer"
)

// env is a world whose clock runs as the test's.
func env(fs vfs.FS) engine.Env {
	began := time.Now()
	return engine.Env{
		FS: fs, Wall: func() int64 { return time.Now().UnixMilli() }, Mono: func() int64 { return int64(time.Since(began)) },
	}
}

// fill makes a store with some of everything.
func fill(t testing.TB, fs vfs.FS) {
	t.Helper()
	ctx := context.Background()
	b, err := broker.Open(broker.Env{FS: fs}, ".", broker.Options{Engine: engine.Options{MaxDelay: 10 * 365 * 24 * time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	put := func(m broker.Message) {
		t.Helper()
		if _, err := b.Put(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(b.DefineTopic(ctx, "orders", 3))
	for _, key := range []string{"a", "b", "c"} {
		put(broker.Message{Topic: "orders", Pin: true, Queue: 1, Key: key, Tag: "t", Body: []byte("body of " + key),
			Properties: map[string]string{"source": "shop", "empty": ""}, IdempotencyKey: "once-" + key})
	}
	put(broker.Message{Topic: "bytes", Key: "\xff", Tag: "\xfe", Body: []byte{0, 0xff}, Properties: map[string]string{"p": "\xfd"}})
	put(broker.Message{Topic: "orders", Key: "level", At: broker.Level(18), Body: []byte("<later>")})
	put(broker.Message{Topic: "orders", Pin: true, Queue: 2, Key: "year", At: broker.In(5 * 365 * 24 * time.Hour)})
	put(broker.Message{Topic: "paused", Key: "gone"})
	check(b.PauseTopic(ctx, "paused", true))
	check(b.DefineTopic(ctx, "orders", 2)) // queue 2 is still read
	check(b.DefineTopic(ctx, "deleted", 1))
	put(broker.Message{Topic: "deleted", At: broker.In(time.Hour)})
	check(b.DeleteTopic(ctx, "deleted"))
	var p broker.Pulled
	check(b.Pull(ctx, broker.PullRequest{Topic: "orders", Group: "billing", MaxCount: 2}, &p))
	for d := range p.Deliveries() {
		if string(d.Key) == "b" {
			_, err := b.Reject(ctx, d.Receipt, "no such customer")
			check(err)
			continue
		}
		_, err := b.Ack(ctx, d.Receipt)
		check(err)
	}
	check(b.Close())
}

func export(t *testing.T, fs vfs.FS, opts transfer.ExportOptions) (transfer.Exported, []transfer.Line, []byte) {
	t.Helper()
	var out bytes.Buffer
	n, err := transfer.Export(env(fs), ".", &out, opts)
	if err != nil {
		t.Fatal(err)
	}
	var lines []transfer.Line
	for dec := json.NewDecoder(bytes.NewReader(out.Bytes())); dec.More(); {
		var l transfer.Line
		if err := dec.Decode(&l); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	return n, lines, out.Bytes()
}

// kept is what of a line an import has to keep.
func kept(lines []transfer.Line) (texts []string) {
	for _, l := range lines {
		l.StoredMs, l.Offset, l.DelayLevel = 0, nil, 0
		b, err := json.Marshal(l)
		if err != nil {
			panic(err)
		}
		texts = append(texts, string(b))
	}
	return texts
}

// TestTransferRoundTrip: what is imported is what was exported, with its due times, its order and the lags of groups.
func TestTransferRoundTrip(t *testing.T) {
	from, to := crashfs.New(crashfs.Options{}), crashfs.New(crashfs.Options{})
	fill(t, from)
	done := int64(0)
	n, lines, text := export(t, from, transfer.ExportOptions{Progress: func(d, total int64) {
		if d != done+1 || total != 8 {
			t.Errorf("%d of %d after %d", d, total, done)
		}
		done = d
	}})
	if want := (transfer.Exported{Topics: 4, Visible: 6, Waiting: 2, Groups: 1, Orphans: 1}); n != want {
		t.Fatalf("%+v, want %+v", n, want)
	}
	m, err := transfer.Import(env(to), ".", bytes.NewReader(text), transfer.ImportOptions{
		Refused: func(line int, err error) { t.Errorf("line %d: %v", line, err) },
	})
	if want := (transfer.Imported{Topics: 4, Visible: 6, Waiting: 2, Groups: 1}); err != nil || m != want {
		t.Fatalf("%+v, %v", m, err)
	}
	_, again, _ := export(t, to, transfer.ExportOptions{})
	if a, b := kept(lines), kept(again); !slices.Equal(a, b) {
		t.Errorf("exported\n%s\nimported\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
	}
	if _, err := engine.Check(env(to), ".", engine.Options{}); err != nil {
		t.Error(err)
	}

	b, err := broker.Open(broker.Env{FS: to}, ".", broker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var p broker.Pulled
	if err := b.Pull(t.Context(), broker.PullRequest{Topic: "orders", Group: "billing"}, &p); err != nil {
		t.Fatal(err)
	}
	for d := range p.Deliveries() {
		if string(d.Key) != "c" {
			t.Errorf("the group got %q again", d.Key)
		}
	}
	if info, err := b.Group(t.Context(), "billing"); err != nil || info.DeadLetters != 1 || p.Count() != 1 {
		t.Errorf("%+v, %d messages, %v", info, p.Count(), err)
	}
}

// TestTransferSelection: topics, and what waits alone.
func TestTransferSelection(t *testing.T) {
	fs := crashfs.New(crashfs.Options{})
	fill(t, fs)
	n, lines, _ := export(t, fs, transfer.ExportOptions{Topics: []string{"orders"}, Waiting: true})
	if want := (transfer.Exported{Topics: 1, Waiting: 2, Groups: 1}); n != want {
		t.Errorf("%+v", n)
	}
	kinds := map[string]int{}
	for _, l := range lines {
		kinds[l.Kind]++
	}
	if want := map[string]int{"export": 1, "topic": 1, "message": 2, "group": 1}; !maps.Equal(kinds, want) {
		t.Errorf("%v", kinds)
	}
	if _, err := transfer.Export(env(fs), ".", &bytes.Buffer{}, transfer.ExportOptions{Topics: []string{"nosuch"}}); !errors.Is(err, engine.ErrNoTopic) {
		t.Errorf("%v", err)
	}
}

// TestImportRefuses: what is no export makes nothing; a line that is wrong is refused and the rest goes on.
func TestImportRefuses(t *testing.T) {
	const head = `{"kind":"export","version":1}` + "\n"
	for name, c := range map[string]struct {
		text string
		kind error // of the call
		want transfer.Imported
	}{
		"nothing":       {"", transfer.ErrFormat, transfer.Imported{}},
		"no export":     {`{"body":"x"}`, transfer.ErrFormat, transfer.Imported{}},
		"no JSON":       {"PK\x03\x04", transfer.ErrFormat, transfer.Imported{}},
		"no head":       {`{"kind":"topic","topic":"orders","queues":1}`, transfer.ErrFormat, transfer.Imported{}},
		"a later one":   {`{"kind":"export","version":2}`, transfer.ErrFormat, transfer.Imported{}},
		"head alone":    {head, nil, transfer.Imported{}},
		"broken line":   {head + "{\n" + `{"kind":"message","state":"visible","topic":"orders","body":"x"}`, nil, transfer.Imported{Visible: 1, Refused: 1}},
		"strange kind":  {head + `{"kind":"blob"}`, nil, transfer.Imported{Refused: 1}},
		"strange state": {head + `{"kind":"message","topic":"orders","state":"lost"}`, nil, transfer.Imported{Refused: 1}},
		"no due time":   {head + `{"kind":"message","topic":"orders","state":"scheduled"}`, nil, transfer.Imported{Refused: 1}},
		"past":          {head + `{"kind":"message","topic":"orders","state":"scheduled","due_ms":1}`, nil, transfer.Imported{Visible: 1, Past: 1}},
		"bad topic":     {head + `{"kind":"message","topic":"a/b","state":"visible"}`, nil, transfer.Imported{Refused: 1}},
		"bad queue":     {head + `{"kind":"message","topic":"orders","state":"visible","queue":-2}`, nil, transfer.Imported{Refused: 1}},
		"queue beyond":  {head + `{"kind":"message","topic":"orders","state":"visible","queue":70000}`, nil, transfer.Imported{Refused: 1}},
		"bad offset":    {head + `{"kind":"offset","group":"g","topic":"orders"}`, nil, transfer.Imported{Refused: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			fs, refused := crashfs.New(crashfs.Options{}), int64(0)
			n, err := transfer.Import(env(fs), ".", strings.NewReader(c.text), transfer.ImportOptions{
				Refused: func(line int, err error) { refused++ },
			})
			if !errors.Is(err, c.kind) || n != c.want || refused != c.want.Refused {
				t.Errorf("%+v, %d refused, %v", n, refused, err)
			}
			names, _ := fs.ReadDir(".")
			if (len(names) > 0) != (c.kind == nil) {
				t.Errorf("the directory has %v", names)
			}
		})
	}
}

// TestImportWantsAnEmptyDirectory: a store that is there is not touched.
func TestImportWantsAnEmptyDirectory(t *testing.T) {
	fs := crashfs.New(crashfs.Options{})
	fill(t, fs)
	_, _, text := export(t, fs, transfer.ExportOptions{})
	if _, err := transfer.Import(env(fs), ".", bytes.NewReader(text), transfer.ImportOptions{}); !errors.Is(err, transfer.ErrNotEmpty) {
		t.Errorf("%v", err)
	}
}

// FuzzImport: no input is a panic, and whatever comes, the store is sound.
func FuzzImport(f *testing.F) {
	fs := crashfs.New(crashfs.Options{})
	fill(f, fs)
	var out bytes.Buffer
	if _, err := transfer.Export(env(fs), ".", &out, transfer.ExportOptions{}); err != nil {
		f.Fatal(err)
	}
	f.Add(out.Bytes())
	f.Add([]byte(`{"kind":"export","version":1}` + "\n" + `{"kind":"message","topic":"t","state":"scheduled","due_ms":9223372036854775807}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		fs := crashfs.New(crashfs.Options{})
		if _, err := transfer.Import(env(fs), ".", bytes.NewReader(text), transfer.ImportOptions{}); err != nil {
			return
		}
		if _, err := engine.Check(env(fs), ".", engine.Options{}); err != nil {
			t.Error(err)
		}
	})
}

// TestImportBatches: no batch of the log is larger than what a damaged byte may take with it, but one of a single message.
func TestImportBatches(t *testing.T) {
	const most = 64<<10 + 4096
	var in bytes.Buffer
	in.WriteString(`{"kind":"export","version":1}` + "\n")
	body := strings.Repeat("x", 1000)
	for range 500 {
		fmt.Fprintf(&in, `{"kind":"message","state":"visible","topic":"t","body":%q}`+"\n", body)
	}
	fmt.Fprintf(&in, `{"kind":"message","state":"visible","topic":"t","body":%q}`+"\n", strings.Repeat("y", 100_000))
	disk := crashfs.New(crashfs.Options{})
	if n, err := transfer.Import(env(disk), ".", &in, transfer.ImportOptions{}); err != nil || n.Visible != 501 || n.Refused != 0 {
		t.Fatalf("%+v, %v", n, err)
	}
	var out bytes.Buffer
	if err := engine.Dump(env(disk), ".", "commitlog", &out, true); err != nil {
		t.Fatal(err)
	}
	batches, large := 0, 0
	for dec := json.NewDecoder(&out); dec.More(); {
		var item struct {
			Item string
			Size int64
		}
		if err := dec.Decode(&item); err != nil {
			t.Fatal(err)
		}
		if item.Item == "batch" {
			if batches++; item.Size > most {
				large++
			}
		}
	}
	if batches < 9 || large != 1 {
		t.Errorf("%d batches, %d of them large; want 9 or more, one large", batches, large)
	}
}

// What is in the stage of a topic waits for a verdict afterwards, too, and what was decided is not decided again.
func TestStaged(t *testing.T) {
	fs := crashfs.New(crashfs.Options{})
	hooks := &brokertest.Hooks{Topics: []string{"orders"}, OnDue: func(_ string, m *engine.Message) broker.Decision {
		switch string(m.Key) {
		case "wait":
			return broker.Decision{}
		case "drop":
			return brokertest.Drop("p")
		}
		return brokertest.Keep("p")
	}}
	ctx := context.Background()
	b, err := broker.Open(broker.Env{FS: fs}, ".", broker.Options{Hooks: hooks, Engine: engine.Options{Queues: 1}})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"keep 1", "drop", "keep 2", "wait", "keep 3"} {
		if _, err := b.Put(ctx, broker.Message{Topic: "orders", Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Put(ctx, broker.Message{Topic: "orders", Key: "later", At: broker.In(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	var p broker.Pulled
	for n := 0; n < 2; n += p.Count() { // what is kept is visible, and the rest is in the stage
		if err := b.Pull(ctx, broker.PullRequest{Topic: "orders", Group: "g", Wait: time.Minute}, &p); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}

	n, lines, text := export(t, fs, transfer.ExportOptions{})
	if n.Visible != 2 || n.Waiting != 3 || n.Topics != 1 || n.Groups != 0 {
		t.Errorf("exported %+v", n)
	}
	for _, l := range lines {
		if strings.HasPrefix(l.Topic, "%") || strings.HasPrefix(l.Group, "%") {
			t.Errorf("exported %+v", l)
		}
	}
	copied := crashfs.New(crashfs.Options{})
	if got, err := transfer.Import(env(copied), ".", bytes.NewReader(text), transfer.ImportOptions{}); err != nil || got.Visible != 2 || got.Waiting != 3 || got.Refused != 0 {
		t.Fatalf("imported %+v, %v", got, err)
	}
	hooks.OnDue = func(_ string, m *engine.Message) broker.Decision {
		if string(m.Key) == "wait" {
			return brokertest.Drop("p")
		}
		return brokertest.Keep("p")
	}
	if b, err = broker.Open(broker.Env{FS: copied}, ".", broker.Options{Hooks: hooks}); err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var keys []string
	for len(keys) < 3 {
		if err := b.Pull(ctx, broker.PullRequest{Topic: "orders", Group: "g", Wait: time.Minute}, &p); err != nil {
			t.Fatal(err)
		}
		for d := range p.Deliveries() {
			keys = append(keys, string(d.Key))
		}
	}
	if !slices.Equal(keys, []string{"keep 1", "keep 2", "keep 3"}) {
		t.Errorf("the copy has %q", keys)
	}
	if info, err := b.Topic(ctx, "orders"); err != nil || info.Pending != 1 || !info.Staged {
		t.Errorf("topic: %+v, %v", info, err)
	}
}

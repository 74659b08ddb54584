package engine_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

var update = flag.Bool("update", false, "write the golden files")

// dumpEnv is a world for looking at files.
func dumpEnv(fsys vfs.FS) engine.Env {
	c := enginetest.NewClock(enginetest.Epoch)
	return engine.Env{FS: fsys, Wall: c.Wall, Mono: c.Mono}
}

// dumpStore makes a store that has something in every kind of file, and gives its disk.
func dumpStore(t testing.TB) *crashfs.FS {
	t.Helper()
	disk := crashfs.New(crashfs.Options{})
	s := enginetest.Open(t, enginetest.Config{FS: disk, Damaged: true, Options: engine.Options{
		SegmentSize: 8 << 10, CheckpointEvery: 4 << 10, Levels: "1s 1m 1h", Queues: 2, LooseEntries: 4, SecondsEntries: 4,
		HoursEntries: 4, SecondsSlots: 16384, MaxDelay: 400 * 24 * time.Hour,
	}})
	must := func(want engine.Outcome, c engine.Command) engine.Answer {
		t.Helper()
		a := s.Do(c)[0]
		if a.Outcome != want {
			t.Fatalf("%T: %v, %v", c, a.Outcome, a.Err)
		}
		return a
	}
	must(engine.Done, &engine.DefineTopic{Topic: "orders", Queues: 2})
	must(engine.Stored, &engine.Put{
		Topic: "orders", Queue: 1, Tag: []byte("red"), Key: []byte("order-1"), Body: []byte("{\"total\": 12}\n\x00\xff"),
		Properties: message.AppendProperty(message.AppendProperty(nil, "trace", "a b"), "quote", "\"x\""),
		BornMs:     enginetest.Epoch - 5, BornHost: []byte{10, 0, 0, 7, 0x1f, 0x90}, UserFlag: 3, Attempts: 2,
	})
	must(engine.Scheduled, &engine.Put{Topic: "orders", Queue: 0, Level: 1, Body: bytes.Repeat([]byte("long body "), 20)})
	cancelled := must(engine.Scheduled, &engine.Put{Topic: "orders", Queue: 0, Level: 2, Body: []byte("cancelled")})
	moved := must(engine.Scheduled, &engine.Put{Topic: "orders", Queue: 1, Level: 3, Tag: []byte("blue"), Body: []byte("moved")})
	must(engine.Done, &engine.CommitOffset{Group: "billing", Topic: "orders", Queue: 1, Offset: 1})
	must(engine.Cancelled, &engine.Cancel{Handle: cancelled.Handle()})
	p, err := s.ReadPending(moved.Handle())
	if err != nil {
		t.Fatal(err)
	}
	must(engine.Moved, &engine.Move{Handle: moved.Handle(), DueMs: s.Clock.Wall() + 90_000, Record: p})
	s.Pass(2 * time.Second)
	for i := range 6 { // fills a memtable of a ring
		must(engine.Scheduled, &engine.Put{Topic: "reminders", Queue: 0, DelayMs: int64(20+i%2) * 1000, Body: []byte{byte('a' + i)}})
	}
	must(engine.Scheduled, &engine.Put{Topic: "reminders", Queue: 1, DelayMs: 30 * 24 * 3600 * 1000, Body: []byte("next month")})
	var many []engine.Command // more than travel inside a checkpoint
	for i := range 10 {
		many = append(many, &engine.Put{Topic: "events", Queue: 0, Body: []byte{byte('0' + i)}})
	}
	for range 5 {
		many = append(many, &engine.Put{Topic: "events", Queue: 1, Level: 3})
	}
	s.Do(many...)
	must(engine.Done, &engine.DefineTopic{Topic: "short-lived", Queues: 1})
	must(engine.Done, &engine.DeleteTopic{Topic: "short-lived"})
	must(engine.Done, &engine.MarkHole{From: 600, To: 640, Reason: "a test says so"})
	must(engine.Stored, &engine.Put{
		Topic: "orders", Queue: 1, Body: []byte("once"), IdempotencyKey: []byte("once"), KeySince: s.Released(),
	})
	s.Step()
	for range 2 { // ends the segment, and makes a checkpoint
		must(engine.Stored, &engine.Put{Topic: "orders", Queue: 0, Body: bytes.Repeat([]byte("x"), 3<<10)})
		s.Pass(time.Second)
	}
	must(engine.Stored, &engine.Put{Topic: "orders", Queue: 0, Body: []byte("behind the checkpoint")})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return disk.Kill()
}

func dumpText(t testing.TB, fsys vfs.FS, kind string, asJSON bool) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := engine.Dump(dumpEnv(fsys), ".", kind, &out, asJSON)
	return out.String(), err
}

func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "golden", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is another; if that is right: go test -run %s -update. got:\n%s", file, t.Name(), got)
	}
}

func TestDump(t *testing.T) {
	disk := dumpStore(t)
	for _, kind := range engine.DumpKinds() {
		text, err := dumpText(t, disk, kind, false)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		checkGolden(t, "dump-"+kind+".txt", text)
	}
}

// Every line of JSON is an object with the same values; numbers that JSON may not hold are strings.
func TestDumpJSON(t *testing.T) {
	disk := dumpStore(t)
	for _, kind := range engine.DumpKinds() {
		text, err := dumpText(t, disk, kind, false)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := dumpText(t, disk, kind, true)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := strings.Count(lines, "\n"), strings.Count(text, "\n"); got != want {
			t.Errorf("%s: %d lines of JSON, %d for people", kind, got, want)
		}
		for line := range strings.Lines(lines) {
			var object map[string]any
			d := json.NewDecoder(strings.NewReader(line))
			d.UseNumber()
			if err := d.Decode(&object); err != nil || object["item"] == "" {
				t.Fatalf("%s: %v: %s", kind, err, line)
			}
			for name, v := range object {
				if n, ok := v.(json.Number); ok && len(n) > 15 {
					t.Errorf("%s: %s is %s, more than a number of JSON holds", kind, name, n)
				}
			}
		}
	}
	lines, err := dumpText(t, disk, "commitlog", true)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`{"item":"record","pos":"1696","size":125,"kind":"message","id":"2","dueMs":"1767225660000","topic":"SCHEDULE_TOPIC_XXXX",` +
			`"queue":1,"REAL_TOPIC":"orders","REAL_QID":0,"lane":0,"DELAY":2,"delayMs":"60000","storedMs":"1767225600000",` +
			`"bornMs":"1767225600000","body":9,"preview":"cancelled"}`,
		`"host":"10.0.0.7:8080","tag":"red","key":"order-1","attempts":2,"userFlag":3,"sysFlag":0,` +
			`"properties":[["trace","a b"],["quote","\"x\""]],"body":16,"preview":"{\\\"total\\\": 12}\\n\\x00\\xff"}`,
		`{"item":"segment","base":"0","bytes":8192,"file":"commitlog/00000000000000000000"}`,
	} {
		if !strings.Contains(lines, want) {
			t.Errorf("missing: %s", want)
		}
	}
}

// A dump changes nothing, of whatever it prints.
func TestDumpChangesNothing(t *testing.T) {
	disk := dumpStore(t)
	disk.SetInject(func(op crashfs.Op) error {
		if op.Changes() && op.Kind != crashfs.SyncDir { // loading the keys makes sure of their name
			t.Errorf("%s", op)
		}
		return nil
	})
	for _, kind := range engine.DumpKinds() {
		if _, err := dumpText(t, disk, kind, false); err != nil {
			t.Fatal(err)
		}
	}
}

// Of a damaged directory all that can be read is printed, and where it is damaged.
func TestDumpDamaged(t *testing.T) {
	names := func(disk *crashfs.FS, dir string) (list []string) {
		infos, err := disk.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, info := range infos {
			list = append(list, dir+"/"+info.Name)
		}
		return list
	}
	segment := func(disk *crashfs.FS, n int) string {
		return slices.DeleteFunc(names(disk, "commitlog"), func(s string) bool { return len(s) < 20 || s == "commitlog/mark" })[n]
	}
	rot := func(t *testing.T, disk *crashfs.FS, name string, at int64) string {
		if err := disk.Rot(name, at*8); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, c := range []struct {
		name   string
		kind   string
		damage func(t *testing.T, disk *crashfs.FS) (file string)
		left   []string // what can still be seen
		golden string
	}{
		{"batch", "commitlog", func(t *testing.T, disk *crashfs.FS) string { return rot(t, disk, segment(disk, 0), 2000) },
			[]string{"pos=1584", "behind the checkpoint"}, ""},
		{"segment header", "commitlog", func(t *testing.T, disk *crashfs.FS) string { return rot(t, disk, segment(disk, 1), 100) },
			[]string{"pos=1584", "behind the checkpoint"}, "dump-damaged-commitlog.txt"},
		{"segment is gone", "commitlog", func(t *testing.T, disk *crashfs.FS) string {
			name := segment(disk, 1)
			if err := disk.Vanish(name); err != nil {
				t.Fatal(err)
			}
			return name
		}, []string{"pos=1584", "behind the checkpoint"}, ""},
		{"end of the log", "schedule", func(t *testing.T, disk *crashfs.FS) string {
			return rot(t, disk, segment(disk, 1), 4500) // behind the checkpoint
		}, []string{"delayMs=60000", "id=2 "}, ""},
		{"unit", "consumequeue", func(t *testing.T, disk *crashfs.FS) string {
			return rot(t, disk, "consumequeue/3/0/00000000000000000000", 64+2*32+5)
		}, []string{"topic=events  queue=0    offset=1 ", "topic=events  queue=0    offset=3 ", "topic=orders"}, "dump-damaged-consumequeue.txt"},
		{"file of units", "consumequeue", func(t *testing.T, disk *crashfs.FS) string {
			name := "consumequeue/3/0/00000000000000000000"
			if err := disk.Vanish(name); err != nil {
				t.Fatal(err)
			}
			return name
		}, []string{"topic=orders"}, ""},
		{"entry of a level", "schedule", func(t *testing.T, disk *crashfs.FS) string {
			return rot(t, disk, "schedule/3600000/00000000000000000000", 64+56+3)
		}, []string{"index=0", "index=2"}, ""},
		{"group", "timerlog", func(t *testing.T, disk *crashfs.FS) string {
			return rot(t, disk, "timerlog/1/seconds/00000000000000000001", 800)
		}, []string{"spill", "id=4 "}, ""},
		{"copy", "checkpoint", func(t *testing.T, disk *crashfs.FS) string { return rot(t, disk, "checkpoint/a", 200) },
			[]string{"copy=b", "pending=", "topic=orders"}, "dump-damaged-checkpoint.txt"},
		{"both copies", "timerlog", func(t *testing.T, disk *crashfs.FS) string {
			rot(t, disk, "checkpoint/b", 200)
			return rot(t, disk, "checkpoint/a", 200)
		}, nil, ""},
		{"keys", "consumequeue", func(t *testing.T, disk *crashfs.FS) string { return rot(t, disk, "keys", 20) },
			[]string{"topic=orders"}, ""},
		{"block of idempotency keys", "idempotency", func(t *testing.T, disk *crashfs.FS) string {
			return rot(t, disk, names(disk, "idempotency")[0], 64+5)
		}, []string{"keys     low=", "run      from="}, ""},
		{"meta", "meta", func(t *testing.T, disk *crashfs.FS) string { return rot(t, disk, "meta", 20) }, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := dumpStore(t)
			file := c.damage(t, disk)
			text, err := dumpText(t, disk, c.kind, false)
			var bad *engine.CorruptError
			if !errors.Is(err, engine.ErrCorrupt) || !errors.As(err, &bad) {
				t.Fatalf("got %v, of:\n%s", err, text)
			}
			if bad.File != file {
				t.Errorf("damage is told of %s at byte %d, it is in %s", bad.File, bad.Offset, file)
			}
			if want := fmt.Sprintf("error    file=%s byte=%d ", bad.File, bad.Offset); !strings.Contains(text, strings.TrimSpace(want)) {
				t.Errorf("no line %q", want)
			}
			for _, want := range c.left {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in:\n%s", want, text)
				}
			}
			if c.golden != "" {
				checkGolden(t, c.golden, text)
			}
		})
	}
}

// A torn tail that nobody was promised is no damage, but is told of.
func TestDumpTornTail(t *testing.T) {
	disk := dumpStore(t)
	list, err := disk.ReadDir("commitlog")
	if err != nil {
		t.Fatal(err)
	}
	last := ""
	for _, info := range list {
		if len(info.Name) == 20 {
			last = "commitlog/" + info.Name
		}
	}
	text, err := dumpText(t, disk, "commitlog", false)
	if err != nil || !strings.Contains(text, "behind the checkpoint") {
		t.Fatal(err)
	}
	if err := disk.Rot(last, 8*900); err != nil { // the last batch
		t.Fatal(err)
	}
	text, err = dumpText(t, disk, "commitlog", false)
	if err != nil || strings.Contains(text, "behind the checkpoint") || !strings.Contains(text, "torn     pos=") {
		t.Errorf("%v, of:\n%s", err, text)
	}
}

// Whatever bytes are damaged, a dump ends with an error or without, and never in a panic.
func TestDumpAnyDamage(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	whole := dumpStore(t)
	var files []string
	var list func(dir string)
	list = func(dir string) {
		infos, err := whole.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, info := range infos {
			if name := path.Join(dir, info.Name); info.Dir {
				list(name)
			} else if info.Size > 0 {
				files = append(files, name)
			}
		}
	}
	list(".")
	for range 200 {
		disk := whole.Clone()
		name := files[r.IntN(len(files))]
		info, err := disk.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if r.IntN(4) == 0 {
			err = disk.Cut(name, r.Int64N(info.Size))
		} else {
			err = disk.Rot(name, r.Int64N(8*info.Size))
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range engine.DumpKinds() {
			if _, err := dumpText(t, disk, kind, r.IntN(2) == 0); err != nil && !errors.Is(err, engine.ErrCorrupt) {
				t.Errorf("%s with damage in %s: %v", kind, name, err)
			}
		}
	}
}

func TestDumpRefuses(t *testing.T) {
	disk := dumpStore(t)
	if _, err := dumpText(t, disk, "wheel", false); err == nil || !strings.Contains(err.Error(), strings.Join(engine.DumpKinds(), ", ")) {
		t.Errorf("unknown kind: %v", err)
	}
	if err := engine.Dump(engine.Env{}, ".", "meta", nil, false); err == nil {
		t.Error("no file system is no error")
	}
	foreign := crashfs.New(crashfs.Options{})
	if err := foreign.MkdirAll("photos", 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := dumpText(t, foreign, "meta", false); !errors.Is(err, engine.ErrForeign) {
		t.Errorf("foreign directory: %v", err)
	}
	full := errors.New("the pipe is closed")
	for _, kind := range engine.DumpKinds() {
		if err := engine.Dump(dumpEnv(disk), ".", kind, brokenWriter{full}, true); !errors.Is(err, full) {
			t.Errorf("%s to a broken writer: %v", kind, err)
		}
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

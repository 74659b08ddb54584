package golden_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/plugins/abi"
	"github.com/tidewheel/tidewheel/plugins/guest"
	"github.com/tidewheel/tidewheel/plugins/guest/golden"
)

// register makes this process a plugin.
func register() {
	guest.Filter(func(r *guest.Record) guest.Verdict {
		tag, _ := r.Header(golden.TagHeader)
		switch string(tag) {
		case "drop":
			return guest.Drop(uint16(len(r.Body)))
		case "retry":
			return guest.RetryAfter(uint32(r.NowMs()-golden.DefaultNowMs), 3)
		case "route":
			return guest.Route(0)
		case "fail":
			return guest.Fail(4, "no <idea>")
		case "panic":
			panic("poison")
		}
		return guest.Keep()
	})
	guest.Transform(func(r *guest.Record) guest.Verdict {
		return guest.Replace(guest.Replacement{Topic: r.Topic, Key: r.Key, Headers: r.Headers, Body: append(r.Body, '!')})
	})
	guest.Prepare(func(r *guest.Record) guest.Verdict {
		return guest.Send(guest.Request{URL: "https://example.com/", Headers: r.Headers, Body: r.Body})
	})
	guest.Result(func(r *guest.Record) guest.Verdict {
		if r.Cut() {
			return guest.Keep()
		}
		if r.Status() == 0 {
			return guest.DeadLetter(uint16(len(r.Body)))
		}
		return guest.RetryAfter(0, uint16(r.Status()))
	})
}

// TestCheck: files are written by an update, agree after it, and each verdict that changes is a difference with its line.
func TestCheck(t *testing.T) {
	register()
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("filter.ndjson", `{"why":"plain"}
{"tag":"drop","body":"four"}

{"tag":"drop","body":{"a": 1}}
{"tag":"retry","now_ms":1767225600250}
{"tag":"route"}
{"tag":"fail"}
{"tag":"panic"}
`)
	put("filter-more.ndjson", `{"tag":"drop","body_base64":"AAH/"}`)
	put("transform.ndjson", `{"topic":"t","key":"k","tag":"x","properties":{"b":"2","a":"1"},"body":"<é>"}
{"body":"{\"a\":1}"}
{"body_base64":"/w=="}
`)
	put("prepare.ndjson", `{"tag":"x","body":{"a":1}}`)
	put("result.ndjson", `{"status":503}
{"body":"no route"}
{"status":200,"cut":true}`)
	if _, err := golden.Check(dir, golden.Native, false); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without verdicts: %v", err)
	}
	report, err := golden.Check(dir, golden.Native, true)
	if err != nil || len(report.Files) != 5 || len(report.Updated) != 5 || report.Records != 15 {
		t.Fatalf("%+v, %v", report, err)
	}
	for name, want := range map[string]string{
		"filter": `{"action":"keep"}
{"action":"drop","code":4}
{"action":"drop","code":8}
{"action":"retry","code":3,"delay_ms":250}
{"action":"route","target":0}
{"action":"error","code":4,"failure":"error","text":"no <idea>"}
{"action":"error","code":65535,"failure":"error","text":"panic: poison"}
`,
		"filter-more": `{"action":"drop","code":3}
`,
		"transform": `{"action":"replace","record":{"topic":"t","key":"k","tag":"x","properties":{"a":"1","b":"2"},"body":"<é>!"}}
{"action":"replace","record":{"body":"{\"a\":1}!"}}
{"action":"replace","record":{"body_base64":"/yE="}}
`,
		"prepare": `{"action":"replace","request":{"method":"POST","url":"https://example.com/","headers":{"TAGS":"x"},"body":{"a":1}}}
`,
		"result": `{"action":"retry","code":503}
{"action":"dead_letter","code":8}
{"action":"keep"}
`,
	} {
		got, err := os.ReadFile(filepath.Join(dir, name+".verdicts.ndjson"))
		if err != nil || string(got) != want {
			t.Errorf("%s: %v\n%swant\n%s", name, err, got, want)
		}
	}
	if report, err = golden.Check(dir, golden.Native, true); err != nil || len(report.Updated) != 0 {
		t.Errorf("a second update: %+v, %v", report, err)
	}
	put("result.verdicts.ndjson", `{"action":"retry","code":502}
{"action":"dead_letter","code":8}
{"action":"keep"}
{"action":"keep"}
`)
	report, err = golden.Check(dir, golden.Native, false)
	if err != nil || len(report.Diffs) != 2 {
		t.Fatalf("%+v, %v", report.Diffs, err)
	}
	if d := report.Diffs[0]; d.Line != 1 || d.Got != `{"action":"retry","code":503}` || d.Want != `{"action":"retry","code":502}` || !strings.Contains(d.String(), "record 1") {
		t.Errorf("%v", d)
	}
	if d := report.Diffs[1]; d.Line != 4 || d.Got != "" {
		t.Errorf("%v", d)
	}
}

// TestCheckRefuses: a test of nothing and files that cannot be read are errors that say where.
func TestCheckRefuses(t *testing.T) {
	register()
	for _, c := range []struct{ name, file, text, want string }{
		{"nothing", "notes.txt", "", "no file named"},
		{"verdicts alone", "filter.verdicts.ndjson", "", "no file named"},
		{"no hook", "fly.ndjson", "", `"fly" is not a hook`},
		{"not JSON", "filter.ndjson", "{}\nhello", "line 2"},
		{"unknown member", "filter.ndjson", `{"toppic":"a"}`, "toppic"},
		{"two on a line", "filter.ndjson", `{} {}`, "more than one"},
		{"two bodies", "filter.ndjson", `{"body":"a","body_base64":"YQ=="}`, "exclude each other"},
		{"status", "result.ndjson", `{"status":1000}`, "status"},
		{"long line", "filter.ndjson", `{"body":"` + strings.Repeat("x", golden.MaxLine) + `"}`, "line 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, c.file), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := golden.Check(dir, golden.Native, true); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestCheckCounts: a decider that loses a record is an error, not a shorter file.
func TestCheckCounts(t *testing.T) {
	_, err := golden.All(abi.Filter, make([]golden.Record, 2), func(abi.Hook, int64, []abi.Record) ([]golden.Verdict, error) { return nil, nil })
	if err == nil || !strings.Contains(err.Error(), "0 verdicts for 2 records") {
		t.Error(err)
	}
}

// TestConfig: the configuration is a file that may be missing.
func TestConfig(t *testing.T) {
	dir := t.TempDir()
	if b, err := golden.Config(dir); b != nil || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := golden.Config(dir); string(b) != "{}" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

// TestHeaders: what a tag and properties are as headers is undone, and repeated names do not take the place of the first.
func TestHeaders(t *testing.T) {
	h := golden.Headers("x", map[string]string{"b": "2", "a": "1"})
	if name, value, _, ok := h.Next(); !ok || string(name) != golden.TagHeader || string(value) != "x" {
		t.Errorf("first header %q: %q", name, value)
	}
	tag, p := golden.Properties(h.Append([]byte("a"), []byte("3")).Append([]byte(golden.TagHeader), []byte("y")))
	if tag != "x" || len(p) != 2 || p["a"] != "1" || p["b"] != "2" {
		t.Errorf("%q, %v", tag, p)
	}
}

// FuzzRecords: no input panics, and what is read is written so that it reads the same.
func FuzzRecords(f *testing.F) {
	f.Add([]byte(`{"why":"w","id":1,"topic":"t","key":"k","tag":"g","properties":{"a":"b"},"body":"x","stored_ms":1,"due_ms":2,"attempt":3,"status":4,"now_ms":5}`))
	f.Add([]byte("{\"body\":{\"a\": \"\\u2028<\"}}\n{\"body_base64\":\"/w==\"}\n{\"body\":[1,2]}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := golden.ReadRecords(bytes.NewReader(b))
		if err != nil {
			return
		}
		var text strings.Builder
		for _, r := range all {
			text.WriteString(r.String() + "\n")
		}
		again, err := golden.ReadRecords(strings.NewReader(text.String()))
		if err != nil || len(again) != len(all) {
			t.Fatalf("%q: %v", text.String(), err)
		}
		for i := range all {
			if !bytes.Equal(all[i].Body, again[i].Body) || all[i].String() != again[i].String() {
				t.Errorf("%q became %q", all[i], again[i])
			}
		}
	})
}

// FuzzVerdicts is FuzzRecords for files of verdicts.
func FuzzVerdicts(f *testing.F) {
	f.Add([]byte(`{"action":"replace","record":{"body":{"a":1}}}` + "\n" + `{"action":"route","target":0}`))
	f.Add([]byte(`{"action":"replace","request":{"method":"PUT","url":"u","headers":{"a":"b"},"body_base64":"AA=="}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := golden.ReadVerdicts(bytes.NewReader(b))
		if err != nil {
			return
		}
		var first, second bytes.Buffer
		if err := golden.WriteVerdicts(&first, all); err != nil {
			t.Fatal(err)
		}
		again, err := golden.ReadVerdicts(bytes.NewReader(first.Bytes()))
		if err != nil {
			t.Fatalf("%q: %v", first.String(), err)
		}
		if err := golden.WriteVerdicts(&second, again); err != nil || first.String() != second.String() {
			t.Errorf("%q became %q, %v", first.String(), second.String(), err)
		}
	})
}

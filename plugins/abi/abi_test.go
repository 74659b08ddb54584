package abi_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/plugins/abi"
)

var update = flag.Bool("update", false, "write the golden files")

var le = binary.LittleEndian

func sample() []abi.Record {
	return []abi.Record{
		{ID: 1, StoredMs: 1000, DueMs: 61000, Topic: []byte("orders"), Key: []byte("k1"),
			Headers: abi.Headers(nil).Append([]byte("tenant"), []byte("acme")), Body: []byte(`{"paid":true}`)},
		{ID: 2, Attempt: 3, Flags: 0x00c80001, Topic: []byte("t"), Body: nil},
	}
}

func encode(t testing.TB, h abi.Head, records []abi.Record) []byte {
	t.Helper()
	b := make([]byte, abi.Size(records))
	if err := abi.Encode(b, h, records); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestEncodeGolden ties the diagrams of ABI.md to the code.
func TestEncodeGolden(t *testing.T) {
	got := hex.Dump(encode(t, abi.Head{Hook: abi.Filter, NowMs: 62000, Seed: 7}, sample()))
	file := filepath.Join("testdata", "golden", "batch.hex")
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
		t.Errorf("the layout of a batch changed:\n%s", got)
	}
}

func TestBatchRoundTrip(t *testing.T) {
	records := sample()
	b, err := abi.Open(encode(t, abi.Head{Hook: abi.Filter, NowMs: 62000, Seed: 7}, records))
	if err != nil {
		t.Fatal(err)
	}
	if b.Len() != 2 || b.Hook() != abi.Filter || b.NowMs() != 62000 || b.Cursor() != abi.NoCursor {
		t.Errorf("len %d, hook %v, now %d, cursor %#x", b.Len(), b.Hook(), b.NowMs(), b.Cursor())
	}
	for i := range records {
		var r abi.Record
		if err := b.Record(i, &r); err != nil {
			t.Fatal(err)
		}
		want := records[i]
		if r.ID != want.ID || r.StoredMs != want.StoredMs || r.DueMs != want.DueMs || r.Attempt != want.Attempt || r.Flags != want.Flags ||
			!bytes.Equal(r.Topic, want.Topic) || !bytes.Equal(r.Key, want.Key) || !bytes.Equal(r.Headers, want.Headers) || !bytes.Equal(r.Body, want.Body) {
			t.Errorf("record %d: %+v, want %+v", i, r, want)
		}
	}
	b.SetCursor(1)
	b.SetVerdict(1, abi.NewVerdict(abi.Drop, 9, 5))
	b.SetOutput(64, 10, 3)
	if v := b.Verdict(1); v.Action() != abi.Drop || v.Code() != 9 || v.Arg() != 5 || b.Verdict(0) != 0 || b.Cursor() != 1 {
		t.Errorf("verdict %x, cursor %d", b.Verdict(1), b.Cursor())
	}
	if p, n, e := b.Output(); p != 64 || n != 10 || e != 3 {
		t.Errorf("output %d, %d, %d", p, n, e)
	}
	out, err := abi.AppendBatch([]byte("12345678"), abi.Head{}, records)
	if err != nil || len(out) != 8+abi.Size(records) || string(out[:8]) != "12345678" {
		t.Errorf("AppendBatch: %d bytes, %v", len(out), err)
	}
}

func TestOpenDamaged(t *testing.T) {
	for _, c := range []struct {
		name    string
		corrupt func(b []byte) []byte
		want    error
	}{
		{"empty", func(b []byte) []byte { return nil }, abi.ErrBatch},
		{"cut", func(b []byte) []byte { return b[:len(b)-1] }, abi.ErrBatch},
		{"magic", func(b []byte) []byte { b[0] = 'X'; return b }, abi.ErrBatch},
		{"stride", func(b []byte) []byte { le.PutUint16(b[6:], 32); return b }, abi.ErrBatch},
		{"count", func(b []byte) []byte { le.PutUint32(b[8:], 1<<31); return b }, abi.ErrBatch},
		{"header", func(b []byte) []byte { le.PutUint32(b[12:], 8); return b }, abi.ErrBatch},
		{"total", func(b []byte) []byte { le.PutUint32(b[16:], 1<<31); return b }, abi.ErrBatch},
		{"verdicts in the header", func(b []byte) []byte { le.PutUint32(b[20:], 0); return b }, abi.ErrBatch},
		{"verdicts behind the end", func(b []byte) []byte { le.PutUint32(b[20:], uint32(len(b))); return b }, abi.ErrBatch},
		{"index", func(b []byte) []byte { le.PutUint32(b[24:], 0xffffffff); return b }, abi.ErrBatch},
		{"offset of a body", func(b []byte) []byte { le.PutUint32(b[80+56:], 0xffffffff); return b }, abi.ErrRecord},
		{"length of a topic", func(b []byte) []byte { le.PutUint32(b[80+36:], 0xffffffff); return b }, abi.ErrRecord},
	} {
		b, err := abi.Open(c.corrupt(encode(t, abi.Head{Hook: abi.Filter}, sample())))
		if err == nil {
			err = b.Record(0, &abi.Record{})
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestHeaders(t *testing.T) {
	h := abi.Headers(nil).Append([]byte("a"), []byte("1")).Append([]byte("bc"), nil).Append([]byte("a"), []byte("second"))
	for key, want := range map[string]string{"a": "1", "bc": "", "d": "-"} {
		v, at, ok := h.Get(key)
		if got := string(v); ok != (want != "-") || ok && got != want || ok && string(h[at:at+len(v)]) != got {
			t.Errorf("Get(%q) = %q at %d, %v, want %q", key, v, at, ok, want)
		}
	}
	if !h.Whole() || h[:len(h)-1].Whole() {
		t.Error("Whole")
	}
	for n := range h {
		for rest, ok := h[:n], true; ok; {
			_, _, rest, ok = rest.Next()
		}
	}
}

// TestVerdictTable is the table in ABI.md: + for the actions a hook may give.
func TestVerdictTable(t *testing.T) {
	text, err := os.ReadFile("ABI.md")
	if err != nil {
		t.Fatal(err)
	}
	for h := abi.Publish; h < abi.Hooks; h++ {
		row := fmt.Sprintf("| `%s` |", h)
		for a := abi.Keep; a <= abi.Defer; a++ {
			cell := "   "
			if h.Allowed(a) {
				cell = " + "
			}
			row += cell + "|"
		}
		if !strings.Contains(string(text), row) {
			t.Errorf("ABI.md has no row %s", row)
		}
		if got, ok := abi.ParseHook(h.String()); !ok || got != h || h.Export() != "tw_"+h.String() {
			t.Errorf("hook %v", h)
		}
		if h.Allowed(abi.Unset) || h.Allowed(9) || abi.NewVerdict(abi.Error, 1, 1).Valid(h) != true || abi.Verdict(0x107).Valid(h) {
			t.Errorf("%v allows what no hook may", h)
		}
	}
	if abi.Hooks.Allowed(abi.Keep) || abi.Hook(0).Allowed(abi.Keep) {
		t.Error("a hook that does not exist allows keep")
	}
}

func TestJSONGet(t *testing.T) {
	doc := ` {"a":1, "b" : {"c":[10,{"d":"x\"y"},[ ]],"e":null}, "a/b":true,"m~n":-1.5e3,"é":"ü","\u00e9t\u00e9":2,"a":9, "":7}`
	for pointer, want := range map[string]string{
		"/a": "1", "/b/c/0": "10", "/b/c/1/d": `"x\"y"`, "/b/c/1": `{"d":"x\"y"}`, "/b/c/2": "[ ]", "/b/e": "null", "/a~1b": "true",
		"/m~0n": "-1.5e3", "/é": `"ü"`, "/été": "2", "/": "7", "": doc[1:],
		"/b/c/3": "-", "/b/c/01": "-", "/b/c/-": "-", "/x": "-", "/a/b": "-", "a": "-", "/b/c/99999999999": "-",
	} {
		lo, hi, ok := abi.JSONGet([]byte(doc), pointer)
		got := "-"
		if ok {
			got = doc[lo:hi]
		}
		if got != want {
			t.Errorf("%q: %s, want %s", pointer, got, want)
		}
	}
	for _, bad := range []string{"", "{", `{"a`, `{"a"`, `{"a":`, `{"a":"`, `{"a":[1`, "}", ":", `{"a":}`, "{\"a\":\xff}", `[`} {
		if lo, hi, ok := abi.JSONGet([]byte(bad), "/a"); ok {
			t.Errorf("%q: found %q", bad, bad[lo:hi])
		}
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"orders.*", "orders.eu", true}, {"orders.*", "order", false}, {"*", "", true}, {"", "", true}, {"", "a", false}, {"?", "", false},
		{"a?c", "abc", true}, {"*a*b", "xaybzb", true}, {"*a*b", "xaybz", false}, {"**", "ab", true}, {"a*a", "a", false},
	} {
		if got := abi.Match(c.pattern, []byte(c.s)); got != c.want {
			t.Errorf("Match(%q, %q) = %v", c.pattern, c.s, got)
		}
	}
}

// FuzzOpen: no bytes make a reader leave the batch, and what Encode wrote is read back.
func FuzzOpen(f *testing.F) {
	f.Add(encode(f, abi.Head{Hook: abi.Prepare, NowMs: 1}, sample()))
	f.Add(make([]byte, 64))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := abi.Open(data)
		if err != nil {
			return
		}
		var all []abi.Record
		for i := range min(b.Len(), 1000) {
			var r abi.Record
			b.Verdict(i)
			if b.Record(i, &r) == nil {
				r.Headers.Get("tenant")
				r.Headers.Whole()
				all = append(all, r)
			}
		}
		if n := abi.Size(all); n < 1<<20 {
			again, err := abi.Open(encode(t, abi.Head{}, all))
			if err != nil || again.Len() != len(all) {
				t.Fatalf("%d records encoded, %d read, %v", len(all), again.Len(), err)
			}
		}
	})
}

// FuzzJSONGet: in a valid document the value is the one that encoding/json finds; in any other nothing outside is touched.
func FuzzJSONGet(f *testing.F) {
	f.Add([]byte(`{"a":{"b":[1,"x",{"c":null}]},"b":-1e5}`), "a")
	f.Add([]byte(`{"\u0061":"\"","A":[[],{}]}`), "A")
	f.Fuzz(func(t *testing.T, doc []byte, key string) {
		escaped := "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
		lo, hi, ok := abi.JSONGet(doc, escaped)
		if lo < 0 || hi < lo || hi > len(doc) {
			t.Fatalf("[%d, %d) of %d", lo, hi, len(doc))
		}
		abi.JSONGet(doc, key)
		var m map[string]json.RawMessage
		if json.Unmarshal(doc, &m) != nil || bytes.Contains(doc, []byte("\\u")) || strings.ContainsRune(key, '\ufffd') || !json.Valid(doc) {
			return // encoding/json replaces what is no UTF-8
		}
		want, there := m[key]
		if bytes.Count(doc, []byte(key)) > 1 || !bytes.Equal(bytes.ToValidUTF8(doc, nil), doc) {
			return // of equal keys the first counts here and the last there
		}
		if there != ok && m != nil || ok && string(doc[lo:hi]) != string(want) {
			t.Fatalf("%q in %s: %q, %v; encoding/json: %q, %v", key, doc, doc[lo:hi], ok, want, there)
		}
	})
}

func FuzzMatch(f *testing.F) {
	f.Add("a*b?c", "axxbyc")
	f.Fuzz(func(t *testing.T, pattern, s string) {
		if len(pattern) > 20 || len(s) > 50 {
			return
		}
		var re strings.Builder
		for _, c := range []byte(pattern) {
			switch c {
			case '*':
				re.WriteString("(?s:.*)")
			case '?':
				re.WriteString("(?s:.)")
			default:
				re.WriteString(regexp.QuoteMeta(string(rune(c))))
			}
		}
		latin := func(s string) string {
			var r []rune
			for _, c := range []byte(s) {
				r = append(r, rune(c))
			}
			return string(r)
		}
		if want := regexp.MustCompile(`\A` + re.String() + `\z`).MatchString(latin(s)); want != abi.Match(pattern, []byte(s)) {
			t.Fatalf("Match(%q, %q) = %v", pattern, s, !want)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	records := make([]abi.Record, 64)
	for i := range records {
		records[i] = abi.Record{ID: uint64(i), Topic: []byte("orders"), Key: []byte("key-1"), Body: make([]byte, 1024)}
	}
	dst := make([]byte, abi.Size(records))
	b.ReportAllocs()
	for b.Loop() {
		if err := abi.Encode(dst, abi.Head{Hook: abi.Filter}, records); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(records)), "ns/record")
}

func BenchmarkJSONGet(b *testing.B) {
	doc := []byte(`{"pad":"` + strings.Repeat("x", 990) + `","tenant":{"id":"acme"}}`)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, ok := abi.JSONGet(doc, "/tenant/id"); !ok {
			b.Fatal("not found")
		}
	}
}

func ExampleOpen() {
	records := []abi.Record{{ID: 1, Topic: []byte("orders"), Body: []byte(`{"paid":true}`)}}
	bytes := make([]byte, abi.Size(records))
	if err := abi.Encode(bytes, abi.Head{Hook: abi.Filter, NowMs: 1700000000000}, records); err != nil {
		panic(err)
	}
	batch, err := abi.Open(bytes) // the guest's side
	if err != nil {
		panic(err)
	}
	var r abi.Record
	for i := range batch.Len() {
		batch.SetCursor(i)
		if batch.Record(i, &r) == nil {
			lo, hi, _ := abi.JSONGet(r.Body, "/paid")
			if string(r.Body[lo:hi]) == "true" {
				batch.SetVerdict(i, abi.NewVerdict(abi.Drop, 1, 0))
			}
		}
	}
	fmt.Println(batch.Verdict(0).Action())
	// Output: drop
}

package plugins_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

// TestHammerDecide: 64 goroutines share three instances, which die again and again; every record has the answer of its own body.
func TestHammerDecide(t *testing.T) {
	s := spec()
	s.Limits.Instances, s.Policy.QuarantineAfter = 3, 1<<30
	p := load(t, open(t, plugins.Options{}), plugintest.Scripted(), s)
	want := map[string]string{"a": "keep", "d": "drop:7", "!": "dead_letter(trap)", "e": "dead_letter:5(error)"}
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			var a plugins.Answer
			for i := range 20 {
				var in, out []string
				for j := range 5 {
					b := []string{"a", "d", "a", "e", "d", "a", "!"}[(g+i*3+j*5)%7]
					in, out = append(in, b), append(out, want[b])
				}
				if err := p.Decide(ctx, filter, bodies(in...), &a); err != nil || actions(&a) != strings.Join(out, " ") {
					t.Errorf("%v: %s, %v", in, actions(&a), err)
					return
				}
			}
		})
	}
	wg.Wait()
	if s := p.Stats(); s.Batches != 64*20 || s.Records != 64*20*5 || s.Instances > 3 || s.Busy != 0 || s.Deaths != s.Failures["trap"] {
		t.Errorf("%+v", s)
	}
}

// TestLargeRecords: a record up to the limit is given to the plugin, a larger one fails before the call, and its neighbours are
// decided.
func TestLargeRecords(t *testing.T) {
	s := spec()
	s.Limits.MemoryMax, s.Limits.RecordBytes = 16<<20, 0 // 4 MiB
	engines(t, func(t *testing.T, r *plugins.Runtime) {
		p := load(t, r, plugintest.Scripted(), s)
		most := 4<<20 - abi.Size([]abi.Record{{Topic: []byte("orders"), Key: []byte("k0")}})
		for size, want := range map[int]string{1 << 20: "drop:7", most: "drop:7", most + 8: "dead_letter(too_large)", 8 << 20: "dead_letter(too_large)"} {
			big := "d" + strings.Repeat("x", size-1)
			a := decide(t, p, filter, bodies("a", big, "d"))
			if got := actions(a); got != "keep "+want+" drop:7" || a.Deaths != 0 {
				t.Errorf("%d bytes: %s with %d deaths", size, got, a.Deaths)
			}
		}
	})
}

// TestOutputLimits: an output of exactly the limit is taken, one byte or record more is not, and it may touch the batch but not
// lie over it.
func TestOutputLimits(t *testing.T) {
	two, err := abi.AppendBatch(nil, abi.Head{}, []abi.Record{{Body: []byte("a")}, {Body: []byte("b")}})
	if err != nil {
		t.Fatal(err)
	}
	size := len(output("out"))
	batch := abi.Size(bodies("a"))
	for _, c := range []struct {
		name      string
		at, bytes int
		edit      func(l *plugins.Limits)
		out       []byte
		want      string
	}{
		{"exactly the bytes", 1024, size, func(l *plugins.Limits) { l.OutBytesMax = size }, output("out"), "replace"},
		{"a byte more", 1024, size, func(l *plugins.Limits) { l.OutBytesMax = size - 1 }, output("out"), "dead_letter(protocol)"},
		{"exactly the records", 1024, len(two), func(l *plugins.Limits) { l.OutPerRecord = 2 }, two, "replace"},
		{"a record more", 1024, len(two), func(l *plugins.Limits) { l.OutPerRecord = 1 }, two, "dead_letter(protocol)"},
		{"right before the batch", 65536 - size, size, nil, output("out"), "replace"},
		{"a byte into the batch", 65536 - size + 1, size, nil, nil, "dead_letter(protocol)"},
		{"right behind the batch", 65536 + batch, size, nil, output("out"), "replace"},
		{"over the end of the batch", 65536 + batch - 8, size, nil, nil, "dead_letter(protocol)"},
		{"at the end of the memory", 2<<16 - size, size, nil, output("out"), "replace"},
		{"a byte over the end", 2<<16 - size + 1, size, nil, nil, "dead_letter(protocol)"},
		{"around the end of 32 bits", -8, size, nil, nil, "dead_letter(protocol)"},
		{"everything", 0, -1, nil, nil, "dead_letter(protocol)"},
	} {
		m := plugintest.Guest()
		m.Data(1024, string(c.out))
		copied := ""
		if c.out != nil && c.at != 1024 {
			copied = fmt.Sprintf("i32.const %d i32.const 1024 i32.const %d memory.copy", c.at, len(c.out))
		}
		m.Hook("tw_transform", fmt.Sprintf("%s local.get $b i32.const %d i32.store offset=32 local.get $b i32.const %d i32.store offset=36 i64.const 6", copied, c.at, c.bytes))
		engines(t, func(t *testing.T, r *plugins.Runtime) {
			s := spec()
			if c.edit != nil {
				c.edit(&s.Limits)
			}
			call := filter
			call.Hook = abi.Transform
			if got := actions(decide(t, load(t, r, m.Bytes(), s), call, bodies("a"))); got != c.want {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
		})
	}
}

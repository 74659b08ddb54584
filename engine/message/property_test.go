package message_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/message"
)

type pair struct{ name, value string }

func pairsOf(p message.Properties) (all []pair) {
	for name, value := range p.All() {
		all = append(all, pair{string(name), string(value)})
	}
	return all
}

func TestPropertiesKeepOrderAndBytes(t *testing.T) {
	want := []pair{
		{"a", "1"}, {"empty", ""}, {"a", "2"}, {strings.Repeat("n", 255), strings.Repeat("v", 20000)},
		{"日本", "\x00\xff"}, {"z=;\n", "x"},
	}
	var p message.Properties
	for _, w := range want {
		p = message.AppendProperty(p, w.name, w.value)
	}
	got := pairsOf(p)
	if len(got) != len(want) {
		t.Fatalf("%d pairs, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("pair %d: %q, want %q", i, got[i], want[i])
		}
	}
	if err := message.CheckProperties(p); err != nil {
		t.Error(err)
	}
}

func TestPropertiesLookup(t *testing.T) {
	var p message.Properties
	for _, w := range []pair{{"a", "first"}, {"b", ""}, {"a", "second"}} {
		p = message.AppendProperty(p, w.name, w.value)
	}
	if v, ok := p.Lookup("a"); !ok || string(v) != "first" {
		t.Errorf("a: %q, %v", v, ok)
	}
	if v, ok := p.Lookup("b"); !ok || len(v) != 0 {
		t.Errorf("b: %q, %v", v, ok)
	}
	for _, name := range []string{"", "c", "aa", "A"} {
		if v, ok := p.Lookup(name); ok {
			t.Errorf("%q: %q", name, v)
		}
	}
	for range p.All() {
		break // must not go on
	}
}

func TestAppendPropertyBeyondTheFormatIsRefusedLater(t *testing.T) {
	for _, c := range []pair{
		{"", "v"},
		{strings.Repeat("n", 256), "v"}, // would wrap to an empty name
		{strings.Repeat("n", 257), "v"}, // would wrap to one of a byte
		{"n", strings.Repeat("v", 65536)},
		{"n", strings.Repeat("v", 65537)},
	} {
		p := message.AppendProperty(nil, "before", "x")
		p = message.AppendProperty(p, c.name, c.value)
		if err := message.CheckProperties(p); !errors.Is(err, message.ErrProperties) {
			t.Errorf("name of %d bytes, value of %d: %v", len(c.name), len(c.value), err)
		}
	}
}

// TestReservedProperties: a producer cannot say by a property what is a field of the record, nor what only a broker
// says to a consumer.
func TestReservedProperties(t *testing.T) {
	for _, name := range []string{
		"DELAY", "TAGS", "REAL_TOPIC", "REAL_QID", "__STARTDELIVERTIME", "__CRC32#",
		"TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "TIMER_OUT_MS", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS",
		"TIMER_ROLL_TIMES", "TIMER_ROLL_LABEL", "TIMER_DEL_UNIQKEY", "TIMER_DELAY_LEVEL", "TIMER_",
		"MIN_OFFSET", "MAX_OFFSET", "POP_CK", "POP_CK_OFFSET", "1ST_POP_TIME", "TIDEWHEEL_ANYTHING",
	} {
		p := message.AppendProperty(nil, "mine", "x")
		p = message.AppendProperty(p, name, "1")
		err := message.CheckProperties(p)
		if !errors.Is(err, message.ErrProperties) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		m := message.Message{Properties: p}
		if err := m.Check(); err != nil {
			t.Errorf("%s: Check is for the engine's own messages too: %v", name, err)
		}
	}
	for _, name := range []string{
		"KEYS", "UNIQ_KEY", "WAIT", "TRAN_MSG", "PGROUP", "__SHARDINGKEY", "INSTANCE_ID", "delay", "DELAYS", "TIMER", "timer_x",
		"MAX_RECONSUME_TIMES", "TRACE_CONTEXT",
	} {
		if err := message.CheckProperties(message.AppendProperty(nil, name, "1")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPropertiesCannotSmuggle: RocketMQ's protocol ends a name with byte 1 and a value with byte 2.
func TestPropertiesCannotSmuggle(t *testing.T) {
	for _, c := range []pair{{"a", "x\x02POP_CK\x011"}, {"a", "\x01"}, {"a\x01b", "x"}, {"\x02", "x"}} {
		if err := message.CheckProperties(message.AppendProperty(nil, c.name, c.value)); !errors.Is(err, message.ErrProperties) {
			t.Errorf("%q: %v", c, err)
		}
	}
}

func TestCheckPropertiesRefusesMalformedLists(t *testing.T) {
	good := message.AppendProperty(nil, "name", "value")
	for _, c := range []struct {
		name string
		p    message.Properties
		want error
	}{
		{"nil", nil, nil},
		{"good", good, nil},
		{"cut in a pair's lengths", good[:2], message.ErrProperties},
		{"cut in a value", good[:len(good)-1], message.ErrProperties},
		{"second pair cut", append(bytes.Clone(good), 1, 0), message.ErrProperties},
		{"no name", message.Properties{0, 0, 1, 'v'}, message.ErrProperties},
		{"zeros", make(message.Properties, 9), message.ErrProperties},
		{"too long", make(message.Properties, message.MaxProperties+1), message.ErrTooLarge},
	} {
		if err := message.CheckProperties(c.p); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
}

func TestPropertiesAllocateNothing(t *testing.T) {
	p := full().Properties
	if n := testing.AllocsPerRun(100, func() {
		if _, ok := p.Lookup("empty"); !ok || message.CheckProperties(p) != nil {
			t.Error("not found")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzProperties: the bytes of a list come from a producer. Reading them never panics, and a list that is accepted is
// made of its pairs and nothing else.
func FuzzProperties(f *testing.F) {
	f.Add([]byte(full().Properties))
	f.Add([]byte{1, 0, 0, 'a', 0})
	f.Add([]byte{255, 255, 255})
	f.Fuzz(func(t *testing.T, list []byte) {
		var again message.Properties
		for name, value := range message.Properties(list).All() {
			again = message.AppendProperty(again, string(name), string(value))
		}
		if !bytes.HasPrefix(list, again) {
			t.Fatalf("%x has the pairs %x", list, again)
		}
		m := message.Message{Properties: list}
		if m.Check() == nil && len(again) != len(list) {
			t.Fatalf("accepted %x, read %x", list, again)
		}
		if message.CheckProperties(list) == nil && m.Check() != nil {
			t.Fatal("a producer may send what cannot be stored")
		}
	})
}

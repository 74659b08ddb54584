package record_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/golden"
	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/engine/record"
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// equal compares two values; an empty list equals a nil one.
func equal(t *testing.T, got, want payload) {
	t.Helper()
	for _, v := range []payload{got, want} {
		switch v := v.(type) {
		case *record.Deliver:
			v.Queues, v.Items = normal(v.Queues), normal(v.Items)
		case *record.Trim:
			v.Mins = normal(v.Mins)
		case *record.State:
			v.Data = normal(v.Data)
		case *record.Verdict:
			v.Digests, v.Items = normal(v.Digests), normal(v.Items)
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func normal[E any](s []E) []E {
	if len(s) == 0 {
		return nil
	}
	return s
}

// edges are values at the ends of what can be said.
var edges = []struct {
	name  string
	kind  commitlog.Kind
	value payload
}{
	{"deliver of nothing", record.KindDeliver, &record.Deliver{}},
	{"deliver with extremes", record.KindDeliver, &record.Deliver{
		Lane: 255, Frontier: timerlog.Key{Due: math.MinInt64, ID: math.MaxUint64},
		Queues: []record.DeliverQueue{
			{Topic: math.MaxUint32, Queue: math.MaxUint32, Base: math.MaxInt64}, {Base: record.Gone}, {},
		},
		Items: []record.DeliverItem{
			{Key: timerlog.Key{Due: math.MaxInt64, ID: 0}, Position: math.MaxInt64, Size: math.MaxInt32, Queue: 2, Tags: math.MinInt32},
			{Key: timerlog.Key{Due: math.MinInt64, ID: math.MaxUint64}, Late: true, Tags: -1},
			{Key: timerlog.Key{Due: 0, ID: 1 << 63}, Position: 1, Size: 1, Queue: 1},
		},
	}},
	{"largest deliver", record.KindDeliver, largestDeliver()},
	{"cancel of nothing", record.KindCancel, &record.Cancel{}},
	{"cancel with extremes", record.KindCancel, &record.Cancel{ID: math.MaxUint64, Due: math.MinInt64, Topic: math.MaxUint32, Lane: 255}},
	{"supersede of nothing", record.KindSupersede, &record.Supersede{}},
	{"supersede with extremes", record.KindSupersede, &record.Supersede{
		Cancel: record.Cancel{ID: math.MaxUint64, Due: math.MaxInt64, Topic: math.MaxUint32, Lane: 255}, NewID: math.MaxUint64}},
	{"topic of one queue", record.KindTopic, &record.Topic{Op: record.Define, Queues: 1, Name: "t"}},
	{"topic with extremes", record.KindTopic, &record.Topic{
		Op: record.Define, ID: math.MaxUint32, Queues: record.MaxQueues, Attrs: math.MaxUint32, Name: strings.Repeat("t", message.MaxTopic)}},
	{"topic changed by id", record.KindTopic, &record.Topic{Op: record.Change, ID: 1, Queues: 2}},
	{"topic deleted by id", record.KindTopic, &record.Topic{Op: record.Delete, ID: 1}},
	{"topic deleted by name", record.KindTopic, &record.Topic{Op: record.Delete, ID: 1, Queues: 4, Name: "orders"}},
	{"group with extremes", record.KindGroup, &record.Group{
		Op: record.Define, ID: math.MaxUint32, Attrs: math.MaxUint32, Name: strings.Repeat("g", message.MaxGroup)}},
	{"group deleted by id", record.KindGroup, &record.Group{Op: record.Delete, ID: 1}},
	{"commit of nothing", record.KindCommit, &record.Commit{}},
	{"commit with extremes", record.KindCommit, &record.Commit{
		Group: math.MaxUint32, Topic: math.MaxUint32, Queue: math.MaxUint32, Offset: math.MaxInt64, Seek: true}},
	{"roll of nothing", record.KindRoll, &record.Roll{}},
	{"roll of everything", record.KindRoll, &record.Roll{To: math.MaxInt64}},
	{"trim of no queue", record.KindTrim, &record.Trim{}},
	{"trim with extremes", record.KindTrim, &record.Trim{
		Head: math.MaxInt64, Mins: []record.TrimMin{{Topic: math.MaxUint32, Queue: math.MaxUint32, Min: math.MaxInt64}, {}}}},
	{"state without data", record.KindState, &record.State{Parts: 1}},
	{"state with extremes", record.KindState, &record.State{Part: math.MaxUint32 - 1, Parts: math.MaxUint32, Data: make([]byte, 1<<20)}},
	{"smallest hole", record.KindHole, &record.Hole{To: 1}},
	{"hole with extremes", record.KindHole, &record.Hole{
		From: math.MaxInt64 - 1, To: math.MaxInt64, Reason: strings.Repeat("r", record.MaxReason)}},
	{"verdict of nothing", record.KindVerdict, &record.Verdict{}},
	{"verdict with extremes", record.KindVerdict, &record.Verdict{
		Group: math.MaxUint32, Topic: math.MaxUint32, Queue: math.MaxUint32, Origin: math.MaxUint32, To: math.MaxUint32, Base: math.MaxInt64, Low: math.MaxInt64,
		Digests: make([][32]byte, record.MaxDigests),
		Items: []record.VerdictItem{
			{Offset: 0, Key: timerlog.Key{Due: math.MinInt64, ID: math.MaxUint64}, Position: math.MaxInt64, Size: math.MaxInt32, Tags: -1,
				Action: 255, Plugin: record.MaxDigests - 1, Code: math.MaxUint16, Kept: true},
			{Offset: 1, Plugin: record.Nobody},
			{Offset: math.MaxInt64 - 1, Key: timerlog.Key{Due: math.MaxInt64}, Tags: math.MinInt32},
			{Offset: math.MaxInt64, Plugin: 3},
		},
	}},
	{"largest verdict", record.KindVerdict, largestVerdict()},
}

// largestVerdict needs nearly every byte that PayloadSize promises for its items: but for the distances of the offsets.
func largestVerdict() *record.Verdict {
	v := &record.Verdict{Origin: 1, Digests: make([][32]byte, record.MaxDigests)}
	for i := range record.MaxSettled {
		it := record.VerdictItem{
			Offset: int64(i) << 52, Size: math.MaxInt32, Tags: -1, Action: 8, Plugin: record.Nobody, Code: math.MaxUint16, Kept: true,
		}
		if i%2 == 0 { // differences of half the range have the longest form
			it.Key, it.Position = timerlog.Key{Due: 0, ID: 1 << 63}, math.MaxInt64
		} else {
			it.Key = timerlog.Key{Due: math.MinInt64, ID: 0}
		}
		v.Items = append(v.Items, it)
	}
	return v
}

// largestDeliver needs every byte that PayloadSize promises for its items and queues.
func largestDeliver() *record.Deliver {
	d := &record.Deliver{Frontier: timerlog.Key{Due: math.MinInt64, ID: 0}}
	for i := range record.MaxItems {
		d.Queues = append(d.Queues, record.DeliverQueue{Topic: math.MaxUint32, Queue: math.MaxUint32 - uint32(i), Base: math.MaxInt64})
		it := record.DeliverItem{Size: math.MaxInt32, Queue: record.MaxItems - 1, Tags: -1, Late: true}
		if i%2 == 0 { // differences of half the range have the longest form
			it.Key, it.Position = timerlog.Key{Due: 0, ID: 1 << 63}, math.MaxInt64
		} else {
			it.Key = timerlog.Key{Due: math.MinInt64, ID: 0}
		}
		d.Items = append(d.Items, it)
	}
	return d
}

func TestCodecRoundTrip(t *testing.T) {
	for _, c := range edges {
		t.Run(c.name, func(t *testing.T) {
			b := c.value.Append([]byte("prefix"))
			if !bytes.HasPrefix(b, []byte("prefix")) {
				t.Error("Append did not append")
			}
			b = b[len("prefix"):]
			if len(b) > c.value.PayloadSize() {
				t.Errorf("%d bytes, PayloadSize says at most %d", len(b), c.value.PayloadSize())
			}
			got := used(c.kind)
			if err := got.Decode(b); err != nil {
				t.Fatal(err)
			}
			equal(t, got, c.value)
		})
	}
}

// used is a value that held something before: nothing of it may shine through.
func used(kind commitlog.Kind) payload {
	v := empty[kind]()
	for _, c := range goldens {
		if c.kind == kind && v.Decode(c.value.Append(nil)) != nil {
			return nil
		}
	}
	return v
}

func TestDeliverIsSmall(t *testing.T) {
	d := burst(record.MaxItems)
	b := d.Append(nil)
	perItem := len(b) / len(d.Items)
	if perItem > 20 {
		t.Errorf("%d bytes an item", perItem)
	}
}

// burst is a chunk as it comes from a hot second: due together, stored in order, with tags, to four queues.
func burst(n int) *record.Deliver {
	r := rand.New(rand.NewPCG(1, 2))
	d := &record.Deliver{Frontier: timerlog.Key{Due: 1_796_036_533_123, ID: 1 << 30}}
	for q := range uint32(4) {
		d.Queues = append(d.Queues, record.DeliverQueue{Topic: 7, Queue: q, Base: 1_000_000 + int64(q)})
	}
	k, position := d.Frontier, int64(1)<<36
	for i := range n {
		k.Due += int64(r.IntN(2))
		k.ID += uint64(1 + r.IntN(2000))
		position += int64(r.IntN(1 << 20))
		d.Items = append(d.Items, record.DeliverItem{
			Key: k, Position: commitlog.Offset(position), Size: 300 + int32(r.IntN(1000)), Queue: uint16(i % 4), Tags: 2598919,
		})
	}
	return d
}

// TestDeliverRandom: positions and ids of a chunk jump both ways when timers of several runs are merged.
func TestDeliverRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var got record.Deliver
	for range 300 {
		d := record.Deliver{Lane: uint8(r.Uint32()), Frontier: timerlog.Key{Due: int64(r.Uint64()), ID: r.Uint64()}}
		for range 1 + r.IntN(5) {
			d.Queues = append(d.Queues, record.DeliverQueue{Topic: r.Uint32(), Queue: r.Uint32() >> r.IntN(32), Base: r.Int64() - 1})
		}
		for range r.IntN(20) {
			d.Items = append(d.Items, record.DeliverItem{
				Key: timerlog.Key{Due: int64(r.Uint64() >> r.IntN(64)), ID: r.Uint64() >> r.IntN(64)}, Position: commitlog.Offset(r.Int64()),
				Size: r.Int32(), Queue: uint16(r.IntN(len(d.Queues))), Tags: int32(r.Uint32()) >> r.IntN(32), Late: r.IntN(2) == 0,
			})
		}
		if err := got.Decode(d.Append(nil)); err != nil {
			t.Fatalf("%+v: %v", d, err)
		}
		equal(t, &got, &d)
	}
}

// TestEveryTruncationAndEveryByteMoreIsRefused: a payload has one length.
func TestEveryTruncationAndEveryByteMoreIsRefused(t *testing.T) {
	for _, c := range goldens {
		b := c.value.Append(nil)
		end := len(b)
		if c.kind == record.KindState { // its data goes to the end, whatever that is
			end = record.StateHead
		}
		for n := range end {
			if err := empty[c.kind]().Decode(b[:n]); !errors.Is(err, corrupt.ErrCorrupt) {
				t.Errorf("%s: %d of %d bytes: %v", record.Name(c.kind), n, len(b), err)
			}
		}
		if err := empty[c.kind]().Decode(append(b, 0)); c.kind != record.KindState && !errors.Is(err, corrupt.ErrCorrupt) {
			t.Errorf("%s: a byte more: %v", record.Name(c.kind), err)
		}
	}
}

func TestDecodeRefusesDamage(t *testing.T) {
	set := func(at int, with ...byte) func([]byte) []byte {
		return func(b []byte) []byte { copy(b[at:], with); return b }
	}
	// replace puts bytes in the place of n others.
	replace := func(at, n int, with ...byte) func([]byte) []byte {
		return func(b []byte) []byte { return append(append(bytes.Clone(b[:at]), with...), b[at+n:]...) }
	}
	negative := []byte{0x80, 0, 0, 0, 0, 0, 0, 0}
	most := bytes.Repeat([]byte{0xff}, 9)
	const counts, queues, items = 17, 19, 27 // in the golden deliver record
	const verdictItems = 70                  // in the golden verdict record
	for _, c := range []struct {
		name    string
		kind    commitlog.Kind
		corrupt func([]byte) []byte
		at      int64
		want    string
	}{
		{"too many queues", record.KindDeliver, replace(counts, 1, 0x81, 0x08), counts, "queue count is 1025, the limit 1024"},
		{"more queues than bytes", record.KindDeliver, replace(counts, 1, 0x80, 0x08), counts, "queue count is 1024"},
		{"too many items", record.KindDeliver, replace(counts+1, 1, 0x81, 0x08), counts + 1, "item count is 1025, the limit 1024"},
		{"more items than bytes", record.KindDeliver, set(counts+1, 8), counts + 1, "item count is 8"},
		{"count in a longer form", record.KindDeliver, replace(counts, 1, 0x82, 0x00), counts, "more bytes than it needs"},
		{"count of 2^64-1", record.KindDeliver, replace(counts, 1, append(most, 0x01)...), counts, "queue count is 18446744073709551615"},
		{"count of more than 64 bits", record.KindDeliver, replace(counts, 1, append(most, 0x02)...), counts, "more than 64 bits"},
		{"topic beyond 32 bits", record.KindDeliver, replace(queues, 1, 0x80, 0x80, 0x80, 0x80, 0x10), queues, "topic is 4294967296"},
		{"queue beyond 32 bits", record.KindDeliver, replace(queues+1, 1, 0x80, 0x80, 0x80, 0x80, 0x10), queues + 1, "queue is 4294967296"},
		{"base beyond 63 bits", record.KindDeliver, replace(queues+2, 2, 0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01), queues + 2,
			"base is 9223372036854775809"},
		{"due of more than 64 bits", record.KindDeliver, replace(items, 1, append(most, 0x02)...), items, "due has more than 64 bits"},
		{"id of eleven bytes", record.KindDeliver, replace(items+1, 1, append(most, 0x80, 0x01)...), items + 1, "id has more than 64 bits"},
		{"id in a longer form", record.KindDeliver, replace(items+1, 1, 0x80, 0x00), items + 1, "more bytes than it needs"},
		{"negative position", record.KindDeliver, set(items+2, 0xc1), items + 2, "position is negative"},
		{"size beyond 31 bits", record.KindDeliver, replace(items+4, 2, 0x80, 0x80, 0x80, 0x80, 0x08), items + 4, "size is 2147483648"},
		{"item of no queue", record.KindDeliver, set(items+6, 10), items + 6, "item of queue 2, there are 2"},
		{"link beyond all queues", record.KindDeliver, replace(items+6, 1, 0x80, 0x80, 0x10), items + 6, "link is 262144"},
		{"tags written and zero", record.KindDeliver, set(items+7, 0, 0, 0, 0), items + 7, "tags are zero and written"},
		{"varint cut off", record.KindDeliver, func(b []byte) []byte { b[len(b)-1] = 0x85; return b }, 44, "cut off in link"},

		{"no operation", record.KindTopic, set(0, 0), 0, "operation 0 is unknown"},
		{"operation of a later version", record.KindTopic, set(0, 4), 0, "operation 4 is unknown"},
		{"topic without queues", record.KindTopic, set(5, 0, 0, 0, 0), 5, "0 queues"},
		{"changed to no queues", record.KindTopic, set(0, 2, 0, 0, 0, 3, 0, 0, 0, 0), 5, "0 queues"},
		{"topic of too many queues", record.KindTopic, set(5, 0, 1, 0, 1), 5, "65537 queues"},
		{"topic name with a slash", record.KindTopic, set(14, '/'), 13, "byte 0; allowed are"},
		{"topic without a name", record.KindTopic, replace(13, 7, 0), 13, "topic name of 0 bytes"},
		{"topic name longer than the payload", record.KindTopic, set(13, 7), 14, "cut off"},
		{"topic name too long", record.KindTopic, replace(13, 7, append([]byte{128}, bytes.Repeat([]byte{'t'}, 128)...)...), 13, "topic name of 128 bytes"},
		{"group name too long", record.KindGroup, replace(9, 8, append([]byte{121}, bytes.Repeat([]byte{'g'}, 121)...)...), 9, "group name of 121 bytes"},
		{"group without a name", record.KindGroup, func([]byte) []byte { return []byte{1, 0, 0, 0, 9, 0, 0, 0, 1, 0} }, 9, "group name of 0 bytes"},
		{"group with an unknown operation", record.KindGroup, set(0, 255), 0, "operation 255 is unknown"},

		{"negative offset", record.KindCommit, set(12, negative...), 12, "offset is negative"},
		{"seek that is neither", record.KindCommit, set(20, 2), 20, "seek is 2"},
		{"roll to a negative position", record.KindRoll, set(0, negative...), 0, "to is negative"},
		{"trim to a negative position", record.KindTrim, set(0, negative...), 0, "head is negative"},
		{"trim of more queues than bytes", record.KindTrim, set(8, 3), 8, "count is 3"},
		{"trim of 2^31 queues", record.KindTrim, replace(8, 1, 0x80, 0x80, 0x80, 0x80, 0x08), 8, "count is 2147483648"},
		{"minimum beyond 63 bits", record.KindTrim, replace(11, 1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01), 11, "minimum is"},
		{"topic of a minimum beyond 32 bits", record.KindTrim, replace(9, 1, 0x80, 0x80, 0x80, 0x80, 0x10), 9, "topic is"},
		{"part beyond the last", record.KindState, set(0, 0, 0, 0, 2), 0, "part 2 of 2"},
		{"state of no parts", record.KindState, set(0, 0, 0, 0, 0, 0, 0, 0, 0), 0, "part 0 of 0"},
		{"hole from a negative position", record.KindHole, set(0, negative...), 0, "from is negative"},
		{"hole to a negative position", record.KindHole, set(8, negative...), 8, "to is negative"},
		{"empty hole", record.KindHole, set(8, 0, 0, 0, 0, 0, 0, 0x10, 0), 0, "from 4096 to 4096"},
		{"hole that ends before it begins", record.KindHole, set(8, 0, 0, 0, 0, 0, 0, 0, 1), 0, "from 4096 to 1"},
		{"reason longer than the payload", record.KindHole, set(16, 255), 17, "cut off"},

		{"queue and base of no topic", record.KindVerdict, set(12, 0, 0, 0, 0), 12, "queue 1 and base 200 of no topic"},
		{"negative base", record.KindVerdict, set(20, negative...), 20, "base is negative"},
		{"negative low", record.KindVerdict, set(28, negative...), 28, "low is negative"},
		{"too many digests", record.KindVerdict, set(36, 17), 36, "17 digests, allowed are 16"},
		{"more digests than bytes", record.KindVerdict, set(36, 16), 102, "cut off"},
		{"too many settled", record.KindVerdict, replace(37, 1, 0x81, 0x08), 37, "item count is 1025, the limit 1024"},
		{"more settled than bytes", record.KindVerdict, set(37, 20), 37, "item count is 20"},
		{"offset beyond 63 bits", record.KindVerdict, replace(verdictItems, 1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01), verdictItems, "offset is 9223372036854775808"},
		{"offsets beyond 63 bits", record.KindVerdict, replace(verdictItems+20, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f), verdictItems + 20, "offset beyond 63 bits"},
		{"plugin without a digest", record.KindVerdict, set(verdictItems+2, 1), verdictItems + 2, "plugin 1 of 1"},
		{"code beyond 16 bits", record.KindVerdict, replace(verdictItems+3, 1, 0x80, 0x80, 0x04), verdictItems + 3, "code is 65536"},
		{"negative position of a verdict", record.KindVerdict, set(verdictItems+11, 0xc1), verdictItems + 11, "position is negative"},
		{"flags of a later version", record.KindVerdict, set(verdictItems+15, 4), verdictItems + 15, "flags 0x4"},
		{"kept in no topic", record.KindVerdict, set(12, make([]byte, 16)...), verdictItems + 15, "flags 0x3 of an item, topic 0"},
		{"tags of a verdict written and zero", record.KindVerdict, set(verdictItems+16, 0, 0, 0, 0), verdictItems + 16, "tags are zero and written"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := golden.Read(t, record.Name(c.kind))
			err := empty[c.kind]().Decode(c.corrupt(b))
			var damage *corrupt.Error
			if !errors.As(err, &damage) {
				t.Fatalf("got %v, want a *corrupt.Error", err)
			}
			if damage.Offset != c.at || !strings.Contains(damage.Reason, c.want) {
				t.Errorf("got byte %d: %s\nwant byte %d: %s", damage.Offset, damage.Reason, c.at, c.want)
			}
			if want := record.Name(c.kind) + " record"; damage.File != want {
				t.Errorf("the error is about %q, want %q", damage.File, want)
			}
		})
	}
}

// TestCountsDoNotAllocate: a damaged count must not become memory.
func TestCountsDoNotAllocate(t *testing.T) {
	trim := binary.AppendUvarint(make([]byte, 8), 1<<30)
	deliver := append(make([]byte, 17), 0x80, 0x08, 0x80, 0x08)
	if n := testing.AllocsPerRun(10, func() {
		var tr record.Trim
		var d record.Deliver
		if tr.Decode(trim) == nil || d.Decode(deliver) == nil {
			t.Error("decoded")
		}
		if cap(tr.Mins)+cap(d.Queues)+cap(d.Items) > 0 {
			t.Error("allocated a list")
		}
	}); n > 20 { // the errors
		t.Errorf("%v allocations", n)
	}
}

// TestStateDataLiesInThePayload: the state of a large store is not copied part by part.
func TestStateDataLiesInThePayload(t *testing.T) {
	b := (&record.State{Parts: 1, Data: []byte("data")}).Append(nil)
	var s record.State
	if err := s.Decode(b); err != nil {
		t.Fatal(err)
	}
	if &s.Data[0] != &b[record.StateHead] {
		t.Error("the data was copied")
	}
}

func TestHoleReasonIsCut(t *testing.T) {
	long := &record.Hole{To: 1, Reason: strings.Repeat("r", record.MaxReason+1)}
	b := long.Append(nil)
	if len(b) > long.PayloadSize() {
		t.Errorf("%d bytes, PayloadSize says %d", len(b), long.PayloadSize())
	}
	var got record.Hole
	if err := got.Decode(b); err != nil {
		t.Fatal(err)
	}
	if got.Reason != long.Reason[:record.MaxReason] {
		t.Errorf("reason of %d bytes", len(got.Reason))
	}
}

// TestCodecsAllocateNothing in the steady state, but for names and reasons, which are copied.
func TestCodecsAllocateNothing(t *testing.T) {
	for _, c := range goldens {
		want := 0.0
		switch c.kind {
		case record.KindTopic, record.KindGroup, record.KindHole:
			want = 1
		}
		v := empty[c.kind]()
		buf := c.value.Append(nil)
		if n := testing.AllocsPerRun(100, func() {
			buf = c.value.Append(buf[:0])
			if err := v.Decode(buf); err != nil {
				t.Error(err)
			}
		}); n > want {
			t.Errorf("%s: %v allocations, want %v", record.Name(c.kind), n, want)
		}
	}
}

func TestKindsAreFixed(t *testing.T) {
	for name, kind := range map[string]commitlog.Kind{
		"message": message.KindMessage, "deliver": 2, "cancel": 3, "supersede": 4, "topic": 5, "group": 6, "commit": 7,
		"roll": 8, "trim": 9, "state": 10, "hole": 11, "verdict": 12, "claim": 13, "undo": 14, "kind 0": 0, "kind 15": 15, "kind 255": 255,
	} {
		if got := record.Name(kind); got != name {
			t.Errorf("kind %d is %q, want %q", kind, got, name)
		}
	}
	for _, c := range []struct{ got, want commitlog.Kind }{
		{record.KindDeliver, 2}, {record.KindCancel, 3}, {record.KindSupersede, 4}, {record.KindTopic, 5}, {record.KindGroup, 6},
		{record.KindCommit, 7}, {record.KindRoll, 8}, {record.KindTrim, 9}, {record.KindState, 10}, {record.KindHole, 11},
		{record.KindVerdict, 12}, {record.KindClaim, 13}, {record.KindUndo, 14}, {message.KindMessage, 1},
	} {
		if c.got != c.want {
			t.Errorf("%s is kind %d on disk, not %d", record.Name(c.want), c.want, c.got)
		}
	}
}

// A paused topic differs from one that is not in one bit of its attributes.
func TestTopicPaused(t *testing.T) {
	b := golden.Read(t, record.Name(record.KindTopic))
	b[9] ^= 1 << 7
	var got record.Topic
	if err := got.Decode(b); err != nil {
		t.Fatal(err)
	}
	if got.Attrs&record.TopicPaused == 0 || got.Attrs&record.TopicHost != 5 {
		t.Errorf("attributes %#x, want paused and 5 of the host", got.Attrs)
	}
	if !bytes.Equal(got.Append(nil), b) {
		t.Error("decoded and encoded again it differs")
	}
}

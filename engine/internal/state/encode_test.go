package state_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/golden"
	"github.com/tidewheel/tidewheel/engine/internal/state"
	"github.com/tidewheel/tidewheel/engine/record"
)

// rich has something in every list.
func rich() *state.State {
	s := state.New(1)
	s.Create(begin)
	s.End, s.LogMs, s.WallMs, s.Rolled = 5000, 700, begin+800, 1024
	s.NextID, s.NextTopic, s.NextGroup = 3*state.ChunkIDs+5, 6, 3
	s.Live, s.Credit, s.Pending, s.Dropped = 1000, 250_000, 2, 3
	s.Lanes[0] = key(begin+300, 200)
	s.Levels = map[int64]int64{5000: begin + 5300, 1000: begin + 1300}
	for _, r := range []*record.Topic{topic(1, "orders", 2), topic(2, "gone", 1), topic(3, "mail", 1)} {
		s.NextTopic = r.ID
		if err := s.Topic(r, &index{}); err != nil {
			panic(err)
		}
	}
	s.Topics[1].Queues[1] = state.Queue{Min: 3, Next: 70}
	s.Topics[1].Pending = 2
	s.Topics[1].Count = 1
	s.Topics[3].Attrs = 9
	s.NextTopic = 6
	if err := s.Topic(&record.Topic{Op: record.Delete, ID: 2}, &index{}); err != nil {
		panic(err)
	}
	s.NextGroup = 2
	if err := s.Group(group(2, "billing")); err != nil {
		panic(err)
	}
	s.Offsets.Set(state.OffsetKey{Group: 2, Topic: 1, Queue: 1}, 44)
	s.Segments = []state.Segment{{Base: 1024, End: 4096, Visible: 650, Opened: 100, Sealed: 500}, {Base: 4096, Visible: 500, Opened: 500}}
	s.Chunks = []state.Chunk{{Closed: true}, {Closed: true}, {Pending: 1, Changed: 1500, ChangedAt: 120}, {Pending: 1, Changed: 4800, ChangedAt: 690}}
	s.Steps = []state.Step{{LogMs: 0, WallMs: begin}, {LogMs: 600, WallMs: begin - 5}}
	s.Holes = []state.Hole{{From: 1200, To: 1300}}
	one, two := int64(1), int64(1)
	s.Hours = map[int64]*int64{-1: &one, 490_000: &two}
	return s
}

// layout names the fields of rich's encoding in their order: u unsigned, i signed, t text of the length before it.
var layout = strings.Fields(`
	u:version i:end i:logMs i:wallMs i:rolled u:nextID u:nextTopic u:nextGroup i:putCount i:putBytes i:pending i:dropped
	u:lanes i:frontier.due u:frontier.id
	u:levels i:delay i:tail i:delay i:tail
	u:topics u:id u:attrs u:count u:length t:name i:pending u:queues i:min i:next i:min i:next
	         u:id u:attrs u:count u:length t:name i:pending u:queues i:min i:next
	u:groups u:id u:attrs u:length t:name
	u:offsets u:group u:topic u:queue i:offset
	u:segments i:base i:end i:visible i:opened i:sealed i:base i:end i:visible i:opened i:sealed
	u:chunks u:closed u:run u:closed u:run i:pending i:changed i:changedAt i:pending i:changed i:changedAt
	u:steps i:logMs i:wallMs i:logMs i:wallMs
	u:holes i:from i:to
	u:hours i:hour i:messages i:hour i:messages`)

func annotate(t *testing.T, b []byte) string {
	var s strings.Builder
	s.WriteString("# a state with something in every list\n")
	length := uint64(0)
	for _, f := range layout {
		form, name, _ := strings.Cut(f, ":")
		u, n := binary.Uvarint(b)
		value := fmt.Sprint(u)
		switch form {
		case "i":
			value = fmt.Sprint(int64(u>>1) ^ -int64(u&1))
		case "t":
			n = int(length)
			value = fmt.Sprintf("%q", b[:n])
		}
		if n <= 0 || n > len(b) {
			t.Fatalf("nothing is left for %s", f)
		}
		fmt.Fprintf(&s, "%-20x # %s: %s\n", b[:n], name, value)
		b, length = b[n:], u
	}
	if len(b) > 0 {
		t.Errorf("%x is not described", b)
	}
	return s.String()
}

func TestGolden(t *testing.T) {
	text := annotate(t, rich().Append(nil))
	b := golden.Match(t, "state", text)
	s := state.New(0)
	if err := s.Decode(b); err != nil {
		t.Fatal(err)
	}
	if got := s.Append(nil); !bytes.Equal(got, b) {
		t.Errorf("decoded and encoded again:\n%s", annotate(t, got))
	}
	if s.Digest() != rich().Digest() || s.Topics[3].Name != "mail" || s.TopicByName("orders").ID != 1 || s.GroupByName("billing").ID != 2 {
		t.Errorf("decoded: %+v", s)
	}
}

// Equal states have equal digests, in whatever order they became what they are; each field counts.
func TestDigest(t *testing.T) {
	want := rich().Digest()
	for range 20 {
		if got := rich().Digest(); got != want { // maps are ranged over in another order each time
			t.Fatalf("digest %x, then %x", want, got)
		}
	}
	for name, change := range map[string]func(s *state.State){
		"end": func(s *state.State) { s.End++ }, "logMs": func(s *state.State) { s.LogMs++ }, "wallMs": func(s *state.State) { s.WallMs++ },
		"rolled": func(s *state.State) { s.Rolled++ }, "nextID": func(s *state.State) { s.NextID++ },
		"nextTopic": func(s *state.State) { s.NextTopic++ }, "nextGroup": func(s *state.State) { s.NextGroup++ },
		"live": func(s *state.State) { s.Live++ }, "credit": func(s *state.State) { s.Credit++ },
		"pending": func(s *state.State) { s.Pending++ }, "dropped": func(s *state.State) { s.Dropped++ },
		"lane": func(s *state.State) { s.Lanes[0].ID++ }, "levels": func(s *state.State) { s.Levels[1000]++ },
		"topic": func(s *state.State) { s.Topics[1].Attrs++ }, "topic's count": func(s *state.State) { s.Topics[1].Count++ },
		"topic's pending": func(s *state.State) { s.Topics[1].Pending++ }, "queue": func(s *state.State) { s.Topics[1].Queues[0].Next++ },
		"group": func(s *state.State) { s.Groups[2].Attrs++ }, "offset": func(s *state.State) { s.Offsets.Set(state.OffsetKey{Group: 2, Topic: 1, Queue: 1}, 45) },
		"segment": func(s *state.State) { s.Segments[0].Visible++ }, "chunk": func(s *state.State) { s.Chunks[2].ChangedAt++ },
		"closed chunk": func(s *state.State) { s.Chunks[2] = state.Chunk{Closed: true} }, "step": func(s *state.State) { s.Steps[1].WallMs++ },
		"hole": func(s *state.State) { s.Holes[0].To++ }, "hour": func(s *state.State) { *s.Hours[-1]++ },
	} {
		s := rich()
		if change(s); s.Digest() == want {
			t.Errorf("%s does not count", name)
		}
	}
	local := rich()
	local.Oldest, local.Seen, local.Lost = 7, bits{}, []state.Hole{{From: 1, To: 2}}
	if local.Resume(true); local.Digest() != want {
		t.Error("what is local to a machine counts")
	}
}

// field finds the place of the nth field with a name.
func field(t *testing.T, b []byte, name string, nth int) (at, width int) {
	t.Helper()
	length := uint64(0)
	for _, f := range layout {
		form, got, _ := strings.Cut(f, ":")
		u, n := binary.Uvarint(b[at:])
		if form == "t" {
			n = int(length)
		}
		if got == name {
			if nth == 0 {
				return at, n
			}
			nth--
		}
		at, length = at+n, u
	}
	t.Fatalf("no field %s", name)
	return 0, 0
}

func TestDecodeCorruptions(t *testing.T) {
	replace := func(name string, nth int, with ...byte) func([]byte) []byte {
		return func(b []byte) []byte {
			at, n := field(t, b, name, nth)
			return append(append(bytes.Clone(b[:at]), with...), b[at+n:]...)
		}
	}
	swap := func(name string, a, c int, end string) func([]byte) []byte {
		return func(b []byte) []byte {
			from, _ := field(t, b, name, a)
			middle, _ := field(t, b, name, c)
			to, _ := field(t, b, end, 0)
			return bytes.Join([][]byte{b[:from], b[middle:to], b[from:middle], b[to:]}, nil)
		}
	}
	ten := bytes.Repeat([]byte{0xff}, 10)
	for _, c := range []struct {
		name    string
		corrupt func([]byte) []byte
		want    string
	}{
		{"empty", func([]byte) []byte { return nil }, "cut off"},
		{"bytes left over", func(b []byte) []byte { return append(b, 0) }, "left over"},
		{"more than 64 bits", replace("end", 0, append(ten, 1)...), "cut off"},
		{"longer than it needs", replace("nextTopic", 0, 0x86, 0), "one encoding"},
		{"topic id beyond 32 bits", replace("nextTopic", 0, 0xff, 0xff, 0xff, 0xff, 0x1f), "too large"},
		{"lanes", replace("lanes", 0, 0xff, 0x7f), "longer than its bytes"},
		{"levels", replace("levels", 0, 0xff, 0x7f), "longer than its bytes"},
		{"levels out of order", swap("delay", 0, 1, "topics"), "one encoding"},
		{"level twice", replace("delay", 1, 0xd0, 0x0f), "one encoding"},
		{"topics", replace("topics", 0, 0xff, 0x7f), "longer than its bytes"},
		{"topics out of order", swap("id", 0, 1, "groups"), "one encoding"},
		{"topic twice", replace("id", 1, 1), "one encoding"},
		{"topic uses more queues than it has", replace("count", 0, 3), "fewer queues"},
		{"topic's name", replace("length", 0, 0xff, 0x7f), "longer than its bytes"},
		{"queues", replace("queues", 0, 0xff, 0x7f), "longer than its bytes"},
		{"groups", replace("groups", 0, 0xff, 0x7f), "longer than its bytes"},
		{"offsets", replace("offsets", 0, 0xff, 0x7f), "longer than its bytes"},
		{"segments", replace("segments", 0, 0xff, 0x7f), "longer than its bytes"},
		{"segments with a gap", replace("base", 1, 0x82, 0x40), "follow"},
		{"last segment sealed", replace("end", 2, 2), "follow"},
		{"chunks", replace("chunks", 0, 0x81, 0x80, 0x80, 0x08), "too many"},
		{"chunks too few for the ids", replace("nextID", 0, 0x86, 0x80, 0x10), "chunks do not suit"},
		{"no id", replace("nextID", 0, 0), "chunks do not suit"},
		{"closed is 2", replace("closed", 0, 2), "run of chunks"},
		{"run of none", replace("run", 0, 0), "run of chunks"},
		{"run longer than the table", replace("run", 0, 5), "run of chunks"},
		{"run in two", replace("run", 0, 1, 1, 1), "one encoding"},
		{"steps", replace("steps", 0, 0xff, 0x7f), "longer than its bytes"},
		{"holes", replace("holes", 0, 0xff, 0x7f), "longer than its bytes"},
		{"hours", replace("hours", 0, 0xff, 0x7f), "longer than its bytes"},
		{"hour without messages", replace("messages", 0, 0), "hour without messages"},
		{"hour twice", replace("hour", 1, 1), "one encoding"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := c.corrupt(rich().Append(nil))
			err := state.New(0).Decode(b)
			var bad *corrupt.Error
			if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if bad.Offset < 0 || bad.Offset > int64(len(b)) {
				t.Errorf("byte %d of %d", bad.Offset, len(b))
			}
		})
	}
	whole := rich().Append(nil)
	for n := range whole {
		if err := state.New(0).Decode(whole[:n]); !errors.Is(err, corrupt.ErrCorrupt) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
	newer := replace("version", 0, 3)(whole)
	if err := state.New(0).Decode(newer); !errors.Is(err, state.ErrNewer) || errors.Is(err, corrupt.ErrCorrupt) {
		t.Errorf("a newer version: %v", err)
	}
	none := state.New(1)
	if err := state.New(0).Decode(none.Append(nil)); !errors.Is(err, corrupt.ErrCorrupt) {
		t.Errorf("a state before the first record: %v", err)
	}
}

// Random states survive encoding, and every flipped bit of one is another state or an error.
func TestEncodeRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	w := peopled(t)
	for id := uint64(3); id < 300; id++ {
		w.pass(int64(r.IntN(50)))
		due := w.wallMs + int64(r.IntN(10_000))
		switch r.IntN(5) {
		case 0:
			w.must(flagged(id, due, 0), &record.Cancel{ID: id, Due: due, Topic: 1})
		case 1:
			w.must(flagged(id, due, 0), &record.Commit{Group: 1, Topic: 1, Queue: uint32(r.IntN(2)), Offset: int64(id)})
		case 2:
			w.seal()
			w.must(flagged(id, due, 0))
		case 3:
			at := commitlog.Offset(id * 1000)
			w.must(flagged(id, due, 0), &record.Hole{From: at, To: at + 100})
		default:
			w.wallMs += int64(r.IntN(3000)) - 1500
			w.must(waiting(id, max(due, w.s.Levels[1000]), 1000))
		}
	}
	b := w.s.Append(nil)
	if got := clone(t, w.s).Append(nil); !bytes.Equal(got, b) {
		t.Fatal("decoded and encoded again it is another")
	}
	for i := range b {
		b[i] ^= 1 << r.IntN(8)
		s := state.New(0)
		if err := s.Decode(b); err == nil && !bytes.Equal(s.Append(nil), b) {
			t.Errorf("byte %d: decoded and encoded again it is another", i)
		}
		copy(b, w.s.Append(b[:0:0]))
	}
}

func FuzzDecode(f *testing.F) {
	whole := rich().Append(nil)
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add(peopled(f).s.Append(nil))
	f.Add(withStage(f).s.Append(nil))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		s := state.New(0)
		err := s.Decode(b)
		if err == nil {
			if got := s.Append(nil); !bytes.Equal(got, b) {
				t.Errorf("decoded and encoded again: %x", got)
			}
		} else if !errors.Is(err, corrupt.ErrCorrupt) && !errors.Is(err, state.ErrNewer) {
			t.Errorf("%v", err)
		}
	})
}

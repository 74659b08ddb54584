package state

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/record"
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// Versions of the encoding. A state is encoded in the first one that can say it.
const (
	firstVersion  = 1
	stagesVersion = 2 // has a stage, or something settled: who does not know of them must not go on
)

// version is the one of the state's encoding.
func (s *State) version(settled []*committed) uint64 {
	if s.stages > 0 || len(settled) > 0 {
		return stagesVersion
	}
	return firstVersion
}

// Digest names the state: equal states, equal digests.
func (s *State) Digest() [16]byte { return DigestOf(s.Append(nil)) }

// DigestOf is the digest of the state with this encoding.
func DigestOf(encoding []byte) (d [16]byte) {
	sum := sha256.Sum256(encoding)
	copy(d[:], sum[:])
	return d
}

// Append appends the canonical encoding to b.
func (s *State) Append(b []byte) []byte {
	w := writer{b}
	settled := s.Offsets.settledList()
	version := s.version(settled)
	w.u(version)
	w.i(int64(s.End), s.LogMs, s.WallMs, int64(s.Rolled))
	w.u(s.NextID, uint64(s.NextTopic), uint64(s.NextGroup))
	w.i(s.Live, s.Credit, s.Pending, s.Dropped)
	w.u(uint64(len(s.Lanes)))
	for _, k := range s.Lanes {
		w.i(k.Due)
		w.u(k.ID)
	}
	w.u(uint64(len(s.Levels)))
	for _, delay := range slices.Sorted(maps.Keys(s.Levels)) {
		w.i(delay, s.Levels[delay])
	}
	w.names(s)
	w.u(uint64(len(s.Segments)))
	for _, g := range s.Segments {
		w.i(int64(g.Base), int64(g.End), g.Visible, g.Opened, g.Sealed)
	}
	w.chunks(s.Chunks)
	w.u(uint64(len(s.Steps)))
	for _, st := range s.Steps {
		w.i(st.LogMs, st.WallMs)
	}
	w.u(uint64(len(s.Holes)))
	for _, h := range s.Holes {
		w.i(int64(h.From), int64(h.To))
	}
	w.u(uint64(len(s.Hours)))
	for _, hour := range slices.Sorted(maps.Keys(s.Hours)) {
		w.i(hour, *s.Hours[hour])
	}
	if version >= stagesVersion {
		w.settled(settled)
	}
	return w.b
}

type writer struct{ b []byte }

func (w *writer) u(vs ...uint64) {
	for _, v := range vs {
		w.b = binary.AppendUvarint(w.b, v)
	}
}

func (w *writer) i(vs ...int64) {
	for _, v := range vs {
		w.b = binary.AppendVarint(w.b, v)
	}
}

func (w *writer) text(s string) {
	w.u(uint64(len(s)))
	w.b = append(w.b, s...)
}

func (w *writer) names(s *State) {
	w.u(uint64(len(s.Topics)))
	for _, id := range slices.Sorted(maps.Keys(s.Topics)) {
		t := s.Topics[id]
		w.u(uint64(t.ID), uint64(t.Attrs), uint64(t.Count))
		w.text(t.Name)
		w.i(t.Pending)
		w.u(uint64(len(t.Queues)))
		for _, q := range t.Queues {
			w.i(q.Min, q.Next)
		}
	}
	w.u(uint64(len(s.Groups)))
	for _, id := range slices.Sorted(maps.Keys(s.Groups)) {
		g := s.Groups[id]
		w.u(uint64(g.ID), uint64(g.Attrs))
		w.text(g.Name)
	}
	w.u(uint64(s.Offsets.Len()))
	s.Offsets.sort()
	for _, c := range s.Offsets.list {
		w.u(uint64(c.key.Group), uint64(c.key.Topic), uint64(c.key.Queue))
		w.i(c.at)
	}
}

// chunks come as runs: of closed ones only the length, since there can be many.
func (w *writer) chunks(cs []Chunk) {
	w.u(uint64(len(cs)))
	for i := 0; i < len(cs); {
		run := i
		for run < len(cs) && cs[run].Closed == cs[i].Closed {
			run++
		}
		closed := uint64(0)
		if cs[i].Closed {
			closed = 1
		}
		w.u(closed, uint64(run-i))
		for ; i < run; i++ {
			if c := cs[i]; !c.Closed {
				w.i(c.Pending, int64(c.Changed), c.ChangedAt)
			}
		}
	}
}

// Decode reads an encoding into a state that was made by New. Its error is a *corrupt.Error with the byte in the encoding as offset, or
// of kind ErrNewer.
func (s *State) Decode(b []byte) error {
	r := reader{b: b}
	version := r.u()
	if r.err == nil && (version < firstVersion || version > stagesVersion) {
		return fmt.Errorf("%w: state encoding version %d, this is %d", ErrNewer, version, stagesVersion)
	}
	s.End, s.LogMs, s.WallMs, s.Rolled = Offset(r.i()), r.i(), r.i(), Offset(r.i())
	s.NextID, s.NextTopic, s.NextGroup = r.u(), r.u32(), r.u32()
	s.Live, s.Credit, s.Pending, s.Dropped = r.i(), r.i(), r.i(), r.i()
	s.Lanes = make([]timerlog.Key, r.count(2))
	for i := range s.Lanes {
		s.Lanes[i] = timerlog.Key{Due: r.i(), ID: r.u()}
	}
	for n := r.count(2); n > 0; n-- {
		delay := r.i()
		s.Levels[delay] = r.i()
	}
	r.names(s)
	s.Segments = make([]Segment, r.count(5))
	for i := range s.Segments {
		s.Segments[i] = Segment{Offset(r.i()), Offset(r.i()), r.i(), r.i(), r.i()}
	}
	s.Chunks = r.chunks()
	s.Steps = make([]Step, r.count(2))
	for i := range s.Steps {
		s.Steps[i] = Step{r.i(), r.i()}
	}
	s.Holes = make([]Hole, r.count(2))
	for i := range s.Holes {
		s.Holes[i] = Hole{Offset(r.i()), Offset(r.i())}
	}
	for n := r.count(2); n > 0; n-- {
		hour, count := r.i(), r.i()
		s.Hours[hour] = &count
	}
	if version >= stagesVersion {
		r.settled(s)
	}
	if r.err == nil && r.at != len(b) {
		r.fail("bytes left over")
	}
	if r.err == nil {
		r.check(s)
	}
	s.fresh = false
	return r.err
}

// check holds the state against what every state of a store has, and the bytes against the one encoding it has: lists in
// order, names once, numbers in as few bytes as they need.
func (r *reader) check(s *State) {
	if len(s.Segments) == 0 {
		r.fail("no segment")
	}
	for i, g := range s.Segments {
		if last := i == len(s.Segments)-1; last != (g.End == 0) || !last && s.Segments[i+1].Base != g.End {
			r.fail("segments do not follow each other")
		}
	}
	chunks := 0 // ids begin at 1, but chunks at 0
	if s.NextID > 1 {
		chunks = int((s.NextID-1)/ChunkIDs) + 1
	}
	if s.NextID == 0 || s.NextID > maxID || len(s.Chunks) != chunks {
		r.fail("chunks do not suit the ids that were given out")
	}
	for _, n := range s.Hours {
		if *n == 0 {
			r.fail("hour without messages")
		}
	}
	if r.err != nil {
		return
	}
	b := s.Append(nil)
	for r.at = 0; r.at < len(b) && r.at < len(r.b) && b[r.at] == r.b[r.at]; {
		r.at++
	}
	if r.at < len(b) || r.at < len(r.b) {
		r.fail("not the one encoding of the state")
	}
}

// reader takes fields; after the first fault all are zero.
type reader struct {
	b   []byte
	at  int
	err error
}

func (r *reader) fail(reason string) {
	if r.err == nil {
		r.err = corrupt.Errorf("state", int64(r.at), "%s", reason)
	}
}

func (r *reader) u() uint64 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.b[r.at:])
	if n <= 0 {
		r.fail("cut off")
		return 0
	}
	r.at += n
	return v
}

func (r *reader) i() int64 {
	v := r.u()
	return int64(v>>1) ^ -int64(v&1)
}

func (r *reader) u32() uint32 {
	v := r.u()
	if v > 1<<32-1 {
		r.fail("number too large")
	}
	return uint32(v)
}

// count takes the length of a list of elements of at least so many bytes: it never exceeds what the bytes can hold.
func (r *reader) count(least int) int {
	n := r.u()
	if n > uint64(len(r.b)-r.at)/uint64(least) {
		r.fail("list longer than its bytes")
		return 0
	}
	return int(n)
}

func (r *reader) text() string {
	n := r.count(1)
	t := string(r.b[r.at : r.at+n])
	r.at += n
	return t
}

func (r *reader) names(s *State) {
	for n := r.count(7); n > 0; n-- {
		t := &Topic{ID: r.u32(), Attrs: r.u32(), Count: int(r.u32()), Name: r.text(), Pending: r.i()}
		t.Queues = make([]Queue, r.count(2))
		for i := range t.Queues {
			t.Queues[i] = Queue{r.i(), r.i()}
		}
		if t.Count > len(t.Queues) || t.Count > record.MaxQueues {
			r.fail("topic with fewer queues than it uses")
		}
		s.addTopic(t)
	}
	for n := r.count(3); n > 0; n-- {
		s.addGroup(&Group{ID: r.u32(), Attrs: r.u32(), Name: r.text()})
	}
	for n := r.count(4); n > 0; n-- {
		k := OffsetKey{r.u32(), r.u32(), r.u32()}
		s.Offsets.Set(k, r.i())
	}
}

func (r *reader) chunks() []Chunk {
	n := r.u()
	if r.err != nil || n > maxChunks {
		r.fail("too many chunks")
		return nil
	}
	cs := make([]Chunk, 0, min(n, 1<<16))
	for uint64(len(cs)) < n && r.err == nil {
		closed, run := r.u(), r.u()
		if closed > 1 || run == 0 || run > n-uint64(len(cs)) {
			r.fail("run of chunks")
			return nil
		}
		for ; run > 0 && r.err == nil; run-- {
			c := Chunk{Closed: closed == 1}
			if !c.Closed {
				c = Chunk{Pending: r.i(), Changed: Offset(r.i()), ChangedAt: r.i()}
			}
			cs = append(cs, c)
		}
	}
	return cs
}

// maxChunks is 2^40 ids, more than a store can number in its life; it bounds what a damaged length can allocate to
// 512 MiB, and only if its CRC was good.
const maxChunks = 1 << 24

// maxID is above every id that a store can give out.
const maxID = maxChunks * ChunkIDs

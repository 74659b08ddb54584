package plugins

import (
	"log/slog"

	"github.com/tetratelabs/wazero/api"

	"github.com/tidewheel/tidewheel/plugins/abi"
)

// The functions of tw_v1. ABI.md says what they do and cost. They trust nothing: the guest may have changed the batch, and its
// pointers may overlap it.

func code(x int32) uint32 { return uint32(x) }

// text reads an argument of a kernel from the guest's memory. Guests ask for the same thing batch after batch, so the last
// text is kept.
func (in *instance) text(mem api.Memory, ptr, n uint64) (string, int32) {
	if uint32(n) > abi.MaxPath {
		return "", abi.TooLarge
	}
	b, ok := mem.Read(uint32(ptr), uint32(n))
	if !ok {
		return "", abi.Invalid
	}
	if string(b) != in.last {
		in.last = string(b)
	}
	return in.last, 0
}

// scan is a kernel: what it costs for a record, and what it writes for one.
type scan struct {
	size  int // bytes written for each record
	cost  func(in *instance, r *abi.Record) int64
	write func(in *instance, b abi.Batch, i int, r *abi.Record, o []byte) bool
}

// kernel runs s over the batch in hand.
func (in *instance) kernel(mem api.Memory, batch, out uint64, s *scan) uint32 {
	if in.hook == 0 {
		return code(abi.NotAllowed)
	}
	if uint32(batch) != in.arena {
		return code(abi.Invalid)
	}
	view, ok := mem.Read(in.arena, in.total)
	b, err := abi.Open(view)
	if !ok || err != nil || b.Len() != in.count {
		return code(abi.Invalid)
	}
	dst, ok := mem.Read(uint32(out), uint32(s.size*in.count))
	if !ok {
		return code(abi.Invalid)
	}
	var work int64
	for i := range in.count {
		if b.Record(i, &in.record) != nil {
			return code(abi.Invalid)
		}
		work += s.cost(in, &in.record)
	}
	if !in.charge(work) {
		return code(abi.NothingLeft)
	}
	found := int32(0)
	for i := range in.count {
		o := dst[s.size*i:][:s.size]
		clear(o)
		// What is written may lie over the index, so each record is checked again.
		if b.Record(i, &in.record) == nil && s.write(in, b, i, &in.record, o) {
			found++
		}
	}
	return code(found)
}

var jsonScan = scan{
	size: 8,
	cost: func(_ *instance, r *abi.Record) int64 { return int64(len(r.Body)) },
	write: func(in *instance, b abi.Batch, i int, r *abi.Record, o []byte) bool {
		lo, hi, ok := abi.JSONGet(r.Body, in.last)
		if ok {
			le.PutUint32(o, b.BodyAt(i)+uint32(lo))
			le.PutUint32(o[4:], uint32(hi-lo))
		}
		return ok
	},
}

var headerScan = scan{
	size: 8,
	cost: func(_ *instance, r *abi.Record) int64 { return int64(len(r.Headers) / 4) },
	write: func(in *instance, b abi.Batch, i int, r *abi.Record, o []byte) bool {
		v, at, ok := r.Headers.Get(in.last)
		if ok {
			le.PutUint32(o, b.HeadersAt(i)+uint32(at))
			le.PutUint32(o[4:], uint32(len(v)))
		}
		return ok
	},
}

var matchScan = scan{
	size: 1,
	cost: func(in *instance, r *abi.Record) int64 { return int64(len(in.field(r))) * int64(len(in.last)) / 16 },
	write: func(in *instance, _ abi.Batch, _ int, r *abi.Record, o []byte) bool {
		ok := abi.Match(in.last, in.field(r))
		if ok {
			o[0] = 1
		}
		return ok
	},
}

func (in *instance) field(r *abi.Record) []byte {
	switch in.matching {
	case abi.FieldTopic:
		return r.Topic
	case abi.FieldKey:
		return r.Key
	}
	return r.Body
}

func hostJSON(in *instance, mem api.Memory, p []uint64) uint32 {
	if _, bad := in.text(mem, p[1], p[2]); bad != 0 {
		return code(bad)
	}
	return in.kernel(mem, p[0], p[3], &jsonScan)
}

func hostHeader(in *instance, mem api.Memory, p []uint64) uint32 {
	if _, bad := in.text(mem, p[1], p[2]); bad != 0 {
		return code(bad)
	}
	return in.kernel(mem, p[0], p[3], &headerScan)
}

func hostMatch(in *instance, mem api.Memory, p []uint64) uint32 {
	if _, bad := in.text(mem, p[2], p[3]); bad != 0 {
		return code(bad)
	}
	in.matching = abi.Field(int32(p[1]))
	if in.matching < abi.FieldTopic || in.matching > abi.FieldBody {
		return code(abi.Invalid)
	}
	return in.kernel(mem, p[0], p[4], &matchScan)
}

func hostLogLevel(in *instance, _ api.Memory, _ []uint64) uint32 { return code(int32(in.m.logs.level)) }

func hostLog(in *instance, mem api.Memory, p []uint64) uint32 {
	n := uint32(p[2])
	b, ok := mem.Read(uint32(p[1]), n)
	if !ok {
		return code(abi.Invalid)
	}
	b = b[:min(len(b), abi.MaxLog)]
	if !in.charge(int64(len(b)) / 8) {
		return code(abi.NothingLeft)
	}
	if level := slog.Level(int32(p[0])); level >= in.m.logs.level {
		in.m.logs.add(in.now, level, string(b))
	}
	return 0
}

// write takes what the guest prints. Lines go to the log; the beginning is kept for the message of a failure, since a Go guest
// prints why it panics.
func (in *instance) write(b []byte) {
	if room := MaxMessage - len(in.stderr); room > 0 {
		in.stderr = append(in.stderr, b[:min(len(b), room)]...)
	}
	for len(b) > 0 {
		end := len(b)
		nl := false
		for i, c := range b {
			if c == '\n' {
				end, nl = i, true
				break
			}
		}
		if room := abi.MaxLog - len(in.line); room > 0 {
			in.line = append(in.line, b[:min(end, room)]...)
		}
		if nl {
			if len(in.line) > 0 {
				in.m.logs.add(in.now, slog.LevelWarn, string(in.line))
			}
			in.line = in.line[:0]
			end++
		}
		b = b[end:]
	}
}

package record

import "encoding/binary"

// StateHead is the length of a state record's payload before the data, part of the format, do not change.
const StateHead = 4 + 4 + 16

// State is one part of the state at the begin of a segment. The parts stand in batches of their own, in order; their
// data, one after the other, is the state.
type State struct {
	Part, Parts uint32   // this is part number Part of Parts, from 0
	Digest      [16]byte // of the whole state, the same in every part
	Data        []byte   // after Decode it lies in the payload
}

// PayloadSize is what Append appends.
func (s *State) PayloadSize() int { return StateHead + len(s.Data) }

// Append appends the payload to b.
func (s *State) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, s.Part)
	b = binary.BigEndian.AppendUint32(b, s.Parts)
	b = append(b, s.Digest[:]...)
	return append(b, s.Data...)
}

// Decode reads a payload into s. The data lies in the payload: it is valid as long as that is, and must not be changed.
func (s *State) Decode(payload []byte) error {
	r := reader{kind: KindState, b: payload}
	s.Part, s.Parts = r.u32(), r.u32()
	if s.Part >= s.Parts {
		r.fail(0, "part %d of %d", s.Part, s.Parts)
	}
	copy(s.Digest[:], r.bytes(len(s.Digest)))
	s.Data = r.bytes(r.left())
	return r.end()
}

package record

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/internal/invariant"
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// Limits of a verdict record. They are part of the format.
const (
	MaxSettled = 1024 // messages
	MaxDigests = 16   // plugins
	// Nobody stands in the place of a plugin's number where none was asked.
	Nobody = 255
)

// Verdict says what became of messages of a queue for a group: which plugin decided what. Each message is settled by it,
// once and for ever. In the stage of a topic that is the commit of its way out: those that were kept become visible in the
// topic, and their units follow from the record. The offset of a kept message is Base plus the number of kept ones before it.
// What takes the place of others stands in the same batch, before the record.
//
// Decode reuses the two slices and allocates nothing once they are large enough.
type Verdict struct {
	Group, Topic, Queue uint32
	Origin, To          uint32 // of a stage: the topic that it is the stage of, and that topic's queue for what was kept; else 0
	Base                int64  // first offset given in To; 0 without Origin
	Low                 int64  // first offset of the queue that there is: what lies below is passed over
	Digests             [][32]byte
	Items               []VerdictItem // in the order of their offsets
}

// VerdictItem is one message. Due time and id are 0 for one that was visible at once.
type VerdictItem struct {
	timerlog.Key
	Offset   int64            // in the queue
	Position commitlog.Offset // of the message's record
	Size     int32            // of the record, in bytes
	Tags     int32            // tag hash, for the unit
	Action   uint8            // of the plugins' ABI; the engine only keeps it
	Plugin   uint8            // index into Digests, or Nobody
	Code     uint16           // the plugin's reason; the engine only keeps it
	Kept     bool             // it becomes visible in Origin
}

// Sizes for bounds, from the fields' widths.
const (
	verdictHead     = 5*4 + 2*8 + 1
	digestSize      = 32
	minVerdictItem  = 9
	maxVerdictItem  = 4*maxUvarint64 + 2 + maxUvarint16 + maxUvarint32 + 1 + 4
	maxUvarint16    = 3
	verdictKept     = 1
	verdictTags     = 2
	verdictAllFlags = verdictKept | verdictTags
)

// PayloadSize is an upper bound of what Append appends: about 20 bytes an item are the rule, 55 the most.
func (v *Verdict) PayloadSize() int { return VerdictSize(len(v.Digests), len(v.Items)) }

// VerdictSize is the PayloadSize of a verdict with so many digests and items.
func VerdictSize(digests, items int) int {
	return verdictHead + maxUvarint32 + digests*digestSize + items*maxVerdictItem
}

// Append appends the payload to b. There are at most MaxSettled items and MaxDigests digests, and each item's plugin has one.
func (v *Verdict) Append(b []byte) []byte {
	if invariant.On {
		invariant.That(len(v.Items) <= MaxSettled, "record: verdict has %d items", len(v.Items))
		invariant.That(len(v.Digests) <= MaxDigests, "record: verdict has %d digests", len(v.Digests))
	}
	b = binary.BigEndian.AppendUint32(b, v.Group)
	b = binary.BigEndian.AppendUint32(b, v.Topic)
	b = binary.BigEndian.AppendUint32(b, v.Queue)
	b = binary.BigEndian.AppendUint32(b, v.Origin)
	b = binary.BigEndian.AppendUint32(b, v.To)
	b = binary.BigEndian.AppendUint64(b, uint64(v.Base))
	b = binary.BigEndian.AppendUint64(b, uint64(v.Low))
	b = append(b, byte(len(v.Digests)))
	b = binary.AppendUvarint(b, uint64(len(v.Items)))
	for i := range v.Digests {
		b = append(b, v.Digests[i][:]...)
	}
	next, due, id, position := int64(0), uint64(0), uint64(0), uint64(0)
	for i := range v.Items {
		it := &v.Items[i]
		if invariant.On {
			invariant.That(it.Offset >= next, "record: verdict item %d is out of order", i)
		}
		b = binary.AppendUvarint(b, uint64(it.Offset-next))
		next = it.Offset + 1
		b = append(b, it.Action, it.Plugin)
		b = binary.AppendUvarint(b, uint64(it.Code))
		b = appendSvarint(b, uint64(it.Due)-due)
		b = appendSvarint(b, it.ID-id)
		b = appendSvarint(b, uint64(it.Position)-position)
		due, id, position = uint64(it.Due), it.ID, uint64(it.Position)
		b = binary.AppendUvarint(b, uint64(uint32(it.Size)))
		flags := byte(0)
		if it.Kept {
			flags |= verdictKept
		}
		if it.Tags == 0 {
			b = append(b, flags)
			continue
		}
		b = append(b, flags|verdictTags)
		b = binary.BigEndian.AppendUint32(b, uint32(it.Tags))
	}
	return b
}

// Decode reads a payload into v. It keeps nothing of the payload.
func (v *Verdict) Decode(payload []byte) error {
	r := reader{kind: KindVerdict, b: payload}
	v.Group, v.Topic, v.Queue = r.u32(), r.u32(), r.u32()
	at := r.at
	v.Origin, v.To, v.Base = r.u32(), r.u32(), r.natural("base")
	if v.Origin == 0 && (v.To != 0 || v.Base != 0) {
		r.fail(at, "queue %d and base %d of no topic", v.To, v.Base)
	}
	v.Low = r.natural("low")
	at = r.at
	digests := int(r.u8())
	if digests > MaxDigests {
		r.fail(at, "%d digests, allowed are %d", digests, MaxDigests)
	}
	items := r.count(MaxSettled, minVerdictItem, "item count")
	if r.err != nil {
		return r.err
	}
	v.Digests = slices.Grow(v.Digests[:0], digests)[:digests]
	for i := range v.Digests {
		v.Digests[i] = [32]byte{}
		copy(v.Digests[i][:], r.bytes(digestSize))
	}
	v.Items = slices.Grow(v.Items[:0], items)[:items]
	v.decodeItems(&r)
	return r.end()
}

// decodeItems reads into v.Items, whose length is set.
func (v *Verdict) decodeItems(r *reader) {
	next, due, id, position := int64(0), uint64(0), uint64(0), uint64(0)
	for i := range v.Items {
		if r.err != nil {
			return
		}
		it := &v.Items[i]
		at := r.at
		gap := r.uvarint(math.MaxInt64, "offset")
		if next < 0 || gap > uint64(math.MaxInt64-next) {
			r.fail(at, "offset beyond 63 bits")
			return
		}
		*it = VerdictItem{Offset: next + int64(gap), Action: r.u8()}
		next = it.Offset + 1 // negative behind the last offset that there can be
		at = r.at
		if it.Plugin = r.u8(); it.Plugin != Nobody && int(it.Plugin) >= len(v.Digests) {
			r.fail(at, "plugin %d of %d", it.Plugin, len(v.Digests))
		}
		it.Code = uint16(r.uvarint(math.MaxUint16, "code"))
		due += r.svarint("due")
		id += r.svarint("id")
		at = r.at
		position += r.svarint("position")
		if position > math.MaxInt64 {
			r.fail(at, "position is negative")
		}
		it.Due, it.ID, it.Position = int64(due), id, commitlog.Offset(position)
		it.Size = int32(r.uvarint(math.MaxInt32, "size"))
		at = r.at
		flags := r.u8()
		if flags > verdictAllFlags || flags&verdictKept != 0 && v.Origin == 0 {
			r.fail(at, "flags %#x of an item, topic %d", flags, v.Origin)
		}
		it.Kept = flags&verdictKept != 0
		if flags&verdictTags == 0 {
			continue
		}
		at = r.at
		if it.Tags = int32(r.u32()); it.Tags == 0 {
			r.fail(at, "tags are zero and written")
		}
	}
}

package record

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/internal/invariant"
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// MaxItems is how many messages one deliver record can have, and how many queues.
const MaxItems = 1024

// Gone is the base of a queue whose topic does not exist any more.
const Gone int64 = -1

// Deliver says that messages became visible: it is the commit of their delivery, and their units in the ConsumeQueues
// follow from it. An item's queue offset is its queue's base plus the number of items of the same queue before it.
//
// Decode reuses the two slices and allocates nothing once they are large enough.
type Deliver struct {
	Lane     uint8
	Frontier timerlog.Key // of the lane, after this record
	Queues   []DeliverQueue
	Items    []DeliverItem // in the order of delivery
}

// DeliverQueue is a queue that items go to.
type DeliverQueue struct {
	Topic, Queue uint32
	Base         int64 // first queue offset given; Gone when the topic does not exist: the items are dropped
}

// DeliverItem is one message.
type DeliverItem struct {
	timerlog.Key
	Position commitlog.Offset // of the message's record
	Size     int32            // of the record, in bytes
	Queue    uint16           // index into Queues
	Tags     int32            // tag hash
	Late     bool             // it was not above the frontier when it was stored, and does not move it
}

// Sizes for bounds, from the fields' widths.
const (
	deliverHead      = 1 + 8 + 8
	maxUvarint32     = 5
	maxUvarint64     = 10
	minDeliverQueue  = 3
	maxDeliverQueue  = 2*maxUvarint32 + maxUvarint64
	minDeliverItem   = 5
	maxDeliverItem   = 3*maxUvarint64 + maxUvarint32 + maxLink + 4
	maxLink          = 3
	linkLate         = 1
	linkTags         = 2
	linkShift        = 2
	maxDeliverCounts = 2 * maxUvarint32
)

// PayloadSize is an upper bound of what Append appends: about 20 bytes an item are the rule, 42 the most.
func (d *Deliver) PayloadSize() int {
	return deliverHead + maxDeliverCounts + len(d.Queues)*maxDeliverQueue + len(d.Items)*maxDeliverItem
}

// Append appends the payload to b. There are at most MaxItems items and queues, and every item has its queue.
func (d *Deliver) Append(b []byte) []byte {
	if invariant.On {
		invariant.That(len(d.Items) <= MaxItems, "record: deliver has %d items", len(d.Items))
		invariant.That(len(d.Queues) <= MaxItems, "record: deliver has %d queues", len(d.Queues))
	}
	b = append(b, d.Lane)
	b = binary.BigEndian.AppendUint64(b, uint64(d.Frontier.Due))
	b = binary.BigEndian.AppendUint64(b, d.Frontier.ID)
	b = binary.AppendUvarint(b, uint64(len(d.Queues)))
	b = binary.AppendUvarint(b, uint64(len(d.Items)))
	for i := range d.Queues {
		q := &d.Queues[i]
		b = binary.AppendUvarint(b, uint64(q.Topic))
		b = binary.AppendUvarint(b, uint64(q.Queue))
		b = binary.AppendUvarint(b, uint64(q.Base)+1)
	}
	due, id, position := uint64(d.Frontier.Due), d.Frontier.ID, uint64(0)
	for i := range d.Items {
		it := &d.Items[i]
		if invariant.On {
			invariant.That(int(it.Queue) < len(d.Queues), "record: deliver item %d has no queue", i)
		}
		b = appendSvarint(b, uint64(it.Due)-due)
		b = appendSvarint(b, it.ID-id)
		b = appendSvarint(b, uint64(it.Position)-position)
		due, id, position = uint64(it.Due), it.ID, uint64(it.Position)
		b = binary.AppendUvarint(b, uint64(uint32(it.Size)))
		link := uint64(it.Queue) << linkShift
		if it.Late {
			link |= linkLate
		}
		if it.Tags == 0 {
			b = binary.AppendUvarint(b, link)
			continue
		}
		b = binary.AppendUvarint(b, link|linkTags)
		b = binary.BigEndian.AppendUint32(b, uint32(it.Tags))
	}
	return b
}

// Decode reads a payload into d. It keeps nothing of the payload.
func (d *Deliver) Decode(payload []byte) error {
	r := reader{kind: KindDeliver, b: payload}
	d.Lane = r.u8()
	d.Frontier = timerlog.Key{Due: int64(r.u64()), ID: r.u64()}
	queues := r.count(MaxItems, minDeliverQueue, "queue count")
	items := r.count(MaxItems, minDeliverItem, "item count")
	if r.err != nil {
		return r.err
	}
	d.Queues = slices.Grow(d.Queues[:0], queues)[:queues]
	for i := range d.Queues {
		d.Queues[i] = DeliverQueue{
			Topic: uint32(r.uvarint(math.MaxUint32, "topic")),
			Queue: uint32(r.uvarint(math.MaxUint32, "queue")),
			Base:  int64(r.uvarint(math.MaxInt64+1, "base") - 1),
		}
	}
	d.Items = slices.Grow(d.Items[:0], items)[:items]
	d.decodeItems(&r)
	return r.end()
}

// decodeItems reads into d.Items, whose length is set.
func (d *Deliver) decodeItems(r *reader) {
	due, id, position := uint64(d.Frontier.Due), d.Frontier.ID, uint64(0)
	links := uint64(len(d.Queues)) << linkShift // one above the largest
	for i := range d.Items {
		if r.err != nil {
			return
		}
		due += r.svarint("due")
		id += r.svarint("id")
		at := r.at
		position += r.svarint("position")
		if position > math.MaxInt64 {
			r.fail(at, "position is negative")
		}
		size := r.uvarint(math.MaxInt32, "size")
		at = r.at
		link := r.uvarint(math.MaxUint16<<linkShift, "link")
		if link >= links {
			r.fail(at, "item of queue %d, there are %d", link>>linkShift, len(d.Queues))
		}
		var tags int32
		if link&linkTags != 0 {
			at = r.at
			if tags = int32(r.u32()); tags == 0 {
				r.fail(at, "tags are zero and written")
			}
		}
		d.Items[i] = DeliverItem{
			Key:      timerlog.Key{Due: int64(due), ID: id},
			Position: commitlog.Offset(position),
			Size:     int32(size),
			Queue:    uint16(link >> linkShift),
			Tags:     tags,
			Late:     link&linkLate != 0,
		}
	}
}

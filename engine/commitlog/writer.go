package commitlog

import (
	"fmt"

	"github.com/tidewheel/tidewheel/engine/internal/invariant"
)

// Room says what must happen before a batch can be begun.
type Room uint8

const (
	Fits       Room = iota // Begin will take it
	NeedsSeal              // Seal first
	NotReady               // Rotate, Commit and Sync must bring the next segment
	NeedsState             // the segment wants its state record first
)

// String names r for messages.
func (r Room) String() string {
	switch r {
	case Fits:
		return "fits"
	case NeedsSeal:
		return "needs seal"
	case NotReady:
		return "not ready"
	case NeedsState:
		return "needs state"
	}
	return fmt.Sprintf("Room(%d)", uint8(r))
}

// BatchInfo is what the writer says of a batch.
type BatchInfo struct {
	AppendMs int64 // wall clock, ms since 1970, UTC
	LogMs    int64 // running time of the log, ms
	BaseID   uint64
	Flags    uint16 // FlagMustUnderstand, FlagState, FlagStateEnd

	// Of a cluster; zero alone.
	Epoch    uint32
	Writer   uint16
	OrderGen uint32
	OrderPos uint64
}

// writerState is what the writer knows of the end of the log.
type writerState struct {
	log *Log

	seg       *segment // of the last batch; nil before the first one
	at        Offset   // where the next batch goes
	prevCRC   uint32   // of the last batch
	sealed    bool     // the last batch seals seg: the next one goes to Log.next
	stateOpen bool     // the state record of seg is not complete
	onlyState bool     // seg holds nothing but its state record
	stateEnd  Offset   // behind that record; before seg, when it is not known

	queue  []appended // appended and not written, from head on
	head   int
	w      Writer
	active bool // w is in use
}

// appended is an appended batch that waits for Commit.
type appended struct {
	seg   *segment
	base  Offset
	bytes []byte // in the tail
	flags uint16
}

// Writer encodes one batch in place in the tail of the log. It belongs to the writer, is reused by the next Begin, and
// is used in this order: Open and Close for each record, then Finish; or Abandon.
type Writer struct {
	// Buf holds the batch so far. Between Open and Close the payload of the record is appended to it.
	Buf []byte

	log   *Log
	block *block
	info  BatchInfo
	base  Offset
	limit int // capacity of Buf as it was given
	open  int // where the open record begins in Buf
	count int
}

// Room says whether a batch with n bytes of records, frames included, can be begun now. n may be an upper bound.
// Batches of a state record always fit into the segment that they begin, and so does one batch of any length behind
// them, and one of more than half a segment while less than half is used. It is for the writer.
func (l *Log) Room(n int) Room {
	w := &l.writer
	if !l.enterNext() {
		return NotReady
	}
	if w.stateOpen {
		return NeedsState
	}
	if w.onlyState {
		return Fits
	}
	size, segment := Offset(align(BatchHeaderSize+n)+BatchHeaderSize), Offset(l.opts.SegmentSize)
	if size <= w.seg.base+segment-w.at {
		return Fits
	}
	// A batch that takes more than half a segment would be turned away by any few small ones that came before it, in one
	// segment after the other: while the segment is young it is let in, and the segment grows.
	if used := w.at - max(w.stateEnd, w.seg.base); size > segment/2 && used < segment/2 {
		return Fits
	}
	return NeedsSeal
}

// SegmentUsed says that the segment holds more than its state record, so that it is worth sealing for its age. After
// Recover it may say so of one that does not. It is for the writer.
func (l *Log) SegmentUsed() bool {
	w := &l.writer
	return w.seg != nil && !w.sealed && !w.stateOpen && !w.onlyState
}

// LastCRC is the CRC of the last appended batch, which a checkpoint at End records for Start.PrevCRC. It is for the
// writer.
func (l *Log) LastCRC() uint32 { return l.writer.prevCRC }

// enterNext moves on to the next segment when the old one is sealed, the next one exists, and the old one is durable.
// Without the last condition a plain power cut could leave a batch here and a hole there, which looks like damage. It
// says whether there is a segment to write to.
func (l *Log) enterNext() bool {
	w := &l.writer
	if !w.sealed {
		return w.seg != nil
	}
	if l.durable.Load() < l.end.Load() {
		return false
	}
	l.mu.Lock()
	next := l.next
	if next != nil {
		l.next = nil
		if w.seg != nil {
			w.seg.pinned = false
		}
	}
	l.mu.Unlock()
	if next == nil {
		return false
	}
	w.seg, w.at = next, next.base+SegmentHeaderSize
	w.sealed, w.stateOpen, w.onlyState = false, true, true
	return true
}

// Begin begins a batch with n bytes of records, frames included; n may be an upper bound. The batch is encoded by the
// Writer, which is valid until Finish or Abandon. It returns ErrNotReady, ErrNeedsSeal or ErrNeedsState when Room would
// not answer Fits, and ErrTooLarge for a batch above MaxBatch. It is for the writer.
func (l *Log) Begin(n int, info BatchInfo) (*Writer, error) {
	if err := l.mayBegin(); err != nil {
		return nil, err
	}
	if n < 0 || n > MaxBatch-BatchHeaderSize {
		return nil, fmt.Errorf("%w: %d bytes of records", ErrTooLarge, n)
	}
	state := info.Flags&FlagState != 0
	switch room := l.Room(n); {
	case room == NotReady:
		return nil, ErrNotReady
	case state != (room == NeedsState):
		return nil, ErrNeedsState
	case room == NeedsSeal:
		return nil, ErrNeedsSeal
	}
	return l.begin(n, info), nil
}

func (l *Log) mayBegin() error {
	if err := l.writable(); err != nil {
		return err
	}
	if l.writer.active {
		return ErrBatchOpen
	}
	return nil
}

func (l *Log) begin(n int, info BatchInfo) *Writer {
	ws := &l.writer
	size := align(BatchHeaderSize + n)
	b := l.reserve(ws.at, size)
	k := len(b.buf)
	ws.active = true
	ws.w = Writer{
		Buf:   b.buf[k : k+BatchHeaderSize : k+size],
		log:   l,
		block: b,
		info:  info,
		base:  ws.at,
		limit: size,
		open:  -1,
	}
	return &ws.w
}

// Open begins a record and returns its position. The flags belong to the fold.
func (w *Writer) Open(kind Kind, flags uint8) Offset {
	w.open = len(w.Buf)
	w.Buf = append(w.Buf, 0, 0, 0, 0, 0, 0, 0, 0, byte(kind), flags, 0, 0)
	return w.base + Offset(w.open)
}

// Close ends the record whose payload was appended to Buf since Open, and returns where it is and how long.
func (w *Writer) Close() (pos Offset, size int) {
	pos, size = w.base+Offset(w.open), len(w.Buf)-w.open
	sealRecord(pos, w.Buf[w.open:])
	w.open = -1
	w.count++
	return pos, size
}

// Len is how long the batch would be if it were finished now.
func (w *Writer) Len() int { return align(len(w.Buf)) }

// Finish appends the batch and returns the new end of the log. It is in memory then, and readers find it; Commit writes
// it. FlagMustUnderstand and FlagStateEnd may be added to the flags of Begin, others are ignored. Records that took more than Begin was told cost a copy; when they took more
// than MaxBatch the log fails.
func (w *Writer) Finish(flags uint16) Offset {
	flags = w.info.Flags&(FlagMustUnderstand|FlagState|FlagStateEnd) | flags&(FlagMustUnderstand|FlagStateEnd)
	if flags&FlagState == 0 {
		flags &^= FlagStateEnd
	}
	return w.finish(flags)
}

func (w *Writer) finish(flags uint16) Offset {
	l, ws := w.log, &w.log.writer
	ws.active = false
	if n := align(len(w.Buf)); n > MaxBatch {
		l.fail(fmt.Errorf("%w: %d bytes of records were announced as %d", ErrTooLarge, n, w.limit))
		return l.end.Load()
	}
	var zero [batchAlign]byte
	w.Buf = append(w.Buf, zero[:align(len(w.Buf))-len(w.Buf)]...)
	h := Header{
		Base:        w.base,
		Length:      int64(len(w.Buf)),
		PrevCRC:     ws.prevCRC,
		Epoch:       w.info.Epoch,
		Writer:      w.info.Writer,
		Flags:       flags,
		AppendMs:    w.info.AppendMs,
		LogMs:       w.info.LogMs,
		BaseID:      w.info.BaseID,
		Count:       w.count,
		DurableUpTo: l.durable.Load(),
		Incarnation: l.incarnation,
		OrderGen:    w.info.OrderGen,
		OrderPos:    w.info.OrderPos,
	}
	ws.prevCRC = encodeBatch(w.Buf, &h)
	if cap(w.Buf) != w.limit {
		// append has moved the batch: its new memory becomes a block.
		w.block = l.addBlock(w.base, &block{buf: w.Buf[:0]})
	}
	l.publish(w.block, &h, w.Buf)
	w.Buf = nil
	return h.End()
}

// publish makes a finished batch part of the log.
func (l *Log) publish(b *block, h *Header, bytes []byte) {
	ws := &l.writer
	invariant.That(b.end() == h.Base, "batch at %d behind a block that ends at %d", h.Base, b.end())
	ws.queue = append(ws.queue, appended{seg: ws.seg, base: h.Base, bytes: bytes, flags: h.Flags})
	ws.at = h.End()
	switch {
	case h.Flags&FlagSeal != 0:
		ws.sealed = true
	case ws.stateOpen:
		ws.stateOpen, ws.stateEnd = h.Flags&FlagStateEnd == 0, h.End()
	default:
		ws.onlyState = false
	}
	l.mu.Lock()
	b.buf = b.buf[:len(b.buf)+len(bytes)]
	l.end.Store(h.End())
	if ws.sealed {
		ws.seg.sealed, ws.seg.end = true, h.End()
		l.sealEnd = h.End()
	}
	l.mu.Unlock()
}

// Abandon drops the batch. What its positions were is given to the next one.
func (w *Writer) Abandon() {
	w.log.writer.active = false
	w.Buf = nil
}

// Seal appends the empty batch that ends the segment, and returns the end of the log, which is the base of the next
// segment. Rotate must make that before Commit writes the seal. It returns ErrNotReady when the segment is sealed
// already, and ErrNeedsState when nothing but a part of its state record is in it. It is for the writer.
func (l *Log) Seal(info BatchInfo) (Offset, error) {
	if err := l.mayBegin(); err != nil {
		return 0, err
	}
	switch {
	case !l.enterNext():
		return 0, ErrNotReady
	case l.writer.stateOpen:
		return 0, ErrNeedsState
	}
	w := l.begin(0, info)
	return w.finish(FlagSeal | info.Flags&FlagMustUnderstand), nil
}

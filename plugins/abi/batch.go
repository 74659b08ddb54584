package abi

import "errors"

// Layout of a batch. Part of the ABI, do not change.
//
//	+----------------+----------------------+-------------------------+------+
//	| header (64B)   | verdicts (8B each)   | index (64B per record)  | blob |
//	+----------------+----------------------+-------------------------+------+
const (
	Magic       = 0x31425754 // "TWB1"
	HeaderSize  = 64
	VerdictSize = 8
	IndexSize   = 64
	NoCursor    = 0xffffffff // the guest has not begun with a record
)

// Offsets in the header.
const (
	offMagic    = 0
	offHook     = 4  // u8, followed by u8 flags
	offStride   = 6  // u16, bytes of an index record
	offCount    = 8  // u32
	offHeader   = 12 // u32, bytes of the header
	offTotal    = 16 // u32
	offVerdicts = 20 // u32
	offIndex    = 24 // u32
	offBlob     = 28 // u32
	OffOutPtr   = 32 // u32, written by the guest
	OffOutLen   = 36 // u32, written by the guest
	OffErrLen   = 40 // u32, written by the guest
	OffCursor   = 44 // u32, written by the guest
	offNow      = 48 // i64, milliseconds
	offSeed     = 56 // u64
)

// Flags of a record that is a response (Result). The HTTP status is in the upper 16 bits.
const (
	FlagNoResponse = 1 // no response came; the body is the reason
	FlagCut        = 2 // the body was longer than the host takes, and is cut off
)

// Errors of Open and Encode. A guest sees them as a number only, so they carry no details.
var (
	// ErrBatch: the bytes are not a batch of this version.
	ErrBatch = errors.New("abi: not a batch")
	// ErrRecord: a record of the batch points outside of it.
	ErrRecord = errors.New("abi: record outside its batch")
	// ErrTooLarge: more than fits into 32 bits.
	ErrTooLarge = errors.New("abi: batch too large")
)

// Record is one message, request or response. Its slices belong to whoever filled it: on the guest's side they are windows
// of the batch, valid until the hook returns.
//
// For a request (output of Prepare) Topic is the URL, Key the method and Headers the HTTP headers. For a response (Result)
// Topic and Key are the message's, Headers and Body the response's, and Flags hold the status.
type Record struct {
	ID       uint64
	StoredMs int64 // when the message was stored, ms since the epoch
	DueMs    int64 // when it is due, ms since the epoch; 0 for a message without delay
	Attempt  uint32
	Flags    uint32
	Topic    []byte
	Key      []byte
	Headers  Headers
	Body     []byte
}

// Head is what the host says about a batch as a whole.
type Head struct {
	Hook  Hook
	NowMs int64  // the time of the call, ms since the epoch: the only clock a guest has
	Seed  uint64 // of the random numbers a guest may draw
}

// size of a record in the blob: four parts, each padded to 4 bytes.
func (r *Record) size() int {
	return pad(len(r.Topic)) + pad(len(r.Key)) + pad(len(r.Headers)) + pad(len(r.Body))
}

func pad(n int) int { return (n + 3) &^ 3 }

// RecordSize is the number of bytes that r adds to a batch.
func RecordSize(r *Record) int { return VerdictSize + IndexSize + r.size() }

// Size is the number of bytes of a batch of records, a multiple of 8.
func Size(records []Record) int {
	n := HeaderSize
	for i := range records {
		n += RecordSize(&records[i])
	}
	return (n + 7) &^ 7
}

// maxBatch is the largest batch, in bytes.
const maxBatch = 1 << 31

// Encode writes a batch of records over dst, which must have Size(records) bytes. Verdicts are zero, the cursor is NoCursor.
// It returns ErrTooLarge when they do not fit, or would not into 2 GiB; what is in dst then is of no use.
func Encode(dst []byte, h Head, records []Record) error {
	dst = dst[:int(min(uint64(len(dst)), maxBatch))]
	index := HeaderSize + VerdictSize*len(records)
	at := index + IndexSize*len(records)
	if len(dst) < at {
		return ErrTooLarge
	}
	clear(dst[:index])
	le.PutUint32(dst[offMagic:], Magic)
	dst[offHook] = byte(h.Hook)
	le.PutUint16(dst[offStride:], IndexSize)
	le.PutUint32(dst[offCount:], uint32(len(records)))
	le.PutUint32(dst[offHeader:], HeaderSize)
	le.PutUint32(dst[offVerdicts:], HeaderSize)
	le.PutUint32(dst[offIndex:], uint32(index))
	le.PutUint32(dst[offBlob:], uint32(at))
	le.PutUint32(dst[OffCursor:], NoCursor)
	le.PutUint64(dst[offNow:], uint64(h.NowMs))
	le.PutUint64(dst[offSeed:], h.Seed)
	// This loop is most of what the host does for a record, so each record is looked at once and its bounds are checked once.
	for i := range records {
		r := &records[i]
		if len(dst)-at < r.size() {
			return ErrTooLarge
		}
		e := (*[IndexSize]byte)(dst[index:])
		index += IndexSize
		le.PutUint64(e[0:], r.ID)
		le.PutUint64(e[8:], uint64(r.StoredMs))
		le.PutUint64(e[16:], uint64(r.DueMs))
		le.PutUint64(e[24:], uint64(r.Attempt)|uint64(r.Flags)<<32)
		le.PutUint64(e[32:], place(at, r.Topic))
		at = part(dst, at, r.Topic)
		le.PutUint64(e[40:], place(at, r.Key))
		at = part(dst, at, r.Key)
		le.PutUint64(e[48:], place(at, r.Headers))
		at = part(dst, at, r.Headers)
		le.PutUint64(e[56:], place(at, r.Body))
		at = part(dst, at, r.Body)
	}
	total := (at + 7) &^ 7
	if len(dst) < total {
		return ErrTooLarge
	}
	clear(dst[at:total])
	le.PutUint32(dst[offTotal:], uint32(total))
	return nil
}

// place is where a part begins and how long it is, as two numbers of 32 bits.
func place(at int, p []byte) uint64 { return uint64(uint32(at)) | uint64(len(p))<<32 }

// part copies p to dst[at:] with zeros up to a multiple of 4, and returns where the next part begins. There is room.
func part(dst []byte, at int, p []byte) int {
	if len(p) == 0 {
		return at
	}
	d := dst[at : at+pad(len(p))]
	le.PutUint32(d[len(d)-4:], 0)
	// Topics and keys are short: a call of copy takes longer than two words that may overlap.
	switch n := len(p); {
	case n > 16:
		copy(d, p)
	case n >= 8:
		le.PutUint64(d, le.Uint64(p))
		le.PutUint64(d[n-8:], le.Uint64(p[n-8:]))
	case n >= 4:
		le.PutUint32(d, le.Uint32(p))
		le.PutUint32(d[n-4:], le.Uint32(p[n-4:]))
	default:
		d[0], d[n-1], d[n/2] = p[0], p[n-1], p[n/2]
	}
	return at + len(d)
}

// AppendBatch appends a batch of records: how a guest builds its output. It allocates only what append does.
func AppendBatch(dst []byte, h Head, records []Record) ([]byte, error) {
	n, from := Size(records), len(dst)
	if cap(dst)-from < n {
		grown := make([]byte, from, 2*cap(dst)+n)
		copy(grown, dst)
		dst = grown
	}
	dst = dst[:from+n]
	return dst, Encode(dst[from:], h, records)
}

// Batch is a window on the bytes of a batch. The zero Batch has no records. Not safe for concurrent use with writers of the
// bytes.
type Batch struct {
	b      []byte
	count  int
	stride int
	index  int
	verd   int
}

// Open checks the header of a batch and returns a window on it. Records are checked when they are read. The bytes may be
// longer than the batch.
func Open(b []byte) (Batch, error) {
	if len(b) < HeaderSize || le.Uint32(b) != Magic {
		return Batch{}, ErrBatch
	}
	header, total := uint64(le.Uint32(b[offHeader:])), uint64(le.Uint32(b[offTotal:]))
	count, stride := uint64(le.Uint32(b[offCount:])), uint64(le.Uint16(b[offStride:]))
	verdicts, index := uint64(le.Uint32(b[offVerdicts:])), uint64(le.Uint32(b[offIndex:]))
	switch {
	case header < HeaderSize, total < header, total > uint64(len(b)), stride < IndexSize:
		return Batch{}, ErrBatch
	case index < header || index+count*stride > total: // below 2^48 and 2^16, the product cannot overflow
		return Batch{}, ErrBatch
	case verdicts < header || verdicts+count*VerdictSize > total:
		return Batch{}, ErrBatch
	}
	return Batch{b: b[:total], count: int(count), stride: int(stride), index: int(index), verd: int(verdicts)}, nil
}

// Len is the number of records.
func (b Batch) Len() int { return b.count }

// Bytes are the bytes of the batch.
func (b Batch) Bytes() []byte { return b.b }

// Hook is the hook that the batch was made for.
func (b Batch) Hook() Hook { return Hook(b.b[offHook]) }

// NowMs is the time of the call, ms since the epoch.
func (b Batch) NowMs() int64 { return int64(le.Uint64(b.b[offNow:])) }

// Record fills r with record i, 0 <= i < Len. Its slices are windows of the batch. It returns ErrRecord when a part lies
// outside, and r is then not to be used.
func (b Batch) Record(i int, r *Record) error {
	e := (*[IndexSize]byte)(b.b[b.index+i*b.stride:])
	r.ID = le.Uint64(e[0:])
	r.StoredMs = int64(le.Uint64(e[8:]))
	r.DueMs = int64(le.Uint64(e[16:]))
	r.Attempt = le.Uint32(e[24:])
	r.Flags = le.Uint32(e[28:])
	// In a guest each call of a function takes as long as all of the above: there is none here.
	topic, topicEnd := window(le.Uint64(e[32:]))
	key, keyEnd := window(le.Uint64(e[40:]))
	headers, headersEnd := window(le.Uint64(e[48:]))
	body, bodyEnd := window(le.Uint64(e[56:]))
	if end := uint64(len(b.b)); topicEnd > end || keyEnd > end || headersEnd > end || bodyEnd > end {
		return ErrRecord
	}
	r.Topic = b.b[topic:topicEnd:topicEnd]
	r.Key = b.b[key:keyEnd:keyEnd]
	r.Headers = Headers(b.b[headers:headersEnd:headersEnd])
	r.Body = b.b[body:bodyEnd:bodyEnd]
	return nil
}

// window is the inverse of place: where a part begins and where it ends.
func window(place uint64) (lo, hi uint64) {
	lo = uint64(uint32(place))
	return lo, lo + place>>32
}

// HeadersAt is where the headers of record i begin in the batch.
func (b Batch) HeadersAt(i int) uint32 { return le.Uint32(b.b[b.index+i*b.stride+48:]) }

// BodyAt is where the body of record i begins in the batch.
func (b Batch) BodyAt(i int) uint32 { return le.Uint32(b.b[b.index+i*b.stride+56:]) }

// Verdict returns the verdict of record i.
func (b Batch) Verdict(i int) Verdict { return Verdict(le.Uint64(b.b[b.verd+i*VerdictSize:])) }

// SetVerdict writes the verdict of record i.
func (b Batch) SetVerdict(i int, v Verdict) { le.PutUint64(b.b[b.verd+i*VerdictSize:], uint64(v)) }

// Cursor is the record the guest is, or was last, working on; NoCursor before the first.
func (b Batch) Cursor() uint32 { return le.Uint32(b.b[OffCursor:]) }

// SetCursor says that the guest begins with record i.
func (b Batch) SetCursor(i int) { le.PutUint32(b.b[OffCursor:], uint32(i)) }

// SetOutput tells the host where the guest's output is; errLen is the length of a message at its beginning for StatusError.
func (b Batch) SetOutput(ptr, n, errLen uint32) {
	le.PutUint32(b.b[OffOutPtr:], ptr)
	le.PutUint32(b.b[OffOutLen:], n)
	le.PutUint32(b.b[OffErrLen:], errLen)
}

// Output is what SetOutput wrote.
func (b Batch) Output() (ptr, n, errLen uint32) {
	return le.Uint32(b.b[OffOutPtr:]), le.Uint32(b.b[OffOutLen:]), le.Uint32(b.b[OffErrLen:])
}

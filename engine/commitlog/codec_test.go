package commitlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/golden"
)

const sampleID = 0x0102030405060708

var sampleHeader = Header{
	Base:        0x11223344550,
	PrevCRC:     0xdeadbeef,
	Epoch:       7,
	Writer:      3,
	Flags:       FlagMustUnderstand | FlagState | FlagStateEnd,
	AppendMs:    1795000000123,
	LogMs:       86400001,
	BaseID:      4711,
	DurableUpTo: 0x11223340000,
	Incarnation: 12,
	OrderGen:    5,
	OrderPos:    99,
}

// sampleBatch encodes a batch with two records.
func sampleBatch(h Header) ([]byte, Header) {
	b := make([]byte, BatchHeaderSize)
	for i, p := range []string{"hello", "delayed world"} {
		n := len(b)
		b = append(b, make([]byte, 8)...)
		b = append(b, byte(i+1), byte(i*9), 0, 0)
		b = append(b, p...)
		sealRecord(h.Base+Offset(n), b[n:])
	}
	b = append(b, make([]byte, align(len(b))-len(b))...)
	h.Length, h.Count = int64(len(b)), 2
	h.CRC = encodeBatch(b, &h)
	return b, h
}

// parse does with bytes what a scanner does, and says why they are no batch.
func parse(b []byte, at Offset) (Header, string) {
	h, reason := decodeHeader(b, at)
	if reason == "" {
		reason = h.checkLength()
	}
	switch {
	case reason != "":
		return h, reason
	case h.stored() > int64(len(b)):
		return h, "cut off"
	case batchSum(b[:h.stored()]) != h.CRC:
		return h, "CRC of the batch"
	}
	return h, ""
}

func TestBatchRoundTrip(t *testing.T) {
	b, want := sampleBatch(sampleHeader)
	got, reason := parse(b, want.Base)
	if reason != "" || got != want {
		t.Fatalf("%q: %+v, want %+v", reason, got, want)
	}
	batch := Batch{Header: got, content: b[BatchHeaderSize:]}
	rs := batch.Records()
	for i, p := range []string{"hello", "delayed world"} {
		r, ok, err := rs.Next()
		if err != nil || !ok || string(r.Payload) != p || r.Kind != Kind(i+1) || r.Flags != uint8(i*9) {
			t.Fatalf("record %d: %+v %v %v", i, r, ok, err)
		}
	}
	if _, ok, err := rs.Next(); ok || err != nil {
		t.Fatalf("behind the last record: %v %v", ok, err)
	}
}

func TestBatchCorruptions(t *testing.T) {
	good, h := sampleBatch(sampleHeader)
	be := binary.BigEndian
	resum := func(b []byte) {
		be.PutUint32(b[batchCRC:], batchSum(b))
		be.PutUint32(b[localCRC:], localSum(b))
	}
	for _, c := range []struct {
		name    string
		corrupt func([]byte) []byte
		want    string
	}{
		{"nothing", func(b []byte) []byte { return b }, ""},
		{"empty", func(b []byte) []byte { return nil }, "cut off"},
		{"header cut", func(b []byte) []byte { return b[:BatchHeaderSize-1] }, "cut off"},
		{"content cut", func(b []byte) []byte { return b[:len(b)-1] }, "cut off"},
		{"magic", func(b []byte) []byte { b[0]++; return b }, "magic"},
		{"other place", func(b []byte) []byte { be.PutUint64(b[batchBase:], uint64(h.Base)+8); resum(b); return b }, "says it is at"},
		{"length zero", func(b []byte) []byte { be.PutUint32(b[batchLength:], 0); return b }, "length"},
		{"length below header", func(b []byte) []byte { be.PutUint32(b[batchLength:], BatchHeaderSize-8); return b }, "length"},
		{"length not aligned", func(b []byte) []byte { be.PutUint32(b[batchLength:], uint32(len(b)-4)); return b }, "length"},
		{"length above MaxBatch", func(b []byte) []byte { be.PutUint32(b[batchLength:], MaxBatch+8); return b }, "length"},
		{"length greatest", func(b []byte) []byte { be.PutUint32(b[batchLength:], 1<<32-8); return b }, "length"},
		{"length shorter", func(b []byte) []byte { be.PutUint32(b[batchLength:], uint32(len(b)-8)); return b }, "CRC of the batch"},
		{"length longer", func(b []byte) []byte {
			be.PutUint32(b[batchLength:], uint32(len(b)+8))
			return append(b, make([]byte, 8)...)
		}, "CRC of the batch"},
		{"count", func(b []byte) []byte { be.PutUint32(b[batchCount:], 1<<31); return b }, "do not fit"},
		{"content", func(b []byte) []byte { b[BatchHeaderSize+20] ^= 1; return b }, "CRC of the batch"},
		{"padding", func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, "CRC of the batch"},
		{"previous crc", func(b []byte) []byte { b[batchPrev] ^= 1; return b }, "CRC of the batch"},
		{"crc", func(b []byte) []byte { b[batchCRC] ^= 1; return b }, "local part"},
		{"durable", func(b []byte) []byte { b[localDurable+7] ^= 1; return b }, "local part"},
		{"incarnation", func(b []byte) []byte { b[localIncarnation] ^= 1; return b }, "local part"},
		{"local reserved", func(b []byte) []byte { b[localReserved] ^= 1; return b }, "local part"},
		{"local crc", func(b []byte) []byte { b[localCRC] ^= 1; return b }, "local part"},
		{"durable above base", func(b []byte) []byte { be.PutUint64(b[localDurable:], uint64(h.Base)+1); resum(b); return b }, "durable up to"},
		{"durable negative", func(b []byte) []byte { be.PutUint64(b[localDurable:], 1<<63); resum(b); return b }, "durable up to"},
		{"local part of another batch", func(b []byte) []byte {
			other := sampleHeader
			other.BaseID++
			o, _ := sampleBatch(other)
			copy(b[localDurable:], o[localDurable:BatchHeaderSize])
			return b
		}, "local part"},
		{"hole with records", func(b []byte) []byte { be.PutUint16(b[batchFlags:], FlagHole); resum(b); return b }, "hole with records"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, got := parse(c.corrupt(bytes.Clone(good)), h.Base)
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("reason is %q, want %q", got, c.want)
			}
		})
	}
}

// No single flipped bit of a batch passes.
func TestBatchEveryBit(t *testing.T) {
	good, h := sampleBatch(sampleHeader)
	for bit := range len(good) * 8 {
		b := bytes.Clone(good)
		b[bit/8] ^= 1 << (bit % 8)
		if _, reason := parse(b, h.Base); reason == "" {
			t.Errorf("bit %d of byte %d", bit%8, bit/8)
		}
	}
}

func TestHoleCoversHeaderOnly(t *testing.T) {
	h := sampleHeader
	h.Flags, h.Length = FlagHole|FlagMustUnderstand|FlagSeal, maxHole
	b := make([]byte, BatchHeaderSize)
	h.CRC = encodeBatch(b, &h)
	got, reason := parse(b, h.Base)
	if reason != "" || got != h {
		t.Fatalf("%q: %+v", reason, got)
	}
	batch := Batch{Header: got}
	rs := batch.Records()
	if _, ok, err := rs.Next(); ok || err != nil {
		t.Errorf("a hole has records: %v %v", ok, err)
	}
}

func TestMustUnderstand(t *testing.T) {
	h := Header{Base: 4096, Flags: 1<<9 | FlagSeal}
	if err := h.checkFlags("f"); err != nil {
		t.Errorf("a flag that may be ignored: %v", err)
	}
	h.Flags |= FlagMustUnderstand
	err := h.checkFlags("f")
	if !errors.Is(err, ErrNewerFormat) {
		t.Fatalf("error is %v", err)
	}
	for _, want := range []string{"0x0203", "0x0200", "version 1", "4096"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %s", err, want)
		}
	}
}

func TestRecordCorruptions(t *testing.T) {
	const pos = 123456
	good := append(make([]byte, 8), 5, 6, 0, 0, 'a', 'b', 'c')
	sealRecord(pos, good)
	be := binary.BigEndian
	for _, c := range []struct {
		name    string
		corrupt func([]byte) []byte
		pos     Offset
		want    string
	}{
		{"nothing", func(b []byte) []byte { return b }, pos, ""},
		{"more behind it", func(b []byte) []byte { return append(b, 1, 2, 3) }, pos, ""},
		{"empty", func(b []byte) []byte { return nil }, pos, "cut off"},
		{"header cut", func(b []byte) []byte { return b[:RecordHeaderSize-1] }, pos, "cut off"},
		{"payload cut", func(b []byte) []byte { return b[:len(b)-1] }, pos, "longer than"},
		{"length zero", func(b []byte) []byte { be.PutUint32(b, 0); return b }, pos, "impossible"},
		{"length below header", func(b []byte) []byte { be.PutUint32(b, RecordHeaderSize-1); return b }, pos, "impossible"},
		{"length too great", func(b []byte) []byte { be.PutUint32(b, MaxRecord+1); return b }, pos, "impossible"},
		{"length greatest", func(b []byte) []byte { be.PutUint32(b, 1<<32-1); return b }, pos, "impossible"},
		{"length shorter", func(b []byte) []byte { b[3]--; return b }, pos, "CRC"},
		{"length longer", func(b []byte) []byte { b[3]++; return append(b, 0) }, pos, "CRC"},
		{"other place", func(b []byte) []byte { return b }, pos + 8, "CRC"},
		{"crc", func(b []byte) []byte { b[recordCRC] ^= 1; return b }, pos, "CRC"},
		{"kind", func(b []byte) []byte { b[recordKind] ^= 1; return b }, pos, "CRC"},
		{"flags", func(b []byte) []byte { b[recordFlags] ^= 1; return b }, pos, "CRC"},
		{"reserved", func(b []byte) []byte { b[10] ^= 1; return b }, pos, "CRC"},
		{"payload", func(b []byte) []byte { b[14] ^= 1; return b }, pos, "CRC"},
		{"kind zero", func(b []byte) []byte { b[recordKind] = 0; sealRecord(pos, b); return b }, pos, "kind 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseRecord(c.pos, c.corrupt(bytes.Clone(good)))
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if !errors.Is(err, corrupt.ErrCorrupt) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %q", err, c.want)
			}
		})
	}
}

// A batch may have a right CRC and wrong records, if its writer is wrong: never a panic, always an error.
func TestRecordsOfABadWriter(t *testing.T) {
	good, h := sampleBatch(sampleHeader)
	for _, c := range []struct {
		name  string
		count int
		want  string
	}{{"too few", 1, "behind the last record"}, {"too many", 3, "cut off"}} {
		b := Batch{Header: h, content: good[BatchHeaderSize:], file: "seg", segment: h.Base - 512}
		b.Count = c.count
		rs := b.Records()
		var err error
		for ok := true; ok && err == nil; {
			_, ok, err = rs.Next()
		}
		if !errors.Is(err, corrupt.ErrCorrupt) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "seg") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// positionSum is crc32.Update over the position.
func TestPositionSum(t *testing.T) {
	for range 100 {
		pos := Offset(rand.Int64())
		b := binary.BigEndian.AppendUint64(nil, uint64(pos))
		if got, want := positionSum(pos), crc32.Checksum(b, castagnoli); got != want {
			t.Fatalf("%d: %08x, want %08x", pos, got, want)
		}
	}
}

func TestSegmentHeaderCorruptions(t *testing.T) {
	good := encodeSegmentHeader(sampleID, 4096)
	for bit := range len(good) * 8 {
		b := bytes.Clone(good)
		b[bit/8] ^= 1 << (bit % 8)
		if err := checkSegmentHeader("f", b, sampleID, 4096); !errors.Is(err, corrupt.ErrCorrupt) {
			t.Fatalf("bit %d of byte %d: %v", bit%8, bit/8, err)
		}
	}
	resum := func(b []byte) []byte {
		binary.BigEndian.PutUint32(b[headerCRC:], crc32.Checksum(b[:headerCRC], castagnoli))
		return b
	}
	for _, c := range []struct {
		name    string
		corrupt func([]byte) []byte
		want    string
	}{
		{"nothing", func(b []byte) []byte { return b }, ""},
		{"reserved bytes", func(b []byte) []byte { b[headerReserved], b[100] = 9, 9; return resum(b) }, ""},
		{"empty", func(b []byte) []byte { return nil }, "cut off"},
		{"cut", func(b []byte) []byte { return b[:511] }, "cut off"},
		{"zeros", func(b []byte) []byte { return make([]byte, 512) }, "magic"},
		{"version zero", func(b []byte) []byte { b[headerVersion+3] = 0; return resum(b) }, "version 0"},
		{"other log", func(b []byte) []byte { b[headerLogID] = 9; return resum(b) }, "belongs to log"},
		{"other base", func(b []byte) []byte { b[headerBase+7] = 8; return resum(b) }, "begins at"},
	} {
		err := checkSegmentHeader("f", c.corrupt(bytes.Clone(good)), sampleID, 4096)
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, corrupt.ErrCorrupt) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	newer := bytes.Clone(good)
	newer[headerVersion+3] = 2
	err := checkSegmentHeader("f", resum(newer), sampleID, 4096)
	if !errors.Is(err, ErrNewerFormat) || !strings.Contains(err.Error(), "version 2") || !strings.Contains(err.Error(), "up to 1") {
		t.Errorf("newer version: %v", err)
	}
}

func TestMarkCorruptions(t *testing.T) {
	want := Mark{Seq: 9, Durable: 8192, LogMs: 1234, Incarnation: 3}
	good := appendMark(nil, sampleID, want)
	if len(good) != markSize {
		t.Fatalf("a slot has %d bytes", len(good))
	}
	if got, ok, err := decodeMark("mark", good, sampleID); got != want || !ok || err != nil {
		t.Fatalf("%+v %v %v", got, ok, err)
	}
	for bit := range len(good) * 8 {
		b := bytes.Clone(good)
		b[bit/8] ^= 1 << (bit % 8)
		if _, ok, err := decodeMark("mark", b, sampleID); ok || err != nil {
			t.Fatalf("bit %d of byte %d: %v %v", bit%8, bit/8, ok, err)
		}
	}
	for name, b := range map[string][]byte{
		"cut":        good[:markSize-1],
		"other log":  appendMark(nil, sampleID+1, want),
		"no number":  appendMark(nil, sampleID, Mark{Durable: 8}),
		"below zero": appendMark(nil, sampleID, Mark{Seq: 1, Durable: -8}),
	} {
		if _, ok, err := decodeMark("mark", b, sampleID); ok || err != nil {
			t.Errorf("%s: %v %v", name, ok, err)
		}
	}
	newer := bytes.Clone(good)
	newer[markVersion+3] = 2
	binary.BigEndian.PutUint32(newer[markCRC:], crc32.Checksum(newer[:markCRC], castagnoli))
	if _, _, err := decodeMark("mark", newer, sampleID); !errors.Is(err, ErrNewerFormat) {
		t.Errorf("newer version: %v", err)
	}
}

func TestRedoCorruptions(t *testing.T) {
	want := redo{pos: 4096, length: 100, sum: 77}
	good := appendRedo(nil, sampleID, want)
	if len(good) != redoSize {
		t.Fatalf("the header has %d bytes", len(good))
	}
	if got, ok, err := decodeRedo("redo", good, redoSize+100, sampleID); got != want || !ok || err != nil {
		t.Fatalf("%+v %v %v", got, ok, err)
	}
	for bit := range len(good) * 8 {
		b := bytes.Clone(good)
		b[bit/8] ^= 1 << (bit % 8)
		if _, ok, err := decodeRedo("redo", b, redoSize+100, sampleID); ok || err != nil {
			t.Fatalf("bit %d of byte %d: %v %v", bit%8, bit/8, ok, err)
		}
	}
	for name, c := range map[string]struct {
		b    []byte
		size int64
	}{
		"header cut":  {good[:redoSize-1], redoSize - 1},
		"content cut": {good, redoSize + 99},
		"other log":   {appendRedo(nil, sampleID+1, want), redoSize + 100},
		"no content":  {appendRedo(nil, sampleID, redo{pos: 8}), redoSize},
		"below zero":  {appendRedo(nil, sampleID, redo{pos: -8, length: 8}), redoSize + 8},
		"negative":    {appendRedo(nil, sampleID, redo{pos: 8, length: -8}), redoSize + 8},
		"endless":     {appendRedo(nil, sampleID, redo{pos: 8, length: 1<<63 - 1}), redoSize + 8},
	} {
		if _, ok, err := decodeRedo("redo", c.b, c.size, sampleID); ok || err != nil {
			t.Errorf("%s: %v %v", name, ok, err)
		}
	}
	newer := bytes.Clone(good)
	newer[redoVersion+3] = 2
	binary.BigEndian.PutUint32(newer[redoCRC:], crc32.Checksum(newer[:redoCRC], castagnoli))
	if _, _, err := decodeRedo("redo", newer, redoSize+100, sampleID); !errors.Is(err, ErrNewerFormat) {
		t.Errorf("newer version: %v", err)
	}
}

type field = golden.Field

var batchFields = []field{
	{4, "magic"}, {4, "length"}, {4, "crc"}, {4, "previous crc"}, {8, "base"}, {4, "epoch"}, {2, "writer"}, {2, "flags"},
	{8, "append time"}, {8, "log time"}, {8, "base id"}, {4, "count"}, {16, "reserved"},
	{8, "durable"}, {4, "incarnation"}, {4, "order gen"}, {8, "order pos"}, {8, "reserved"}, {4, "local crc"},
}

func TestGolden(t *testing.T) {
	b, _ := sampleBatch(sampleHeader)
	golden.Check(t, "batch", "a batch of two records, the end of a state record", 32, b, append(append([]field(nil), batchFields...),
		field{4, "record 0: length"}, field{4, "crc"}, field{1, "kind"}, field{1, "flags"}, field{2, "reserved"}, field{5, "payload"},
		field{4, "record 1: length"}, field{4, "crc"}, field{1, "kind"}, field{1, "flags"}, field{2, "reserved"}, field{13, "payload"},
		field{6, "padding"}))

	h := sampleHeader
	h.Flags, h.Length = FlagHole|FlagMustUnderstand|FlagSeal, 1<<20
	hole := make([]byte, BatchHeaderSize)
	encodeBatch(hole, &h)
	golden.Check(t, "hole", "a hole of 1 MiB that seals its segment", 32, hole, batchFields)

	golden.Check(t, "segment", "the header of a segment", 32, encodeSegmentHeader(sampleID, 0x11223344550), []field{
		{8, "magic"}, {4, "version"}, {4, "reserved"}, {8, "log id"}, {8, "base"}, {476, "reserved"}, {4, "crc"}})

	golden.Check(t, "mark", "a slot of the mark", 32, appendMark(nil, sampleID, Mark{Seq: 9, Durable: 8192, LogMs: 1234, Incarnation: 3}), []field{
		{4, "magic"}, {4, "version"}, {8, "log id"}, {8, "seq"}, {8, "durable"}, {8, "log time"}, {4, "incarnation"}, {16, "reserved"}, {4, "crc"}})

	golden.Check(t, "redo", "the header of a copy of the tail", 32, appendRedo(nil, sampleID, redo{pos: 4096, length: 100, sum: 77}), []field{
		{4, "magic"}, {4, "version"}, {8, "log id"}, {8, "position"}, {8, "length"}, {4, "sum"}, {24, "reserved"}, {4, "crc"}})
}

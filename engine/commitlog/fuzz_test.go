package commitlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/golden"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

func seedGolden(f *testing.F, names ...string) {
	for _, n := range names {
		f.Add(golden.Read(f, n))
	}
}

// FuzzDecodeBatch: bytes never panic; with their CRCs made right, decoding and encoding give them back; and the records
// end, one behind the other, within the batch.
func FuzzDecodeBatch(f *testing.F) {
	seedGolden(f, "batch", "hole")
	f.Fuzz(func(t *testing.T, b []byte) {
		parse(b, 0)
		if len(b) < BatchHeaderSize {
			return
		}
		b = bytes.Clone(b)
		be := binary.BigEndian
		at := Offset(be.Uint64(b[batchBase:]))
		be.PutUint32(b[batchMagicAt:], batchMagic)
		clear(b[batchReserved:batchLocal])
		clear(b[localReserved:localCRC])
		n := int64(len(b))
		if be.Uint16(b[batchFlags:])&FlagHole != 0 {
			n = BatchHeaderSize
		} else {
			be.PutUint32(b[batchLength:], uint32(n))
		}
		b = b[:n]
		be.PutUint32(b[batchCRC:], batchSum(b))
		be.PutUint32(b[localCRC:], localSum(b))
		h, reason := parse(b, at)
		if reason != "" {
			return
		}
		again := bytes.Clone(b)
		if crc := encodeBatch(again, &h); crc != h.CRC || !bytes.Equal(again, b) {
			t.Fatalf("encoded again: %x, was %x", again, b)
		}
		batch := Batch{Header: h, content: b[BatchHeaderSize:]}
		rs := batch.Records()
		for end := at + BatchHeaderSize; ; {
			r, ok, err := rs.Next()
			if err != nil || !ok {
				return
			}
			if r.Pos != end || r.End() > h.End() {
				t.Fatalf("record at %d is %d bytes long", r.Pos, r.Size)
			}
			end = r.End()
		}
	})
}

// FuzzParseRecord: bytes never panic; with the CRC made right, they are the record.
func FuzzParseRecord(f *testing.F) {
	f.Add(int64(0), append(make([]byte, 8), 1, 0, 0, 0, 'x'))
	f.Fuzz(func(t *testing.T, pos int64, b []byte) {
		if r, err := ParseRecord(Offset(pos), b); err == nil && (r.Size > len(b) || len(r.Payload) != r.Size-RecordHeaderSize) {
			t.Fatalf("%+v from %d bytes", r, len(b))
		}
		if len(b) < RecordHeaderSize || b[recordKind] == 0 {
			return
		}
		b = bytes.Clone(b)
		sealRecord(Offset(pos), b)
		r, err := ParseRecord(Offset(pos), b)
		if err != nil || !bytes.Equal(r.Payload, b[RecordHeaderSize:]) || r.Kind != Kind(b[recordKind]) || r.Flags != b[recordFlags] {
			t.Fatalf("%+v %v from %x", r, err, b)
		}
	})
}

func FuzzSegmentHeader(f *testing.F) {
	seedGolden(f, "segment")
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = checkSegmentHeader("f", b, sampleID, 4096)
		if len(b) < SegmentHeaderSize {
			return
		}
		b = bytes.Clone(b[:SegmentHeaderSize])
		copy(b, segmentMagic)
		binary.BigEndian.PutUint32(b[headerCRC:], crc32.Checksum(b[:headerCRC], castagnoli))
		id, base := binary.BigEndian.Uint64(b[headerLogID:]), Offset(binary.BigEndian.Uint64(b[headerBase:]))
		err := checkSegmentHeader("f", b, id, base)
		if version := binary.BigEndian.Uint32(b[headerVersion:]); (err == nil) != (version == formatVersion) {
			t.Fatalf("version %d: %v", version, err)
		}
	})
}

func FuzzDecodeMark(f *testing.F) {
	seedGolden(f, "mark")
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, _ = decodeMark("mark", b, sampleID)
		if len(b) < markSize {
			return
		}
		b = bytes.Clone(b[:markSize])
		binary.BigEndian.PutUint32(b, markMagic)
		binary.BigEndian.PutUint32(b[markVersion:], formatVersion)
		clear(b[markIncarnation+4 : markCRC])
		binary.BigEndian.PutUint32(b[markCRC:], crc32.Checksum(b[:markCRC], castagnoli))
		id := binary.BigEndian.Uint64(b[markLogID:])
		m, ok, err := decodeMark("mark", b, id)
		if err != nil {
			t.Fatal(err)
		}
		if again := appendMark(nil, id, m); ok && !bytes.Equal(again, b) {
			t.Fatalf("encoded again: %x, was %x", again, b)
		}
	})
}

func FuzzDecodeRedo(f *testing.F) {
	seedGolden(f, "redo")
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, _ = decodeRedo("redo", b, int64(len(b)), sampleID)
		if len(b) < redoSize {
			return
		}
		size := int64(len(b))
		b = bytes.Clone(b[:redoSize])
		binary.BigEndian.PutUint32(b, redoMagic)
		binary.BigEndian.PutUint32(b[redoVersion:], formatVersion)
		clear(b[redoSum+4 : redoCRC])
		binary.BigEndian.PutUint32(b[redoCRC:], crc32.Checksum(b[:redoCRC], castagnoli))
		id := binary.BigEndian.Uint64(b[redoLogID:])
		d, ok, err := decodeRedo("redo", b, size, id)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return
		}
		if d.length > size || d.end() < d.pos {
			t.Fatalf("%+v in a file of %d bytes", d, size)
		}
		if again := appendRedo(nil, id, d); !bytes.Equal(again, b) {
			t.Fatalf("encoded again: %x, was %x", again, b)
		}
	})
}

// FuzzRecover: whatever stands behind the header of a segment, opening never panics and never takes memory that the
// file does not justify; what it refuses is damage, and after Repair it opens.
func FuzzRecover(f *testing.F) {
	start := crashfs.New(crashfs.Options{})
	opts := Options{SegmentSize: 4 << 10, TailSize: 4 << 10, Reserve: -1}
	name := segmentName("log", 0)
	fuzzSegment(f, start, opts)
	file, err := start.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		f.Fatal(err)
	}
	content := make([]byte, 4<<10-SegmentHeaderSize)
	if _, err := file.ReadAt(content, SegmentHeaderSize); err != nil {
		f.Fatal(err)
	}
	f.Add(content, int64(0))
	f.Add(content[:300], int64(2000))
	f.Add(make([]byte, 100), int64(600))
	f.Fuzz(func(t *testing.T, content []byte, durable int64) {
		fsys := start.Clone()
		file, err := fsys.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt(content, SegmentHeaderSize); err != nil {
			t.Fatal(err)
		}
		s := Start{Durable: Offset(max(durable, 0) % (16 << 10) &^ 7)}
		fold := func(b *Batch) error {
			rs := b.Records()
			for {
				if _, ok, err := rs.Next(); err != nil || !ok {
					return err
				}
			}
		}
		reopen := func() error {
			l, err := Open(fsys.Clone(), "log", sampleID, opts)
			if err == nil {
				_, err = l.Recover(s, fold)
			}
			return err
		}
		err = reopen()
		if err == nil || errors.Is(err, ErrNewerFormat) {
			return
		}
		if !errors.Is(err, corrupt.ErrCorrupt) {
			t.Fatal(err)
		}
		if _, err := Repair(fsys, "log", sampleID, s); err != nil && !errors.Is(err, corrupt.ErrCorrupt) && !errors.Is(err, ErrNewerFormat) {
			t.Fatal(err)
		}
	})
}

// fuzzSegment makes a log of one segment with a few batches.
func fuzzSegment(f *testing.F, fsys *crashfs.FS, opts Options) {
	l, err := Open(fsys, "log", sampleID, opts)
	if err == nil {
		_, err = l.Recover(Start{}, func(*Batch) error { return nil })
	}
	if err == nil {
		err = l.Rotate()
	}
	for i := range 4 {
		if err != nil {
			break
		}
		info := BatchInfo{}
		if i == 0 {
			info.Flags = FlagState | FlagStateEnd
		}
		var w *Writer
		if w, err = l.Begin(300, info); err == nil {
			w.Open(Kind(1+i), 0)
			w.Buf = append(w.Buf, make([]byte, 100*i)...)
			w.Close()
			w.Finish(0)
			err = l.Commit()
		}
	}
	if err != nil {
		f.Fatal(err)
	}
}

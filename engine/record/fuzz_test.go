package record_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/golden"
	"github.com/tidewheel/tidewheel/engine/record"
)

// fuzz decodes anything as one kind: it never panics, refuses with damage, and what it takes is the one encoding of
// what it read.
func fuzz(f *testing.F, kind commitlog.Kind) {
	f.Add(golden.Read(f, record.Name(kind)))
	for _, c := range edges {
		if c.kind == kind && c.value.PayloadSize() < 4096 {
			f.Add(c.value.Append(nil))
		}
	}
	reused := empty[kind]()
	f.Fuzz(func(t *testing.T, payload []byte) {
		v := empty[kind]()
		err := v.Decode(payload)
		if (reused.Decode(payload) == nil) != (err == nil) {
			t.Fatal("what a value held before changes what is decoded")
		}
		if err != nil {
			if !errors.Is(err, corrupt.ErrCorrupt) {
				t.Fatalf("%v is not damage", err)
			}
			return
		}
		again := v.Append(nil)
		if !bytes.Equal(again, payload) {
			t.Fatalf("encoded again it differs:\n%x\n%x", again, payload)
		}
		if len(again) > v.PayloadSize() {
			t.Fatalf("%d bytes, PayloadSize says at most %d", len(again), v.PayloadSize())
		}
		equal(t, reused, v)
	})
}

func FuzzDecodeDeliver(f *testing.F)   { fuzz(f, record.KindDeliver) }
func FuzzDecodeCancel(f *testing.F)    { fuzz(f, record.KindCancel) }
func FuzzDecodeSupersede(f *testing.F) { fuzz(f, record.KindSupersede) }
func FuzzDecodeTopic(f *testing.F)     { fuzz(f, record.KindTopic) }
func FuzzDecodeGroup(f *testing.F)     { fuzz(f, record.KindGroup) }
func FuzzDecodeCommit(f *testing.F)    { fuzz(f, record.KindCommit) }
func FuzzDecodeRoll(f *testing.F)      { fuzz(f, record.KindRoll) }
func FuzzDecodeTrim(f *testing.F)      { fuzz(f, record.KindTrim) }
func FuzzDecodeState(f *testing.F)     { fuzz(f, record.KindState) }
func FuzzDecodeHole(f *testing.F)      { fuzz(f, record.KindHole) }
func FuzzDecodeVerdict(f *testing.F)   { fuzz(f, record.KindVerdict) }

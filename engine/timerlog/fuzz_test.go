package timerlog_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/filetest"
	"github.com/tidewheel/tidewheel/engine/internal/golden"
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

func FuzzDecodeEntry(f *testing.F) {
	f.Add(sample(1, 2).Append(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := timerlog.DecodeEntry(b)
		if (err == nil) != (len(b) >= timerlog.EntrySize) {
			t.Fatalf("%d bytes: %v", len(b), err)
		}
		if err == nil && !bytes.Equal(e.Append(nil), b[:timerlog.EntrySize]) {
			t.Errorf("encoded again as %x", e.Append(nil))
		}
	})
}

func FuzzDecodeRef(f *testing.F) {
	b := golden.Read(f, "ref")
	f.Add(b)
	f.Add(make([]byte, timerlog.RefSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := timerlog.DecodeRef(b)
		if err != nil {
			return
		}
		again, err := timerlog.DecodeRef(timerlog.AppendRef(nil, r))
		if err != nil || again != r {
			t.Errorf("%+v became %+v, %v", r, again, err)
		}
	})
}

func FuzzDecodeState(f *testing.F) {
	b := golden.Read(f, "state")
	f.Add(b)
	f.Add([]byte{0})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, rest, err := timerlog.DecodeState(b)
		if err != nil {
			return
		}
		b = timerlog.AppendState(nil, s)
		again, none, err := timerlog.DecodeState(append(b, rest...))
		if err != nil || !bytes.Equal(none, rest) || !bytes.Equal(timerlog.AppendState(nil, again), b) {
			t.Errorf("%+v became %+v, %x, %v", s, again, none, err)
		}
		if _, err := timerlog.Open(newFS(), dir, family, timerlog.Options{}, s); err != nil {
			t.Error(err)
		}
	})
}

// FuzzFile reads every group that bytes may hold: no panic, and no error but damage.
func FuzzFile(f *testing.F) {
	file := golden.Read(f, "file")
	f.Add(file)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, file []byte) {
		if len(file) > 4096 {
			t.Skip("more of the same")
		}
		disk := newFS()
		if err := disk.MkdirAll(dir+"/hours", 0o700); err != nil {
			t.Fatal(err)
		}
		filetest.Write(t, disk, dir+"/hours/00000000000000000001", file)
		length := max(64, int64(len(file)))
		l, err := timerlog.Open(disk, dir, "hours", timerlog.Options{Ident: ident},
			timerlog.State{Files: []timerlog.FileState{{Number: 1, Length: length}}})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		known := func(err error) bool {
			return err == nil || errors.Is(err, corrupt.ErrCorrupt) || errors.Is(err, timerlog.ErrNewerFormat)
		}
		for at := int64(64); at < length; {
			ref, prev, err := l.Lookup(timerlog.Place{File: 1, Offset: at})
			if !known(err) {
				t.Fatal(err)
			}
			if err != nil {
				at++
				continue
			}
			if prev != timerlog.NoPlace && prev.Offset >= at {
				t.Errorf("group before the one at %d: %v", at, prev)
			}
			_, err = each(l, ref)
			if !known(err) {
				t.Error(err)
			}
			if ref.Kind == timerlog.KindGroup {
				if _, err := above(l, ref, ref.Min); !known(err) {
					t.Error(err)
				}
			}
			at += ref.Length
		}
	})
}

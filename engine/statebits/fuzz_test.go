package statebits_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/filetest"
	"github.com/tidewheel/tidewheel/engine/internal/golden"
	"github.com/tidewheel/tidewheel/engine/statebits"
)

func FuzzDecodeTable(f *testing.F) {
	f.Add(statebits.AppendTable(nil, statebits.Table{}))
	f.Add(statebits.AppendTable(nil, statebits.Table{Ranges: []statebits.Range{{First: 0, End: 3}, {First: 70, End: 1000}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		table, rest, err := statebits.DecodeTable(b)
		if err != nil {
			return
		}
		again, none, err := statebits.DecodeTable(append(statebits.AppendTable(nil, table), rest...))
		if err != nil || !bytes.Equal(none, rest) || !slices.Equal(again.Ranges, table.Ranges) {
			t.Errorf("%v became %v, %v", table, again, err)
		}
		if _, err := statebits.Open(newFS(), dir, statebits.Options{}, table); err != nil {
			t.Error(err)
		}
	})
}

func FuzzDecodePages(f *testing.F) {
	f.Add([]byte{}, uint(0))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 7, 255}, uint(1))
	f.Fuzz(func(t *testing.T, b []byte, n uint) {
		// A page is long: the fuzzer says its start and how often it comes.
		one := make([]byte, 8+statebits.PageBytes)
		copy(one, b)
		b = append(bytes.Repeat(one, int(n%4)), b...)
		pages, err := statebits.DecodePages(b)
		if err == nil && !bytes.Equal(bytes.Join(statebits.EncodePages(pages), nil), b) {
			t.Error("encoded again it differs")
		}
	})
}

func FuzzPage(f *testing.F) {
	b := golden.Read(f, "page")
	f.Add(b)
	f.Fuzz(func(t *testing.T, head []byte) {
		disk := newFS()
		if err := disk.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		p := make([]byte, page)
		copy(p, head)
		filetest.Write(t, disk, file1, append(make([]byte, 2*page), p...))
		b := open(t, disk, statebits.Options{}, statebits.Table{Ranges: []statebits.Range{{First: 258, End: 259}}})
		_, err := b.Get(first(258))
		if err != nil && !errors.Is(err, corrupt.ErrCorrupt) && !errors.Is(err, statebits.ErrNewerFormat) {
			t.Error(err)
		}
	})
}

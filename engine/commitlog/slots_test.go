package commitlog_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// reasons lists why there is no mark in each slot.
func reasons(t *testing.T, fsys vfs.FS, id uint64) []string {
	t.Helper()
	slots, err := commitlog.ReadMark(fsys, logDir, id)
	if err != nil {
		t.Fatal(err)
	}
	var why []string
	for i, s := range slots {
		if s.File != logDir+"/mark" || s.Byte != int64(i)*4096 {
			t.Errorf("slot %d is at byte %d of %s", i, s.Byte, s.File)
		}
		if (s.Mark == commitlog.Mark{}) != (s.Reason != "") {
			t.Errorf("slot %d: %+v", i, s)
		}
		why = append(why, s.Reason)
	}
	return why
}

func TestReadMark(t *testing.T) {
	disk := crashfs.New(crashfs.Options{})
	if got := reasons(t, disk, logID); !slices.Equal(got, []string{"the file is missing", "the file is missing"}) {
		t.Errorf("no file: %q", got)
	}
	for range 2 { // each life writes a mark
		l, err := commitlog.Open(disk, logDir, logID, small)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Recover(commitlog.Start{}, func(*commitlog.Batch) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if l.Incarnation() == 1 {
			if got := reasons(t, disk, logID); !slices.Equal(got, []string{"nothing was written here", ""}) {
				t.Errorf("after one mark: %q", got)
			}
		}
	}
	slots, err := commitlog.ReadMark(disk, logDir, logID)
	if err != nil || slots[0].Mark.Seq != 2 || slots[1].Mark.Seq != 1 || slots[0].Mark.Incarnation != 2 {
		t.Fatalf("%+v, %v", slots, err)
	}
	if got := reasons(t, disk, logID+1); !slices.Equal(got, []string{"it belongs to log 1122334455667788", "it belongs to log 1122334455667788"}) {
		t.Errorf("of another log: %q", got)
	}

	mark, err := disk.Durable(logDir + "/mark")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(b []byte) []byte
		want   string // of slot 0
	}{
		{"magic", func(b []byte) []byte { b[0] ^= 1; return b }, "magic is 0x55574d4b"},
		{"crc", func(b []byte) []byte { b[20] ^= 1; return b }, "CRC does not match"},
		{"cut off", func(b []byte) []byte { return b[:60] }, "the file ends in the slot"},
		{"nothing", func(b []byte) []byte { return b[:0] }, "nothing was written here"},
		{"impossible", func(b []byte) []byte {
			clear(b[16:24])
			binary.BigEndian.PutUint32(b[60:], crc32.Checksum(b[:60], crc32.MakeTable(crc32.Castagnoli)))
			return b
		}, "impossible: mark 0"},
	} {
		bad := disk.Clone()
		f, err := bad.OpenFile(logDir+"/mark", os.O_RDWR|os.O_TRUNC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(c.change(slices.Clone(mark)), 0); err != nil {
			t.Fatal(err)
		}
		if got := reasons(t, bad, logID); !strings.HasPrefix(got[0], c.want) {
			t.Errorf("%s: %q, want %q", c.name, got[0], c.want)
		}
	}
	newer := disk.Clone()
	f, err := newer.OpenFile(logDir+"/mark", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	b := slices.Clone(mark[:64])
	b[7] = 2
	binary.BigEndian.PutUint32(b[60:], crc32.Checksum(b[:60], crc32.MakeTable(crc32.Castagnoli)))
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := commitlog.ReadMark(newer, logDir, logID); !errors.Is(err, commitlog.ErrNewerFormat) {
		t.Errorf("a later version: %v", err)
	}
}

package commitlog_test

import (
	"fmt"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

func Example() {
	fsys := crashfs.New(crashfs.Options{}) // any vfs.FS
	l, err := commitlog.Open(fsys, "commitlog", 42, commitlog.Options{SegmentSize: 64 << 10, TailSize: 64 << 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	if _, err := l.Recover(commitlog.Start{}, func(*commitlog.Batch) error { return nil }); err != nil {
		fmt.Println(err)
		return
	}

	// A new log has no segment yet. The first batch of one is its state record.
	if err := l.Rotate(); err != nil {
		fmt.Println(err)
		return
	}
	const state, message = 1, 2
	write := func(kind commitlog.Kind, flags uint16, payload string) commitlog.Offset {
		w, err := l.Begin(commitlog.RecordHeaderSize+len(payload), commitlog.BatchInfo{Flags: flags})
		if err != nil {
			fmt.Println(err)
			return 0
		}
		pos := w.Open(kind, 0)
		w.Buf = append(w.Buf, payload...)
		w.Close()
		w.Finish(0)
		return pos
	}
	write(state, commitlog.FlagState|commitlog.FlagStateEnd, "nothing yet")
	pos := write(message, 0, "hello")

	// In memory, in the file, durable: three steps for three threads.
	if err := l.Commit(); err != nil {
		fmt.Println(err)
		return
	}
	end, err := l.Sync()
	if err != nil {
		fmt.Println(err)
		return
	}
	r, _, err := l.ReadRecord(pos, 0, nil)
	fmt.Printf("record of kind %d at %d: %q %v; durable up to %d\n", r.Kind, r.Pos, r.Payload, err, end)

	err = l.Scan(0, 0, true, func(b *commitlog.Batch) error {
		fmt.Printf("batch at %d, %d bytes, %d record\n", b.Base, b.Length, b.Count)
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// record of kind 2 at 760: "hello" <nil>; durable up to 784
	// batch at 512, 136 bytes, 1 record
	// batch at 648, 136 bytes, 1 record
}

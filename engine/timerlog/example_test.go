package timerlog_test

import (
	"fmt"

	"github.com/tidewheel/tidewheel/engine/timerlog"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// A job appends a sorted run, a checkpoint records it, and firing reads on from where it stands.
func Example() {
	fsys := crashfs.New(crashfs.Options{})
	l, err := timerlog.Open(fsys, "timerlog", "loose", timerlog.Options{}, timerlog.State{})
	if err != nil {
		panic(err)
	}
	defer l.Close()
	run := []timerlog.Entry{
		{Key: timerlog.Key{Due: 1_000, ID: 7}},
		{Key: timerlog.Key{Due: 1_000, ID: 9}},
		{Key: timerlog.Key{Due: 2_500, ID: 3}},
	}
	ref, err := l.WriteGroup(timerlog.RingLoose, timerlog.NoSlot, timerlog.Ref{}, run)
	if err != nil {
		panic(err)
	}
	if err := l.Sync(); err != nil {
		panic(err)
	}
	checkpoint := timerlog.AppendState(timerlog.AppendRef(nil, ref), l.State())
	fmt.Println(len(checkpoint), "bytes in the checkpoint")

	c, err := l.Cursor(ref, timerlog.Key{Due: 1_000, ID: 7})
	if err != nil {
		panic(err)
	}
	for {
		e, ok, err := c.Next()
		if err != nil {
			panic(err)
		}
		if !ok {
			break
		}
		fmt.Println(e.Due, e.ID)
	}
	// Output:
	// 76 bytes in the checkpoint
	// 1000 9
	// 2500 3
}

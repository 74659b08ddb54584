package timerwheel_test

import (
	"fmt"

	"github.com/tidewheel/tidewheel/engine/timerlog"
	"github.com/tidewheel/tidewheel/engine/timerwheel"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// A slot names its groups in the TimerLog; a checkpoint takes the change to disk, and a restart finds it.
func Example() {
	fsys := crashfs.New(crashfs.Options{})
	p := timerwheel.Params{Slots: 1_209_600, WidthMs: 1000, Ident: 1}
	w, err := timerwheel.Open(fsys, "timerwheel/1/seconds", p)
	if err != nil {
		panic(err)
	}
	due := int64(1_767_225_600_750)
	group := timerlog.Place{File: 1, Offset: 64}
	w.Set(timerwheel.Slot{Time: w.Number(due), First: group, Last: group, Count: 12})

	pages, table := w.Freeze(), w.Table()
	// Both copies of the checkpoint, with the pages and the table, are written here.
	if err := w.Write(pages); err != nil {
		panic(err)
	}
	w.Thaw(pages)

	again, err := timerwheel.Open(fsys, "timerwheel/1/seconds", p)
	if err != nil {
		panic(err)
	}
	if err := again.Load(table, nil); err != nil {
		panic(err)
	}
	s, ok := again.Next(w.Number(due)-3600, w.Number(due)+3600)
	fmt.Println(s, ok)
	fmt.Println(len(pages)*128, "slots written")
	// Output:
	// {1767225600 {1 64} {1 64} 12} true
	// 128 slots written
}

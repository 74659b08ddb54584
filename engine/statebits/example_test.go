package statebits_test

import (
	"fmt"

	"github.com/tidewheel/tidewheel/engine/statebits"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// A message is cancelled; a checkpoint takes the change to disk.
func Example() {
	b, err := statebits.Open(crashfs.New(crashfs.Options{}), "statebits", statebits.Options{}, statebits.Table{})
	if err != nil {
		panic(err)
	}
	defer b.Close()
	if err := b.Set(70_000, statebits.Cancelled); err != nil {
		panic(err)
	}

	pages, table := b.Freeze(), b.Table()
	// Both copies of the checkpoint, with the pages and the table, are written here.
	if err := b.WritePages(pages); err != nil {
		panic(err)
	}
	b.Thaw(pages)

	s, err := b.Get(70_000)
	fmt.Println(s, err)
	s, err = b.Get(70_001)
	fmt.Println(s, err)
	fmt.Println(len(pages), "page,", table)
	// Output:
	// cancelled <nil>
	// regular <nil>
	// 1 page, {[{1 2}]}
}

package handle_test

import (
	"crypto/rand"
	"fmt"

	"github.com/tidewheel/tidewheel/engine/handle"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// A ring is created once. A handle goes out as a text and comes back as a text; one that was tampered with does not
// open, and one that was sealed before a rotation does.
func Example() {
	fsys := crashfs.New(crashfs.Options{}) // any vfs.FS
	ring, err := handle.Create(fsys, "keys", rand.Reader)
	if err != nil {
		fmt.Println(err)
		return
	}
	text := ring.Seal(handle.Handle{Topic: 7, ID: 42, Due: 1_796_036_533_123, Position: 4096})
	if err := ring.Rotate(rand.Reader); err != nil {
		fmt.Println(err)
		return
	}

	h, err := ring.Open(text)
	fmt.Println(h.ID, h.KeyID, err)
	_, err = ring.Open(text[:len(text)-1] + "?")
	fmt.Println(err)
	// Output:
	// 42 1 <nil>
	// handle: not made here
}

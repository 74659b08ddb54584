package crashfs_test

import (
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// save is the code under test: it replaces a file. Leave a sync out and the example finds out.
func save(fsys vfs.FS, content string) error {
	f, err := fsys.OpenFile("state.tmp", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(content), 0); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := fsys.Rename("state.tmp", "state"); err != nil {
		return err
	}
	return vfs.SyncDir(fsys, ".")
}

// Cut the power before each change, in several ways: what was acknowledged is there, and nothing is half there.
func Example() {
	rng := rand.New(rand.NewPCG(1, 2))
	crashes := 0
	for n := int64(1); ; n++ {
		fsys := crashfs.New(crashfs.Options{})
		if err := save(fsys, "first"); err != nil {
			fmt.Println(err)
			return
		}
		fsys.CrashAt(fsys.Ops() + n)
		acknowledged := save(fsys, "second") == nil
		for _, policy := range crashfs.Policies() {
			after := fsys.Snapshot(rng, policy)
			b, err := after.Durable("state")
			if s := string(b); err != nil || s != "second" && (s != "first" || acknowledged) {
				fmt.Printf("power off at change %d, %v: state is %q, %v\n", n, policy, s, err)
			}
			crashes++
		}
		if acknowledged {
			break
		}
	}
	fmt.Println(crashes, "crashes")
	// Output: 60 crashes
}

// One run, crashed in the middle without stopping it.
func ExampleFS_Snapshot() {
	fsys := crashfs.New(crashfs.Options{})
	if err := save(fsys, "first"); err != nil {
		fmt.Println(err)
	}
	f, err := fsys.OpenFile("state", os.O_RDWR, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = f.WriteAt([]byte("second"), 0)
	fmt.Println(err)
	lost := fsys.Snapshot(rand.New(rand.NewPCG(1, 2)), crashfs.Policy{})
	kept := fsys.Snapshot(rand.New(rand.NewPCG(1, 2)), crashfs.Policy{KeepPct: 100})
	for _, life := range []*crashfs.FS{lost, kept} {
		b, err := life.Durable("state")
		fmt.Printf("%s %v\n", b, err)
	}
	// Output:
	// <nil>
	// first <nil>
	// second <nil>
}

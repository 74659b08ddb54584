package vfstest_test

import (
	"math/rand/v2"
	"testing"

	"github.com/spf13/afero"

	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/engine/vfs/osfs"
	"github.com/tidewheel/tidewheel/fsadapter"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/fsadapter/faultfs"
	"github.com/tidewheel/tidewheel/fsadapter/vfstest"
)

// TestConformance runs the suite on every file system of the project.
func TestConformance(t *testing.T) {
	for name, makeFS := range map[string]func(t *testing.T) vfs.FS{
		"OpenRoot":         func(t *testing.T) vfs.FS { return fsadapter.New(openRoot(t)) },
		"MemMapFs":         func(t *testing.T) vfs.FS { return fsadapter.New(afero.NewMemMapFs()) },
		"OsFs":             osFs,
		"BasePathFsOnOsFs": func(t *testing.T) vfs.FS { return fsadapter.New(afero.NewBasePathFs(afero.NewOsFs(), t.TempDir())) },
		"BasePathFsOnMemMapFs": func(t *testing.T) vfs.FS {
			mem := afero.NewMemMapFs()
			if err := mem.MkdirAll("/base/store", 0o700); err != nil {
				t.Fatal(err)
			}
			return fsadapter.New(afero.NewBasePathFs(mem, "/base/store"))
		},
		"BasePathFsOnOpenRoot": func(t *testing.T) vfs.FS {
			root := openRoot(t)
			if err := root.Mkdir("store", 0o700); err != nil {
				t.Fatal(err)
			}
			return fsadapter.New(afero.NewBasePathFs(root, "store"))
		},
		"osfs":             newOSFS,
		"crashfs":          func(*testing.T) vfs.FS { return crashfs.New(crashfs.Options{}) },
		"crashfsAfterAll":  crashed,
		"faultfsOnCrashfs": func(*testing.T) vfs.FS { return faultfs.New(crashfs.New(crashfs.Options{})) },
		"faultfsOnMemMapFs": func(*testing.T) vfs.FS {
			return faultfs.New(fsadapter.New(afero.NewMemMapFs()))
		},
		"faultfsOnOSFS": func(t *testing.T) vfs.FS { return faultfs.New(newOSFS(t)) },
	} {
		t.Run(name, func(t *testing.T) { vfstest.Run(t, makeFS) })
	}
}

func openRoot(t *testing.T) afero.Fs {
	root, err := fsadapter.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// osFs serves the working directory, as an OsFs does relative names.
func osFs(t *testing.T) vfs.FS {
	t.Chdir(t.TempDir())
	return fsadapter.New(afero.NewOsFs())
}

func newOSFS(t *testing.T) vfs.FS {
	f, err := osfs.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// crashed is a file system that has been through each way on.
func crashed(*testing.T) vfs.FS {
	var p crashfs.Policy
	return crashfs.New(crashfs.Options{}).Crash(rng(), p).Kill().Snapshot(rng(), p).Clone()
}

func rng() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

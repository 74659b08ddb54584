package plugins

import (
	"embed"
	"io/fs"
	"strings"
)

//go:embed abi/*.go abi/ABI.md guest/*.go guest/golden/*.go guest/c/tidewheel.h guest/as/*.ts guest/as/*.json
var sources embed.FS

// Sources are the files that plugins are written with, as they lie in this directory: the packages abi and guest without
// their tests, ABI.md, and the kits of other languages in guest/c and so on. They are in the program so that an author needs
// no network and no copy of the repository.
func Sources() fs.FS { return withoutTests{sources} }

// withoutTests hides the tests, which nobody but this repository can run.
type withoutTests struct{ embed.FS }

// Open opens a file that is no test.
func (s withoutTests) Open(name string) (fs.File, error) {
	if strings.HasSuffix(name, "_test.go") {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return s.FS.Open(name)
}

// ReadDir lists a directory without its tests.
func (s withoutTests) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := s.FS.ReadDir(name)
	kept := all[:0:0]
	for _, e := range all {
		if !strings.HasSuffix(e.Name(), "_test.go") {
			kept = append(kept, e)
		}
	}
	return kept, err
}

// ReadFile reads a file that is no test.
func (s withoutTests) ReadFile(name string) ([]byte, error) {
	if strings.HasSuffix(name, "_test.go") {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return s.FS.ReadFile(name)
}

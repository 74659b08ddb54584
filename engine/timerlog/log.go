package timerlog

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/vfs"
)

// Options tune a Log. The zero value is right for most callers.
type Options struct {
	// FileSize is the size in bytes at which a file is closed to further groups. A single group may be longer. 64 MiB.
	FileSize int64
	// Handles is how many files are kept open for reading. 64.
	Handles int
	// Ident is written into every file and compared when one is opened, so that a file of another store is seen: the
	// store's id. Any value will do.
	Ident uint64
}

func (o Options) withDefaults() Options {
	if o.FileSize == 0 {
		o.FileSize = 64 << 20
	}
	if o.Handles == 0 {
		o.Handles = 64
	}
	return o
}

func (o Options) validate() error {
	if o.FileSize <= fileHeaderSize {
		return fmt.Errorf("file size of %d bytes", o.FileSize)
	}
	if o.Handles < 1 {
		return fmt.Errorf("%d handles", o.Handles)
	}
	return nil
}

// Log is one family of the TimerLog. It is safe for concurrent use: writers wait for each other, and nobody who reads or
// asks for the State waits for a writer.
type Log struct {
	fsys   vfs.FS
	dir    string // with the family
	family string
	opts   Options

	// Held by a writer for as long as it writes or syncs. Taken before mu.
	writing  sync.Mutex
	failed   error       // of the sync that failed
	cur      *openFile   // that the next group goes to; nil: none yet since Open
	unsynced []*openFile // written since the last Sync; cur is the last of them if it is one
	newName  bool        // a file was made, or found, whose name may not be durable
	buf      []byte
	tmp      [20]byte

	mu     sync.Mutex
	files  []FileState // ascending; a length covers whole groups only
	closed bool

	handles handles
}

// Open returns the Log of the family in dir, as at says that it is. It touches no file: a missing one is found by
// Verify, or by who reads from it. The family is 1 to 16 characters of a to z, 0 to 9 and '-'.
func Open(fsys vfs.FS, dir, family string, opts Options, at State) (*Log, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("timerlog: open %s: %w", family, err)
	}
	if family == "" || len(family) > familyLen || strings.Trim(family, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return nil, fmt.Errorf("timerlog: open: bad name of a family %q", family)
	}
	if err := at.check(); err != nil {
		return nil, fmt.Errorf("timerlog: open %s: state: %w", family, err)
	}
	l := &Log{fsys: fsys, dir: path.Join(dir, family), family: family, opts: opts, files: slices.Clone(at.Files)}
	l.handles.init(opts.Handles, l.openRead)
	return l, nil
}

// State returns the files and their lengths: for a checkpoint that holds refs, to be taken when they are synced. It may
// cover groups written since, which does no harm: what no ref names is not looked at.
func (l *Log) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return State{Files: slices.Clone(l.files)}
}

// Close closes the files. It does not sync. Closing twice is ErrClosed.
func (l *Log) Close() error {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return ErrClosed
	}
	l.closed = true
	l.mu.Unlock()
	return errors.Join(l.closeWriters(), l.handles.closeAll())
}

// closeWriters forgets the files that are open for writing.
func (l *Log) closeWriters() error {
	var errs []error
	for _, f := range l.unsynced {
		errs = append(errs, f.Close())
	}
	if l.cur != nil && !slices.Contains(l.unsynced, l.cur) {
		errs = append(errs, l.cur.Close())
	}
	l.cur, l.unsynced = nil, nil
	return errors.Join(errs...)
}

// fileName is the name of a file for vfs and for errors.
func (l *Log) fileName(number int64) string {
	return path.Join(l.dir, fmt.Sprintf("%020d", number))
}

// parseName is the number in the name of a file of ours.
func parseName(name string) (int64, bool) {
	if len(name) != 20 {
		return 0, false
	}
	n, err := strconv.ParseInt(name, 10, 64)
	return n, err == nil && n > 0 && name[0] != '+'
}

// length is how far a file is written, 0 for one that the Log does not know.
func (l *Log) length(number int64) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, ErrClosed
	}
	if i, ok := find(l.files, number); ok {
		return l.files[i].Length, nil
	}
	return 0, nil
}

func find(files []FileState, number int64) (int, bool) {
	return slices.BinarySearchFunc(files, number, func(f FileState, n int64) int {
		switch {
		case f.Number < n:
			return -1
		case f.Number > n:
			return 1
		}
		return 0
	})
}

// checkBounds says whether ref lies in what is written.
func (l *Log) checkBounds(ref Ref) error {
	if err := ref.check(); err != nil {
		return fmt.Errorf("timerlog: bad ref: %w", err)
	}
	length, err := l.length(ref.File)
	if err != nil {
		return err
	}
	if length == 0 {
		return corrupt.Errorf(l.fileName(ref.File), ref.Offset, "the file is not in the recorded state")
	}
	if ref.end() > length {
		return corrupt.Errorf(l.fileName(ref.File), ref.Offset, "group of %d bytes ends beyond the recorded length %d",
			ref.Length, length)
	}
	return nil
}

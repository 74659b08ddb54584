package plugins

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/spf13/afero"
)

// Loader keeps plugins in step with their files:
//
//  1. Open loads a plugin from its file.
//  2. Poll, which the caller calls now and then, looks at the files. A file whose content changed and was read twice the same
//     is loaded in the background and swapped in between batches. A file that cannot be loaded, or is not the pinned one,
//     changes nothing but Status.
//  3. Close waits for what is being loaded and closes the plugins.
//
// Files come through an afero file system. Safe for concurrent use.
type Loader struct {
	r  *Runtime
	fs afero.Fs

	mu      sync.Mutex
	files   []*watched // guarded by mu
	closed  bool       // guarded by mu
	loading sync.WaitGroup
	ctx     context.Context // ends with Close
	stop    context.CancelFunc
}

// watched is a file and what is known of it. All fields are guarded by the loader's mu.
type watched struct {
	plugin *Plugin
	file   string
	spec   Spec

	size   int64     // of the content that was read last
	mtime  time.Time //
	readMs int64     // when, by the caller's clock

	current   Digest // of the generation that runs
	candidate Digest // of a change that was read once
	refused   Digest // of a change that could not be loaded; not tried again
	busy      bool   // being loaded
	err       error  // why the file is not what runs; nil when it is
	fails     int64
}

// FileStatus says how a plugin's file and what runs compare.
type FileStatus struct {
	Plugin  string
	File    string
	Loading bool
	Err     error // why the file that is there does not run; nil when it does
	Failed  int64 // loads that failed since the start
}

// racyMs is how long after its modification a file may change again without a new time: what was read in this span is read
// again.
const racyMs = 3000

// NewLoader returns a loader of plugins for r from fsys.
func NewLoader(r *Runtime, fsys afero.Fs) *Loader {
	l := &Loader{r: r, fs: fsys}
	l.ctx, l.stop = context.WithCancel(background)
	return l
}

// Open loads a plugin from file and watches the file from then on. nowMs is the time, ms since the epoch. The plugin belongs to
// the loader. The error is a *LoadError, or ErrClosed.
func (l *Loader) Open(ctx context.Context, file string, spec Spec, nowMs int64) (*Plugin, error) {
	w := &watched{file: file, spec: spec}
	data, err := l.read(w, nowMs)
	if err != nil {
		return nil, &LoadError{Plugin: spec.Name, Err: err}
	}
	m, err := l.r.Load(ctx, data, spec)
	if err != nil {
		return nil, err
	}
	if w.plugin, err = l.r.NewPlugin(m); err != nil {
		return nil, err
	}
	w.current = m.digest
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errors.Join(ErrClosed, w.plugin.Close())
	}
	l.files = append(l.files, w)
	return w.plugin, nil
}

// read reads the file of w and notes what stat says of it. The size is checked before anything is read.
func (l *Loader) read(w *watched, nowMs int64) ([]byte, error) {
	f, err := l.fs.Open(w.file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, &fs.PathError{Op: "read", Path: w.file, Err: errors.New("is a directory")}
	}
	most := int64(w.spec.withDefaults().Limits.BinaryMax)
	if info.Size() > most {
		return nil, fmt.Errorf("%s has %d bytes, at most %d", w.file, info.Size(), most)
	}
	// One byte more than may be: a file that grows while it is read is seen.
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	w.size, w.mtime, w.readMs = info.Size(), info.ModTime(), nowMs
	return data, nil
}

// Poll looks at each file once and returns at once; loading goes on in the background. nowMs is the time. Two polls that see
// the same new content start its loading, so that a file that is being copied is left alone.
func (l *Loader) Poll(nowMs int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	for _, w := range l.files {
		if !w.busy {
			l.look(w, nowMs)
		}
	}
}

func (l *Loader) look(w *watched, nowMs int64) {
	info, err := l.fs.Stat(w.file)
	if err != nil {
		w.err, w.candidate = err, Digest{}
		return
	}
	same := info.Size() == w.size && info.ModTime().Equal(w.mtime)
	if same && w.candidate == (Digest{}) && w.err == nil && w.readMs-w.mtime.UnixMilli() > racyMs {
		return
	}
	data, err := l.read(w, nowMs)
	if err != nil {
		w.err, w.candidate = err, Digest{}
		return
	}
	digest := Digest(sha256.Sum256(data))
	switch digest {
	case w.current:
		w.err, w.candidate = nil, Digest{}
	case w.refused: // w.err says why
	case w.candidate:
		w.candidate, w.busy = Digest{}, true
		l.loading.Go(func() { l.load(w, data, digest) })
	default:
		w.candidate = digest
	}
}

// load runs in the background.
func (l *Loader) load(w *watched, data []byte, digest Digest) {
	m, err := l.r.Load(l.ctx, data, w.spec)
	if err == nil {
		err = w.plugin.Swap(m)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	w.busy, w.err = false, err
	if err != nil {
		w.refused = digest
		w.fails++
		l.r.log.Warn("plugin not reloaded", "plugin", w.spec.Name, "file", w.file, "err", err)
		return
	}
	w.current, w.refused = digest, Digest{}
}

// Reload loads the file of a plugin now, waits for it, and returns why it failed: what an operator's command does. A file that
// runs already is no error and changes nothing.
func (l *Loader) Reload(ctx context.Context, name string, nowMs int64) error {
	w, err := l.take(name)
	if err != nil {
		return err
	}
	data, err := l.read(w, nowMs)
	var m *Module
	if err == nil && Digest(sha256.Sum256(data)) != w.current {
		if m, err = l.r.Load(ctx, data, w.spec); err == nil {
			err = w.plugin.Swap(m)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	w.busy, w.err, w.candidate, w.refused = false, err, Digest{}, Digest{}
	if err != nil {
		w.fails++
		return err
	}
	w.current = sha256.Sum256(data)
	return nil
}

// take keeps Poll away from a file.
func (l *Loader) take(name string) (*watched, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	for _, w := range l.files {
		if w.spec.Name == name {
			if w.busy {
				return nil, fmt.Errorf("plugins: %s is being loaded", name)
			}
			w.busy = true
			return w, nil
		}
	}
	return nil, fmt.Errorf("plugins: no plugin is called %q", name)
}

// Status returns how each plugin's file compares with what runs, in the order of Open.
func (l *Loader) Status() []FileStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []FileStatus
	for _, w := range l.files {
		all = append(all, FileStatus{Plugin: w.spec.Name, File: w.file, Loading: w.busy, Err: w.err, Failed: w.fails})
	}
	return all
}

// Wait returns when nothing is being loaded any more.
func (l *Loader) Wait() { l.loading.Wait() }

// Close stops watching, waits for what is being loaded, and closes all plugins. The second call returns ErrClosed.
func (l *Loader) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return ErrClosed
	}
	l.closed = true
	files := l.files
	l.mu.Unlock()
	l.stop()
	l.loading.Wait()
	var errs []error
	for _, w := range files {
		if err := w.plugin.Close(); err != nil && !errors.Is(err, ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

package plugins

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/spf13/afero"
)

// Loader keeps plugins in step with their files:
//
//  1. Open loads a plugin from its file. Watch does so too, and goes on watching a file that could not be loaded.
//  2. Poll, which the caller calls now and then, looks at the files. A file whose content changed and was read twice the same
//     is loaded in the background and swapped in between batches. A file that cannot be loaded, or is not the pinned one,
//     changes nothing but Status.
//  3. Change gives a plugin another file or another specification, Remove ends it.
//  4. Close waits for what is being loaded and closes the plugins.
//
// Files come through an afero file system. Safe for concurrent use.
type Loader struct {
	r  *Runtime
	fs afero.Fs

	mu     sync.Mutex      // never held while a file is read or loaded: the data path asks for plugins
	files  []*watched      // guarded by mu
	closed bool            // guarded by mu
	taken  int             // files that somebody has taken, guarded by mu
	idle   sync.Cond       // on mu: taken is 0
	ctx    context.Context // ends with Close
	stop   context.CancelFunc
}

// watched is a file and what is known of it. One goroutine at a time takes it, by setting busy. Who has taken it may read all
// fields; it writes them under the loader's mu, as those do that have just taken it. Others read under mu.
type watched struct {
	plugin *Plugin // nil while no file of it could be loaded
	file   string
	spec   Spec

	size   int64     // of the content that was read last
	mtime  time.Time //
	readMs int64     // when, by the caller's clock

	current   Digest        // of the generation that runs
	candidate Digest        // of a change that was read once
	refused   Digest        // of a change that could not be loaded; not tried again
	busy      chan struct{} // closed when whoever has taken it lets go; nil when nobody has
	loading   bool          // by whoever has taken it
	err       error         // why the file is not what runs; nil when it is
	fails     int64
}

// FileStatus says how a plugin's file and what runs compare.
type FileStatus struct {
	Plugin  string
	File    string
	Digest  Digest // of the file that was loaded last; what runs may be another one, after a rollback
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
	l.idle.L = &l.mu
	l.ctx, l.stop = context.WithCancel(background)
	return l
}

// Open loads a plugin from file and watches the file from then on. nowMs is the time, ms since the epoch. The plugin belongs to
// the loader. The error is a *LoadError, or ErrClosed.
func (l *Loader) Open(ctx context.Context, file string, spec Spec, nowMs int64) (*Plugin, error) {
	w := &watched{file: file, spec: spec}
	if err := l.first(ctx, w, nowMs); err != nil {
		return nil, err
	}
	p := w.plugin // once it is watched others may change w
	return p, l.add(w)
}

// Watch is Open for a plugin that is to run as soon as its file allows it. The error is Open's and says why it does not run
// yet; unless it is ErrClosed, the file is watched all the same, and Plugin has the plugin once it runs.
func (l *Loader) Watch(ctx context.Context, file string, spec Spec, nowMs int64) (*Plugin, error) {
	w := &watched{file: file, spec: spec}
	if w.err = l.first(ctx, w, nowMs); w.err != nil {
		w.fails++
	}
	p, why := w.plugin, w.err // once it is watched others may change w
	if err := l.add(w); err != nil {
		return nil, err
	}
	return p, why
}

// first loads the file of a plugin that does not run yet.
func (l *Loader) first(ctx context.Context, w *watched, nowMs int64) error {
	data, err := l.read(w, nowMs)
	if err != nil {
		return &LoadError{Plugin: w.spec.Name, Err: err}
	}
	m, err := l.r.Load(ctx, data, w.spec)
	if err == nil {
		w.plugin, err = l.r.NewPlugin(m)
	}
	if err != nil {
		w.refused = sha256.Sum256(data)
		return err
	}
	w.current = m.digest
	return nil
}

// add puts a file under watch.
func (l *Loader) add(w *watched) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.files = append(l.files, w)
		return nil
	}
	if w.plugin == nil {
		return ErrClosed
	}
	return errors.Join(ErrClosed, w.plugin.Close())
}

// Plugin is the plugin of a name; nil while no file of it could be loaded, and when there is none.
func (l *Loader) Plugin(name string) *Plugin {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.find(name); w != nil {
		return w.plugin
	}
	return nil
}

// find finds a file by the name of its plugin. The caller holds mu.
func (l *Loader) find(name string) *watched {
	for _, w := range l.files {
		if w.spec.Name == name {
			return w
		}
	}
	return nil
}

// read reads the file of w and notes what stat says of it. What is no file, or too large, is not opened.
func (l *Loader) read(w *watched, nowMs int64) ([]byte, error) {
	info, err := l.fs.Stat(w.file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: w.file, Err: errors.New("is not a file")}
	}
	most := int64(w.spec.withDefaults().Limits.BinaryMax)
	if info.Size() > most {
		return nil, fmt.Errorf("%s has %d bytes, at most %d", w.file, info.Size(), most)
	}
	f, err := l.fs.Open(w.file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// One byte more than may be: a file that grows while it is read is seen.
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	w.size, w.mtime, w.readMs = info.Size(), info.ModTime(), nowMs
	l.mu.Unlock()
	return data, nil
}

// Poll looks at each file once; what it finds is loaded in the background. nowMs is the time. Two polls that see the same new
// content start its loading, so that a file that is being copied is left alone.
func (l *Loader) Poll(nowMs int64) {
	var mine []*watched
	l.mu.Lock()
	for _, w := range l.files {
		if w.busy == nil && !l.closed {
			l.hold(w)
			mine = append(mine, w)
		}
	}
	l.mu.Unlock()
	for _, w := range mine {
		l.look(w, nowMs)
	}
}

// hold takes a file. The caller holds mu.
func (l *Loader) hold(w *watched) {
	w.busy = make(chan struct{})
	l.taken++
}

// letGo is the end of hold. The caller holds mu.
func (l *Loader) letGo(w *watched) {
	close(w.busy)
	w.busy, w.loading = nil, false
	if l.taken--; l.taken == 0 {
		l.idle.Broadcast()
	}
}

// look looks at a file, which the caller has taken, and lets go of it, at once or when it is loaded.
func (l *Loader) look(w *watched, nowMs int64) {
	data, err := l.changed(w, nowMs)
	digest := Digest(sha256.Sum256(data))
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		w.err, w.candidate = err, Digest{}
	case data == nil:
	case digest == w.current:
		w.err, w.candidate = nil, Digest{}
	case digest == w.refused: // w.err says why
	case digest == w.candidate:
		w.candidate, w.loading = Digest{}, true
		go l.load(w, data, digest)
		return
	default:
		w.candidate = digest
	}
	l.letGo(w)
}

// changed reads a file if there may be something new in it; nil when there is not.
func (l *Loader) changed(w *watched, nowMs int64) ([]byte, error) {
	info, err := l.fs.Stat(w.file)
	if err != nil {
		return nil, err
	}
	same := info.Size() == w.size && info.ModTime().Equal(w.mtime)
	if same && w.candidate == (Digest{}) && w.err == nil && w.readMs-w.mtime.UnixMilli() > racyMs {
		return nil, nil
	}
	data, err := l.read(w, nowMs)
	if data == nil && err == nil {
		data = []byte{}
	}
	return data, err
}

// load runs in the background.
func (l *Loader) load(w *watched, data []byte, digest Digest) {
	err := l.install(l.ctx, w, data)
	l.mu.Lock()
	name, file := w.spec.Name, w.file
	l.done(w, digest, err)
	l.mu.Unlock()
	if err != nil {
		l.r.log.Warn("plugin not reloaded", "plugin", name, "file", file, "err", err)
	}
}

// install loads a file and lets it take over. The caller has taken w.
func (l *Loader) install(ctx context.Context, w *watched, data []byte) error {
	m, err := l.r.Load(ctx, data, w.spec)
	if err != nil {
		return err
	}
	if w.plugin != nil {
		return w.plugin.Swap(m)
	}
	p, err := l.r.NewPlugin(m)
	if err != nil {
		return err
	}
	l.mu.Lock()
	w.plugin = p
	l.mu.Unlock()
	l.r.log.Info("plugin loaded", "plugin", w.spec.Name, "digest", m.digest.String())
	return nil
}

// done notes how loading a file with a digest ended. The caller holds mu.
func (l *Loader) done(w *watched, digest Digest, err error) {
	l.letGo(w)
	w.err, w.candidate = err, Digest{}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return // the caller gave up, which says nothing about the file: Poll tries it
	}
	if err != nil {
		w.refused = digest
		w.fails++
		return
	}
	w.current, w.refused = digest, Digest{}
}

// Reload loads the file of a plugin now, waits for it, and returns why it failed: what an operator's command does. What runs
// already is no error and changes nothing.
func (l *Loader) Reload(ctx context.Context, name string, nowMs int64) error {
	w, err := l.take(ctx, name)
	if err != nil {
		return err
	}
	return l.again(ctx, w, nowMs)
}

// again loads the file of w, which the caller has taken, unless it runs already.
func (l *Loader) again(ctx context.Context, w *watched, nowMs int64) error {
	data, err := l.read(w, nowMs)
	digest := Digest(sha256.Sum256(data))
	if err != nil {
		digest, err = Digest{}, &LoadError{Plugin: w.spec.Name, Err: err}
	} else if w.plugin == nil || !w.plugin.Module().isOf(digest, w.spec) {
		err = l.install(ctx, w, data)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done(w, digest, err)
	return err
}

// Change gives a plugin another file or specification, of the same name, and waits until it has taken over. When it cannot, the
// error says why, what ran goes on, and the new file is watched.
func (l *Loader) Change(ctx context.Context, file string, spec Spec, nowMs int64) error {
	w, err := l.take(ctx, spec.Name)
	if err != nil {
		return err
	}
	l.mu.Lock()
	w.file, w.spec, w.current = file, spec, Digest{}
	l.mu.Unlock()
	return l.again(ctx, w, nowMs)
}

// Remove stops watching a plugin, waits for its batches, and closes it.
func (l *Loader) Remove(ctx context.Context, name string) error {
	w, err := l.take(ctx, name)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.files = slices.DeleteFunc(l.files, func(x *watched) bool { return x == w })
	l.mu.Unlock()
	if w.plugin != nil {
		err = w.plugin.Close()
	}
	l.mu.Lock()
	l.letGo(w)
	l.mu.Unlock()
	return err
}

// take waits until nobody loads the file of a plugin, and keeps others away from it until done.
func (l *Loader) take(ctx context.Context, name string) (*watched, error) {
	for {
		l.mu.Lock()
		w := l.find(name)
		switch {
		case l.closed:
			l.mu.Unlock()
			return nil, ErrClosed
		case w == nil:
			l.mu.Unlock()
			return nil, fmt.Errorf("plugins: no plugin is called %q", name)
		case w.busy == nil:
			l.hold(w)
			w.loading = true
			l.mu.Unlock()
			return w, nil
		}
		busy := w.busy
		l.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, fmt.Errorf("plugins: %s is being loaded: %w", name, ctx.Err())
		}
	}
}

// Status returns how each plugin's file compares with what runs, in the order of Open.
func (l *Loader) Status() []FileStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []FileStatus
	for _, w := range l.files {
		all = append(all, FileStatus{Plugin: w.spec.Name, File: w.file, Digest: w.current, Loading: w.loading, Err: w.err, Failed: w.fails})
	}
	return all
}

// Wait returns when nothing is being loaded any more.
func (l *Loader) Wait() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.taken > 0 {
		l.idle.Wait()
	}
}

// Close stops watching, waits for what is being loaded, and closes all plugins. The second call returns ErrClosed.
func (l *Loader) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return ErrClosed
	}
	l.closed = true // nobody takes a file any more
	l.mu.Unlock()
	l.stop()
	l.Wait()
	var errs []error
	for _, w := range l.files {
		if w.plugin == nil {
			continue
		}
		if err := w.plugin.Close(); err != nil && !errors.Is(err, ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

package plugins

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/spf13/afero"
	"github.com/tetratelabs/wazero"
)

// cache keeps compiled code in a directory of the operating system, because that is where the runtime wants it. The runtime
// believes what it finds there: a cut file is an error for ever, and a flipped bit may be a jump into nowhere. So each module
// has a directory of its own with the sums of its files:
//
//	<version>/<digest of the metered module>/code/…  written by the runtime
//	<version>/<digest of the metered module>/SUM     lines of: SHA-256 in hexadecimal digits, a space, path
//
// Before the runtime may look, all files must have their sums and nothing else may be there. Otherwise, and when the runtime
// fails with what it found, the directory is removed and made anew. It is made under another name and renamed when it is whole,
// and renamed before it is removed: so a crash leaves nothing that is believed, and processes that share the cache see each
// other's entries whole or not at all. A process whose entry is removed while it looks compiles without the cache.
//
// What is in the directory is run, and the sums lie beside it: so the directory of the version must belong to this user, and
// nobody else may write there.
//
// Safe for concurrent use.
type cache struct {
	dir string   // with the version
	fs  afero.Fs // dir
	log *slog.Logger

	mu    sync.Mutex
	count CacheStats // guarded by mu
}

// CacheStats count what happened since the start.
type CacheStats struct {
	Hits   int64 // compiled code was there and whole
	Misses int64 // it was made
	Healed int64 // it was there, damaged, and made anew
}

// rewriteVersion changes when the fuel rewriter or the host functions change what compiled code looks like. The runtime's own
// version, the architecture and the operating system are part of the directory's name as well.
const rewriteVersion = "tw2"

// keepModules is how many modules stay in the cache; the ones compiled longest ago go.
const keepModules = 32

func openCache(dir string, log *slog.Logger) (*cache, error) {
	version := strings.Join([]string{rewriteVersion, wazeroVersion(), runtime.GOOS, runtime.GOARCH}, "-")
	if err := os.MkdirAll(filepath.Join(dir, version), 0o700); err != nil {
		return nil, fmt.Errorf("plugins: cache: %w", err)
	}
	if err := trusted(filepath.Join(dir, version)); err != nil {
		return nil, err
	}
	c := &cache{dir: filepath.Join(dir, version), log: log}
	base := afero.NewBasePathFs(afero.NewOsFs(), dir)
	c.fs = afero.NewBasePathFs(base, version)
	others, err := afero.ReadDir(base, ".")
	if err != nil {
		return nil, fmt.Errorf("plugins: cache: %w", err)
	}
	for _, o := range others {
		// Only what an earlier version of this cache made: the directory may hold other things.
		if o.IsDir() && o.Name() != version && strings.HasPrefix(o.Name(), "tw") && strings.Count(o.Name(), "-") >= 3 {
			base.RemoveAll(o.Name())
		}
	}
	if half, err := filepath.Glob(filepath.Join(c.dir, "*"+unfinished)); err == nil {
		for _, h := range half { // what a crash left; another process that is at it right now does without
			os.RemoveAll(h)
		}
	}
	return c, nil
}

// trusted says why what is in a directory must not be run.
func trusted(dir string) error {
	info, err := os.Lstat(dir)
	if err == nil && !info.IsDir() {
		err = errors.New("it is not a directory")
	}
	if err == nil {
		err = private(info)
	}
	if err != nil {
		return fmt.Errorf("plugins: cache %s: %w", dir, err)
	}
	return nil
}

func wazeroVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == "github.com/tetratelabs/wazero" {
				return d.Version
			}
		}
	}
	return "unknown"
}

func (c *cache) stats() CacheStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// use calls compile with a cache that holds nothing or only verified code of the module. When compile fails with what was
// found, it is called once more with an empty one. A cache that cannot be written is no reason to fail: then compile runs
// without.
func (c *cache) use(digest [sha256.Size]byte, compile func(wazero.CompilationCache) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := trusted(c.dir); err != nil { // it may have changed since the start
		c.log.Warn("plugin cache not used", "err", err)
		c.count.Misses++
		return compile(nil)
	}
	name := hex.EncodeToString(digest[:])
	found, err := c.verify(name)
	if err != nil {
		c.log.Warn("plugin cache healed", "entry", name, "err", err)
		c.count.Healed++
		c.remove(name)
	}
	if found {
		err := c.with(name, compile)
		if err == nil {
			c.count.Hits++
			return nil
		}
		c.log.Warn("plugin cache healed", "entry", name, "err", err)
		c.count.Healed++
		c.remove(name)
	}
	c.count.Misses++
	if err := c.fill(name, compile); err != nil {
		c.log.Warn("plugin cache not written", "entry", name, "err", err)
		return compile(nil)
	}
	c.prune(name)
	return nil
}

// unfinished ends the names of directories that are being made or removed.
const unfinished = ".tmp"

// fill compiles into a directory of its own and lets it take the entry's place when it is whole. The error is that of compile,
// or says why there is no directory; what happens after compile succeeded is only logged.
func (c *cache) fill(name string, compile func(wazero.CompilationCache) error) error {
	dir, err := os.MkdirTemp(c.dir, name+".*"+unfinished)
	if err != nil {
		return err
	}
	if err := c.with(filepath.Base(dir), compile); err != nil {
		os.RemoveAll(dir)
		return err
	}
	err = c.seal(filepath.Base(dir))
	if err == nil {
		err = os.Rename(dir, filepath.Join(c.dir, name))
	}
	if err != nil { // another process was faster, as a rule
		c.log.Info("plugin cache not written", "entry", name, "err", err)
		os.RemoveAll(dir)
	}
	return nil
}

// with compiles with the runtime's cache in the directory of an entry.
func (c *cache) with(name string, compile func(wazero.CompilationCache) error) error {
	wc, err := wazero.NewCompilationCacheWithDir(filepath.Join(c.dir, name, "code"))
	if err != nil {
		return err
	}
	return compile(wc) // which closes it when the code is not needed any more
}

// remove takes an entry away, from others' sight at once.
func (c *cache) remove(name string) {
	gone, err := os.MkdirTemp(c.dir, name+".*"+unfinished)
	if err == nil {
		err = os.Rename(filepath.Join(c.dir, name), filepath.Join(gone, "entry"))
		os.RemoveAll(gone)
	}
	if err != nil {
		os.RemoveAll(filepath.Join(c.dir, name))
	}
}

// sums returns the files of an entry with their SHA-256, sorted.
func (c *cache) sums(name string) ([]string, error) {
	var lines []string
	err := afero.Walk(c.fs, name, func(file string, info fs.FileInfo, err error) error {
		switch {
		case err != nil || info.IsDir() || file == filepath.Join(name, sumFile):
			return err
		case !info.Mode().IsRegular(): // a link, which may lead to something else by the time that the runtime follows it
			return fmt.Errorf("%s is not a regular file", file)
		}
		f, err := c.fs.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		h := sha256.New()
		if _, err := io.Copy(h, f); err != nil {
			return err
		}
		lines = append(lines, hex.EncodeToString(h.Sum(nil))+" "+strings.TrimPrefix(filepath.ToSlash(file), name+"/"))
		return nil
	})
	sort.Strings(lines)
	return lines, err
}

// verify says whether the module's code is there and whole. An error means that something is there and is not whole.
func (c *cache) verify(name string) (bool, error) {
	info, dirErr := os.Lstat(filepath.Join(c.dir, name))
	if dirErr == nil && !info.IsDir() {
		return false, errors.New("it is not a directory")
	}
	f, err := c.fs.Open(filepath.Join(name, sumFile))
	switch {
	case errors.Is(dirErr, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("no sums: %w", err)
	}
	defer f.Close()
	var want []string
	for s := bufio.NewScanner(f); s.Scan(); {
		want = append(want, s.Text())
	}
	got, err := c.sums(name)
	if err != nil {
		return false, err
	}
	if len(got) == 0 || strings.Join(got, "\n") != strings.Join(want, "\n") {
		return false, errors.New("files differ from their sums")
	}
	return true, nil
}

// sumFile has the sums of all other files of an entry.
const sumFile = "SUM"

// seal writes the sums, last of all.
func (c *cache) seal(name string) error {
	lines, err := c.sums(name)
	if err != nil {
		return err
	}
	return afero.WriteFile(c.fs, filepath.Join(name, sumFile), []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// prune removes the modules that were compiled longest ago, but not keep.
func (c *cache) prune(keep string) {
	infos, err := afero.ReadDir(c.fs, ".")
	if err != nil {
		return
	}
	infos = slices.DeleteFunc(infos, func(i fs.FileInfo) bool { return path.Ext(i.Name()) == unfinished })
	sort.Slice(infos, func(a, b int) bool { return infos[a].ModTime().After(infos[b].ModTime()) })
	for _, i := range infos[min(len(infos), keepModules):] {
		if i.Name() != keep {
			c.remove(i.Name())
		}
	}
}

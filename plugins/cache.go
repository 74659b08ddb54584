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
	"sort"
	"strings"
	"sync"

	"github.com/spf13/afero"
	"github.com/tetratelabs/wazero"
)

// cache keeps compiled code in a directory of the operating system, because that is where the runtime wants it. The runtime
// believes what it finds there: a cut file is an error for ever, and a flipped bit may be a jump into nowhere. So each module
// has a directory of its own with the sums of its files beside it:
//
//	<version>/<digest of the metered module>/…    written by the runtime
//	<version>/<digest of the metered module>.sum  lines of: SHA-256 in hexadecimal digits, a space, path
//
// Before the runtime may look, all files must have their sums and nothing else may be there. Otherwise, and when the runtime
// fails with what it found, the directory is removed and made anew. The sum is written last, with a rename; a crash before
// it leaves a directory that is not believed.
//
// Safe for concurrent use within a process. Processes that share a directory see each other's entries as whole or as damaged.
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

// keepModules is how many modules stay in the cache; the ones used longest ago go.
const keepModules = 32

func openCache(dir string, log *slog.Logger) (*cache, error) {
	version := strings.Join([]string{rewriteVersion, wazeroVersion(), runtime.GOOS, runtime.GOARCH}, "-")
	if err := os.MkdirAll(filepath.Join(dir, version), 0o700); err != nil {
		return nil, fmt.Errorf("plugins: cache: %w", err)
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
	return c, nil
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
	if err := c.with(name, compile); err != nil {
		c.remove(name)
		return err
	}
	if err := c.seal(name); err != nil {
		c.log.Warn("plugin cache not written", "entry", name, "err", err)
		c.remove(name)
	}
	c.prune(name)
	return nil
}

// with compiles with the runtime's cache in the module's directory.
func (c *cache) with(name string, compile func(wazero.CompilationCache) error) error {
	wc, err := wazero.NewCompilationCacheWithDir(filepath.Join(c.dir, name))
	if err != nil {
		c.log.Warn("plugin cache not usable", "entry", name, "err", err)
		return compile(nil)
	}
	return compile(wc) // which closes it when the code is not needed any more
}

func (c *cache) remove(name string) {
	c.fs.Remove(name + ".sum")
	c.fs.RemoveAll(name)
}

// sums returns the files of a module with their SHA-256, sorted.
func (c *cache) sums(name string) ([]string, error) {
	var lines []string
	err := afero.Walk(c.fs, name, func(file string, info fs.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
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
		lines = append(lines, hex.EncodeToString(h.Sum(nil))+" "+filepath.ToSlash(file))
		return nil
	})
	sort.Strings(lines)
	return lines, err
}

// verify says whether the module's code is there and whole. An error means that something is there and is not whole.
func (c *cache) verify(name string) (bool, error) {
	_, dirErr := c.fs.Stat(name)
	f, err := c.fs.Open(name + ".sum")
	switch {
	case errors.Is(err, fs.ErrNotExist) && errors.Is(dirErr, fs.ErrNotExist):
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

// seal writes the sums, last of all.
func (c *cache) seal(name string) error {
	lines, err := c.sums(name)
	if err != nil {
		return err
	}
	tmp := name + ".tmp"
	if err := afero.WriteFile(c.fs, tmp, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	return c.fs.Rename(tmp, name+".sum")
}

// prune removes the modules that were compiled longest ago, but not keep.
func (c *cache) prune(keep string) {
	infos, err := afero.ReadDir(c.fs, ".")
	if err != nil {
		return
	}
	var sums []fs.FileInfo
	for _, i := range infos {
		if path.Ext(i.Name()) == ".sum" {
			sums = append(sums, i)
		}
	}
	sort.Slice(sums, func(a, b int) bool { return sums[a].ModTime().After(sums[b].ModTime()) })
	for _, s := range sums[min(len(sums), keepModules):] {
		if name := strings.TrimSuffix(s.Name(), ".sum"); name != keep {
			c.remove(name)
		}
	}
}

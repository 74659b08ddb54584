package crashfs_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// model is what crashfs should be, written the simple way: files in whole copies. Its directories are "a" and "b", which
// are durable; renames stay within one.
type model struct {
	now, disk map[string]*modelFile // by name; one file may be in both
}

type modelFile struct{ now, disk string }

func (m *model) contents(names map[string]*modelFile, of func(*modelFile) string) map[string]string {
	tree := map[string]string{"a/": "", "b/": ""}
	for name, f := range names {
		tree[name] = of(f)
	}
	return tree
}

// crash makes the model what a power cut leaves that keeps all or nothing.
func (m *model) crash(all bool) {
	names := m.disk
	if all {
		names = m.now
	}
	fresh := map[*modelFile]*modelFile{}
	after := map[string]*modelFile{}
	for name, f := range names {
		if fresh[f] == nil {
			content := f.disk
			if all {
				content = f.now
			}
			fresh[f] = &modelFile{content, content}
		}
		after[name] = fresh[f]
	}
	m.now, m.disk = after, maps.Clone(after)
}

// step does one random operation on both.
func (m *model) step(t *testing.T, r *rand.Rand, f *crashfs.FS) {
	dir := []string{"a", "b"}[r.IntN(2)]
	name := path.Join(dir, fmt.Sprint(r.IntN(4)))
	switch file, op := m.now[name], r.IntN(12); {
	case op == 0:
		must(t, f.SyncDir(dir))
		maps.DeleteFunc(m.disk, func(name string, _ *modelFile) bool { return path.Dir(name) == dir })
		for name, file := range m.now {
			if path.Dir(name) == dir {
				m.disk[name] = file
			}
		}
	case file == nil:
		must(t, open(t, f, name).Close())
		m.now[name] = &modelFile{}
	case op == 1:
		must(t, f.Remove(name))
		delete(m.now, name)
	case op == 2:
		other := path.Join(dir, fmt.Sprint(r.IntN(4)))
		must(t, f.Rename(name, other))
		delete(m.now, name)
		m.now[other] = file
	default:
		h := open(t, f, name)
		m.stepFile(t, r, h, file, op)
		must(t, h.Close())
	}
}

func (m *model) stepFile(t *testing.T, r *rand.Rand, h vfs.File, file *modelFile, op int) {
	n := r.IntN(20_000)
	pad := func(size int) string { return file.now + strings.Repeat("\x00", max(size-len(file.now), 0)) }
	switch op {
	case 3:
		must(t, h.Truncate(int64(n)))
		file.now = pad(n)[:n]
	case 4:
		must(t, vfs.Preallocate(h, int64(n)))
		file.now = pad(n)
	case 5, 6:
		must(t, h.Sync())
		file.disk = file.now
	default:
		s := strings.Repeat(string(rune('a'+r.IntN(26))), 1+r.IntN(6000))
		write(t, h, s, int64(n))
		b := pad(n + len(s))
		file.now = b[:n] + s + b[n+len(s):]
	}
}

func TestAgainstModel(t *testing.T) {
	seeds := uint64(25)
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		r := rng(seed)
		f := crashfs.New(crashfs.Options{})
		put(t, f, "a/x", "")
		put(t, f, "b/x", "")
		must(t, f.Vanish("a/x"))
		must(t, f.Vanish("b/x"))
		m := model{now: map[string]*modelFile{}, disk: map[string]*modelFile{}}
		now := func(f *modelFile) string { return f.now }
		disk := func(f *modelFile) string { return f.disk }
		for range 12 {
			for range r.IntN(30) {
				m.step(t, r, f)
			}
			wantTree(t, f, m.contents(m.now, now))
			wantTree(t, f.Clone(), m.contents(m.now, now))
			wantTree(t, f.Snapshot(r, nothing), m.contents(m.disk, disk))
			wantTree(t, f.Snapshot(r, all), m.contents(m.now, now))
			wantTree(t, f.Clone().Kill().Crash(r, nothing), m.contents(m.disk, disk))
			wantUsedAsCounted(t, f)
			switch r.IntN(4) {
			case 0:
				f = f.Crash(r, nothing)
				m.crash(false)
			case 1:
				f = f.Crash(r, all)
				m.crash(true)
			case 2:
				f = f.Kill()
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// wantUsedAsCounted checks the account against a life that counted anew.
func wantUsedAsCounted(t *testing.T, f *crashfs.FS) {
	t.Helper()
	if got, want := f.Used(), f.Clone().Used(); got != want {
		t.Errorf("%d bytes used, counted %d", got, want)
	}
}

// A file that was durable once and then only renamed, whatever else happens and whichever directories are synced, has a
// name after any crash of a disk with a journal. (Without one, its old name may go to another file and its new name get
// lost.)
func TestRenamedFilesAreNeverLost(t *testing.T) {
	dirs := []string{"a", "b", "c"}
	for seed := range uint64(500) {
		r := rng(seed)
		f := crashfs.New(crashfs.Options{})
		where := map[string]string{} // name to content, of the files that may not get lost
		for i, dir := range dirs {
			name := path.Join(dir, fmt.Sprint(i))
			put(t, f, name, name)
			where[name] = name
		}
		for range 1 + r.IntN(12) {
			names := slices.Sorted(maps.Keys(where))
			from := names[r.IntN(len(names))]
			to := path.Join(dirs[r.IntN(3)], fmt.Sprint(r.IntN(5)))
			switch content := where[from]; r.IntN(5) {
			case 0:
				must(t, f.SyncDir(dirs[r.IntN(3)]))
			case 1: // another file takes a free name for a while
				if _, taken := where[to]; !taken {
					must(t, open(t, f, to).Close())
					must(t, f.Remove(to))
				}
			default:
				must(t, f.Rename(from, to)) // what had the name before is lost, and may be
				delete(where, from)
				where[to] = content
			}
		}
		p := crashfs.Policy{MetaPct: r.IntN(101)}
		found := map[string]bool{}
		for _, content := range tree(t, f.Crash(r, p)) {
			found[content] = true
		}
		for _, content := range where {
			if !found[content] {
				t.Fatalf("seed %d, %v: the file %q is lost", seed, p, content)
			}
		}
	}
}

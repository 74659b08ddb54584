package crashfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// Crash cuts the power of f and returns what a new process finds: the disk, and of what was not synced as much as p
// says, drawn from r. f and every File of it answer ErrCrashed from then on. Locks are gone; hooks, CrashAt and trace
// are not inherited; quota and bad sectors are. f may be off already (see CrashAt), but then not by Crash or Kill.
func (f *FS) Crash(r *rand.Rand, p Policy) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.off = true
	return f.afterCrash(r, p)
}

// Snapshot returns what Crash would, and f goes on. One run can be crashed many times, in many ways.
func (f *FS) Snapshot(r *rand.Rand, p Policy) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.snapshot(r, p)
}

// snapshot is Snapshot with mu held.
func (f *FS) snapshot(r *rand.Rand, p Policy) *FS {
	n := f.afterCrash(r, p)
	f.own = new(owner)
	return n
}

// Kill is the death of the process, not of the machine: it returns the file system with all that was written, synced or
// not, still pending. Locks are gone, as after Crash, and f answers ErrCrashed.
func (f *FS) Kill() *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.off = true
	return f.afterKill()
}

// Clone returns what Kill would, and f goes on.
func (f *FS) Clone() *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.afterKill()
	f.own = new(owner)
	return n
}

// next returns the empty life after f.
func (f *FS) next() *FS { return &FS{opts: f.opts, own: new(owner), lastID: f.lastID} }

// afterCrash makes the FS that a power cut leaves.
//
// It walks what the disk has, so a file without a durable name is not reached. Inodes are copied; contents are shared.
func (f *FS) afterCrash(r *rand.Rand, p Policy) *FS {
	c := crash{n: f.next(), p: p, seed: r.Uint64(), between: new(owner)}
	c.keepTxs(f.pend, r)
	c.n.root = c.inode(f.root)
	return c.n
}

// crash is the work of afterCrash.
type crash struct {
	n       *FS
	p       Policy
	seed    uint64
	between *owner // of contents that data and disk of the new FS share, so neither life's own
	kept    map[*inode]map[string]*inode
}

// keepTxs draws which pending changes of directories the disk got. One draw each, in order; without MetaAny a
// directory that missed one misses all that follow.
func (c *crash) keepTxs(pend []dirTx, r *rand.Rand) {
	var missed map[*inode]bool
	for _, tx := range pend {
		keep := r.IntN(100) < c.p.MetaPct
		for _, op := range tx.ops[:tx.n] {
			keep = keep && !missed[op.dir]
		}
		for _, op := range tx.ops[:tx.n] {
			switch {
			case keep:
				if c.kept == nil {
					c.kept = map[*inode]map[string]*inode{}
				}
				if c.kept[op.dir] == nil {
					c.kept[op.dir] = map[string]*inode{}
				}
				c.kept[op.dir][op.name] = op.ino
			case !c.p.MetaAny:
				if missed == nil {
					missed = map[*inode]bool{}
				}
				missed[op.dir] = true
			}
		}
	}
}

// inode returns the copy of i in the new FS, and makes it the first time.
func (c *crash) inode(i *inode) *inode {
	if i.twinIn == c.n {
		return i.twin
	}
	t := &inode{id: i.id, dir: i.dir, linked: true}
	i.twin, i.twinIn = t, c.n
	if !i.dir {
		t.data = i.afterCrash(c.between, c.seed, c.p)
		t.disk = t.data
		t.bad = maps.Clone(i.bad)
		c.n.used += t.data.charge()
		return t
	}
	t.ents = i.onDisk()
	for name, ino := range c.kept[i] {
		if ino == nil {
			delete(t.ents, name)
		} else {
			t.ents[name] = ino
		}
	}
	for name, ino := range t.ents {
		t.ents[name] = c.inode(ino)
	}
	return t
}

// afterKill makes the FS that the death of a process leaves.
func (f *FS) afterKill() *FS {
	n := f.next()
	n.root = n.copyOf(f.root)
	n.pend = slices.Clone(f.pend)
	for i := range n.pend {
		for j := range n.pend[i].n {
			op := &n.pend[i].ops[j]
			op.dir, op.ino = n.copyOf(op.dir), n.copyOf(op.ino)
		}
	}
	return n
}

// copyOf returns the copy of i in n, another life of the FS of i, and makes it the first time.
func (n *FS) copyOf(i *inode) *inode {
	if i == nil {
		return nil
	}
	if i.twinIn == n {
		return i.twin
	}
	t := &inode{
		id: i.id, dir: i.dir, linked: i.linked,
		data: i.data, disk: i.disk, pend: slices.Clone(i.pend), buf: slices.Clone(i.buf), bad: maps.Clone(i.bad),
		ents: maps.Clone(i.ents), was: maps.Clone(i.was),
	}
	i.twin, i.twinIn = t, n
	for name, ino := range t.ents {
		t.ents[name] = n.copyOf(ino)
	}
	for name, ino := range t.was {
		t.was[name] = n.copyOf(ino)
	}
	if t.linked && !t.dir {
		n.used += t.data.charge()
	}
	return t
}

package crashfs

import (
	"io/fs"
	"maps"
	"math/rand/v2"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

// badSize is the sector size of SetBad and SwapSectors.
const badSize = 512

// inode is a file or a directory.
type inode struct {
	id  uint64
	dir bool

	// of a file
	data   view           // what processes see
	disk   view           // what a power cut leaves, before the pending operations are drawn
	pend   []fileOp       // what happened to data since and not to disk, in order
	buf    []byte         // the bytes of the writes in pend, one after the other
	bad    map[int64]bool // sectors of badSize bytes that can't be read
	opens  int            // handles
	linked bool           // has a name

	// of a directory
	ents map[string]*inode // what processes see
	was  map[string]*inode // what the disk has, for the names where that differs; nil: no such name

	// The copy of this inode in the FS that is being made of this one.
	twin   *inode
	twinIn *FS
}

// fileOp is a pending change of a file: a write of n bytes of buf at off, or a new length.
type fileOp struct {
	kind opKind
	off  int64 // of a write; otherwise the size
	n    int
}

type opKind uint8

const (
	opWrite opKind = iota
	opTruncate
	opPreallocate
)

// dirTx is a pending change of directories that happens as a whole: one entry, or the two of a rename.
type dirTx struct {
	ops [2]dirOp
	n   int
}

// dirOp gives name in dir to ino, or to none.
type dirOp struct {
	dir  *inode
	name string
	ino  *inode
}

func (t *dirTx) touches(dirs map[*inode]bool) bool {
	for _, op := range t.ops[:t.n] {
		if dirs[op.dir] {
			return true
		}
	}
	return false
}

// drop removes the part of t that is about name in dir.
func (t *dirTx) drop(dir *inode, name string) {
	for i := 0; i < t.n; i++ {
		if t.ops[i].dir == dir && t.ops[i].name == name {
			t.n--
			t.ops[i] = t.ops[t.n]
			i--
		}
	}
}

func (i *inode) info(name string) vfs.Info {
	return vfs.Info{Name: name, Size: i.data.size, Dir: i.dir}
}

// set gives name to ino as processes see it.
func (i *inode) set(name string, ino *inode) {
	if _, differs := i.was[name]; !differs {
		if i.was == nil {
			i.was = map[string]*inode{}
		}
		i.was[name] = i.ents[name]
	}
	if ino == nil {
		delete(i.ents, name)
	} else {
		i.ents[name] = ino
	}
}

// settle gives name to ino on the disk.
func (i *inode) settle(name string, ino *inode) {
	if i.ents[name] == ino {
		delete(i.was, name)
		return
	}
	if i.was == nil {
		i.was = map[string]*inode{}
	}
	i.was[name] = ino
}

// onDisk returns the entries that the disk has.
func (i *inode) onDisk() map[string]*inode {
	ents := maps.Clone(i.ents)
	for name, ino := range i.was {
		if ino == nil {
			delete(ents, name)
		} else {
			ents[name] = ino
		}
	}
	return ents
}

func (i *inode) write(own *owner, p []byte, off int64) {
	i.data.writeAt(own, p, off)
	i.pend = append(i.pend, fileOp{kind: opWrite, off: off, n: len(p)})
	i.buf = append(i.buf, p...)
	if len(i.bad) > 0 {
		i.heal(off, off+int64(len(p)))
	}
}

// heal makes the sectors that lie within [lo, hi) readable: a disk has spare ones to write to.
func (i *inode) heal(lo, hi int64) {
	for s := range i.bad {
		if s*badSize >= lo && (s+1)*badSize <= hi {
			delete(i.bad, s)
		}
	}
}

func (i *inode) isBad(lo, hi int64) bool {
	for s := range i.bad {
		if s*badSize < hi && (s+1)*badSize > lo {
			return true
		}
	}
	return false
}

func (i *inode) truncate(own *owner, size int64) {
	i.data.truncate(own, size)
	i.pend = append(i.pend, fileOp{kind: opTruncate, off: size})
}

func (i *inode) preallocate(size int64) {
	i.data.preallocate(size)
	i.pend = append(i.pend, fileOp{kind: opPreallocate, off: size})
}

// sync carries what is pending to the disk.
func (i *inode) sync(own *owner) {
	buf := i.buf
	for _, op := range i.pend {
		switch op.kind {
		case opWrite:
			i.disk.writeAt(own, buf[:op.n], op.off)
			buf = buf[op.n:]
		case opTruncate:
			i.disk.truncate(own, op.off)
		case opPreallocate:
			i.disk.preallocate(op.off)
		}
	}
	i.forget()
}

// forget drops what is pending: no Sync will bring it to the disk.
func (i *inode) forget() {
	const keep = 1 << 20 // of the buffer: a test that wrote much once need not hold on to it
	i.pend = i.pend[:0]
	if cap(i.buf) > keep {
		i.buf = nil
	}
	i.buf = i.buf[:0]
}

// afterCrash returns what a power cut leaves of the content. The choices come from seed and the id of the inode, so
// they do not depend on the order in which files are visited. own must not be the owner of any FS.
func (i *inode) afterCrash(own *owner, seed uint64, p Policy) view {
	v := i.disk
	if len(i.pend) == 0 || p.KeepPct <= 0 && !p.Garbage {
		return v
	}
	r := rand.New(rand.NewPCG(seed, i.id))
	buf := i.buf
	for _, op := range i.pend {
		switch op.kind {
		case opWrite:
			p.drawSectors(&v, own, r, buf[:op.n], op.off)
			buf = buf[op.n:]
		case opTruncate:
			if p.keep(r) {
				v.truncate(own, op.off)
			}
		case opPreallocate:
			if p.keep(r) {
				v.preallocate(op.off)
			}
		}
	}
	return v
}

// pathError is what every named operation fails with.
func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

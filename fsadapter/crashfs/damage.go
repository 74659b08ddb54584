package crashfs

import (
	"fmt"
	"io/fs"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

// Damage happens to the disk while nothing is looking, and also to what processes see, as if they had read it afresh. It
// counts as no operation, and works when the power is off. Name errors are those of Stat.

// damage calls fn with the file of that name.
func (f *FS) damage(op, name string, fn func(i *inode) error) error {
	if err := vfs.CheckName(op, name); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, _, ino, err := f.walk(name)
	switch {
	case err != nil:
	case ino == nil:
		err = fs.ErrNotExist
	case ino.dir:
		err = errIsDir
	default:
		before := ino.data.charge()
		err = fn(ino)
		f.used += ino.data.charge() - before
	}
	if err != nil {
		return pathError(op, name, err)
	}
	return nil
}

// Rot flips one bit of a file. Bit 0 is the lowest of byte 0. Beyond the end of the file it is fs.ErrInvalid.
func (f *FS) Rot(name string, bit int64) error {
	return f.damage("rot", name, func(i *inode) error {
		at := bit / 8
		if bit < 0 || at >= i.data.size {
			return fmt.Errorf("bit %d of %d bytes: %w", bit, i.data.size, fs.ErrInvalid)
		}
		for _, v := range []*view{&i.data, &i.disk} {
			if at < v.size {
				var b [1]byte
				v.readAt(b[:], at)
				b[0] ^= 1 << (bit % 8)
				v.writeAt(f.own, b[:], at)
			}
		}
		return nil
	})
}

// SwapSectors exchanges two sectors of 512 bytes, as a write that went to the wrong place and another that took its place
// would. Both must lie within the file, whole; otherwise it is fs.ErrInvalid.
func (f *FS) SwapSectors(name string, a, b int64) error {
	return f.damage("swap", name, func(i *inode) error {
		if a < 0 || b < 0 || (max(a, b)+1)*badSize > i.data.size {
			return fmt.Errorf("sectors %d and %d of %d bytes: %w", a, b, i.data.size, fs.ErrInvalid)
		}
		for _, v := range []*view{&i.data, &i.disk} {
			if (max(a, b)+1)*badSize <= v.size {
				var x, y [badSize]byte
				v.readAt(x[:], a*badSize)
				v.readAt(y[:], b*badSize)
				v.writeAt(f.own, y[:], a*badSize)
				v.writeAt(f.own, x[:], b*badSize)
			}
		}
		return nil
	})
}

// SetBad makes a sector of 512 bytes unreadable: a read that touches it answers EIO. A write that covers it heals it.
func (f *FS) SetBad(name string, sector int64) error {
	return f.damage("bad", name, func(i *inode) error {
		if sector < 0 {
			return fs.ErrInvalid
		}
		if i.bad == nil {
			i.bad = map[int64]bool{}
		}
		i.bad[sector] = true
		return nil
	})
}

// Forget loses all that was written to a file and not synced: it stays to be read until the power fails, and no Sync
// will bring it to the disk.
func (f *FS) Forget(name string) error {
	return f.damage("forget", name, func(i *inode) error {
		i.forget()
		return nil
	})
}

// Cut truncates a file durably, as an operator or a repair tool may. Size must be at most the length of the file;
// otherwise it is fs.ErrInvalid.
func (f *FS) Cut(name string, size int64) error {
	return f.damage("cut", name, func(i *inode) error {
		if size < 0 || size > i.data.size {
			return fmt.Errorf("to %d of %d bytes: %w", size, i.data.size, fs.ErrInvalid)
		}
		i.forget()
		i.data.truncate(f.own, size)
		i.disk.truncate(f.own, min(size, i.disk.size))
		return nil
	})
}

// Vanish removes a file durably.
func (f *FS) Vanish(name string) error {
	return f.damage("vanish", name, func(i *inode) error {
		dir, last, _, err := f.walk(name)
		if err != nil {
			return err
		}
		for j := range f.pend {
			f.pend[j].drop(dir, last)
		}
		dir.set(last, nil)
		dir.settle(last, nil)
		f.unlink(i)
		return nil
	})
}

// Durable returns what the disk has of a file that has this name there, whatever processes see: the least that
// Crash leaves. The slice is the caller's.
func (f *FS) Durable(name string) ([]byte, error) {
	if err := vfs.CheckName("durable", name); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	ino := f.root
	for at := 0; at < len(name); at++ {
		end := at
		for end < len(name) && name[end] != '/' {
			end++
		}
		elem := name[at:end]
		at = end
		if next, differs := ino.was[elem]; differs {
			ino = next
		} else {
			ino = ino.ents[elem]
		}
		if ino == nil {
			return nil, pathError("durable", name, fs.ErrNotExist)
		}
	}
	if ino.dir {
		return nil, pathError("durable", name, errIsDir)
	}
	b := make([]byte, ino.disk.size)
	ino.disk.readAt(b, 0)
	return b, nil
}

package wasifs

import (
	"io"
	"io/fs"
	"path"

	"github.com/tetratelabs/wazero/experimental/sys"
	wasys "github.com/tetratelabs/wazero/sys"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

// position is an int64. By this name a method Seek is not taken for that of io.Seeker, which returns an error.
type position = int64

// openFile is an open file with the cursor that a vfs.File does not have.
type openFile struct {
	sys.UnimplementedFile // times: ENOSYS
	f                     vfs.File
	name                  string
	at                    int64 // the cursor
	read, write           bool
	end                   bool // writes go to the end
	synced                bool // each write is synced
}

func (o *openFile) Dev() (uint64, sys.Errno)      { return 0, 0 }
func (o *openFile) Ino() (wasys.Inode, sys.Errno) { return inode(o.name), 0 }
func (o *openFile) IsDir() (bool, sys.Errno)      { return false, 0 }
func (o *openFile) IsAppend() bool                { return o.end }

func (o *openFile) SetAppend(on bool) sys.Errno {
	o.end = on
	return 0
}

func (o *openFile) Stat() (wasys.Stat_t, sys.Errno) {
	size, err := o.f.Size()
	return stat(o.name, vfs.Info{Size: size}), errno(err)
}

func (o *openFile) Read(b []byte) (int, sys.Errno) {
	n, bad := o.Pread(b, o.at)
	o.at += int64(n)
	return n, bad
}

func (o *openFile) Pread(b []byte, off int64) (int, sys.Errno) {
	switch {
	case !o.read:
		return 0, sys.EBADF
	case len(b) == 0:
		return 0, 0
	}
	n, err := o.f.ReadAt(b, off)
	if err == io.EOF || n > 0 { // what was read counts; what failed behind it fails again
		err = nil
	}
	return n, errno(err)
}

func (o *openFile) Write(b []byte) (int, sys.Errno) {
	if o.end {
		size, err := o.f.Size()
		if err != nil {
			return 0, errno(err)
		}
		o.at = size
	}
	n, bad := o.Pwrite(b, o.at)
	o.at += int64(n)
	return n, bad
}

func (o *openFile) Pwrite(b []byte, off int64) (int, sys.Errno) {
	if !o.write {
		return 0, sys.EBADF
	}
	n, err := o.f.WriteAt(b, off)
	if err != nil {
		return 0, errno(err) // any part may have been written: the guest is not told a number that may be wrong
	}
	if o.synced {
		err = o.f.Sync()
	}
	return n, errno(err)
}

func (o *openFile) Seek(offset position, whence int) (int64, sys.Errno) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += o.at
	case io.SeekEnd:
		size, err := o.f.Size()
		if err != nil {
			return 0, errno(err)
		}
		offset += size
	default:
		return 0, sys.EINVAL
	}
	if offset < 0 {
		return 0, sys.EINVAL
	}
	o.at = offset
	return offset, 0
}

func (o *openFile) Readdir(int) ([]sys.Dirent, sys.Errno) { return nil, sys.ENOTDIR }

func (o *openFile) Truncate(size int64) sys.Errno {
	if !o.write {
		return sys.EBADF
	}
	return errno(o.f.Truncate(size))
}

func (o *openFile) Sync() sys.Errno     { return errno(o.f.Sync()) }
func (o *openFile) Datasync() sys.Errno { return errno(vfs.SyncData(o.f)) }
func (o *openFile) Close() sys.Errno    { return errno(o.f.Close()) }

// dir is an open directory. Its list is read when it is first asked for, and again after a rewind.
type dir struct {
	sys.DirFile
	fs     *FS
	name   string
	list   []sys.Dirent
	read   bool
	closed bool
}

func (d *dir) Dev() (uint64, sys.Errno)        { return 0, 0 }
func (d *dir) Ino() (wasys.Inode, sys.Errno)   { return inode(d.name), 0 }
func (d *dir) Stat() (wasys.Stat_t, sys.Errno) { return d.fs.Stat(d.name) }
func (d *dir) Utimens(int64, int64) sys.Errno  { return sys.ENOSYS }
func (d *dir) Sync() sys.Errno                 { return errno(vfs.SyncDir(d.fs.back, d.name)) }
func (d *dir) Datasync() sys.Errno             { return d.Sync() }

func (d *dir) Seek(offset position, whence int) (int64, sys.Errno) {
	if offset != 0 || whence != io.SeekStart {
		return 0, sys.EINVAL
	}
	d.read, d.list = false, nil
	return 0, 0
}

// Readdir returns the next n entries, or all that are left for n <= 0. At the end there are none.
func (d *dir) Readdir(n int) ([]sys.Dirent, sys.Errno) {
	if d.closed {
		return nil, sys.EBADF
	}
	if !d.read {
		infos, err := d.fs.back.ReadDir(d.name)
		if err != nil {
			return nil, errno(err)
		}
		d.read, d.list = true, nil
		for _, i := range infos {
			e := sys.Dirent{Ino: inode(path.Join(d.name, i.Name)), Name: i.Name}
			if i.Dir {
				e.Type = fs.ModeDir
			}
			d.list = append(d.list, e)
		}
	}
	if n <= 0 || n > len(d.list) {
		n = len(d.list)
	}
	next := d.list[:n:n]
	d.list = d.list[n:]
	return next, 0
}

func (d *dir) Close() sys.Errno {
	if d.closed {
		return sys.EBADF
	}
	d.closed = true
	return 0
}

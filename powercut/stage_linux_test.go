package powercut

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// missing names what this machine lacks for a power cut; empty: nothing.
func missing() string {
	if os.Getuid() != 0 {
		return "root"
	}
	for _, dev := range []string{"/dev/fuse", "/dev/loop-control"} {
		f, err := os.OpenFile(dev, os.O_RDWR, 0)
		if err != nil {
			return dev + ": " + err.Error()
		}
		f.Close()
	}
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		return "mkfs.ext4"
	}
	probe := exec.Command("/proc/self/exe", "-test.run=^$")
	probe.Env = append(os.Environ(), roleEnv+"=none")
	probe.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	if err := probe.Run(); err != nil {
		return "the right to make a mount namespace: " + err.Error()
	}
	return ""
}

// fileSystem is a kind of file system that a store may stand on.
type fileSystem struct {
	name    string
	size    int64 // of its disk
	mkfs    []string
	options string // of mount
}

var fileSystems = []fileSystem{
	{"ext4", 64 << 20, []string{"mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"}, ""},
	// 300 MiB is the least that mkfs.xfs accepts. Images have one id and are never mounted at the same time.
	{"xfs", 304 << 20, []string{"mkfs.xfs", "-q", "-f", "-K"}, "nouuid"},
}

func (f fileSystem) missing() string {
	if _, err := exec.LookPath(f.mkfs[0]); err != nil {
		return f.mkfs[0]
	}
	kinds, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		return err.Error()
	}
	for line := range strings.Lines(string(kinds)) {
		if strings.TrimSpace(line) == f.name {
			return ""
		}
	}
	return f.name + " in the kernel"
}

// stage is a FUSE server that has one file for each disk.
type stage struct {
	dir  string
	root *fs.Inode
	next int
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{dir: t.TempDir(), root: &fs.Inode{}}
	// Mounted here and not by the library, which lets children inherit the connection: a child that waits for this server
	// would then keep it alive when this process dies, and wait for ever.
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("/dev/fuse: %v", err)
	}
	const maxWrite = 1 << 20
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,max_read=%d", fd, maxWrite)
	if err := unix.Mount("tidewheel-powercut", s.dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		t.Fatalf("mount FUSE: %v", err)
	}
	srv, err := fs.Mount(fmt.Sprintf("/dev/fd/%d", fd), s.root, &fs.Options{
		MountOptions: fuse.MountOptions{MaxWrite: maxWrite, DisableXAttrs: true},
	})
	if err != nil {
		t.Fatalf("FUSE: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(s.dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount FUSE: %v", err) // it goes with the namespace
		}
		srv.Wait()
	})
	return s
}

// put makes a disk visible and returns its path; take removes it.
func (s *stage) put(d *disk) (path string) {
	s.next++
	name := fmt.Sprintf("disk-%d", s.next)
	s.root.AddChild(name, s.root.NewPersistentInode(context.Background(), d, fs.StableAttr{Mode: syscall.S_IFREG}), true)
	return filepath.Join(s.dir, name)
}

func (s *stage) take(path string) { s.root.RmChild(filepath.Base(path)) }

// What follows runs in the children.

// attach makes a loop device of a file. The device goes when it is closed and not mounted.
func attach(path string) (dev *os.File, err error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	for range 100 { // another process may take the free device first
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("loop device: %w", err)
		}
		name := fmt.Sprintf("/dev/loop%d", n)
		if err := unix.Mknod(name, unix.S_IFBLK|0o660, int(unix.Mkdev(7, uint32(n)))); err != nil && !errors.Is(err, unix.EEXIST) {
			return nil, fmt.Errorf("mknod %s: %w", name, err)
		}
		dev, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		err = unix.IoctlLoopConfigure(int(dev.Fd()), &unix.LoopConfig{
			Fd: uint32(file.Fd()), Size: sectorSize, Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR},
		})
		if err == nil {
			return dev, nil
		}
		dev.Close()
		if !errors.Is(err, unix.EBUSY) {
			return nil, fmt.Errorf("loop device %s: %w", name, err)
		}
	}
	return nil, errors.New("loop device: always taken by others")
}

// mount attaches a disk and mounts it at dir.
func mount(f fileSystem, path, dir string, format bool) error {
	dev, err := attach(path)
	if err != nil {
		return err
	}
	defer dev.Close() // the mount keeps it
	if format {
		cmd := exec.Command(f.mkfs[0], append(f.mkfs[1:len(f.mkfs):len(f.mkfs)], dev.Name())...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", f.mkfs[0], err, out)
		}
	}
	if err := unix.Mount(dev.Name(), dir, f.name, 0, f.options); err != nil {
		return fmt.Errorf("mount %s: %w", f.name, err)
	}
	return nil
}

// unmount takes the disk from dir and fails while a file on it is open.
func unmount(dir string) error {
	if err := unix.Unmount(dir, 0); err != nil {
		return fmt.Errorf("unmount: %w", err)
	}
	return nil
}

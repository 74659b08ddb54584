package bench

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter"
)

// probe collects what syncs of a disk take by themselves.
type probe struct {
	dir  string
	took []time.Duration
}

// probes is how often the disk is asked at a time, unless it is so slow that probeTime is over before.
const (
	probes      = 300
	leastProbes = 50
	probeTime   = 300 * time.Millisecond
)

// measure asks the disk: 4 KiB into a file that is allocated already, which is what a store does for a lone message.
func (p *probe) measure() (err error) {
	dir, err := os.MkdirTemp(p.dir, "probe-")
	if err != nil {
		return fmt.Errorf("bench: measure the disk: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	root, err := fsadapter.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("bench: measure the disk: %w", err)
	}
	f, err := fsadapter.New(root).OpenFile("probe", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("bench: measure the disk: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	const page = 4096
	if err := vfs.Preallocate(f, probes*page); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("bench: measure the disk: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("bench: measure the disk: %w", err)
	}
	b := make([]byte, page)
	start := time.Now()
	for i := 0; i < probes && (i < leastProbes || time.Since(start) < probeTime); i++ {
		began := time.Now()
		if _, err := f.WriteAt(b, int64(i)*page); err != nil {
			return fmt.Errorf("bench: measure the disk: %w", err)
		}
		if err := vfs.SyncData(f); err != nil {
			return fmt.Errorf("bench: measure the disk: %w", err)
		}
		p.took = append(p.took, time.Since(began))
	}
	return nil
}

// times are the percentiles so far; nil when nothing was measured.
func (p *probe) times() *Times {
	if len(p.took) == 0 {
		return nil
	}
	slices.Sort(p.took)
	at := func(percent int) float64 { return ms(p.took[(len(p.took)*percent+99)/100-1].Microseconds()) }
	return &Times{P50: at(50), P99: at(99)}
}

// besideLog is what a data directory takes on disk without the log, where the messages themselves are.
func besideLog(dir string) (int64, error) {
	sum := int64(0)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if strings.HasPrefix(filepath.ToSlash(rel), "commitlog/") {
			return nil
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a job has removed it
		}
		if err != nil {
			return err
		}
		sum += allocated(info)
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) { // a directory was removed while it was read
		err = nil
	}
	return sum, err
}

package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"sync"
	"time"
)

// diskAge is how old the answer of DiskUsage may be: there may be very many files to look at.
const diskAge = 30 * time.Second

// diskUsage is the last answer. It is safe for concurrent use.
type diskUsage struct {
	mu    sync.Mutex
	at    int64            // Env.Mono
	bytes map[string]int64 // nil: never looked
}

// DiskUsage is the bytes of files by kind: commitlog, consumequeue, timerlog and so on, as the directories of a data
// directory are called, and other. Files are counted by their length. It looks at most twice a minute, else it says what
// it saw then. The map is the caller's.
func (b *Broker) DiskUsage() (map[string]int64, error) {
	if err := b.enter(); err != nil {
		return nil, err
	}
	defer b.leave()
	d := &b.measures.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	now := b.env.Mono()
	if d.bytes != nil && now-d.at < int64(diskAge) {
		return maps.Clone(d.bytes), nil
	}
	bytes := map[string]int64{}
	entries, err := b.env.FS.ReadDir(b.measures.dir)
	if err != nil {
		return nil, fmt.Errorf("broker: disk usage: %w", err)
	}
	for _, e := range entries {
		if !e.Dir {
			bytes["other"] += e.Size
			continue
		}
		size, err := b.sizeOf(path.Join(b.measures.dir, e.Name))
		if err != nil {
			return nil, fmt.Errorf("broker: disk usage: %w", err)
		}
		bytes[e.Name] = size
	}
	d.at, d.bytes = now, bytes
	return maps.Clone(bytes), nil
}

// sizeOf adds up the files of a directory; one that went meanwhile counts nothing.
func (b *Broker) sizeOf(dir string) (size int64, err error) {
	entries, err := b.env.FS.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		if !e.Dir {
			size += e.Size
			continue
		}
		below, err := b.sizeOf(path.Join(dir, e.Name))
		if err != nil {
			return 0, err
		}
		size += below
	}
	return size, nil
}

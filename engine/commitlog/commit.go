package commitlog

import (
	"fmt"

	"github.com/tidewheel/tidewheel/engine/internal/invariant"
	"github.com/tidewheel/tidewheel/engine/vfs"
)

// Commit writes the appended batches to their files, one write each, in order. It stops, without an error, before a
// seal batch whose next segment Rotate has not made: next first, seal second, so that a sealed segment without a next
// one is always a loss and never a crash. A failed write is final. It is for the writer.
func (l *Log) Commit() error {
	if err := l.writable(); err != nil {
		return err
	}
	w := &l.writer
	for w.head < len(w.queue) {
		b := &w.queue[w.head]
		if b.flags&FlagSeal != 0 && !l.rotated() {
			return nil
		}
		if err := l.write(b); err != nil {
			return l.fail(err)
		}
		w.head++
	}
	clear(w.queue) // the blocks are not held any longer
	w.queue, w.head = w.queue[:0], 0
	return nil
}

// rotated says whether the segment behind the seal exists.
func (l *Log) rotated() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next != nil
}

// write writes one batch and lets Sync and the readers know.
func (l *Log) write(b *appended) error {
	at := int64(b.base - b.seg.base)
	n, err := b.seg.file.WriteAt(b.bytes, at)
	if err != nil {
		return fmt.Errorf("commitlog: write batch at %d: %w", b.base, err)
	}
	end := b.base + Offset(n)
	invariant.That(l.durable.Load() <= b.base && end <= l.end.Load(), "wrote [%d, %d)", b.base, end)
	l.mu.Lock()
	defer l.mu.Unlock()
	b.seg.bytes = max(b.seg.bytes, at+int64(n))
	l.toSync = b.seg
	if b.flags&FlagState == 0 || b.flags&FlagStateEnd != 0 {
		l.syncable = end
	}
	l.written.Store(end)
	return nil
}

// Sync makes what Commit has written durable and returns the durable end of the log. What is written meanwhile may or
// may not be covered. A failed sync is final and never repeated: the kernel has marked the pages clean, and a second
// one would say nil over lost data. It may be called by one goroutine beside the writer.
func (l *Log) Sync() (Offset, error) {
	if err := l.writable(); err != nil {
		return l.durable.Load(), err
	}
	l.mu.Lock()
	s, target := l.toSync, l.syncable
	if s == nil || target <= l.durable.Load() {
		l.mu.Unlock()
		return l.durable.Load(), nil
	}
	// There is one file to sync: a segment gets its first batch when the one before is durable.
	f, err := l.useLocked(s)
	l.mu.Unlock()
	if err != nil {
		return l.durable.Load(), err
	}
	err = vfs.SyncData(f)
	l.release(s)
	if err != nil {
		return l.durable.Load(), l.fail(fmt.Errorf("commitlog: sync %s: %w", s.name, err))
	}
	invariant.That(target <= l.written.Load(), "synced up to %d, written is %d", target, l.written.Load())
	l.durable.Store(target)
	return target, nil
}

package commitlog

import "fmt"

const (
	defaultSegmentSize = 128 << 20
	defaultTailSize    = 32 << 20
	defaultReserve     = 3

	minSegmentSize = 4 << 10
	minTailSize    = 4 << 10
	maxBlock       = 1 << 20 // of the tail buffer
)

// Options tune a log. The zero value is right for most callers.
type Options struct {
	// SegmentSize is where a segment is sealed, in bytes; 0 means 128 MiB. It is not a maximum: see Room.
	SegmentSize int64

	// TailSize is how many bytes of the end of the log are kept in memory for readers; 0 means 32 MiB. Memory is taken
	// in blocks of a quarter of it, 1 MiB at most, when it is needed.
	TailSize int

	// Reserve is the number of preallocated segments kept for a full disk; 0 means 3, a negative number none.
	Reserve int

	// ReadOnly opens without writing anything: Recover decides and folds as always.
	ReadOnly bool
}

func (o Options) withDefaults() Options {
	if o.SegmentSize == 0 {
		o.SegmentSize = defaultSegmentSize
	}
	if o.TailSize == 0 {
		o.TailSize = defaultTailSize
	}
	if o.Reserve == 0 {
		o.Reserve = defaultReserve
	}
	o.Reserve = max(o.Reserve, 0)
	return o
}

func (o Options) validate() error {
	if o.SegmentSize < minSegmentSize {
		return fmt.Errorf("commitlog: SegmentSize %d is below %d", o.SegmentSize, minSegmentSize)
	}
	if o.TailSize < minTailSize {
		return fmt.Errorf("commitlog: TailSize %d is below %d", o.TailSize, minTailSize)
	}
	return nil
}

// blockSize is the size of a block of the tail buffer.
func (o Options) blockSize() int { return min(maxBlock, o.TailSize/4) }

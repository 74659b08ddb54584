package engine

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/tidewheel/tidewheel/engine/schedule"
	"github.com/tidewheel/tidewheel/engine/vfs"
)

// Env is what the world lends an engine. FS, Wall and Mono are required.
type Env struct {
	// FS holds the data directory.
	FS vfs.FS
	// Wall is the time of day, milliseconds since 1970 UTC. It may step both ways; due times are compared with it.
	Wall func() int64
	// Mono is a clock that never steps, nanoseconds from any origin. Ages (retention, roll, seal) count it.
	Mono func() int64
	// Rand makes store ids and handle keys. Nil: crypto/rand.
	Rand io.Reader
	// Log hears of recovery and changes of state. Nil: silence.
	Log *slog.Logger
	// Parallel calls run(0) … run(n-1), side by side if it can, and returns when all have returned. A pull reads its
	// messages through it. Nil: in order.
	Parallel func(n int, run func(i int))
}

// Options tune an engine. The zero value is right for most; fields that change what is stored say so.
type Options struct {
	// Levels is the table of delay levels, as RocketMQ's messageDelayLevel: "1s 5s 10s …". Level n is the nth word.
	// Messages in flight keep their due time when the table changes.
	Levels string
	// Retention is how long a message stays readable after it became visible, in running time (an engine that is down
	// does not age). 3 days.
	Retention time.Duration
	// RollAfter is how much of the newest log, in running time, is never rolled. 3 days.
	RollAfter time.Duration
	// IdempotencyWindow is how long a put with an idempotency key is remembered: by the wall clock, and in running time
	// where that is longer. What was put with a key stays in the log for as long. 24 hours; negative: keys are refused.
	IdempotencyWindow time.Duration
	// SealAfter closes a segment after this running time, if there is enough in it to be worth a new one: some times what
	// its state record takes, and 1/2,048 of SegmentSize. 24 hours.
	SealAfter time.Duration

	// SegmentSize is the size at which a CommitLog segment is sealed, bytes. 128 MiB, or 4 MiB on a file system
	// without preallocation.
	SegmentSize int64
	// CheckpointEvery is the distance between checkpoints, bytes of log; it bounds what a restart replays. 64 MiB.
	CheckpointEvery int64
	// HighWater is the size of the log on disk, bytes, at which new messages are refused; delivering, cancelling and
	// deleting go on. 0: no limit but the disk's.
	HighWater int64
	// Reserve is how many spare segments are kept allocated for a full disk, where the file system can allocate. 3;
	// negative: none.
	Reserve int

	// FireChunk is how many due messages one Tick delivers. 1,024, at most that.
	FireChunk int
	// Lanes is over how many lanes topics are spread for messages with a time of their own: a burst in one delays no
	// topic of another. It is fixed when the store is made. 1, at most 63.
	Lanes int
	// MaxDelay is how far ahead a due time may lie. 7 days, at most 100 years.
	MaxDelay time.Duration
	// Near is how far ahead a message may be due to go to the ring of seconds; what is due before the end of the next
	// full hour goes there anyway. 0; 7 days give the layout of one TimerWheel with a slot for each second of a week.
	Near time.Duration

	// SecondsEntries, HoursEntries and LooseEntries are the capacities of a lane's memtables, entries of 56 bytes.
	// 524,288, 262,144 and 65,536, divided by the number of lanes.
	SecondsEntries, HoursEntries, LooseEntries int
	// SecondsSlots is the size of the ring of seconds; a ring that is there keeps its own. 1,209,600: two weeks; 16,384 on a
	// file system without preallocation, or with a SegmentSize that is set, unless Near is more than an hour.
	SecondsSlots int
	// LooseRuns is how many loose runs there may be before they are compacted into one. 64.
	LooseRuns int
	// TailBytes is how much of the log's end is kept in memory. 32 MiB.
	TailBytes int
	// BitsBytes is the cache of state bits. 8 MiB, in the edge profile 4.
	BitsBytes int
	// Profile divides the memory budgets: ProfileEdge by 8.
	Profile Profile

	// Queues is the number of queues of a topic made on first use. 4.
	Queues int
	// NoAutoTopics refuses messages to topics that were not defined.
	NoAutoTopics bool
	// Stage says whether a topic is staged that is made now: see StageTopic, which changes it later. The writer asks, so it
	// must be quick, and must not call the engine. Nil: none is.
	Stage func(topic string) bool
	// NoLock opens without a lock file, for a file system that cannot lock or a caller that locked.
	NoLock bool
	// UnitsPerFile and EntriesPerFile set the size of ConsumeQueue and schedule queue files in cells, TimerFileSize that of the
	// TimerLog's in bytes. 262,144, 65,536 and 64 MiB; tests make them small.
	UnitsPerFile, EntriesPerFile int
	TimerFileSize                int64

	// Progress hears how far recovery has come: log bytes folded and to fold. It is called at most once per batch.
	Progress func(done, total int64)
}

// Profile is a set of memory budgets.
type Profile uint8

// The profiles.
const (
	ProfileDefault Profile = iota
	ProfileEdge            // a box with 64 MB: budgets divided by 8
)

// withDefaults fills what is zero. prealloc says whether the file system can reserve space.
func (o Options) withDefaults(prealloc bool) Options {
	div := 1
	if o.Profile == ProfileEdge {
		div = 8
	}
	segment := int64(4 << 20)
	if prealloc {
		segment = 128 << 20
	}
	fill(&o.Levels, schedule.DefaultLevels)
	fill(&o.Retention, 72*time.Hour)
	fill(&o.RollAfter, 72*time.Hour)
	fill(&o.SealAfter, 24*time.Hour)
	fill(&o.IdempotencyWindow, 24*time.Hour)
	fill(&o.SegmentSize, segment)
	fill(&o.CheckpointEvery, 64<<20)
	fill(&o.Reserve, 3)
	fill(&o.FireChunk, maxChunk)
	fill(&o.Lanes, 1)
	fill(&o.MaxDelay, 7*24*time.Hour)
	lanes := max(o.Lanes, 1)
	fill(&o.SecondsEntries, max(524288/div/lanes, 1))
	fill(&o.HoursEntries, max(262144/div/lanes, 1))
	fill(&o.LooseEntries, max(65536/div/lanes, 1))
	if prealloc || o.Near > time.Hour {
		fill(&o.SecondsSlots, 1209600)
	}
	fill(&o.SecondsSlots, 16384)
	fill(&o.LooseRuns, 64)
	fill(&o.TailBytes, 32<<20/div)
	fill(&o.BitsBytes, max(8<<20/div, 4<<20)) // see RATIONALE: a page is read for each message that fires without it
	fill(&o.Queues, 4)
	fill(&o.UnitsPerFile, 262144)
	fill(&o.EntriesPerFile, 65536)
	fill(&o.TimerFileSize, 64<<20)
	return o
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// maxNear is half of the ring of seconds.
const maxNear = 7 * 24 * time.Hour

// maxDuration bounds ages: they are milliseconds in int64 on disk, and a century is enough.
const maxDuration = 100 * 366 * 24 * time.Hour

// maxEntries bounds a memtable, to 900 MB.
const maxEntries = 1 << 24

// maxCells is what the files of queues can number.
const maxCells = 1<<31 - 1

// validate is the only place that rejects options; it reports every fault.
func (o Options) validate() error {
	var faults []error
	check := func(ok bool, field string, got any, allowed string) {
		if !ok {
			faults = append(faults, fmt.Errorf("engine: option %s is %v, allowed is %s", field, got, allowed))
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"Retention", o.Retention}, {"RollAfter", o.RollAfter}, {"SealAfter", o.SealAfter}, {"MaxDelay", o.MaxDelay}} {
		check(d.value >= time.Millisecond && d.value <= maxDuration, d.name, d.value, "1ms to 100 years")
	}
	check(o.IdempotencyWindow <= maxDuration, "IdempotencyWindow", o.IdempotencyWindow, "at most 100 years")
	check(o.SegmentSize >= 4096 && o.SegmentSize <= 4<<30, "SegmentSize", o.SegmentSize, "4096 to 4 GiB")
	check(o.CheckpointEvery >= 4096 && o.CheckpointEvery <= 1<<40, "CheckpointEvery", o.CheckpointEvery, "4096 to 1 TiB")
	check(o.HighWater >= 0, "HighWater", o.HighWater, "0 or more")
	check(o.Reserve <= 1024, "Reserve", o.Reserve, "at most 1024")
	check(o.FireChunk >= 1 && o.FireChunk <= maxChunk, "FireChunk", o.FireChunk, "1 to 1024")
	check(o.Lanes >= 1 && o.Lanes < maxLanes, "Lanes", o.Lanes, "1 to 63")
	check(o.Near >= 0 && o.Near <= maxNear, "Near", o.Near, "0 to 7 days")
	for _, n := range []struct {
		name  string
		value int
	}{{"SecondsEntries", o.SecondsEntries}, {"HoursEntries", o.HoursEntries}, {"LooseEntries", o.LooseEntries}} {
		check(n.value >= 1 && n.value <= maxEntries, n.name, n.value, fmt.Sprintf("1 to %d", maxEntries))
	}
	check(o.SecondsSlots >= 2 && o.SecondsSlots <= 1<<24, "SecondsSlots", o.SecondsSlots, "2 to 2^24")
	check(o.LooseRuns >= 1 && o.LooseRuns <= 1024, "LooseRuns", o.LooseRuns, "1 to 1024")
	check(o.TailBytes >= 4096 && int64(o.TailBytes) <= 1<<40, "TailBytes", o.TailBytes, "4096 to 1 TiB")
	check(o.BitsBytes >= 0, "BitsBytes", o.BitsBytes, "0 or more")
	check(o.Queues >= 1 && o.Queues <= maxQueues, "Queues", o.Queues, fmt.Sprintf("1 to %d", maxQueues))
	check(o.UnitsPerFile >= 1 && o.UnitsPerFile <= maxCells, "UnitsPerFile", o.UnitsPerFile, "1 to 2^31-1")
	check(o.TimerFileSize >= 256 && o.TimerFileSize <= 1<<31, "TimerFileSize", o.TimerFileSize, "256 to 2 GiB")
	check(o.EntriesPerFile >= 1 && o.EntriesPerFile <= maxCells, "EntriesPerFile", o.EntriesPerFile, "1 to 2^31-1")
	check(o.Profile <= ProfileEdge, "Profile", o.Profile, "ProfileDefault or ProfileEdge")
	if _, err := schedule.ParseLevels(o.Levels); err != nil {
		faults = append(faults, fmt.Errorf("engine: option Levels: %w", err))
	}
	return errors.Join(faults...)
}

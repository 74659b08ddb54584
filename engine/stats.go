package engine

import (
	"cmp"
	"slices"
	"sync/atomic"
)

// counters since the engine was opened.
type counters struct {
	batches, fired, rolled, checkpoints, jobFailures atomic.Int64
	replayed                                         int64 // set by Open
}

// Stats is a snapshot of what the engine knows of itself.
type Stats struct {
	StoreID uint64

	Head, End, Durable, Released, Checkpoint, Rolled Offset // positions in the log
	LogBytes                                         int64  // on disk
	LogMs                                            int64  // running time of the store

	Pending int64 // messages that wait
	Dropped int64 // messages that fell due after their topic was deleted, ever
	NextID  uint64
	Topics  int // without stages
	Groups  int // without the one that settles them

	InMemory  int // waiting messages in memtables
	LooseRuns int
	BitsBytes int // state bits that wait for a checkpoint

	// Since the engine was opened.
	Batches, Fired, RolledMessages, Checkpoints, JobFailures int64
	Replayed                                                 int64 // bytes of log that opening folded
	LastJobError                                             string
	Full                                                     string // why messages are refused, if they are
	HeldBy                                                   string // the topic whose stage keeps the log's head from being deleted, if one does
}

// Stats may be called from any goroutine. It tells what is folded, not only what is released.
func (e *Engine) Stats() Stats {
	e.mu.RLock()
	defer e.mu.RUnlock()
	s := Stats{
		StoreID: e.meta.StoreID,
		Head:    e.st.Head(), End: e.log.End(), Durable: e.log.Durable(), Released: e.Released(),
		Checkpoint: e.ck.x, Rolled: e.st.Rolled, LogBytes: e.log.Size(), LogMs: e.st.LogMs,
		Pending: e.st.Pending, Dropped: e.st.Dropped, NextID: e.st.NextID,
		Topics: len(e.st.Topics) - e.st.Stages(), Groups: len(e.st.Groups),
		BitsBytes: e.bits.DirtyBytes(),
		Batches:   e.stats.batches.Load(), Fired: e.stats.fired.Load(), RolledMessages: e.stats.rolled.Load(),
		Checkpoints: e.stats.checkpoints.Load(), JobFailures: e.stats.jobFailures.Load(), Replayed: e.stats.replayed,
	}
	if e.st.GroupByName(StageGroup) != nil {
		s.Groups--
	}
	for _, l := range e.lanes {
		s.InMemory += l.InMemory()
		s.LooseRuns += l.RunCount()
	}
	if err := e.jobs.lastErr; err != nil {
		s.LastJobError = err.Error()
	}
	if err := e.space.full; err != nil {
		s.Full = err.Error()
	}
	s.HeldBy = e.space.heldBy
	return s
}

// Digest names the state after everything that was appended: equal logs give equal digests, whatever the buffer sizes.
// It belongs to the writer.
func (e *Engine) Digest() [16]byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.st.Digest()
}

// Topics lists the topics by name. The answer may leave when the log is released up to the position. Safe for concurrent
// use.
func (e *Engine) Topics() ([]TopicInfo, Offset) {
	infos, end := e.topics()
	slices.SortFunc(infos, func(a, b TopicInfo) int { return cmp.Compare(a.Name, b.Name) })
	return infos, end
}

func (e *Engine) topics() ([]TopicInfo, Offset) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	infos := make([]TopicInfo, 0, len(e.st.Topics))
	for _, t := range e.st.Topics {
		infos = append(infos, e.topicInfo(t))
	}
	return infos, e.asOf()
}

// Topic describes a topic; ok is false if there is none. As Topics.
func (e *Engine) Topic(name string) (info TopicInfo, ok bool, pos Offset) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if t := e.st.TopicByName(name); t != nil {
		info, ok = e.topicInfo(t), true
	}
	return info, ok, e.asOf()
}

// Groups lists the consumer groups by name, with their offsets. As Topics.
func (e *Engine) Groups() ([]GroupInfo, Offset) {
	infos, end := e.groups()
	for i := range infos {
		slices.SortFunc(infos[i].Offsets, func(a, b CommittedOffset) int {
			return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Queue, b.Queue))
		})
	}
	slices.SortFunc(infos, func(a, b GroupInfo) int { return cmp.Compare(a.Name, b.Name) })
	return infos, end
}

func (e *Engine) groups() ([]GroupInfo, Offset) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	offsets := make(map[uint32][]CommittedOffset, len(e.st.Groups)) // by group
	for k, offset := range e.st.Offsets.All() {
		if t := e.st.Topics[k.Topic]; t != nil {
			offsets[k.Group] = append(offsets[k.Group], CommittedOffset{t.Name, int(k.Queue), offset, e.st.Offsets.SettledCount(k)})
		}
	}
	infos := make([]GroupInfo, 0, len(e.st.Groups))
	for _, g := range e.st.Groups {
		infos = append(infos, GroupInfo{ID: g.ID, Name: g.Name, Attrs: g.Attrs, Offsets: offsets[g.ID]})
	}
	return infos, e.asOf()
}

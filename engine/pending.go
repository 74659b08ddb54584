package engine

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"github.com/tidewheel/tidewheel/engine/handle"
	"github.com/tidewheel/tidewheel/engine/internal/state"
	"github.com/tidewheel/tidewheel/engine/schedule"
	"github.com/tidewheel/tidewheel/engine/timer"
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// Bounds of one look at waiting messages.
const (
	defaultPendingCount = 100
	maxPendingCount     = 1000
	scanEntries         = 8192 // entries looked at by one call
	leastCopied         = 512  // of a memtable, however many lanes there are
	scanTries           = 3    // when files are deleted meanwhile
)

// Filter says which waiting messages are meant. The zero Filter means all.
type Filter struct {
	Topic   string  // "": all
	Tags    []int32 // one of these tag hashes (message.TagHash); nil: all
	KeyHash uint64  // message.KeyHash; 0: all
	FromMs  int64   // due at or after
	ToMs    int64   // due before; 0: no end
}

// Waiting is a message that waits.
type Waiting struct {
	Handle  handle.Handle
	Topic   string // "" if the topic was deleted: it will be dropped
	Queue   uint32
	DueMs   int64
	Size    int32 // bytes of its record
	Tags    int32
	KeyHash uint64
	Level   int // 0 for a time of its own
}

// WaitingPage is one look at the waiting messages.
type WaitingPage struct {
	Messages []Waiting // in the order of (due, id)
	// Next is where to go on; "" at the end. It stays valid while messages fire, and for ever.
	Next string
	// ScannedTo is a due time, ms: everything before it that matches was found. At the end it is math.MaxInt64, or ToMs.
	ScannedTo int64
	// Position: the answer may leave when the log is released up to here.
	Position Offset
}

// Pending lists waiting messages in the order of (due, id), from token on ("" at first), at most most (0: 100, at most
// 1,000). One call looks at a bounded number of entries and says how far it came, so an empty page is not the end: Next is.
// What is not released yet is left out. Safe for concurrent use; it reads files without holding the writer up.
func (e *Engine) Pending(f Filter, token string, most int) (WaitingPage, error) {
	if e.closed.Load() {
		return WaitingPage{}, ErrClosed
	}
	if most <= 0 {
		most = defaultPendingCount
	}
	after, err := f.start(token)
	if err != nil {
		return WaitingPage{}, err
	}
	for try := 1; ; try++ {
		page, err := e.pending(f, after, min(most, maxPendingCount))
		if err == nil || try == scanTries || !wentAway(err) {
			return page, err
		}
	}
}

// wentAway says whether an error may come from files or entries that were given up while they were read.
func wentAway(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrCorrupt) || errors.Is(err, schedule.ErrTrimmed)
}

// start is the key behind which a listing goes on.
func (f *Filter) start(token string) (timerlog.Key, error) {
	if token == "" {
		return timerlog.Key{Due: max(f.FromMs, math.MinInt64+1) - 1, ID: math.MaxUint64}, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(b) != 16 {
		return timerlog.Key{}, fmt.Errorf("%w: page token %q is not one that a listing gave", ErrBadCommand, token)
	}
	return timerlog.Key{Due: int64(binary.BigEndian.Uint64(b)), ID: binary.BigEndian.Uint64(b[8:])}, nil
}

func pageToken(k timerlog.Key) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(k.Due))
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(b, k.ID))
}

// candidate is an entry that the filter passes; whether it is alive is asked at the end.
type candidate struct {
	timerlog.Entry
	lane uint8
}

// scans is one look at several lanes.
type scans struct {
	lanes []laneScan
	after timerlog.Key // last key looked at
	done  bool
}

type laneScan struct {
	*timer.Scan
	lane  uint8
	entry timerlog.Entry
	ok    bool
}

func (e *Engine) pending(f Filter, after timerlog.Key, most int) (WaitingPage, error) {
	topic, s, err := e.openScans(&f, after)
	if err != nil {
		return WaitingPage{}, err
	}
	found, err := s.collect(&f, topic, most, e.visible.nextID.Load())
	e.mu.Lock()
	for _, l := range s.lanes {
		l.Close()
	}
	e.mu.Unlock()
	if err != nil {
		return WaitingPage{}, fmt.Errorf("engine: pending: %w", err)
	}
	page := WaitingPage{ScannedTo: s.after.Due}
	if s.done {
		page.ScannedTo = math.MaxInt64
		if f.ToMs > 0 {
			page.ScannedTo = f.ToMs
		}
	} else {
		page.Next = pageToken(s.after)
	}
	for {
		n := min(len(found), aliveAtOnce)
		if err := e.alive(found[:n], &page); err != nil {
			return WaitingPage{}, fmt.Errorf("engine: pending: %w", err)
		}
		if found = found[n:]; len(found) == 0 {
			return page, nil
		}
	}
}

// aliveAtOnce is for how many entries the fold is asked before the writer may go on: each may read a page of state bits.
const aliveAtOnce = 8

// alive adds to a page what still waits: it may have been rolled since the picture was taken, its handle is good all the same.
func (e *Engine) alive(found []candidate, page *WaitingPage) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range found {
		c := &found[i]
		fate, err := e.st.Fate(c.lane, c.Key, e.bits)
		if err != nil {
			return err
		}
		if fate == state.Waiting {
			page.Messages = append(page.Messages, e.waiting(c))
		}
	}
	page.Position = e.asOf()
	return nil
}

func (e *Engine) waiting(c *candidate) Waiting {
	w := Waiting{
		Handle: handle.Handle{Lane: c.lane, Topic: c.Topic, ID: c.ID, Due: c.Due, Position: c.Position},
		Queue:  c.Queue, DueMs: c.Due, Size: c.Size, Tags: c.Tags, KeyHash: c.KeyHash, Level: int(c.Level()),
	}
	if t := e.st.Topics[c.Topic]; t != nil {
		w.Topic = t.Name
	}
	return w
}

// openScans takes pictures of the lanes that the filter means, one after the other: the writer goes on in between.
func (e *Engine) openScans(f *Filter, after timerlog.Key) (topic uint32, s *scans, err error) {
	if f.Topic != "" {
		if topic, err = e.topicID(f.Topic); err != nil {
			return 0, nil, err
		}
	}
	s = &scans{after: after}
	for i := range e.lanes {
		if lane := uint8(i); topic == 0 || lane == levelLane || lane == e.laneOf(topic) {
			s.lanes = append(s.lanes, laneScan{lane: lane})
		}
	}
	most := max(scanEntries/len(s.lanes), leastCopied)
	for i := range s.lanes {
		l := &s.lanes[i]
		e.mu.Lock()
		l.Scan = e.lanes[l.lane].NewScan(after, most)
		e.mu.Unlock()
	}
	return topic, s, nil
}

func (e *Engine) topicID(name string) (uint32, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if t := e.st.TopicByName(name); t != nil {
		return t.ID, nil
	}
	return 0, fmt.Errorf("%w: %q", ErrNoTopic, name)
}

// collect merges the lanes and takes what the filter passes.
func (s *scans) collect(f *Filter, topic uint32, most int, nextID uint64) (found []candidate, err error) {
	limit := timerlog.Key{Due: math.MaxInt64, ID: math.MaxUint64}
	for i := range s.lanes {
		l := &s.lanes[i]
		if l.entry, l.ok, err = l.Next(); err != nil {
			return nil, err
		}
		if k, limited := l.Limited(); limited && k.Less(limit) {
			limit = k
		}
	}
	for looked := 0; looked < scanEntries; looked++ {
		l := s.first()
		if l == nil || limit.Less(l.entry.Key) {
			s.done = limit.Due == math.MaxInt64
			if !s.done {
				s.after = limit
			}
			return found, nil
		}
		if f.ToMs > 0 && l.entry.Due >= f.ToMs {
			s.done = true
			return found, nil
		}
		if n := len(found); n == most && found[n-1].Key != l.entry.Key {
			return found, nil
		}
		s.after = l.entry.Key
		if f.passes(&l.entry, topic) && l.entry.ID < nextID {
			found = append(found, candidate{l.entry, l.lane})
			if n := len(found); n > 1 && found[n-2].Key == found[n-1].Key { // the later copy of a rolled message counts
				found[n-2] = newer(found[n-2], found[n-1])
				found = found[:n-1]
			}
		}
		if l.entry, l.ok, err = l.Next(); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func newer(a, b candidate) candidate {
	if a.Position > b.Position {
		return a
	}
	return b
}

// first is the lane with the smallest entry, nil at the end of all.
func (s *scans) first() (least *laneScan) {
	for i := range s.lanes {
		l := &s.lanes[i]
		if l.ok && (least == nil || l.entry.Key.Less(least.entry.Key)) {
			least = l
		}
	}
	return least
}

func (f *Filter) passes(en *timerlog.Entry, topic uint32) bool {
	return (topic == 0 || en.Topic == topic) &&
		(f.KeyHash == 0 || en.KeyHash == f.KeyHash) &&
		(f.Tags == nil || slices.Contains(f.Tags, en.Tags))
}

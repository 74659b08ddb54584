package powercut

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/tidewheel/tidewheel/engine"
)

// verdict is what a judge says of an image.
type verdict struct {
	Problems []string
	Promised int // messages that were acknowledged before the cut
	Visible  int // messages in their topics in the end
}

func (v *verdict) bad(format string, args ...any) {
	v.Problems = append(v.Problems, fmt.Sprintf(format, args...))
}

// fate is what may and must become of one message.
type fate struct {
	put
	earliest  int64 // due at the earliest, of all times that were asked for and may count
	moving    *put  // a move was begun
	acked     bool
	taking    bool // a cancel was begun
	taken     bool // and answered: it never comes
	delivered bool // a cancel was answered: it stands in its topic
	places    []place
}

// record is all that was said before the cut.
type record struct {
	wall     int64
	fates    map[int]*fate
	seen     []place
	progress map[place]int64 // by topic and queue
}

func readNotes(notes []note) record {
	rec := record{wall: startMs, fates: map[int]*fate{}, progress: map[place]int64{}}
	for _, n := range notes {
		if n.Wall > 0 {
			rec.wall = n.Wall
		}
		for _, p := range n.Putting {
			rec.fates[p.Seq] = &fate{put: p, earliest: rec.wall + delayMs(p.Level) + p.Delay}
		}
		for _, p := range n.Put {
			f := rec.fates[p.Seq]
			f.put, f.acked = p, true
		}
		if n.Taking > 0 {
			rec.fates[n.Taking].taking = true
		}
		if n.Taken > 0 {
			rec.fates[n.Taken].taken = true
		}
		if n.TooLate > 0 {
			rec.fates[n.TooLate].delivered = true
		}
		if n.Moving != nil {
			f := rec.fates[n.Moving.Seq]
			f.moving, f.earliest = n.Moving, min(f.earliest, n.Moving.Due)
		}
		if n.Moved > 0 {
			f := rec.fates[n.Moved]
			f.put, f.earliest, f.moving = *f.moving, f.moving.Due, nil
		}
		if n.TooLate > 0 {
			rec.fates[n.TooLate].moving = nil
		}
		rec.seen = append(rec.seen, n.Seen...)
		for _, p := range n.Progress {
			rec.progress[place{Topic: p.Topic, Queue: p.Queue}] = p.Offset
		}
	}
	return rec
}

// delayMs is what the writer's levels mean in the default table.
func delayMs(level int) int64 {
	return []int64{0, 1000, 5000, 10_000, 30_000, 60_000, 120_000}[level]
}

// judge mounts an image, opens the store on it and compares it with what was promised.
func judge(j job) (v verdict) {
	rec := readNotes(j.Notes)
	for _, f := range rec.fates {
		if f.acked {
			v.Promised++
		}
	}
	if err := mount(j.fileSystem(), j.Disk, j.Dir, false); err != nil {
		v.bad("%v", err)
		return v
	}
	defer func() {
		if err := unmount(j.Dir); err != nil && len(v.Problems) == 0 {
			v.bad("%v", err) // a store that could not be opened may not be closed either
		}
	}()
	fsys, closeDir, err := openDir(filepath.Join(j.Dir, "data"))
	if err != nil {
		v.bad("%v", err)
		return v
	}
	defer func() {
		if err := closeDir(); err != nil {
			v.bad("%v", err)
		}
	}()
	c := clock{rec.wall}
	store, err := engine.OpenSolo(env(fsys, &c), ".", options())
	if err != nil {
		v.bad("open: %v", err)
		return v
	}
	before := v.look(store, rec)
	v.early(rec, c.wall)
	v.kept(store, rec)
	c.wall += 3_600_000
	if err := settle(store, &c); err != nil {
		v.bad("deliver the rest: %v", err)
	}
	for _, f := range rec.fates {
		f.places = nil
	}
	after := v.look(store, rec)
	v.final(rec)
	for key, places := range before {
		if !slices.Equal(places, after[key][:min(len(places), len(after[key]))]) {
			v.bad("%s/%d changed where it had been read", key.Topic, key.Queue)
		}
	}
	for _, places := range after {
		v.Visible += len(places)
	}
	if err := store.Close(); err != nil {
		v.bad("close: %v", err)
	}
	if report, err := engine.Check(env(fsys, &c), ".", options()); err != nil {
		v.bad("check: %v (%+v)", err, report)
	}
	return v
}

// settle stores one more message and delivers all that is due.
func settle(store *engine.Solo, c *clock) error {
	answers, err := store.Do(&engine.Put{Topic: "after", Level: 1, Body: body(0)})
	if err != nil {
		return err
	}
	if answers[0].Outcome != engine.Scheduled {
		return fmt.Errorf("outcome %d: %w", answers[0].Outcome, answers[0].Err)
	}
	c.wall = answers[0].DueMs
	if _, err := store.Step(); err != nil {
		return err
	}
	for queue := range queues {
		if got, err := readQueue(store.Engine, "after", queue, 0); err != nil || len(got) > 0 {
			return err
		}
	}
	return errors.New("a message put after the power cut is not in its topic when due")
}

// look reads every queue from its beginning and notes where each message stands.
func (v *verdict) look(store *engine.Solo, rec record) map[place][]place {
	all := map[place][]place{}
	for _, topic := range topics {
		for queue := range queues {
			got, err := readQueue(store.Engine, topic, queue, 0)
			if errors.Is(err, engine.ErrNoTopic) {
				continue // then whatever was promised there is missed below
			}
			if err != nil {
				v.bad("pull: %v", err)
				continue
			}
			all[place{Topic: topic, Queue: queue}] = got
			for _, p := range got {
				f := rec.fates[p.Seq]
				if f == nil {
					v.bad("message %d was never put", p.Seq)
					continue
				}
				f.places = append(f.places, p)
				if f.Topic != topic || f.Queue != queue {
					v.bad("message %d was put to %s/%d and stands in %s/%d", p.Seq, f.Topic, f.Queue, topic, queue)
				}
			}
		}
	}
	return all
}

// sorted yields the messages by number, so that a report reads well.
func (r record) sorted() []*fate {
	var all []*fate
	for _, f := range r.fates {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b *fate) int { return cmp.Compare(a.Seq, b.Seq) })
	return all
}

// early reports what is visible at once after the open and should not be.
func (v *verdict) early(rec record, now int64) {
	for _, f := range rec.sorted() {
		if len(f.places) > 0 && f.earliest > now {
			v.bad("message %d is visible %d ms early", f.Seq, f.earliest-now)
		}
	}
}

// kept reports what had been visible before the cut and is not where it was, and lost progress.
func (v *verdict) kept(store *engine.Solo, rec record) {
	for _, f := range rec.sorted() {
		at := place{f.Topic, f.Queue, f.Offset, f.Seq}
		if f.acked && f.Offset >= 0 && !slices.Contains(f.places, at) {
			v.bad("message %d was acknowledged at offset %d of %s/%d and is not there", f.Seq, f.Offset, f.Topic, f.Queue)
		}
		if f.delivered && len(f.places) == 0 {
			v.bad("message %d was said to be delivered and is not in its topic", f.Seq)
		}
	}
	for _, p := range rec.seen {
		if !slices.Contains(rec.fates[p.Seq].places, p) {
			v.bad("message %d was read at offset %d of %s/%d and is not there", p.Seq, p.Offset, p.Topic, p.Queue)
		}
	}
	for key, offset := range rec.progress {
		if got, ok, _ := store.Committed(group, key.Topic, key.Queue); !ok || got < offset {
			v.bad("offset %d of %s/%d was committed, the store has %d", offset, key.Topic, key.Queue, got)
		}
	}
}

// final reports what is wrong when everything is due: lost, twice, cancelled and delivered all the same.
func (v *verdict) final(rec record) {
	for _, f := range rec.sorted() {
		n := len(f.places)
		switch {
		case n > 1:
			v.bad("message %d stands %d times in its topic", f.Seq, n)
		case f.taken && n > 0:
			v.bad("message %d was cancelled and is delivered", f.Seq)
		case f.acked && !f.taking && n == 0:
			v.bad("message %d was acknowledged and is lost", f.Seq)
		}
	}
	v.order(rec)
}

// order reports messages that overtook others: those of a level stand in order of storing, those with a time of their own
// in order of it. What was begun and not answered may be either.
func (v *verdict) order(rec record) {
	type line struct {
		topic        string
		queue, level int
	}
	last := map[line]*fate{}
	fates := rec.sorted()
	slices.SortStableFunc(fates, func(a, b *fate) int {
		if a.Level > 0 && a.Level == b.Level {
			return 0 // by number, which is the order of storing
		}
		return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.Due, b.Due))
	})
	for _, f := range fates {
		if len(f.places) == 0 || !f.acked || f.moving != nil || f.Due == 0 {
			continue
		}
		at := line{f.Topic, f.Queue, f.Level}
		before := last[at]
		last[at] = f
		switch {
		case before == nil || before.places[0].Offset < f.places[0].Offset:
		case f.Level > 0:
			v.bad("messages %d and %d of level %d are out of order in %s/%d", before.Seq, f.Seq, f.Level, f.Topic, f.Queue)
		case before.Due < f.Due:
			v.bad("messages %d and %d, due at %d and %d, are out of order in %s/%d", before.Seq, f.Seq, before.Due, f.Due, f.Topic, f.Queue)
		}
	}
}

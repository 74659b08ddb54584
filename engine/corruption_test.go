package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/engine/handle"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// damaged is a store at rest whose files the corruption test damages, with all that a reader may ask it.
type damaged struct {
	disk    *crashfs.FS
	clock   int64
	opts    engine.Options
	handles []handle.Handle
	files   map[string][]string // by directory
	dirs    []string
	last    string // the last segment that is not empty
	end     int64  // of the log in it
	whole   string // what a reader sees
	// unwitnessed is what a reader sees when the last batch is gone; empty when the last batch has a witness.
	unwitnessed string
}

// newDamaged makes a store that has something of everything. If idle, it was left alone for a moment at the end, so that
// the mark witnesses the last batch.
func newDamaged(t *testing.T, idle bool) *damaged {
	t.Helper()
	o := fast()
	o.Retention = 72 * time.Hour
	o.RollAfter = 72 * time.Hour
	o.SecondsEntries, o.HoursEntries, o.SecondsSlots = 8, 8, 4096
	s := enginetest.Open(t, enginetest.Config{Options: o, Damaged: true})
	d := &damaged{opts: withLevels(o), files: map[string][]string{}}
	var answers []engine.Answer
	keep := func(a engine.Answer) engine.Answer {
		answers = append(answers, a)
		return a
	}
	do(s, &engine.DefineTopic{Topic: "t", Queues: 2, Attrs: 5})
	do(s, &engine.DefineGroup{Group: "idle", Attrs: 3})
	for round := range 12 {
		for i := range 12 {
			name := fmt.Sprintf("r%d-%d", round, i)
			keep(stored(t, s, put(name+"s", 1)))
			far := keep(stored(t, s, put(name+"far", 3)))
			keep(stored(t, s, put(name+"mid", 2)))
			do(s, put(name+"now", 0))
			timed := put(name+"timed", 0)
			timed.DelayMs = int64(1+i) * 700_000 // some before the end of the next hour, some behind it
			keep(stored(t, s, timed))
			switch i % 6 {
			case 0:
				do(s, &engine.Cancel{Handle: far.Handle()})
			case 1, 2, 3:
				keep(move(t, s, far, s.Clock.Wall()+int64(2000*(1+i%6))+600_000*int64(i%2)))
			}
		}
		s.Do(traffic(1)...)
		s.Pass(1500 * time.Millisecond)
		do(s, &engine.CommitOffset{Group: "g", Topic: "t", Queue: 0, Offset: int64(round)})
	}
	for _, a := range answers {
		d.handles = append(d.handles, a.Handle())
	}
	s.Step()
	before := s.FS.(*crashfs.FS).Clone()
	do(s, &engine.Put{Topic: "t", Queue: 1, Body: []byte("last")})
	if idle {
		s.Pass(time.Millisecond) // a tick sees that the log has grown
		s.Pass(60 * time.Millisecond)
	}
	d.clock = s.Clock.Wall()
	d.disk = s.FS.(*crashfs.FS).Kill()
	d.list(t, ".")
	names := segments(t, d.disk)
	base, err := strconv.ParseInt(names[len(names)-1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	d.last, d.end = "commitlog/"+names[len(names)-1], int64(s.Released())-base
	for _, want := range []string{"commitlog", "consumequeue", "schedule", "timerlog", "timerwheel", "statebits", "checkpoint", "."} {
		if n := len(d.files[want]); n == 0 {
			t.Fatalf("the store has no files under %s: %v", want, d.files)
		}
	}
	d.whole = d.mustRead(t, d.disk.Clone())
	if !idle {
		d.unwitnessed = d.mustRead(t, before)
	}
	return d
}

// list collects the files, by the first element of their path.
func (d *damaged) list(t *testing.T, dir string) {
	t.Helper()
	infos, err := d.disk.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		name := path.Join(dir, info.Name)
		if info.Dir {
			d.list(t, name)
			continue
		}
		dir := top(name)
		if len(d.files[dir]) == 0 {
			d.dirs = append(d.dirs, dir)
		}
		d.files[dir] = append(d.files[dir], name)
	}
}

func (d *damaged) mustRead(t *testing.T, disk *crashfs.FS) string {
	t.Helper()
	text, err := d.read(disk)
	if err != nil {
		t.Fatalf("a store without damage: %v", err)
	}
	return text
}

// read opens the store and asks everything: it pulls all queues, asks for the verdict on all handles, and lets time pass
// until nothing waits. It returns what it saw, and the errors it met.
func (d *damaged) read(disk *crashfs.FS) (string, error) {
	clock := enginetest.NewClock(d.clock)
	e, err := engine.Open(engine.Env{FS: disk, Wall: clock.Wall, Mono: clock.Mono}, ".", d.opts)
	if err != nil {
		return "", err
	}
	r := &reader{e: e, clock: clock}
	r.look(d.handles)
	for range 100 {
		if r.drain(); e.Stats().Pending == 0 || len(r.errs) > 3 {
			break
		}
		clock.Pass(61 * time.Second)
	}
	r.look(d.handles)
	if err := e.Close(); err != nil {
		r.errs = append(r.errs, err)
	}
	return r.text.String(), errors.Join(r.errs...)
}

// reader asks an engine everything, notes what it hears and goes on after errors.
type reader struct {
	e     *engine.Engine
	clock *enginetest.Clock
	text  strings.Builder
	errs  []error
}

func (r *reader) failed(err error) {
	if err != nil {
		r.errs = append(r.errs, err)
	}
}

func (r *reader) look(handles []handle.Handle) {
	topics, _ := r.e.Topics()
	for _, t := range topics {
		fmt.Fprintf(&r.text, "topic %s %d %d pending %d\n", t.Name, t.ID, t.Attrs, t.Pending)
		for n, q := range t.Queues {
			fmt.Fprintf(&r.text, " queue %d %d-%d\n", n, q.Min, q.Visible)
			r.pull(t.Name, n, q.Min)
		}
		for n := range t.Queues {
			off, ok, _ := r.e.Committed("g", t.Name, n)
			fmt.Fprintf(&r.text, " committed %d %d %v\n", n, off, ok)
		}
	}
	groups, _ := r.e.Groups()
	for _, g := range groups {
		fmt.Fprintf(&r.text, "group %+v\n", g)
	}
	for _, h := range handles {
		got, _, err := r.e.Verdict(h)
		r.failed(err)
		fmt.Fprintf(&r.text, "message %d %d %v\n", h.ID, h.Due, got)
		if got == engine.Scheduled {
			_, err := r.e.ReadPending(h)
			r.failed(err)
		}
	}
}

func (r *reader) pull(topic string, queue int, from int64) {
	var p engine.Pulled
	for {
		err := r.e.Pull(engine.PullRequest{Topic: topic, Queue: queue, Offset: from, MaxCount: 50, MaxBytes: 1 << 20}, &p)
		if err != nil {
			r.failed(err)
			return
		}
		for i := range p.Messages {
			m := &p.Messages[i]
			r.failed(m.Err)
			fmt.Fprintf(&r.text, "  %d %q %q %x %d %d %d %d\n", m.Offset, m.Key, m.Tag, m.Body, m.ID, m.DueMs, m.StoreMs, m.Level)
		}
		if p.Next == from || p.Next >= p.Max {
			return
		}
		from = p.Next
	}
}

// drain does all that can be done now. An error ends it: it would come again.
func (r *reader) drain() {
	for range 1000 {
		st := r.e.Tick()
		if st.Err != nil {
			r.failed(st.Err)
			return
		}
		failed := false
		for _, j := range append([]*engine.Job(nil), st.Jobs...) {
			if err := j.Run(); err != nil {
				r.failed(err)
				failed = true
			}
			for !r.e.Install(j) {
			}
		}
		err := r.e.Commit()
		pos, serr := r.e.Sync()
		if err = errors.Join(err, serr); err != nil {
			r.failed(err)
			return
		}
		r.e.Release(pos)
		if failed || len(st.Jobs) == 0 && st.Next > r.clock.Wall() {
			return
		}
	}
}

// damage is one way to damage a disk; it says what it did and which files may be named for it, or "" for nothing.
type damage struct {
	name string
	do   func(r *rand.Rand, disk *crashfs.FS, name string, size int64, others []string) (what string, err error)
	// whole: the file is not damaged but gone, or another.
	whole bool
}

var damages = []damage{
	{"flip", func(r *rand.Rand, disk *crashfs.FS, name string, size int64, _ []string) (string, error) {
		if size == 0 {
			return "", nil
		}
		bit := r.Int64N(size * 8)
		return fmt.Sprintf("bit %d of byte %d", bit%8, bit/8), disk.Rot(name, bit)
	}, false},
	{"cut", func(r *rand.Rand, disk *crashfs.FS, name string, size int64, _ []string) (string, error) {
		if size == 0 {
			return "", nil
		}
		to := r.Int64N(size)
		return fmt.Sprintf("cut to %d of %d", to, size), disk.Cut(name, to)
	}, false},
	{"swap sectors", func(r *rand.Rand, disk *crashfs.FS, name string, size int64, _ []string) (string, error) {
		if size < 1024 {
			return "", nil
		}
		a, b := r.Int64N(size/512), r.Int64N(size/512)
		if a == b {
			return "", nil
		}
		return fmt.Sprintf("sectors %d and %d", a, b), disk.SwapSectors(name, a, b)
	}, false},
	{"delete", func(_ *rand.Rand, disk *crashfs.FS, name string, _ int64, _ []string) (string, error) {
		return "deleted", disk.Vanish(name)
	}, true},
	{"swap files", func(r *rand.Rand, disk *crashfs.FS, name string, _ int64, others []string) (string, error) {
		other := others[r.IntN(len(others))]
		if other == name {
			return "", nil
		}
		return "swapped with " + other, swapFiles(disk, name, other)
	}, true},
}

func swapFiles(disk *crashfs.FS, a, b string) error {
	for _, step := range [][2]string{{a, "swap"}, {b, a}, {"swap", b}} {
		if err := disk.Rename(step[0], step[1]); err != nil {
			return err
		}
	}
	return errors.Join(disk.SyncDir("."), disk.SyncDir(path.Dir(a)), disk.SyncDir(path.Dir(b)))
}

// endDamage flips a bit near the end of the log: in the batch that may have no witness, or the one before.
func endDamage(end int64) damage {
	return damage{"flip at the end", func(r *rand.Rand, disk *crashfs.FS, name string, _ int64, _ []string) (string, error) {
		bit := end*8 - 1 - r.Int64N(min(end, 600)*8)
		return fmt.Sprintf("bit %d of byte %d", bit%8, bit/8), disk.Rot(name, bit)
	}, false}
}

// TestCorruption damages a store at rest, one thing at a time, and reads all of it. Nothing may change without an error that
// names the file and the byte. What changes nothing was harmless: padding, a cache that was made anew, a copy of which
// there are two. The last batch, as long as nothing witnesses it, may be cut like one that was never finished.
func TestCorruption(t *testing.T) {
	n := enginetest.ReadVolume(t).Pick(150, 5000, 200_000)
	if testing.Short() {
		n /= 3
	}
	bases := []*damaged{newDamaged(t, true), newDamaged(t, false)}
	var mu sync.Mutex
	count, harmless := map[string]int{}, map[string]int{}
	ran := enginetest.Seeds(t, 1, n, func(seed uint64) error {
		what, outcome, err := bases[seed%2].damage(seed)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		mu.Lock()
		count[outcome]++
		if outcome == "harmless" {
			harmless[top(what)]++
		}
		mu.Unlock()
		return nil
	})
	t.Logf("%d times damaged: %d loud, %d harmless, %d the last batch without a witness, %d nothing to damage", ran,
		count["loud"], count["harmless"], count["unwitnessed"], count["nothing"])
	t.Logf("harmless were %v", harmless)
	if count["loud"] == 0 && ran > 1 {
		t.Error("no damage was ever noticed")
	}
}

// damage damages a copy of the store and reads it.
func (d *damaged) damage(seed uint64) (what, outcome string, err error) {
	r := rand.New(rand.NewPCG(seed, 11))
	disk := d.disk.Clone()
	dir := d.dirs[r.IntN(len(d.dirs))]
	name := d.files[dir][r.IntN(len(d.files[dir]))]
	how := damages[max(r.IntN(len(damages)+4)-4, 0)] // half of them flips
	if dir == "commitlog" && r.IntN(4) == 0 {
		name, how = d.last, endDamage(d.end)
	}
	info, err := disk.Stat(name)
	if err != nil {
		return name, "", err
	}
	done, err := how.do(r, disk, name, info.Size, d.files[dir])
	what = fmt.Sprintf("%s: %s %s", name, how.name, done)
	if err != nil || done == "" {
		return what, "nothing", err
	}
	text, err := d.read(disk)
	switch {
	case err != nil && named(err, name, how.whole):
		return what, "loud", nil
	case err != nil:
		return what, "", fmt.Errorf("the error does not name the file and a byte: %w", err)
	case text == d.whole:
		return what, "harmless", nil
	case d.unwitnessed != "" && text == d.unwitnessed:
		return what, "unwitnessed", nil
	}
	return what, "", fmt.Errorf("silent: %s", firstDifference(d.whole, text))
}

// named says whether an error is about damage to a file, and names it. When a whole file is gone or another, one of its
// neighbours may be named: the one that ends too early, or the other half of a swap.
func named(err error, file string, whole bool) bool {
	var c *engine.CorruptError
	if errors.As(err, &c) {
		return (c.File == file || whole && top(c.File) == top(file)) && c.Offset >= 0
	}
	var p *os.PathError // a file that is missing has no byte to name
	return errors.As(err, &p) && p.Path == file || errors.Is(err, engine.ErrForeign) || errors.Is(err, engine.ErrNewer)
}

// top is the directory of the root that a file lies in, "." for the root itself.
func top(name string) string {
	if dir, _, below := strings.Cut(name, "/"); below {
		return dir
	}
	return "."
}

func firstDifference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d was %q, is %q", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("there were %d lines, now there are %d", len(a), len(b))
}

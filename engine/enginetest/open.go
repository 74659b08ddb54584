package enginetest

import (
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// Epoch is where a Store's clock begins: 2026-01-01 00:00 UTC, in milliseconds.
const Epoch = 1767225600000

// Config says what Open opens. The zero Config is a new store in memory with the options of most tests.
type Config struct {
	FS      vfs.FS         // nil: a crashfs without faults
	Dir     string         // empty: the root of FS
	Options engine.Options // zero fields get small sizes, so that files change within a short test
	Clock   *Clock         // nil: one that shows Epoch
	// Damaged leaves out what happens at the end of the test: Close, Check, and the comparison with a rebuild.
	Damaged bool
}

// Store is an engine with everything around it in one goroutine. It is not safe for concurrent use.
type Store struct {
	*engine.Solo
	FS    vfs.FS
	Clock *Clock

	t    testing.TB
	cfg  Config
	next int64
}

// SmallOptions are options under which segments, checkpoints, runs and files come and go within a short test.
func SmallOptions() engine.Options {
	return engine.Options{
		SegmentSize: 16 << 10, CheckpointEvery: 8 << 10, Reserve: -1, LooseEntries: 16, LooseRuns: 4, TailBytes: 64 << 10,
		BitsBytes: 64 << 10, FireChunk: 16, Queues: 2, UnitsPerFile: 8, EntriesPerFile: 8, TimerFileSize: 4 << 10,
	}
}

// Open opens a store. When the test ends it is closed, checked (engine.Check) and compared with what a rebuild from its
// log gives, so every test is a test of consistency. An error of any step is a failure of the test.
func Open(t testing.TB, cfg Config) *Store {
	t.Helper()
	if cfg.FS == nil {
		cfg.FS = crashfs.New(crashfs.Options{})
	}
	if cfg.Dir == "" {
		cfg.Dir = "."
	}
	if cfg.Clock == nil {
		cfg.Clock = NewClock(Epoch)
	}
	cfg.Options = withSmall(cfg.Options)
	s := &Store{FS: cfg.FS, Clock: cfg.Clock, t: t, cfg: cfg}
	s.open()
	t.Cleanup(s.finish)
	return s
}

// withSmall fills the zero fields of o from SmallOptions.
func withSmall(o engine.Options) engine.Options {
	small := SmallOptions()
	fill(&o.SegmentSize, small.SegmentSize)
	fill(&o.CheckpointEvery, small.CheckpointEvery)
	fill(&o.Reserve, small.Reserve)
	fill(&o.LooseEntries, small.LooseEntries)
	fill(&o.LooseRuns, small.LooseRuns)
	fill(&o.TailBytes, small.TailBytes)
	fill(&o.BitsBytes, small.BitsBytes)
	fill(&o.FireChunk, small.FireChunk)
	fill(&o.Queues, small.Queues)
	fill(&o.UnitsPerFile, small.UnitsPerFile)
	fill(&o.EntriesPerFile, small.EntriesPerFile)
	fill(&o.TimerFileSize, small.TimerFileSize)
	return o
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (s *Store) env() engine.Env {
	return engine.Env{FS: s.FS, Wall: s.Clock.Wall, Mono: s.Clock.Mono, Rand: newRandom(1)}
}

func (s *Store) open() {
	s.t.Helper()
	solo, err := engine.OpenSolo(s.env(), s.cfg.Dir, s.cfg.Options)
	if err != nil {
		s.t.Fatalf("open: %v", err)
	}
	s.Solo = solo
	s.Step()
}

// Do gives commands to the engine and returns the answers when they are durable. An error is a failure of the test; an
// answer that refuses is not.
func (s *Store) Do(cmds ...engine.Command) []engine.Answer {
	s.t.Helper()
	answers, err := s.Solo.Do(cmds...)
	if err != nil {
		s.t.Fatalf("do: %v", err)
	}
	return append([]engine.Answer(nil), answers...)
}

// Step lets the engine deliver what is due and do its jobs, until there is nothing to do. It returns when there will be.
func (s *Store) Step() (next int64) {
	s.t.Helper()
	next, err := s.Solo.Step()
	if err != nil {
		s.t.Fatalf("step: %v", err)
	}
	s.next = next
	return next
}

// Pass lets time pass, in one piece, and then does Step.
func (s *Store) Pass(d time.Duration) {
	s.t.Helper()
	s.Clock.Pass(d)
	s.Step()
}

// Pull reads one message of a queue, nil if there is none at the offset.
func (s *Store) Pull(topic string, queue int, offset int64) *engine.Message {
	s.t.Helper()
	var p engine.Pulled
	err := s.Solo.Pull(engine.PullRequest{Topic: topic, Queue: queue, Offset: offset, MaxCount: 1, MaxBytes: 1 << 20}, &p)
	if err != nil {
		s.t.Fatalf("pull %s/%d from %d: %v", topic, queue, offset, err)
	}
	if len(p.Messages) == 0 {
		return nil
	}
	return &p.Messages[0]
}

// Reopen closes the store and opens it again, after down of wall time.
func (s *Store) Reopen(down time.Duration) {
	s.t.Helper()
	if err := s.Close(); err != nil {
		s.t.Fatalf("close: %v", err)
	}
	s.Clock.Restart(down)
	s.open()
}

// Kill lets the process die, without Close, and opens the store again; the FS must be a crashfs. With power off, what
// was not synced is lost.
func (s *Store) Kill(power bool) {
	s.t.Helper()
	disk, ok := s.FS.(*crashfs.FS)
	if !ok {
		s.t.Fatal("kill: the file system is no crashfs")
	}
	if power {
		s.FS = disk.Crash(newRand(1), crashfs.Policy{})
	} else {
		s.FS = disk.Kill()
	}
	s.Clock.Restart(0)
	s.open()
}

// finish is the end of every test.
func (s *Store) finish() {
	if s.cfg.Damaged || s.t.Failed() {
		_ = s.Close() // the test has said what it had to say
		return
	}
	digest, pos := s.Digest(), s.Released()
	if err := s.Close(); err != nil {
		s.t.Errorf("close: %v", err)
		return
	}
	if err := checkFiles(s.FS, s.env(), s.cfg.Dir, s.cfg.Options); err != nil {
		s.t.Error(err)
		return
	}
	e, err := rebuilt(s.FS, s.env(), s.cfg.Dir, s.cfg.Options)
	if err != nil {
		s.t.Error(err)
		return
	}
	if got := e.Digest(); got != digest || e.Released() != pos {
		s.t.Errorf("a rebuild gives state %x at %d, the store had %x at %d", got, e.Released(), digest, pos)
	}
	if err := e.Close(); err != nil {
		s.t.Errorf("close after a rebuild: %v", err)
	}
}

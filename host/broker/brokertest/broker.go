package brokertest

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/spf13/afero"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/fsadapter/faultfs"
	"github.com/tidewheel/tidewheel/host/broker"
)

// Broker is a broker of a test. Its methods are those of broker.Broker and some that fail the test on an error. It is
// safe for concurrent use, except for Crash.
type Broker struct {
	*broker.Broker

	t    testing.TB
	opts broker.Options
	fs   vfs.FS
	next func() vfs.FS // ends the life of fs, and is what the next process finds
}

// Open opens a broker on an empty file system in memory. At most one Options is given; none is the zero Options. When
// the test ends the broker is closed and its files are checked (engine.Check): what is wrong fails the test.
func Open(t testing.TB, opts ...broker.Options) *Broker {
	t.Helper()
	memory := fsadapter.New(afero.NewMemMapFs())
	b := &Broker{t: t, opts: only(t, opts)}
	life := faultfs.New(memory)
	b.fs = life
	b.next = func() vfs.FS {
		life.Add(faultfs.Rule{Op: faultfs.Any, Sticky: true}) // the dead write no more
		life = faultfs.New(memory)
		return life
	}
	b.begin()
	return b
}

// OpenCrash is Open on a disk that forgets: after Crash it holds what was synced, and of the rest as much as is drawn
// from the seed. Print the seed when a test fails.
func OpenCrash(t testing.TB, seed uint64, opts ...broker.Options) *Broker {
	t.Helper()
	b := &Broker{t: t, opts: only(t, opts)}
	random := rand.New(rand.NewPCG(seed, seed))
	disk := crashfs.New(crashfs.Options{})
	b.fs = disk
	b.next = func() vfs.FS {
		policies := crashfs.Policies()
		disk = disk.Crash(random, policies[random.IntN(len(policies))])
		return disk
	}
	b.begin()
	return b
}

// only is the one Options that may be given.
func only(t testing.TB, opts []broker.Options) broker.Options {
	t.Helper()
	switch len(opts) {
	case 0:
		return broker.Options{}
	case 1:
		return opts[0]
	}
	t.Fatalf("brokertest: %d Options, allowed is one", len(opts))
	return broker.Options{}
}

func (b *Broker) begin() {
	b.t.Helper()
	b.t.Cleanup(b.finish)
	b.reopen()
}

func (b *Broker) reopen() {
	b.t.Helper()
	opened, err := broker.Open(broker.Env{FS: b.fs}, ".", b.opts)
	if err != nil {
		b.t.Fatalf("brokertest: open: %v", err)
	}
	b.Broker = opened
}

// Crash ends the broker without letting it write another byte, as kill -9 does, and opens what it left: on a broker of
// OpenCrash it is a power cut. Calls that are on their way end with an error; b is the new broker afterwards. Nothing
// else may use b meanwhile but calls that were made before.
func Crash(b *Broker) {
	b.t.Helper()
	disk := b.next()
	_ = b.Close() // it finds its files dead, and lets go of its goroutines
	b.fs = disk
	b.reopen()
}

// finish is the end of every test.
func (b *Broker) finish() {
	if b.Broker == nil {
		return
	}
	if err := b.Close(); err != nil && !errors.Is(err, broker.ErrClosed) {
		b.t.Errorf("brokertest: close: %v", err)
		return
	}
	env := engine.Env{FS: b.fs, Wall: func() int64 { return time.Now().UnixMilli() }, Mono: func() int64 { return 0 }}
	if _, err := engine.Check(env, ".", b.opts.Engine); err != nil {
		b.t.Errorf("brokertest: check: %v", err)
	}
}

// MustPut stores a message that becomes visible after a delay, at once if that is 0, and returns its receipt. An error
// ends the test.
func (b *Broker) MustPut(topic, body string, delay time.Duration) broker.Receipt {
	b.t.Helper()
	m := broker.Message{Topic: topic, Body: []byte(body)}
	if delay != 0 {
		m.At = broker.In(delay)
	}
	r, err := b.Put(b.t.Context(), m)
	if err != nil {
		b.t.Fatalf("brokertest: put into %s: %v", topic, err)
	}
	return r
}

package delivery

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/egress"
	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
)

// Plugin answers the hooks prepare and result. *plugins.Plugin is one.
type Plugin interface {
	// Decide decides about records, as many as it can.
	Decide(ctx context.Context, call plugins.Call, records []abi.Record, a *plugins.Answer) error
}

// Broker is where the messages are. *broker.Broker is one.
type Broker interface {
	// Pull leases messages for the group, and waits for the first one.
	Pull(ctx context.Context, req broker.PullRequest, into *broker.Pulled) error
	// Settle ends leases, durably, one by one; an error for each.
	Settle(ctx context.Context, all []broker.Settlement) []error
	// GiveBack ends a lease whose message was not tried.
	GiveBack(receipt string)
	// Extend makes a lease end that long from now.
	Extend(ctx context.Context, receipt string, d time.Duration) error
	// TopicsNow lists the topics there are.
	TopicsNow() []engine.TopicInfo
	// NowMs is the time, ms since 1970.
	NowMs() int64
}

// Sender makes requests. *egress.Client is one.
type Sender interface {
	// Target checks a URL; the error is of kind egress.ErrRefused.
	Target(url string) (*egress.Target, error)
	// Do makes a request; the error is of kind egress.ErrRefused, or an *egress.Error.
	Do(ctx context.Context, r *egress.Request) (*egress.Response, error)
}

// Config says what a worker delivers, and how. Broker, Plugin, Client, Record and Match are required.
type Config struct {
	Name   string // of the plugin
	Group  string // "": broker.PluginGroup(Name)
	Broker Broker
	Plugin Plugin
	Client Sender // its user closes it
	// Match says whether a topic's messages are to be delivered. Topics whose name begins with % never are.
	Match func(topic string) bool
	// Record makes of a message what the plugin sees. Its slices may be those of the message.
	Record func(d *broker.Delivery, r *abi.Record)
	// Policy is the plugin's failure policy: it decides about requests that may not be made.
	Policy plugins.Policy

	Secrets     []egress.Secret // that sign; none: requests are not signed
	Concurrency int             // requests at once; 16
	Timeout     time.Duration   // that Client has; leases are that much longer; 10 s
	MaxAttempts int             // deliveries before a message becomes a dead letter; 16

	Log *slog.Logger // nil: silence
}

func (c Config) withDefaults() Config {
	if c.Group == "" {
		c.Group = broker.PluginGroup(c.Name)
	}
	if c.Concurrency == 0 {
		c.Concurrency = 16
	}
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Second
	}
	if c.MaxAttempts == 0 {
		c.MaxAttempts = 16
	}
	if c.Policy.RetryMax == 0 {
		c.Policy.RetryMax = 5
	}
	if c.Policy.RetryDelayMs == 0 {
		c.Policy.RetryDelayMs = 1000
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Log = c.Log.With("plugin", c.Name)
	return c
}

const (
	// lookEvery is how soon a topic that was made is read. With very many topics it takes longer, up to longestLook, so that
	// looking takes less than 1/lookShare of a processor.
	lookEvery, longestLook, lookShare = time.Second, 10 * time.Second, 400
	// marginOfLease is how much longer than a request a lease is at least.
	marginOfLease = 20 * time.Second
	// firstPause and longestPause bound the waits between tries of what cannot be done now.
	firstPause, longestPause = 100 * time.Millisecond, 5 * time.Second
	// handBytes is how much of messages is in hand at most when another pull begins.
	handBytes = 32 << 20
	// settleTime is how long a message that was delivered may take to be settled after the worker was told to end.
	settleTime = time.Second
)

// Worker delivers the messages of one plugin's group:
//
//  1. Start makes it read every topic that matches, also those that are made later.
//  2. Close ends the pulls at once, lets requests that are on their way end until its context does, cancels what is left, and
//     gives back what was not sent.
//
// Safe for concurrent use.
type Worker struct {
	c     Config
	lease time.Duration
	hosts hosts
	stats stats

	pulling  context.Context // ends when Close begins
	sending  context.Context // ends when requests are to be cancelled
	settling context.Context // ends settleTime after that
	stop     [3]context.CancelFunc

	slots   chan struct{} // one is held by each request
	working sync.WaitGroup
	keeping sync.WaitGroup

	mu      sync.Mutex
	readers map[string]struct{} // topics that are read, guarded by mu
	held    map[string]struct{} // receipts whose leases go on, guarded by mu
	bytes   int                 // of what is held, guarded by mu
	roomier chan struct{}       // closed when less is held; nil: nobody waits for that; guarded by mu
}

// Start makes a worker and sets it to work. It must be closed, before the broker, the plugin and the client are.
func Start(c Config) *Worker {
	c = c.withDefaults()
	w := &Worker{
		c: c, lease: 2*c.Timeout + marginOfLease, slots: make(chan struct{}, c.Concurrency),
		readers: map[string]struct{}{}, held: map[string]struct{}{},
	}
	w.stats.begin()
	w.pulling, w.stop[0] = context.WithCancel(context.Background())
	w.sending, w.stop[1] = context.WithCancel(context.Background())
	w.settling, w.stop[2] = context.WithCancel(context.Background())
	w.working.Go(w.look)
	w.keeping.Go(w.keep)
	return w
}

// Close ends the worker; see Worker. It returns when nothing of it is at work any more: soon after ctx has ended.
func (w *Worker) Close(ctx context.Context) {
	w.stop[0]()
	done := make(chan struct{})
	go func() {
		w.working.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		w.stop[1]()
		last := time.AfterFunc(settleTime, w.stop[2])
		defer last.Stop()
		<-done
	}
	w.stop[1]()
	w.stop[2]()
	w.keeping.Wait()
}

// look starts a reader for each topic that matches and has none.
func (w *Worker) look() {
	for {
		begun := time.Now()
		for _, t := range w.c.Broker.TopicsNow() {
			if !strings.HasPrefix(t.Name, "%") && w.c.Match(t.Name) && w.begins(t.Name) {
				w.working.Go(func() {
					defer w.ends(t.Name)
					w.read(t.Name)
				})
			}
		}
		if !pause(w.pulling, min(max(lookShare*time.Since(begun), lookEvery), longestLook)) {
			return
		}
	}
}

// begins says whether a topic has no reader, and notes that it has one now.
func (w *Worker) begins(topic string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.readers[topic]; ok {
		return false
	}
	w.readers[topic] = struct{}{}
	return true
}

func (w *Worker) ends(topic string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.readers, topic)
}

// read hands a topic's messages on until the worker or the topic ends.
func (w *Worker) read(topic string) {
	req := broker.PullRequest{
		Topic: topic, Group: w.c.Group, AckTimeout: w.lease, Wait: broker.MaxWait, MaxAttempts: w.c.MaxAttempts,
		MaxCount: min(w.c.Concurrency, broker.MaxPull), MaxBytes: 1 << 20,
	}
	for wait := firstPause; ; {
		if !w.room(w.pulling) {
			return
		}
		into := new(broker.Pulled) // the messages are used after the next Pull
		err := w.c.Broker.Pull(w.pulling, req, into)
		switch {
		case w.pulling.Err() != nil || errors.Is(err, broker.ErrClosed) || errors.Is(err, engine.ErrNoTopic):
			w.giveBack(held(w, into)...)
			return
		case err != nil:
			w.trouble("messages cannot be read", err, "topic", topic)
			pause(w.pulling, wait)
			wait = min(2*wait, longestPause)
			continue
		}
		wait = firstPause
		if all := held(w, into); len(all) > 0 {
			w.hold(all)
			w.prepare(all)
		}
	}
}

// held makes tasks of what was pulled.
func held(w *Worker, p *broker.Pulled) []*task {
	var all []*task
	for d := range p.Deliveries() {
		all = append(all, &task{w: w, d: d})
	}
	return all
}

// pause waits, and says whether the context goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// trouble notes what an operator should know.
func (w *Worker) trouble(what string, err error, args ...any) {
	w.stats.trouble(what+": "+err.Error(), w.c.Broker.NowMs())
	w.c.Log.Warn(what, append(args, "group", w.c.Group, "err", err)...)
}

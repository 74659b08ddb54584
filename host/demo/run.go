package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidewheel/tidewheel/host/client"
	"github.com/tidewheel/tidewheel/host/config"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

// Config says what a run does.
type Config struct {
	Events []Event
	Exe    string // the program that has the verb serve
	Dir    string // data directory, empty or new; the configuration and the plugins go beside it
	// KillAt are the times after the start at which the server is killed; it stays down for Down each time.
	KillAt []time.Duration
	Down   time.Duration
	// Check looks at the files when the server has stopped: CheckClean, or what is wrong.
	Check func(dir string) string
	// Progress hears how it goes, a few times a second and in the end, from one goroutine at a time. It costs the server a
	// look at what is ahead. May be nil.
	Progress func(Progress)
	// Killed hears of each kill and, when there is a server again, of its end. Calls of Progress may come meanwhile. May be
	// nil.
	Killed func(Kill)
}

// producers put side by side, and cancellers cancel.
const producers = 32

// eventProperty is the property that has an event's id.
const eventProperty = "event"

// patience is how long after its last due time a message may still be on its way.
const patience = 15 * time.Second

// group is the consumers' group.
const group = "demo"

// run is a run on its way.
type run struct {
	cfg     Config
	ledger  *ledger
	conf    string // the server's configuration
	began   time.Time
	up      upstream
	pending sync.WaitGroup // puts and cancels
	phase   atomic.Int32   // a Phase; Storing until the end, but for the kills
	ahead   outlook
	kills   []Duration // from kill to ready
	starts  []Duration
	broken  atomic.Pointer[error] // the first error that ends the run
	cancel  context.CancelFunc
}

// Run does it all, and ends within about the last event's time and delay. The error means that no account can be given:
// the server did not start, or an answer made no sense.
func Run(asked context.Context, cfg Config) (Report, error) {
	ctx, cancel := context.WithCancel(asked)
	defer cancel()
	r := &run{cfg: cfg, ledger: newLedger(cfg.Events), began: time.Now(), cancel: cancel}
	hooks, err := startReceiver(r.ledger)
	if err != nil {
		return Report{}, err
	}
	defer hooks.stop()
	if r.conf, err = installPlugins(filepath.Dir(cfg.Dir), hooks.addr); err != nil {
		return Report{}, err
	}
	server, err := r.launch(ctx)
	if err != nil {
		return Report{}, err
	}
	r.up.set(server.URL)
	r.phase.Store(int32(Storing))
	stopReport := r.startReport(ctx)
	defer stopReport()
	var background sync.WaitGroup
	consuming, stopConsuming := context.WithCancel(ctx)
	for _, topic := range topics(cfg.Events) {
		background.Go(func() { r.consume(consuming, topic) })
	}
	background.Go(func() { r.follow(consuming) })
	r.pending.Go(func() { r.produce(ctx) })

	r.watch(server)

	server, err = r.killings(ctx, server)
	if err != nil {
		cancel()
	}
	r.pending.Wait()
	r.settle(ctx)
	stopConsuming()
	background.Wait()
	r.phase.Store(int32(Checking))
	if asked.Err() != nil {
		err = fmt.Errorf("demo: stopped before its end: %w", context.Cause(asked))
	}
	if err == nil {
		err = r.audit(ctx)
	}
	if server != nil {
		err = errors.Join(err, server.Stop(5*time.Second))
	}
	r.up.closeIdle()
	if broken := r.broken.Load(); broken != nil {
		err = *broken
	}
	if err != nil {
		return Report{}, err
	}
	out := r.ledger.judge()
	out.Kills, out.Down, out.Recover = len(r.kills), r.kills, r.starts
	out.Check = cfg.Check(cfg.Dir)
	out.Took = Duration(time.Since(r.began))
	stopReport()
	r.phase.Store(int32(Done))
	if cfg.Progress != nil {
		cfg.Progress(r.progress())
	}
	return out, nil
}

// launch starts a server on the files, with the plugins.
func (r *run) launch(ctx context.Context) (*Process, error) {
	return Launch(ctx, r.cfg.Exe, r.cfg.Dir, "-c", r.conf)
}

// topics lists the topics of events, in order of appearance.
func topics(events []Event) []string {
	var list []string
	seen := map[string]bool{}
	for _, e := range events {
		if !seen[e.Topic] {
			seen[e.Topic] = true
			list = append(list, e.Topic)
		}
	}
	return list
}

// fail ends the run.
func (r *run) fail(err error) {
	r.broken.CompareAndSwap(nil, &err)
	r.cancel()
}

// watch ends the run when a server ends that nobody asked to.
func (r *run) watch(server *Process) {
	go func() {
		<-server.Ended()
		if err := server.Failure(); err != nil {
			r.fail(err)
		}
	}()
}

// sleep waits until a time after the start; false when the run ends before.
func (r *run) sleep(ctx context.Context, at time.Duration) bool {
	timer := time.NewTimer(at - time.Since(r.began))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// killings kills the server at its times and starts it again. It returns the last server.
func (r *run) killings(ctx context.Context, server *Process) (*Process, error) {
	for _, at := range r.cfg.KillAt {
		if !r.sleep(ctx, at) {
			return server, ctx.Err()
		}
		killed := time.Now()
		server.Kill()
		r.phase.Store(int32(Killed))
		r.up.set("")
		kill := Kill{At: killed.Sub(r.began), Pending: r.ledger.now().pending()}
		r.killed(kill)
		if !r.sleep(ctx, time.Since(r.began)+r.cfg.Down) {
			return nil, ctx.Err()
		}
		r.phase.Store(int32(Recovering))
		next, err := r.launch(ctx)
		if err != nil {
			return nil, err
		}
		ready := time.Now()
		r.ledger.down(killed, ready)
		r.kills = append(r.kills, Duration(ready.Sub(killed)))
		r.starts = append(r.starts, Duration(next.Start))
		server = next
		r.watch(server)
		r.phase.Store(int32(Storing))
		r.up.set(server.URL)
		kill.Down, kill.Recover = ready.Sub(killed), next.Start
		r.killed(kill)
	}
	return server, nil
}

// produce puts each event at its time.
func (r *run) produce(ctx context.Context) {
	work := make(chan *Event)
	var workers sync.WaitGroup
	for range producers {
		workers.Go(func() {
			for e := range work {
				r.put(ctx, e)
			}
		})
	}
	for i := range r.cfg.Events {
		e := &r.cfg.Events[i]
		if !r.sleep(ctx, time.Duration(e.AtMs)*time.Millisecond) {
			break
		}
		work <- e
	}
	close(work)
	workers.Wait()
}

// put sends an event until it is acknowledged, and has it cancelled later if it is one of those.
func (r *run) put(ctx context.Context, e *Event) {
	body := string(e.Body)
	envelope := httpapi.Envelope{
		Body: &body, DelayLevel: e.Level, Time: e.time(), Key: e.ID, Tag: e.Tag, Properties: e.properties(),
		IdempotencyKey: &e.ID,
	}
	var stored httpapi.Stored
	ok := r.retry(ctx, func(c *client.Client) (err error) {
		r.ledger.sending(e.ID, time.Now().UnixMilli())
		stored, err = c.Put(ctx, e.Topic, envelope)
		if errors.Is(err, client.ErrNotSent) {
			r.ledger.unsent(e.ID)
		}
		return err
	})
	if !ok {
		return
	}
	r.ledger.acked(e.ID, stored.DueMs, stored.Replayed)
	if e.CancelAfterMs > 0 || e.MoveAfterMs > 0 {
		at := time.Since(r.began) + time.Duration(e.CancelAfterMs+e.MoveAfterMs)*time.Millisecond
		r.pending.Go(func() {
			if !r.sleep(ctx, at) {
				return
			}
			if e.MoveAfterMs > 0 {
				r.move(ctx, e, stored)
			} else {
				r.takeBack(ctx, e, stored.Handle)
			}
		})
	}
}

// properties are what the message carries beside key, tag and body.
func (e *Event) properties() map[string]string {
	p := map[string]string{eventProperty: e.ID}
	if e.Paid {
		p[paidProperty] = "true"
	}
	return p
}

// time is the event's delay, if it has no level.
func (e *Event) time() httpapi.Time {
	if e.Level > 0 {
		return httpapi.Time{}
	}
	delay := config.Duration(e.delay()).String()
	return httpapi.Time{Delay: &delay}
}

// move gives an event another due time. When the kill cut off an answer, the second try finds the handle superseded: then
// the first one was done, and the new time is known all the same.
func (r *run) move(ctx context.Context, e *Event, stored httpapi.Stored) {
	due, tries := int64(0), 0
	sign := "+"
	if e.MoveByMs < 0 {
		sign = "-"
	}
	by := sign + config.Duration(e.shift().Abs()).String()
	ok := r.retry(ctx, func(c *client.Client) error {
		tries++
		got, err := c.Move(ctx, stored.Handle, httpapi.Reschedule{By: &by})
		var p *httpapi.Problem
		switch {
		case err == nil:
			due = got.DueMs
		case errors.As(err, &p) && p.Code == "superseded" && tries > 1:
			due = stored.DueMs + e.MoveByMs
			return nil
		case errors.As(err, &p) && p.Code == "already_delivered":
			return nil
		}
		return err
	})
	if ok && due != 0 {
		r.ledger.moved(e.ID, due)
	}
}

// takeBack cancels an event. Too late is an answer too.
func (r *run) takeBack(ctx context.Context, e *Event, handle string) {
	cancelled := false
	r.retry(ctx, func(c *client.Client) error {
		_, err := c.Cancel(ctx, handle)
		var p *httpapi.Problem
		if errors.As(err, &p) && p.Status == http.StatusConflict {
			return nil
		}
		cancelled = err == nil
		return err
	})
	if cancelled {
		r.ledger.cancelled(e.ID)
	}
}

// retry calls the server until it answers; false when the run ends before. An answer that is a refusal ends the run:
// nothing here may be refused.
func (r *run) retry(ctx context.Context, call func(*client.Client) error) bool {
	for {
		c, changed, err := r.up.client(ctx)
		if err != nil {
			return false
		}
		err = call(c)
		if err == nil {
			return true
		}
		var p *httpapi.Problem
		if errors.As(err, &p) && p.Code != "closing" && p.Code != "unknown_outcome" {
			r.fail(fmt.Errorf("demo: refused: %w", err))
			return false
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		case <-time.After(100 * time.Millisecond): // the connection was bad, not the server
		}
	}
}

// consume reads a topic as a group until the context ends.
func (r *run) consume(ctx context.Context, topic string) {
	for ctx.Err() == nil {
		var got httpapi.Messages
		ok := r.retry(ctx, func(c *client.Client) (err error) {
			got, err = c.Pull(ctx, client.Pull{Topic: topic, Group: group, Max: 256, Wait: time.Second})
			var p *httpapi.Problem
			if errors.As(err, &p) && p.Code == "unknown_topic" { // nothing was put yet
				return nil
			}
			return err
		})
		if !ok {
			return
		}
		received := time.Now()
		if len(got.Messages) == 0 {
			r.sleep(ctx, time.Since(r.began)+10*time.Millisecond)
			continue
		}
		for i := range got.Messages {
			m := &got.Messages[i]
			r.ledger.arrived(place{topic, m.Queue, int64(m.Offset)}, m.Properties[eventProperty], m.DueMs, received)
		}
		ack := httpapi.Ack{Group: group}
		for _, n := range got.Next {
			ack.Offsets = append(ack.Offsets, n.QueueOffset)
		}
		if !r.retry(ctx, func(c *client.Client) error { return c.Ack(ctx, topic, ack) }) {
			return
		}
	}
}

// settle waits until everything has arrived that must, and what may: copies whose answer was cut off.
func (r *run) settle(ctx context.Context) {
	last := r.cfg.Events[len(r.cfg.Events)-1]
	longest := time.Duration(0)
	for i := range r.cfg.Events {
		longest = max(longest, r.cfg.Events[i].delay()+max(r.cfg.Events[i].shift(), 0))
	}
	end := max(time.Since(r.began), time.Duration(last.AtMs)*time.Millisecond) + longest
	for time.Since(r.began) < end+patience && !r.ledger.settled() {
		if !r.sleep(ctx, time.Since(r.began)+20*time.Millisecond) {
			return
		}
	}
	for _, kill := range r.ledger.outages {
		// A send just before the kill is due its delay later at most.
		from := time.UnixMicro(kill.from).Sub(r.began)
		r.sleep(ctx, from+longest+time.Second)
	}
}

// audit reads every queue from its first offset.
func (r *run) audit(ctx context.Context) error {
	c, _, err := r.up.client(ctx)
	if err != nil {
		return err
	}
	r.ledger.auditing(time.Now().UnixMilli())
	list, err := c.Topics(ctx)
	if err != nil {
		return fmt.Errorf("demo: audit: %w", err)
	}
	sent := topics(r.cfg.Events)
	for _, topic := range list.Topics {
		if !slices.Contains(sent, topic.Name) {
			continue // copies that a plugin's group tries again
		}
		for _, q := range topic.Queues {
			for at := q.Min; at < q.Max; {
				got, err := c.Pull(ctx, client.Pull{
					Topic: topic.Name, From: []httpapi.QueueOffset{{Queue: q.Queue, Offset: at}}, Max: 1000,
				})
				if err != nil {
					return fmt.Errorf("demo: audit: %w", err)
				}
				for i := range got.Messages {
					m := &got.Messages[i]
					if m.Problem != nil {
						return fmt.Errorf("demo: audit: %w", m.Problem)
					}
					r.ledger.audited(place{topic.Name, m.Queue, int64(m.Offset)}, m.Properties[eventProperty], m.DueMs)
				}
				if got.Next[0].Offset <= at {
					return fmt.Errorf("demo: audit: %s queue %d does not go on from offset %d", topic.Name, q.Queue, at)
				}
				at = got.Next[0].Offset
			}
		}
	}
	return nil
}

// upstream is where the server is now. It is safe for concurrent use.
type upstream struct {
	mu      sync.Mutex
	c       *client.Client
	changed chan struct{} // closed by set
}

// set says that the server is at a URL, or nowhere.
func (u *upstream) set(url string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.c != nil {
		u.c.CloseIdle()
	}
	u.c = nil
	if url != "" {
		u.c, _ = client.New(url) // the server has named it
	}
	if u.changed != nil {
		close(u.changed)
	}
	u.changed = make(chan struct{})
}

// client is the server's client, as soon as there is one; changed is closed when it is another one.
func (u *upstream) client(ctx context.Context) (c *client.Client, changed <-chan struct{}, err error) {
	for {
		u.mu.Lock()
		c, changed := u.c, u.changed
		u.mu.Unlock()
		if c != nil {
			return c, changed, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

func (u *upstream) closeIdle() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.c != nil {
		u.c.CloseIdle()
	}
}

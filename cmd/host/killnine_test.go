package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/host/client"
	"github.com/tidewheel/tidewheel/host/demo"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

// killLevels is the table of TestKillNine.
var killLevels = [...]time.Duration{50 * time.Millisecond, 300 * time.Millisecond, time.Second}

const killTable = "50ms 300ms 1s"

// Of a load: who puts, where, and how many queues there are.
const (
	killProducers = 12
	killTopics    = 2
	killQueues    = 4
	kills         = 20
)

// TestKillNine kills a real server on real files with SIGKILL, twenty times under load over HTTP, sometimes while it recovers,
// and holds what it said against what it has: nothing acknowledged is lost, everything stands in its topic once, in
// order per level, never early, at offsets without gaps where the same message stays for ever; committed offsets and
// cancels hold. TIDEWHEEL_SEED repeats the schedule of a run, as far as processes can be repeated.
func TestKillNine(t *testing.T) {
	seed := killSeed(t)
	rounds := kills
	if testing.Short() {
		rounds = 4
	}
	d := &killDriver{
		t: t, seed: seed, dir: filepath.Join(t.TempDir(), "data"), r: rand.New(rand.NewPCG(seed, 0)),
		messages: map[string]*killMessage{}, places: map[killPlace]string{}, committed: map[killQueue]int64{},
	}
	for round := range rounds {
		if round%5 == 4 {
			d.killWhileStarting()
		}
		d.load(round, 50+time.Duration(d.r.IntN(250)))
	}
	d.settle()
	if !t.Failed() {
		t.Logf("%d kills: %d messages put, %d acknowledged, %d cancelled, %d delivered",
			d.kills, len(d.messages), d.count(func(m *killMessage) bool { return m.acked }),
			d.count(func(m *killMessage) bool { return m.cancelled }), len(d.places))
	}
}

// killSeed is the seed of a run: that of TIDEWHEEL_SEED, or any.
func killSeed(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("TIDEWHEEL_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	t.Logf("seed %d", seed)
	return seed
}

// killDriver puts, reads and judges.
type killDriver struct {
	t     *testing.T
	seed  uint64
	dir   string
	r     *rand.Rand
	kills int

	mu        sync.Mutex
	messages  map[string]*killMessage
	places    map[killPlace]string
	committed map[killQueue]int64 // acknowledged commits of the group
	requested map[killQueue]int64 // and the highest that were asked for
}

type (
	killQueue struct {
		topic string
		queue int
	}
	killPlace struct {
		killQueue
		offset int64
	}
)

// killMessage is what the driver knows of a message. Each is sent once.
type killMessage struct {
	topic     string
	level     int
	delayMs   int64 // of one with a time of its own
	sentMs    int64
	acked     bool
	stored    httpapi.Stored
	cancelled bool // answered so
	inDoubt   bool // a cancel that nobody answered
	tooLate   bool
	seen      int // by the last reading
}

func (d *killDriver) count(which func(*killMessage) bool) int {
	n := 0
	for _, m := range d.messages {
		if which(m) {
			n++
		}
	}
	return n
}

// fatal stops the test, and says how to repeat it.
func (d *killDriver) fatal(format string, args ...any) {
	d.t.Helper()
	d.t.Fatalf("seed %d: %s", d.seed, fmt.Sprintf(format, args...))
}

// wrong notes a broken promise; safe for any goroutine.
func (d *killDriver) wrong(format string, args ...any) {
	d.t.Helper()
	d.t.Errorf("seed %d: %s", d.seed, fmt.Sprintf(format, args...))
}

func (d *killDriver) launch() *demo.Process {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	p, err := demo.Launch(ctx, program(), d.dir, "--levels", killTable)
	if err != nil {
		d.fatal("%v", err)
	}
	return p
}

// killWhileStarting lets a server begin to recover and kills it then.
func (d *killDriver) killWhileStarting() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(5+d.r.IntN(120))*time.Millisecond)
	defer cancel()
	p, err := demo.Launch(ctx, program(), d.dir, "--levels", killTable)
	if err == nil {
		p.Kill() // it was quick
	}
	d.kills++
}

// load runs a server under load for some milliseconds and kills it.
func (d *killDriver) load(round int, ms time.Duration) {
	p := d.launch()
	c, err := client.New(p.URL)
	if err != nil {
		d.fatal("%v", err)
	}
	defer c.CloseIdle()
	var wg sync.WaitGroup
	for n := range killProducers {
		r := rand.New(rand.NewPCG(d.seed, uint64(round)<<8|uint64(n)))
		wg.Go(func() { d.produce(c, r, fmt.Sprintf("%d-%d", round, n)) })
	}
	for n := range killTopics {
		wg.Go(func() { d.consume(c, fmt.Sprintf("topic%d", n)) })
	}
	select {
	case <-time.After(ms * time.Millisecond):
	case <-p.Ended():
		d.wrong("%v", p.Failure())
	}
	p.Kill()
	wg.Wait()
	d.kills++
}

// answered tells an answer from a call that the kill cut off; a refusal is an answer that breaks the test.
func (d *killDriver) answered(err error, allowed ...string) bool {
	var p *httpapi.Problem
	switch {
	case err == nil:
		return true
	case errors.As(err, &p):
		for _, code := range allowed {
			if p.Code == code {
				return true
			}
		}
		d.wrong("refused: %v", err)
	}
	return false
}

// produce puts messages and cancels some, until the server is gone.
func (d *killDriver) produce(c *client.Client, r *rand.Rand, name string) {
	ctx := context.Background()
	for i := 0; ; i++ {
		id := fmt.Sprintf("%s-%d", name, i)
		m := &killMessage{
			topic: fmt.Sprintf("topic%d", r.IntN(killTopics)), level: r.IntN(len(killLevels) + 1), sentMs: time.Now().UnixMilli(),
		}
		if m.level == 0 && r.IntN(2) == 0 {
			m.delayMs = 20 + r.Int64N(1500)
		}
		d.mu.Lock()
		d.messages[id] = m
		d.mu.Unlock()
		body := string(bytes.Repeat([]byte(id+" "), 1+r.IntN(40)))
		e := httpapi.Envelope{Body: &body, Key: id, DelayLevel: m.level}
		if m.delayMs > 0 {
			delay := fmt.Sprintf("%dms", m.delayMs)
			e.Delay = &delay
		}
		stored, err := c.Put(ctx, m.topic, e)
		if !d.answered(err) {
			return
		}
		d.mu.Lock()
		m.acked, m.stored = true, stored
		d.mu.Unlock()
		if m.level < 2 && m.delayMs < 300 || r.IntN(4) != 0 {
			continue
		}
		_, err = c.Cancel(ctx, stored.Handle)
		d.mu.Lock()
		var p *httpapi.Problem
		switch {
		case err == nil:
			m.cancelled = true
		case errors.As(err, &p) && p.Code == "already_delivered":
			m.tooLate = true
		default:
			m.inDoubt = true
		}
		d.mu.Unlock()
		if !d.answered(err, "already_delivered") {
			return
		}
	}
}

// consume reads as a group and commits, until the server is gone.
func (d *killDriver) consume(c *client.Client, topic string) {
	ctx := context.Background()
	first := true
	for {
		got, err := c.Pull(ctx, client.Pull{Topic: topic, Group: "g", Max: 500, Wait: 100 * time.Millisecond})
		var p *httpapi.Problem
		if errors.As(err, &p) && p.Code == "unknown_topic" {
			continue
		}
		if !d.answered(err) {
			return
		}
		received := time.Now().UnixMilli()
		d.mu.Lock()
		if first {
			d.standsWhereItCommitted(topic, &got)
			first = false
		}
		for i := range got.Messages {
			d.look(topic, &got.Messages[i], received)
		}
		ack := httpapi.Ack{Group: "g"}
		for _, n := range got.Next {
			ack.Offsets = append(ack.Offsets, n.QueueOffset)
			d.requested = raise(d.requested, killQueue{topic, n.Queue}, int64(n.Offset))
		}
		d.mu.Unlock()
		if len(got.Messages) == 0 {
			continue
		}
		if !d.answered(c.Ack(ctx, topic, ack)) {
			return
		}
		d.mu.Lock()
		for _, o := range ack.Offsets {
			d.committed = raise(d.committed, killQueue{topic, o.Queue}, int64(o.Offset))
		}
		d.mu.Unlock()
	}
}

func raise(of map[killQueue]int64, q killQueue, to int64) map[killQueue]int64 {
	if of == nil {
		of = map[killQueue]int64{}
	}
	of[q] = max(of[q], to)
	return of
}

// standsWhereItCommitted judges the first pull of a group after a restart: not before an acknowledged commit, not
// behind the highest that was asked for. The caller holds mu.
func (d *killDriver) standsWhereItCommitted(topic string, got *httpapi.Messages) {
	at := map[int]int64{}
	for _, n := range got.Next {
		at[n.Queue] = int64(n.Offset)
	}
	for i := len(got.Messages) - 1; i >= 0; i-- {
		at[got.Messages[i].Queue] = int64(got.Messages[i].Offset)
	}
	for queue, offset := range at {
		q := killQueue{topic, queue}
		if offset < d.committed[q] || offset > max(d.committed[q], d.requested[q]) {
			d.wrong("group stands at %d in %v, acknowledged was %d, asked for %d", offset, q, d.committed[q], d.requested[q])
		}
	}
}

// look judges a message that was read. The caller holds mu.
func (d *killDriver) look(topic string, m *httpapi.Message, received int64) {
	at := killPlace{killQueue{topic, m.Queue}, int64(m.Offset)}
	known := d.messages[m.Key]
	switch {
	case m.Problem != nil:
		d.wrong("%v: %v", at, m.Problem)
		return
	case known == nil || known.topic != topic:
		d.wrong("%v holds %q, which was not sent there", at, m.Key)
		return
	case !bytes.HasPrefix(m.Bytes(), []byte(m.Key+" ")):
		d.wrong("%v: the body of %s is another's: %.40s", at, m.Key, m.Bytes())
	}
	if before, ok := d.places[at]; ok && before != m.Key {
		d.wrong("%v held %s, now %s", at, before, m.Key)
	}
	d.places[at] = m.Key
	if known.level > 0 || known.delayMs > 0 {
		least := known.sentMs + known.delayMs
		if known.level > 0 {
			least = known.sentMs + killLevels[known.level-1].Milliseconds()
		}
		if m.DueMs < least {
			d.wrong("%s: due %d, sent %d with level %d, delay %d", m.Key, m.DueMs, known.sentMs, known.level, known.delayMs)
		}
		if received < m.DueMs {
			d.wrong("%s: early, due %d, received %d", m.Key, m.DueMs, received)
		}
	}
	if known.acked && (known.stored.ID != m.ID || known.stored.DueMs > m.DueMs) {
		d.wrong("%s: id %s, due %d; the answer said %s, %d", m.Key, m.ID, m.DueMs, known.stored.ID, known.stored.DueMs)
	}
}

// settle starts the server a last time, waits until all must have arrived, and judges everything.
func (d *killDriver) settle() {
	p := d.launch()
	c, err := client.New(p.URL)
	if err != nil {
		d.fatal("%v", err)
	}
	defer c.CloseIdle()
	for wait := 0; ; wait++ {
		d.readAll(c)
		missing := d.count(func(m *killMessage) bool { return m.acked && !m.cancelled && !m.inDoubt && m.seen == 0 })
		status, err := c.Status(context.Background())
		if err != nil {
			d.fatal("%v", err)
		}
		if missing == 0 && status.Pending == 0 || wait == 40 {
			break
		}
		<-time.After(100 * time.Millisecond)
	}
	for id, m := range d.messages {
		switch {
		case m.seen > 1:
			d.wrong("twice: %s stands in %s %d times", id, m.topic, m.seen)
		case m.cancelled && m.seen > 0:
			d.wrong("%s was cancelled and delivered", id)
		case m.acked && !m.cancelled && !m.inDoubt && m.seen == 0:
			d.wrong("lost: %s, %+v", id, m)
		case m.tooLate && m.seen == 0:
			d.wrong("lost: %s, its cancel was answered with already delivered", id)
		}
	}
	if err := p.Stop(5 * time.Second); err != nil {
		d.wrong("%v", err)
	}
	var said bytes.Buffer
	if code := run([]string{"data", "check", d.dir}, bytes.NewReader(nil), io.Discard, &said); code != exitOK {
		d.wrong("data check exits with %d: %s", code, said.Bytes())
	}
}

// readAll reads all queues from offset 0: offsets without gaps, and within a queue the messages of one level in the
// order in which they were stored.
func (d *killDriver) readAll(c *client.Client) {
	for _, m := range d.messages {
		m.seen = 0
	}
	for n := range killTopics {
		topic := fmt.Sprintf("topic%d", n)
		for queue := range killQueues {
			var next httpapi.Int64
			last := map[int]httpapi.Int64{} // position of the last message, by level
			for {
				got, err := c.Pull(context.Background(), client.Pull{
					Topic: topic, From: []httpapi.QueueOffset{{Queue: queue, Offset: next}}, Max: 1000,
				})
				if err != nil {
					d.fatal("%v", err)
				}
				received := time.Now().UnixMilli()
				for i := range got.Messages {
					m := &got.Messages[i]
					if m.Offset != next {
						d.wrong("%s, queue %d: offset %d after %d", topic, queue, m.Offset, next-1)
					}
					next = m.Offset + 1
					d.look(topic, m, received)
					known := d.messages[m.Key]
					if known == nil {
						continue // look has said so
					}
					known.seen++
					if known.delayMs > 0 {
						continue // its place is that of its time
					}
					if m.Position <= last[m.DelayLevel] {
						d.wrong("%s, queue %d, level %d: %s was stored before the one that stands before it", topic, queue, m.DelayLevel, m.Key)
					}
					last[m.DelayLevel] = m.Position
				}
				if len(got.Messages) == 0 {
					break
				}
			}
		}
	}
	for at, id := range d.places {
		if d.messages[id].seen == 0 {
			d.wrong("%s was at %v and is gone", id, at)
		}
	}
}

package broker_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/broker/brokertest"
)

var leaseSeed = flag.Uint64("lease.seed", 0, "run only this seed of TestLeaseModel")

// TestLeaseModel lets a group do whatever it can, with power cuts in between, and holds each delivery against what may be
// delivered: nothing while somebody else has it, nothing below what is committed, with the right attempt. In the end each
// message was acked or is a dead letter.
func TestLeaseModel(t *testing.T) {
	seeds, steps := uint64(12), 400
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		if seed++; *leaseSeed != 0 {
			seed = *leaseSeed
		}
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newLeaseModel(t, seed)
				m.sleep = time.Sleep
				for range steps {
					m.step()
					if t.Failed() {
						t.Fatalf("run again with -lease.seed %d", seed)
					}
				}
				m.drain()
			})
		})
		if *leaseSeed != 0 {
			break
		}
	}
}

// leasePlace is where a copy of a message stands.
type leasePlace struct {
	topic  string
	queue  int
	offset int64
}

// heldLease is a lease that the model has.
type heldLease struct {
	receipt string
	body    string
	place   leasePlace
	attempt int
	ends    time.Time
}

type leaseModel struct {
	t     *testing.T
	b     *brokertest.Broker
	rng   *rand.Rand
	sleep func(time.Duration) // of the bubble

	bodies   int
	waiting  map[string]bool // stored, and neither acked nor known to be dead
	held     []heldLease
	attempts map[leasePlace]int // of the last delivery since the last crash
	retried  map[string]int     // attempts of the copies that wait, by body: the least
	floor    map[leasePlace]int64
	crashes  int
}

const leaseAttempts = 4

func newLeaseModel(t *testing.T, seed uint64) *leaseModel {
	opts := broker.Options{MaxAttempts: leaseAttempts, AckTimeout: 5 * time.Second, MaxUnacked: 24}
	opts.Engine = engine.Options{Queues: 2, Levels: "1s 2s 3s 5s 8s", SegmentSize: 256 << 10, CheckpointEvery: 256 << 10}
	return &leaseModel{
		t: t, b: brokertest.OpenCrash(t, seed, opts), rng: rand.New(rand.NewPCG(seed, 1)),
		waiting: map[string]bool{}, attempts: map[leasePlace]int{}, retried: map[string]int{}, floor: map[leasePlace]int64{},
	}
}

func (m *leaseModel) step() {
	switch n := m.rng.IntN(100); {
	case n < 25:
		m.put()
	case n < 50:
		m.pull(1 + m.rng.IntN(8))
	case n < 70:
		m.ack()
	case n < 82:
		m.letGo()
	case n < 86:
		m.extend()
	case n < 97:
		m.sleep(time.Duration(m.rng.IntN(3000)) * time.Millisecond)
	default:
		m.crash()
	}
}

func (m *leaseModel) topic() string { return []string{"a", "b"}[m.rng.IntN(2)] }

// put stores a message; of topic b, whose readers want only one tag, one with another tag at times.
func (m *leaseModel) put() {
	m.bodies++
	msg := broker.Message{Topic: m.topic(), Body: fmt.Append(nil, m.bodies), Tag: "wanted"}
	if msg.Topic == "a" {
		msg.Tag = "any"
	}
	wanted := msg.Topic != "b" || m.rng.IntN(3) > 0
	if !wanted {
		msg.Tag = "other"
	}
	if m.rng.IntN(4) == 0 {
		msg.At = broker.In(time.Duration(1+m.rng.IntN(4000)) * time.Millisecond)
	}
	if _, err := m.b.Put(m.t.Context(), msg); err != nil {
		m.t.Errorf("put: %v", err)
	}
	if wanted {
		m.waiting[string(msg.Body)] = true
	}
}

func (m *leaseModel) pull(most int) int {
	req := broker.PullRequest{Topic: m.topic(), Group: "g", MaxCount: most}
	if req.Topic == "b" {
		req.Tags = []string{"wanted"}
	}
	if m.rng.IntN(3) == 0 {
		req.AckTimeout = time.Duration(1+m.rng.IntN(10)) * time.Second
	}
	var p broker.Pulled
	err := m.b.Pull(m.t.Context(), req, &p)
	if errors.Is(err, engine.ErrNoTopic) {
		return 0
	}
	if err != nil {
		m.t.Errorf("pull: %v", err)
	}
	n := 0
	for d := range p.Deliveries() {
		n++
		m.delivered(req.Topic, &d)
	}
	if n > most {
		m.t.Errorf("pulled %d of %d", n, most)
	}
	return n
}

// delivered judges one delivery.
func (m *leaseModel) delivered(topic string, d *broker.Delivery) {
	at := leasePlace{topic, d.Queue, d.Offset}
	if d.Retried {
		at.topic = "retry"
	}
	body := string(d.Body)
	if d.Topic != topic || topic == "b" && string(d.Tag) != "wanted" {
		m.t.Errorf("%s came to topic %s: %+v, tag %s", body, topic, d.Lease, d.Tag)
	}
	for _, h := range m.held {
		if h.place == at && h.ends.After(time.Now()) {
			m.t.Errorf("%s at %v is delivered while it is leased", body, at)
		}
	}
	queue := leasePlace{topic: at.topic, queue: at.queue}
	if at.offset < m.floor[queue] {
		m.t.Errorf("%s at %v comes again, committed was %d", body, at, m.floor[queue])
	}
	switch last, again := m.attempts[at]; {
	case again && d.Attempt != last+1:
		m.t.Errorf("%s at %v: attempt %d after %d", body, at, d.Attempt, last)
	case !again && !d.Retried && d.Attempt != 1:
		m.t.Errorf("%s at %v: attempt %d, the first one", body, at, d.Attempt)
	case !again && d.Retried && m.crashes == 0 && d.Attempt != m.retried[body]+1:
		m.t.Errorf("%s at %v: attempt %d after a retry at %d", body, at, d.Attempt, m.retried[body])
	case d.Attempt > leaseAttempts:
		m.t.Errorf("%s at %v: attempt %d", body, at, d.Attempt)
	}
	m.attempts[at] = d.Attempt
	m.held = append(m.held, heldLease{d.Receipt, body, at, d.Attempt, time.UnixMilli(d.EndsMs)})
}

// take takes some lease out of the model, perhaps one that is over.
func (m *leaseModel) take() (heldLease, bool) {
	if len(m.held) == 0 {
		return heldLease{}, false
	}
	i := m.rng.IntN(len(m.held))
	h := m.held[i]
	m.held = slices.Delete(m.held, i, i+1)
	return h, true
}

func (m *leaseModel) ack() {
	h, ok := m.take()
	if !ok {
		return
	}
	outcomes, err := m.b.Ack(m.t.Context(), h.receipt)
	want := broker.Acked
	if !h.ends.After(time.Now()) {
		want = broker.AckExpired
	}
	if err != nil || outcomes[0] != want && !(want == broker.AckExpired && outcomes[0] == broker.Acked && m.below(h.place)) {
		m.t.Errorf("ack of %s at %v: %v, %v; want %v", h.body, h.place, outcomes, err, want)
	}
	if want == broker.Acked {
		delete(m.waiting, h.body)
	}
	m.learnFloor()
}

// below says whether a place is below what is done with: then nobody can tell who acked it.
func (m *leaseModel) below(at leasePlace) bool {
	m.learnFloor()
	return at.topic == "retry" || at.offset < m.floor[leasePlace{topic: at.topic, queue: at.queue}]
}

// learnFloor asks how far the group has committed.
func (m *leaseModel) learnFloor() {
	info, err := m.b.Group(m.t.Context(), "g")
	if err != nil {
		m.t.Errorf("group: %v", err)
	}
	for _, topic := range info.Topics {
		for _, q := range topic.Queues {
			key := leasePlace{topic: topic.Topic, queue: q.Queue}
			if q.Committed < m.floor[key] && q.Committed != -1 {
				m.t.Errorf("%v: committed went from %d back to %d", key, m.floor[key], q.Committed)
			}
			m.floor[key] = max(m.floor[key], q.Committed)
		}
	}
}

func (m *leaseModel) letGo() {
	h, ok := m.take()
	if !ok {
		return
	}
	var r broker.Retried
	var err error
	reject := m.rng.IntN(6) == 0
	switch {
	case reject:
		r, err = m.b.Reject(m.t.Context(), h.receipt, "rejected")
	case m.rng.IntN(2) == 0:
		r, err = m.b.Retry(m.t.Context(), h.receipt, broker.RetryOptions{Reason: "later"})
	default:
		delay := time.Duration(1+m.rng.IntN(3000)) * time.Millisecond
		r, err = m.b.Retry(m.t.Context(), h.receipt, broker.RetryOptions{Delay: delay})
	}
	if !h.ends.After(time.Now()) {
		if !errors.Is(err, broker.ErrExpired) {
			m.t.Errorf("retry of %s at %v, whose lease is over: %+v, %v", h.body, h.place, r, err)
		}
		return
	}
	if err != nil || r.Attempt != h.attempt || r.DeadLetter != (reject || h.attempt == leaseAttempts) {
		m.t.Errorf("retry of %s at %v: %+v, %v", h.body, h.place, r, err)
	}
	if !r.DeadLetter {
		m.retried[h.body] = h.attempt
	}
}

func (m *leaseModel) extend() {
	if len(m.held) == 0 {
		return
	}
	h := &m.held[m.rng.IntN(len(m.held))]
	d := time.Duration(m.rng.IntN(8)) * time.Second
	err := m.b.Extend(m.t.Context(), h.receipt, d)
	if over := !h.ends.After(time.Now()); over != errors.Is(err, broker.ErrExpired) || !over && err != nil {
		m.t.Errorf("extend of %s at %v, over is %v: %v", h.body, h.place, over, err)
	} else if !over {
		h.ends = time.Now().Add(d)
	}
}

// crash cuts the power. Leases are over.
func (m *leaseModel) crash() {
	m.crashes++
	brokertest.Crash(m.b)
	if len(m.held) > 0 {
		outcomes, err := m.b.Ack(m.t.Context(), m.held[0].receipt)
		if err != nil || outcomes[0] != broker.AckExpired {
			m.t.Errorf("ack after a crash: %v, %v", outcomes, err)
		}
	}
	m.held = nil
	clear(m.attempts)
}

// drain acks all that comes until nothing does, and looks at the sum.
func (m *leaseModel) drain() {
	for quiet := 0; quiet < 20 && !m.t.Failed(); quiet++ {
		for range 10 {
			if m.pull(50) > 0 {
				quiet = 0
			}
		}
		for len(m.held) > 0 {
			m.ack()
		}
		m.sleep(2 * time.Second)
	}
	for d, err := range m.b.DeadLetters(m.t.Context(), "g", broker.DeadFilter{}) {
		if err != nil || d.Attempts > leaseAttempts || d.Attempts < 1 || d.Err != nil {
			m.t.Errorf("dead letter %+v: %v", d, err)
		}
		delete(m.waiting, string(d.Body))
	}
	if len(m.waiting) > 0 {
		m.t.Errorf("%d of %d messages are lost: %v", len(m.waiting), m.bodies, m.waiting)
	}
	info, err := m.b.Group(m.t.Context(), "g")
	if err != nil || info.Lag() != 0 || info.Leased() != 0 || info.Retrying != 0 {
		m.t.Errorf("group in the end: %+v, %v", info, err)
	}
}

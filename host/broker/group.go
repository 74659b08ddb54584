package broker

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"math"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tidewheel/tidewheel/engine"
)

// Names of a group's own topics, as RocketMQ has them.
const (
	retryPrefix = "%RETRY%"
	deadPrefix  = "%DLQ%"
)

// stagePrefix begins the name of the topic in which due messages of another one wait to be decided about.
const stagePrefix = engine.StagePrefix

// RetryTopic is the topic in which the messages of a group wait that are to be delivered to it again.
func RetryTopic(group string) string { return retryPrefix + group }

// DeadLetterTopic is the topic in which the messages of a group lie that were given up.
func DeadLetterTopic(group string) string { return deadPrefix + group }

// keptGroups is from how many groups on those that hold nothing are forgotten: they are known from the log.
const keptGroups = 4096

// groups is what the broker remembers of all consumer groups. It is safe for concurrent use.
type groups struct {
	nonce uint64 // of this opening: receipts of others have another one
	wake  func() // the writer is to look at ends
	ends  atomic.Int64

	mu       sync.Mutex
	byName   map[string]*group
	byNumber map[uint32]*group
	last     uint32
}

// group is what the broker remembers of one consumer group: leases, and what was acked above them. All of it can be
// lost: the committed offsets are in the log.
type group struct {
	name   string
	number uint32 // names it in receipts
	users  int    // calls that are at work; guarded by groups.mu
	own    *groups

	mu sync.Mutex
	// guarded by mu
	tracks  map[engine.QueueRef]*track
	origins map[string]uint32 // numbers of the topics that it reads, and of what is in its retries
	topics  uint32            // the last of those numbers
	tokens  uint64
	changed chan struct{} // closed when a waiting pull should look again
	gone    bool          // the group was deleted: there may be another one of its name

	flight chan struct{} // closed when the commit that is on its way is answered; nil: none is
	others int           // retries and the like that are on their way with commits of their own
	quiet  chan struct{} // closed when others has become 0; nil: nobody waits for that
	seek   chan struct{} // closed when the seek is over; nil: there is none

	dead dead // guarded by dead.turn
}

func newGroups(wake func()) *groups {
	var nonce [8]byte
	rand.Read(nonce[:]) // it never fails
	g := &groups{
		nonce: binary.BigEndian.Uint64(nonce[:]), wake: wake,
		byName: map[string]*group{}, byNumber: map[uint32]*group{},
	}
	g.ends.Store(math.MaxInt64)
	return g
}

// acquire finds a group, made on first use. It must be released.
func (gs *groups) acquire(name string) *group {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g := gs.byName[name]
	if g == nil {
		if len(gs.byName) >= keptGroups {
			gs.sweep()
		}
		gs.last++
		g = &group{
			name: name, number: gs.last, own: gs,
			tracks: map[engine.QueueRef]*track{}, origins: map[string]uint32{}, changed: make(chan struct{}),
			dead: dead{turn: make(chan struct{}, 1)},
		}
		gs.byName[name], gs.byNumber[g.number] = g, g
	}
	g.users++
	return g
}

// acquireNumber finds a group by the number in a receipt, nil if it is not known.
func (gs *groups) acquireNumber(number uint32) *group {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g := gs.byNumber[number]
	if g != nil {
		g.users++
	}
	return g
}

func (gs *groups) release(g *group) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g.users--
}

// sweep forgets the groups that hold nothing. The caller holds mu.
func (gs *groups) sweep() {
	for name, g := range gs.byName {
		if g.users == 0 && g.idle() {
			delete(gs.byName, name)
			delete(gs.byNumber, g.number)
		}
	}
}

// idle says that nothing would be lost with the group.
func (g *group) idle() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, t := range g.tracks {
		if len(t.entries) > 0 || t.low() != max(t.committed, t.handed) {
			return false
		}
	}
	return g.flight == nil && g.others == 0
}

// forget drops a group that was deleted. Its receipts are unknown from then on.
func (gs *groups) forget(g *group) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if gs.byName[g.name] == g {
		delete(gs.byName, g.name)
		delete(gs.byNumber, g.number)
	}
}

// dropTopic forgets the queues of a topic that was deleted, and what waits to be retried of it.
func (gs *groups) dropTopic(id uint32, name string) {
	for _, g := range gs.all() {
		g.mu.Lock()
		origin, known := g.origins[name]
		delete(g.origins, name)
		for ref, t := range g.tracks {
			if ref.Topic == id {
				g.drop(t)
			} else if known && t.topic == RetryTopic(g.name) {
				t.dropOrigin(origin)
			}
		}
		g.kick()
		g.mu.Unlock()
		gs.release(g)
	}
}

// askAgain has the pulls of all groups ask at once about what was not decided.
func (gs *groups) askAgain() {
	for _, g := range gs.all() {
		g.mu.Lock()
		for _, t := range g.tracks {
			t.askNow()
		}
		g.kick()
		g.mu.Unlock()
		gs.release(g)
	}
}

// all lists the groups that are remembered, each acquired.
func (gs *groups) all() []*group {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	list := make([]*group, 0, len(gs.byName))
	for _, g := range gs.byName {
		g.users++
		list = append(list, g)
	}
	return list
}

// lower says that a lease ends then, ns of Env.Mono. When none ended before, the writer has to sleep less.
func (gs *groups) lower(ends int64) {
	for {
		old := gs.ends.Load()
		if ends >= old {
			return
		}
		if gs.ends.CompareAndSwap(old, ends) {
			gs.wake()
			return
		}
	}
}

// expire frees the leases that are over and wakes the pulls that wait for one. It says when to come again, ns of
// Env.Mono. Only the writer calls it.
func (gs *groups) expire(now int64) (next int64) {
	if next = gs.ends.Load(); now < next {
		return next
	}
	gs.ends.Store(math.MaxInt64) // a lease that begins meanwhile lowers it, or its track is looked at below
	next = math.MaxInt64
	for _, g := range gs.all() {
		g.mu.Lock()
		any := false
		for _, t := range g.tracks {
			any = t.expire(now) || any
			next = min(next, t.ends)
		}
		if any {
			g.kick()
		}
		g.mu.Unlock()
		gs.release(g)
	}
	for {
		old := gs.ends.Load()
		if next >= old {
			return old
		}
		if gs.ends.CompareAndSwap(old, next) {
			return next
		}
	}
}

// kick wakes the group's waiting pulls. The caller holds mu.
func (g *group) kick() {
	close(g.changed)
	g.changed = make(chan struct{})
}

func (g *group) isGone() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.gone
}

// listen is closed when something has changed after the call.
func (g *group) listen() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.changed
}

// origin numbers a topic of the group's retries. The caller holds mu.
func (g *group) origin(topic string) uint32 {
	n, ok := g.origins[topic]
	if !ok {
		g.topics++
		n = g.topics
		g.origins[topic] = n
	}
	return n
}

// receipt is what the text of a receipt says.
type receipt struct {
	nonce  uint64
	group  uint32
	queue  engine.QueueRef
	offset int64
	token  uint64
}

const (
	receiptPrefix = "twr1."
	receiptSize   = 8 + 4 + 4 + 4 + 8 + 8
)

// String is the text: it means something to this broker alone, until it is closed.
func (r receipt) String() string {
	b := make([]byte, 0, receiptSize)
	b = binary.BigEndian.AppendUint64(b, r.nonce)
	b = binary.BigEndian.AppendUint32(b, r.group)
	b = binary.BigEndian.AppendUint32(b, r.queue.Topic)
	b = binary.BigEndian.AppendUint32(b, r.queue.Queue)
	b = binary.BigEndian.AppendUint64(b, uint64(r.offset))
	b = binary.BigEndian.AppendUint64(b, r.token)
	return receiptPrefix + base64.RawURLEncoding.EncodeToString(b)
}

// parseReceipt reads a text; ok is false for what no broker has written.
func parseReceipt(text string) (r receipt, ok bool) {
	text, ok = strings.CutPrefix(text, receiptPrefix)
	if !ok || len(text) != base64.RawURLEncoding.EncodedLen(receiptSize) {
		return r, false
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return r, false
	}
	r.nonce = binary.BigEndian.Uint64(b)
	r.group = binary.BigEndian.Uint32(b[8:])
	r.queue = engine.QueueRef{Topic: binary.BigEndian.Uint32(b[12:]), Queue: binary.BigEndian.Uint32(b[16:])}
	r.offset = int64(binary.BigEndian.Uint64(b[20:]))
	r.token = binary.BigEndian.Uint64(b[28:])
	return r, r.token != 0 // that of what nobody has
}

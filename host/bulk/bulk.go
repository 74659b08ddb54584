package bulk

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/tidewheel/tidewheel/host/broker"
)

// Limits of a Manager.
const (
	// MaxRunning is how many jobs run at once.
	MaxRunning = 2
	// Expiry is how long a preview can be confirmed.
	Expiry = 10 * time.Minute

	maxPreviews = 64  // the oldest goes
	maxJobs     = 100 // that are remembered; the oldest that has ended goes
)

// Errors of a Manager.
var (
	ErrExpired = errors.New("bulk: the preview has expired")
	ErrBusy    = errors.New("bulk: too many jobs are running")
	ErrClosed  = errors.New("bulk: closed")
	// ErrSpec is the kind of an error about a Spec that nobody can follow.
	ErrSpec = errors.New("bulk: bad request")
)

// Action is what to do with each message.
type Action string

// The actions.
const (
	Cancel Action = "cancel"
	Move   Action = "move"
	Fire   Action = "fire"
)

// Spec says what to do with which messages.
type Spec struct {
	Action Action
	Filter Filter
	// Of a move exactly one: By is added to each due time, or DueMs is the new one of all, ms since 1970.
	By    time.Duration
	DueMs int64
}

// Filter says which waiting messages are meant.
type Filter struct {
	Topic  string   // "": all
	Tags   []string // with one of these; nil: all
	Key    string   // "": all
	FromMs int64    // due at or after, ms since 1970
	ToMs   int64    // due before; 0: no end
}

// Preview is what a change would do.
type Preview struct {
	Matched int64     // messages
	Confirm string    // starts the job
	Expires time.Time // of Confirm
}

// State is how a job is.
type State string

// The states.
const (
	Running State = "running"
	Done    State = "done"    // it came to the end
	Stopped State = "stopped" // by Stop or Close
	Failed  State = "failed"  // an error ended it
)

// Job is a change that runs, or ran.
type Job struct {
	ID      string
	Spec    Spec
	State   State
	Matched int64 // what the preview counted
	Changed int64
	Passed  int64 // that were delivered, cancelled or moved meanwhile
	Refused int64 // that could not be changed, as by a move beyond the longest delay
	Began   time.Time
	Ended   time.Time // zero while it runs
	Error   string    // the first one
}

// Manager runs jobs on a broker. It is safe for concurrent use. Close ends it, before the broker is closed.
type Manager struct {
	b      *broker.Broker
	ctx    context.Context // of all jobs
	cancel context.CancelFunc
	wg     sync.WaitGroup
	now    func() time.Time

	mu       sync.Mutex
	closed   bool
	previews []preview
	jobs     []*job
	next     int
	running  int
}

// preview is what a Confirm stands for.
type preview struct {
	Preview
	spec  Spec
	below uint64 // messages with smaller numbers are meant
}

// job is a Job on its way.
type job struct {
	Job    // guarded by Manager.mu
	below  uint64
	cancel context.CancelFunc
}

// New makes a manager that has nothing to do.
func New(b *broker.Broker) *Manager {
	m := &Manager{b: b, now: time.Now}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	return m
}

// Close stops the jobs and waits for their goroutines. Closing twice is no error.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.cancel()
	m.wg.Wait()
}

// Preview counts what a spec means, and remembers it for Start. It goes over all that may match, which takes about a
// second for a million.
func (m *Manager) Preview(ctx context.Context, spec Spec) (Preview, error) {
	if err := spec.validate(); err != nil {
		return Preview{}, err
	}
	stats, err := m.b.Stats()
	if err != nil {
		return Preview{}, err
	}
	p := preview{spec: spec, below: stats.NextID}
	for _, err := range m.matching(ctx, spec.Filter, p.below) {
		if err != nil {
			return Preview{}, err
		}
		p.Matched++
	}
	p.Confirm = rand.Text()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return Preview{}, ErrClosed
	}
	p.Expires = m.now().Add(Expiry)
	if len(m.previews) == maxPreviews {
		m.previews = append(m.previews[:0], m.previews[1:]...)
	}
	m.previews = append(m.previews, p)
	return p.Preview, nil
}

func (s *Spec) validate() error {
	moves := 0
	if s.By != 0 {
		moves++
	}
	if s.DueMs != 0 {
		moves++
	}
	switch {
	case s.Action != Cancel && s.Action != Move && s.Action != Fire:
		return fmt.Errorf("%w: action %q is not one of cancel, move, fire", ErrSpec, s.Action)
	case s.Action == Move && moves != 1:
		return fmt.Errorf("%w: a move needs one new time, and has %d", ErrSpec, moves)
	case s.Action != Move && moves != 0:
		return fmt.Errorf("%w: a %s has no new time", ErrSpec, s.Action)
	case s.Filter.ToMs != 0 && s.Filter.ToMs <= s.Filter.FromMs:
		return fmt.Errorf("%w: the end of the due times is not after the begin", ErrSpec)
	}
	return nil
}

// Start runs what was previewed. ErrExpired: the preview is too old, was started, or is unknown. ErrBusy: MaxRunning jobs
// are running, and the preview stays.
func (m *Manager) Start(confirm string) (Job, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return Job{}, ErrClosed
	}
	at := -1
	for i := range m.previews {
		if m.previews[i].Confirm == confirm && m.now().Before(m.previews[i].Expires) {
			at = i
		}
	}
	if at < 0 {
		return Job{}, ErrExpired
	}
	if m.running >= MaxRunning {
		return Job{}, ErrBusy
	}
	p := m.previews[at]
	m.previews = append(m.previews[:at], m.previews[at+1:]...)
	m.next++
	j := &job{below: p.below, Job: Job{
		ID: "bk_" + strconv.Itoa(m.next), Spec: p.spec, State: Running, Matched: p.Matched, Began: m.now(),
	}}
	ctx, cancel := context.WithCancel(m.ctx)
	j.cancel = cancel
	m.remember(j)
	m.running++
	m.wg.Go(func() { m.run(ctx, j) })
	return j.Job, nil
}

// remember adds a job, and forgets the oldest that has ended when there are many. The caller holds mu.
func (m *Manager) remember(j *job) {
	m.jobs = append(m.jobs, j)
	for i := 0; len(m.jobs) > maxJobs && i < len(m.jobs); i++ {
		if m.jobs[i].State != Running {
			m.jobs = append(m.jobs[:i], m.jobs[i+1:]...)
			return
		}
	}
}

// Job is how a job is; false: there is none, or it is forgotten.
func (m *Manager) Job(id string) (Job, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if j := m.find(id); j != nil {
		return j.Job, true
	}
	return Job{}, false
}

// find is the job with an id. The caller holds mu.
func (m *Manager) find(id string) *job {
	for _, j := range m.jobs {
		if j.ID == id {
			return j
		}
	}
	return nil
}

// Jobs lists what runs, and what has run lately, the newest first. The list is the caller's.
func (m *Manager) Jobs() []Job {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]Job, 0, len(m.jobs))
	for i := len(m.jobs) - 1; i >= 0; i-- {
		list = append(list, m.jobs[i].Job)
	}
	return list
}

// Stop ends a job where it is; one that has ended stays as it is. It does not wait: changes that are on their way are
// still done.
func (m *Manager) Stop(id string) (Job, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	j := m.find(id)
	if j == nil {
		return Job{}, false
	}
	j.cancel()
	return j.Job, true
}

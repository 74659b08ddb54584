package engine

import (
	"errors"

	"github.com/tidewheel/tidewheel/engine/commitlog"
)

// Job is work on files that no caller waits for: handed out by Tick, run by Run on any goroutine, linked by Install.
type Job struct {
	kind    jobKind
	run     func() error
	install func() (done bool) // quick; by the writer
	// failed is called by the writer after a run that failed, and says whether the job is put off by itself: then other work
	// of its kind need not wait. Nil: nothing is to be done, and it is not.
	failed func() (putOff bool)
	err    error
}

// jobKind names a place for one job.
type jobKind uint8

const (
	jobSegment jobKind = iota // make and name the next segment
	jobMark                   // write the mark after a while without traffic
	jobIndex                  // flush, compact, checkpoint, clean: at most one writes the TimerLog and refers to lengths
	jobRoll                   // read waiting messages at the log's head
	jobDrop                   // unlink trimmed segments
	jobKinds
)

var jobNames = [jobKinds]string{"segment", "mark", "index", "roll", "drop"}

// Kind names the kind of work.
func (j *Job) Kind() string { return jobNames[j.kind] }

// Run does the work; it may take long, and may run beside everything else. The job goes back to Install whatever the
// outcome is.
func (j *Job) Run() error {
	j.err = j.run()
	return j.err
}

// jobs knows what is under way.
type jobs struct {
	active  [jobKinds]*Job
	fails   [jobKinds]int
	retryAt [jobKinds]int64 // monotonic, ns
	ready   []*Job
	lastErr error
	turn    int // the lane whose flush comes first
}

// Backoff after failed runs.
const (
	firstRetryNs = 50e6
	lastRetryNs  = 10e9
)

// handOut collects the jobs that are ready.
func (e *Engine) handOut(s *Status) {
	j := &e.jobs
	j.ready = j.ready[:0]
	mono := e.env.Mono()
	for kind, make := range [jobKinds]func() *Job{
		jobSegment: e.segmentJob, jobMark: e.markJob, jobIndex: e.indexJob, jobRoll: e.rollJob, jobDrop: e.dropJob,
	} {
		if j.active[kind] != nil || mono < j.retryAt[kind] {
			if wait := j.retryAt[kind] - mono; wait > 0 {
				s.Next = min(s.Next, e.batch.wall+wait/1e6+1)
			}
			continue
		}
		if job := make(); job != nil {
			job.kind = jobKind(kind)
			j.active[kind] = job
			j.ready = append(j.ready, job)
		}
	}
	s.Jobs = j.ready
}

// Install links the result of a job that has run, a slice at a time: it is called again until it says done. A job whose
// Run failed is tried again later, by a new job; when a sync failed, or a write of the log, the engine fails. It belongs
// to the writer.
func (e *Engine) Install(job *Job) (done bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	j := &e.jobs
	if j.active[job.kind] != job {
		return true
	}
	if e.usable() != nil {
		return true
	}
	if job.err != nil {
		j.active[job.kind] = nil
		if errors.Is(job.err, commitlog.ErrFailed) {
			_ = e.fail(job.err)
			return true
		}
		j.lastErr = job.err
		e.stats.jobFailures.Add(1)
		if job.failed != nil && job.failed() {
			e.env.Log.Warn("job failed, it is put off", "job", job.Kind(), "error", job.err)
			return true
		}
		j.fails[job.kind]++
		wait := min(int64(firstRetryNs)<<min(j.fails[job.kind]-1, 16), int64(lastRetryNs))
		j.retryAt[job.kind] = e.env.Mono() + wait
		e.env.Log.Warn("job failed", "job", job.Kind(), "error", job.err, "retry_ms", wait/1e6)
		return true
	}
	j.fails[job.kind], j.retryAt[job.kind] = 0, 0
	e.readClocks()
	if done = job.install(); done {
		j.active[job.kind] = nil
	}
	return done
}

// segmentJob makes the next segment, or names it after a seal.
func (e *Engine) segmentJob() *Job {
	nothing := func() bool { return true }
	switch {
	case e.log.RotateNeeded():
		return &Job{run: e.log.Rotate, install: nothing}
	case e.log.SpareNeeded():
		return &Job{run: e.log.PrepareSpare, install: nothing}
	case e.log.ReserveMissing() > 0:
		return &Job{run: e.log.PrepareReserve, install: nothing}
	}
	return nil
}

// indexStuck says that what the job of that kind does has failed some times in a row, so that nobody knows when it ends.
func (e *Engine) indexStuck() bool { return e.jobs.fails[jobIndex] >= stuckFails }

// stuckFails is after how many failures: the third comes some 400 ms after the first.
const stuckFails = 3

// indexJob is the one job that writes caches of the fold.
func (e *Engine) indexJob() *Job {
	switch {
	case e.ck.clean != nil:
		c := e.ck.clean
		return &Job{run: c.run, install: func() bool { e.ck.clean = nil; return true }, failed: e.cleanLater}
	case e.ck.pending != nil:
		if e.Released() < e.ck.pending.x {
			break // a checkpoint never covers what a crash can undo
		}
		c := e.ck.pending
		return &Job{run: c.run, install: func() bool { e.installCheckpoint(c); return true }}
	}
	if e.ck.pending != nil {
		return nil // its spill has to be installed before the memtables change hands
	}
	for i := range e.lanes {
		lane := (e.jobs.turn + i) % len(e.lanes)
		l := e.lanes[lane]
		if f := l.NewFlush(); f != nil {
			return &Job{
				run: f.Run, install: func() bool { return l.InstallFlush(f) },
				failed: func() bool {
					l.FlushFailed(f)
					e.jobs.turn = lane + 1 // it comes after those of the other lanes
					return false
				},
			}
		}
	}
	for _, l := range e.lanes {
		if c := l.NewCompaction(); c != nil {
			return &Job{run: c.Run, install: func() bool { l.InstallCompaction(c); return true }, failed: func() bool { l.CompactionFailed(); return true }}
		}
	}
	return nil
}

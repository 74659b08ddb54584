package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// warmUp is how many messages are put before, to see how long the others will take.
const warmUp = 5000

// firePatience is how long after their time messages may still come; then they are lost.
const firePatience = 60 * time.Second

// fire stores messages that are all due at one millisecond, and reads them when it comes.
func (w *worker) fire(ctx context.Context, r request) (outcome, error) {
	if err := w.t.define(ctx, r.Load.Topic); err != nil {
		return outcome{}, err
	}
	lead := r.Load.Delay
	if lead == 0 {
		var err error
		if lead, err = w.lead(ctx, r); err != nil {
			return outcome{}, err
		}
	}
	due := time.Now().Add(lead).Truncate(time.Millisecond)
	r.Load.DueMs, r.Load.Delay, r.Load.Duration = due.UnixMilli(), 0, 0
	var others *beside
	if r.Beside {
		var err error
		if others, err = w.beside(ctx, r, due); err != nil {
			return outcome{}, err
		}
	}
	l := new(ledger)
	d := w.driver(r, l)
	stop := w.progress("putting", r.Load.Count, func() int { return int(d.letters.Load()) })
	err := d.run(ctx)
	stop()
	if err != nil {
		return outcome{}, err
	}
	if left := time.Until(due); left < 200*time.Millisecond {
		return outcome{}, fmt.Errorf("bench: storing took too long: %v were left until the due time; say a longer --delay than %v", left, lead)
	}
	o := outcome{Stored: int(d.letters.Load()), Took: d.took, Put: d.times.times(), Acked: l.acked.spans()}
	c := &collector{nonce: r.Load.Nonce, sent: func() int { return r.Load.Count }, ledger: l, lateness: new(histogram)}
	stop = w.progress("firing", r.Load.Count, func() int { return int(c.count.Load()) })
	defer stop()
	read := others.begin(ctx)
	err = w.receive(ctx, r, c, due)
	if err = errors.Join(err, read(&o)); err != nil {
		return o, err
	}
	o.Lateness, o.Seen = c.lateness.times(), l.seen.spans()
	o.Twice, o.Early = o.Twice+int(l.twice.Load()+l.alien.Load()), o.Early+int(l.early.Load())
	o.FirstMs, o.AllMs = ms(c.first.Load()-due.UnixMicro()), ms(c.last.Load()-due.UnixMicro())
	if o.Waiting, err = w.t.waiting(ctx, r.Load.Topic); err == nil {
		o.Pending, err = w.t.pending(ctx)
	}
	return o, err
}

// lead is how far ahead the due time has to be, from the time that some messages take.
func (w *worker) lead(ctx context.Context, r request) (time.Duration, error) {
	count := r.Load.Count
	r.Load.Topic += "-warm-up"
	r.Load.Count = warmUp
	if err := w.t.define(ctx, r.Load.Topic); err != nil {
		return 0, err
	}
	d := w.driver(r, new(ledger))
	if err := d.run(ctx); err != nil {
		return 0, err
	}
	return 1500*time.Millisecond + 2*d.took*time.Duration(count/warmUp+1), nil
}

// receive reads each queue until all has come, and a last time for what should not be there.
func (w *worker) receive(ctx context.Context, r request, c *collector, due time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, due.Add(firePatience))
	defer cancel()
	reading, allRead := context.WithCancel(ctx)
	defer allRead()
	errs := make([]error, queuesOf)
	var readers sync.WaitGroup
	for q := range queuesOf {
		readers.Go(func() {
			in := w.t.reader(r.Load.Topic, q)
			for reading.Err() == nil {
				if _, errs[q] = c.read(reading, in, 30*time.Second); errs[q] != nil {
					break
				}
				if int(c.count.Load()) >= r.Load.Count {
					allRead()
				}
			}
			if reading.Err() != nil && ctx.Err() == nil { // all is there: is there more?
				_, errs[q] = c.read(ctx, in, 0)
			} else if errors.Is(errs[q], context.DeadlineExceeded) {
				errs[q] = nil // what is not there is lost
			}
		})
	}
	readers.Wait()
	return errors.Join(errs...)
}

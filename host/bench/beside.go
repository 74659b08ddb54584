package bench

import (
	"context"
	"errors"
	"time"
)

// besideCount is how many messages fire beside a load.
const besideCount = 2000

// beside is a topic whose messages fall due one after the other while a load fires: how late they come says what the load does to
// others. A nil one is none.
type beside struct {
	c    *collector
	in   reader
	last time.Time // when the last of them is due
}

// beside stores the messages. They are due from the load's time on, over a time in which a slow store fires the load.
func (w *worker) beside(ctx context.Context, r request, due time.Time) (*beside, error) {
	span := time.Second + time.Duration(r.Load.Count)*5*time.Microsecond
	r.Load.Topic, r.Load.Body = besideTopic+r.Load.Nonce, minBody
	r.Load.Count, r.Load.Batch, r.Load.Clients, r.Load.SpanMs = besideCount, 100, 4, span.Milliseconds()
	if err := w.t.define(ctx, r.Load.Topic); err != nil {
		return nil, err
	}
	l := new(ledger)
	if err := w.driver(r, l).run(ctx); err != nil {
		return nil, err
	}
	c := &collector{nonce: r.Load.Nonce, sent: func() int { return besideCount }, ledger: l, lateness: new(histogram)}
	return &beside{c, w.t.reader(r.Load.Topic, -1), due.Add(span)}, nil
}

// begin reads them as they come. The function it returns waits for all of them, and puts what it found into an outcome.
func (o *beside) begin(ctx context.Context) func(*outcome) error {
	if o == nil {
		return func(*outcome) error { return nil }
	}
	ctx, cancel := context.WithDeadline(ctx, o.last.Add(firePatience))
	done := make(chan error, 1)
	go func() { // whoever begins waits for it
		for int(o.c.count.Load()) < besideCount {
			if _, err := o.c.read(ctx, o.in, time.Second); err != nil {
				done <- err
				return
			}
		}
		_, err := o.c.read(ctx, o.in, 0) // is there more?
		done <- err
	}()
	return func(found *outcome) error {
		err := <-done
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			err = nil // what is not there is lost
		}
		found.Beside = o.c.lateness.times()
		found.BesideLost, found.Twice, found.Early = o.c.ledger.judge()
		return err
	}
}

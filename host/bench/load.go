package bench

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// load says what is sent.
type load struct {
	Topic    string        `json:"topic"`
	Nonce    string        `json:"nonce"`
	Count    int           `json:"count"` // 0: until Duration is over
	Rate     int           `json:"rate"`  // messages a second; 0: as fast as it goes
	Body     int           `json:"body"`
	Batch    int           `json:"batch"`
	Clients  int           `json:"clients"`
	Duration time.Duration `json:"duration"`
	Delay    time.Duration `json:"delay"`   // or Spread; 0: visible at once
	DueMs    int64         `json:"due_ms"`  // of all; 0: by Delay
	SpanMs   int64         `json:"span_ms"` // with DueMs: they are due over so long a time from then on
}

// audited says whether the load can be read when it is over; otherwise it is counted where it waits.
func (l *load) audited() bool { return l.Delay >= 0 && l.Delay <= time.Minute }

// dueMs is when a letter is due that is sent at a time.
func (l *load) dueMs(number int, at time.Time) int64 {
	switch {
	case l.DueMs != 0:
		return l.DueMs + int64(number)*l.SpanMs/int64(l.Count)
	case l.Delay == Spread:
		const day = 24 * 60 * 60 * 1000
		// A prime step goes all over the five days, and each second gets its share.
		return at.UnixMilli() + day + int64(number)*1_000_003%(5*day)
	case l.Delay > 0:
		return at.Add(l.Delay).UnixMilli()
	}
	return 0
}

// driver sends a load from its clients.
type driver struct {
	load
	t      target
	ledger *ledger
	times  *histogram      // until answered
	acked  func(span)      // hears of each answer, from several goroutines; may be nil
	goOn   <-chan struct{} // if not nil, the load goes on after Duration until it is closed

	began   time.Time
	next    atomic.Int64 // batch
	letters atomic.Int64 // acknowledged
	took    time.Duration
}

// run sends it all and returns when the last answer has come.
func (d *driver) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	senders := make([]sender, d.Clients)
	for i := range senders {
		s, err := d.t.sender(d.Topic, d.Nonce, d.Body)
		if err != nil {
			return err
		}
		defer s.close()
		senders[i] = s
	}
	errs := make([]error, d.Clients)
	d.began = time.Now()
	var clients sync.WaitGroup
	for i, s := range senders {
		clients.Go(func() {
			if errs[i] = d.client(ctx, s); errs[i] != nil {
				cancel()
			}
		})
	}
	clients.Wait()
	d.took = time.Since(d.began)
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return ctx.Err()
}

// client sends one batch after the other.
func (d *driver) client(ctx context.Context, s sender) error {
	letters := make([]letter, 0, d.Batch)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		first := int(d.next.Add(1)-1) * d.Batch
		end := first + d.Batch
		if d.Count > 0 {
			end = min(end, d.Count)
		}
		if first >= end || end > maxNumbers {
			return nil
		}
		at := time.Now()
		if d.Rate > 0 {
			at = d.began.Add(time.Duration(float64(first) / float64(d.Rate) * float64(time.Second)))
			if err := until(ctx, timer, at); err != nil {
				return err
			}
		}
		if d.over(at) {
			return nil
		}
		letters = letters[:0]
		for n := first; n < end; n++ {
			letters = append(letters, letter{n, d.dueMs(n, at)})
		}
		if err := s.send(ctx, letters); err != nil {
			return err
		}
		d.times.add(time.Since(at))
		d.ledger.acked.addSpan(span{first, end})
		d.letters.Add(int64(end - first))
		if d.acked != nil {
			d.acked(span{first, end})
		}
	}
}

// over says whether a batch that has its turn at a time is none of the load any more.
func (d *driver) over(at time.Time) bool {
	if d.Duration == 0 || at.Sub(d.began) < d.Duration {
		return false
	}
	if d.goOn == nil {
		return true
	}
	select {
	case <-d.goOn:
		return true
	default:
		return false
	}
}

// until sleeps until a time.
func until(ctx context.Context, timer *time.Timer, at time.Time) error {
	wait := time.Until(at)
	if wait <= 0 {
		return ctx.Err()
	}
	timer.Reset(wait)
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// collector reads a load and judges what it reads.
type collector struct {
	nonce    string
	sent     func() int // numbers below this were sent
	ledger   *ledger
	lateness *histogram
	first    atomic.Int64 // µs since 1970: the first message; 0: none
	last     atomic.Int64
	count    atomic.Int64
}

// read reads once and returns how many messages came.
func (c *collector) read(ctx context.Context, r reader, wait time.Duration) (int, error) {
	var received time.Time
	n, err := r.read(ctx, wait, func(body []byte) error {
		if received.IsZero() {
			received = time.Now()
		}
		l, err := parseBody(body, c.nonce)
		if err != nil {
			return err
		}
		c.saw(l, received)
		return nil
	})
	if n > 0 {
		us := received.UnixMicro()
		c.first.CompareAndSwap(0, us)
		c.last.Store(us) // readers race for it by less than they differ
		c.count.Add(int64(n))
	}
	return n, err
}

func (c *collector) saw(l letter, received time.Time) {
	if l.number >= c.sent() {
		c.ledger.alien.Add(1)
		return
	}
	c.ledger.saw(l.number)
	if l.dueMs == 0 {
		return
	}
	late := received.Sub(time.UnixMilli(l.dueMs))
	if late < 0 {
		c.ledger.early.Add(1)
	}
	c.lateness.add(late)
}

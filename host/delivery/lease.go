package delivery

import (
	"context"
	"time"
)

// hold has the leases of messages extended until letGo.
func (w *Worker) hold(all []*task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range all {
		w.held[t.d.Receipt] = struct{}{}
		w.bytes += t.size()
	}
}

// size is about what a message takes in memory.
func (t *task) size() int { return 1024 + len(t.d.Body) + len(t.d.Properties) }

// room waits until little enough is in hand for another pull; false says that the context ended.
func (w *Worker) room(ctx context.Context) bool {
	for {
		w.mu.Lock()
		if w.bytes < handBytes {
			w.mu.Unlock()
			return ctx.Err() == nil
		}
		if w.roomier == nil {
			w.roomier = make(chan struct{})
		}
		less := w.roomier
		w.mu.Unlock()
		select {
		case <-less:
		case <-ctx.Done():
			return false
		}
	}
}

func (w *Worker) letGo(t *task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.held[t.d.Receipt]; !ok {
		return
	}
	delete(w.held, t.d.Receipt)
	if w.bytes -= t.size(); w.roomier != nil {
		close(w.roomier)
		w.roomier = nil
	}
}

// giveBack ends leases of messages that were not sent, or not whole: they come again at once.
func (w *Worker) giveBack(all ...*task) {
	for _, t := range all {
		w.letGo(t)
		w.c.Broker.GiveBack(t.d.Receipt)
	}
}

// keep extends the leases of what is held, so that none ends while its message is at work.
func (w *Worker) keep() {
	ticker := time.NewTicker(w.lease / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-w.settling.Done():
			return
		}
		for _, receipt := range w.receipts() {
			_ = w.c.Broker.Extend(w.settling, receipt, w.lease) // one that is over is told when it is settled
		}
	}
}

func (w *Worker) receipts() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make([]string, 0, len(w.held))
	for r := range w.held {
		list = append(list, r)
	}
	return list
}

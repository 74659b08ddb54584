package delivery

import "time"

// hold has the leases of messages extended until letGo.
func (w *Worker) hold(all []*task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range all {
		w.held[t.d.Receipt] = struct{}{}
	}
}

func (w *Worker) letGo(t *task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.held, t.d.Receipt)
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

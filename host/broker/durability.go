package broker

import (
	"fmt"
	"time"
)

// Durability says when a producer is answered. It changes nothing else: whatever a reader sees is durable, and so is what
// any other answer says.
type Durability uint8

// The durabilities.
const (
	// Always answers a Put when it is durable.
	Always Durability = iota
	// Interval answers a Put when it is written to the files. The end of the process takes nothing back; a power cut may
	// take what was answered since the last fsync: the newest, and nothing before what it leaves. There is an fsync as
	// soon as somebody waits for what is durable (a reader, another request, a due message), else after SyncInterval.
	Interval
)

// durabilities are their words.
var durabilities = [...]string{Always: "always", Interval: "interval"}

// String is the word that ParseDurability knows.
func (d Durability) String() string {
	if int(d) < len(durabilities) {
		return durabilities[d]
	}
	return fmt.Sprintf("durability %d", uint8(d))
}

// ParseDurability reads "always" and "interval".
func ParseDurability(text string) (Durability, error) {
	for d, word := range durabilities {
		if text == word {
			return Durability(d), nil
		}
	}
	return Always, fmt.Errorf("%w: durability %q, allowed are always and interval", ErrRequest, text)
}

// answerWritten answers the requests for which being written is enough. The order of the others stays.
func (w *writer) answerWritten() {
	if w.b.opts.Durability == Always {
		return
	}
	rest := w.sent[:0]
	for _, r := range w.sent {
		if r.written {
			close(r.done)
		} else {
			rest = append(rest, r)
		}
	}
	clear(w.sent[len(rest):])
	w.sent = rest
}

// mustSync says whether what was written has to be synced now: always, or because somebody waits for it, or because
// enough of it or enough time has gathered.
func (w *writer) mustSync() bool {
	return w.b.opts.Durability == Always ||
		len(w.sent) > 0 || w.blocked || w.hungry || w.closing ||
		int64(w.appended-w.released) >= w.b.opts.UnsyncedBytes/2 ||
		w.untilSync() <= 0 ||
		w.b.gate.waits() || w.b.bells.readers() > 0
}

// untilSync is the time until what was written has to be synced, whatever else happens.
func (w *writer) untilSync() time.Duration {
	if w.b.opts.Durability == Always || !w.dirty || w.syncing {
		return maxSleep
	}
	return time.Until(w.dirtyAt.Add(w.b.opts.SyncInterval))
}

// Command filter-go is a plugin of Tidewheel that drops reminders of orders that were paid meanwhile.
package main

import "github.com/tidewheel/tidewheel/plugins/guest"

// Codes of verdicts. Events, counts and dead letters show them.
const (
	codePaid   = 1 // dropped: there is nothing to remind of
	codeStatus = 2 // failed: the property says neither
)

func init() { guest.Filter(remind) }

// remind decides by the property that the shop writes: what is paid needs no reminder.
func remind(r *guest.Record) guest.Verdict {
	paid, ok := r.Header("paid")
	switch {
	case !ok || string(paid) == "false":
		return guest.Keep()
	case string(paid) == "true":
		return guest.Drop(codePaid)
	}
	return guest.Fail(codeStatus, "paid is neither true nor false")
}

func main() {}

package demo

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"
)

// Report is the account of a run.
type Report struct {
	Put       int `json:"put"`       // events, all acknowledged
	Cancelled int `json:"cancelled"` // while they waited
	Moved     int `json:"moved"`     // while they waited
	Delivered int `json:"delivered"`
	Filtered  int `json:"filtered"` // dropped by the filter plugin, each by one verdict in the log

	Hooked      int `json:"webhooks"`       // events that the delivery plugin's receiver took
	HookedBusy  int `json:"webhooks_busy"`  // calls that it answered with 503; they came again
	HookedAgain int `json:"webhooks_again"` // taken before the kill, which cut off the answer, and called again

	Lost  int `json:"lost"`
	Twice int `json:"twice"`
	Early int `json:"early"`

	OffTime  int `json:"off_time"` // moved, and not there at the new time
	Replaced int `json:"replaced"` // offsets that held another message before

	Unanswered       int `json:"unanswered"`        // sends whose answer the kill cut off; sent again
	UnansweredStored int `json:"unanswered_stored"` // of these, had been stored, and were not stored again

	Kills   int        `json:"kills"`
	Down    []Duration `json:"down_ms"`    // from kill to ready, each time
	Recover []Duration `json:"recover_ms"` // of that, from the start of the process to ready

	Up      Lateness `json:"late_up"`      // of what came due while the server ran
	Restart Lateness `json:"late_restart"` // of what waited for a restart

	Check  string   `json:"check"` // of the files, afterwards
	Took   Duration `json:"took_ms"`
	Faults []string `json:"faults,omitempty"` // the first ones
}

// OK says that nothing was lost, twice, early or off its time, and that the files are in order.
func (r *Report) OK() bool {
	wrong := r.Lost + r.Twice + r.Early + r.OffTime + r.Replaced
	return wrong == 0 && r.Check == CheckClean
}

// CheckClean is what Report.Check says when there is nothing to say.
const CheckClean = "clean"

// Duration is a time.Duration that is milliseconds in JSON.
type Duration time.Duration

// MarshalJSON writes milliseconds, with a fraction.
func (d Duration) MarshalJSON() ([]byte, error) {
	ms := float64(d) / float64(time.Millisecond)
	return strconv.AppendFloat(nil, ms, 'f', 3, 64), nil
}

func (d Duration) String() string {
	switch t := time.Duration(d); {
	case t >= 10*time.Second:
		return t.Round(100 * time.Millisecond).String()
	case t >= 100*time.Millisecond:
		return t.Round(time.Millisecond).String()
	default:
		return t.Round(100 * time.Microsecond).String()
	}
}

// Lateness is how long after their due times messages reached the consumer.
type Lateness struct {
	Count int      `json:"count"`
	P50   Duration `json:"p50_ms"`
	P99   Duration `json:"p99_ms"`
	Max   Duration `json:"max_ms"`
}

// newLateness sorts the samples, µs.
func newLateness(us []int64) Lateness {
	if len(us) == 0 {
		return Lateness{}
	}
	slices.Sort(us)
	at := func(percent int) Duration {
		return Duration(us[(len(us)*percent+99)/100-1]) * Duration(time.Microsecond)
	}
	return Lateness{len(us), at(50), at(99), at(100)}
}

// WriteTable prints the report for a person.
func (r *Report) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, n int, note string) {
		if note != "" {
			note = "  " + note
		}
		// A cell that ends in a tab is aligned; the note behind it is text as it is.
		fmt.Fprintf(t, "%s\t%s\t%s\n", name, thousands(n), note)
	}
	row("put", r.Put, "acknowledged, each after fsync")
	row("delivered", r.Delivered, "")
	row("filtered", r.Filtered, "dropped by a plugin when they were due")
	row("webhooks", r.Hooked, r.hooks())
	row("cancelled", r.Cancelled, "while they waited")
	row("moved", r.Moved, "to another time, while they waited")
	row("lost", r.Lost, "")
	row("twice", r.Twice, "")
	row("early", r.Early, "")
	if r.OffTime > 0 {
		row("off time", r.OffTime, "moved, and not there at the new time")
	}
	if r.Replaced > 0 {
		row("replaced", r.Replaced, "offsets that held another message before")
	}
	if err := t.Flush(); err != nil {
		return err
	}
	late := func(name string, l Lateness) {
		if l.Count > 0 {
			fmt.Fprintf(w, "%s p50 %v, p99 %v, max %v (%s messages)\n", name, l.P50, l.P99, l.Max, thousands(l.Count))
		}
	}
	late("\nlateness, server up:         ", r.Up)
	late("lateness, across a restart:  ", r.Restart)
	for i := range r.Down {
		fmt.Fprintf(w, "kill -9:                      ready again after %v, of that start and recovery %v\n",
			r.Down[i], r.Recover[i])
	}
	if r.Unanswered > 0 {
		fmt.Fprintf(w, "puts sent again, since it cut off the answer: %d; stored before, and not again: %d\n", r.Unanswered, r.UnansweredStored)
	}
	fmt.Fprintf(w, "files:                        %s\ntook:                         %v\n\n", r.Check, r.Took)
	for _, fault := range r.Faults {
		fmt.Fprintln(w, fault)
	}
	verdict := "Every event is accounted for: nothing lost, nothing twice, nothing early."
	if !r.OK() {
		verdict = "NOT every event is accounted for."
	}
	_, err := fmt.Fprintln(w, verdict)
	return err
}

// hooks tells of the webhooks.
func (r *Report) hooks() string {
	note := "called by a plugin"
	if r.HookedBusy > 0 {
		note += fmt.Sprintf("; %s met a busy receiver, and came again", thousands(r.HookedBusy))
	}
	if r.HookedAgain > 0 {
		note += fmt.Sprintf("; %s again, since the kill cut off the answer", thousands(r.HookedAgain))
	}
	return note
}

// thousands writes a number with commas.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

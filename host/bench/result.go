package bench

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Times are percentiles, ms.
type Times struct {
	P50  float64  `json:"p50"`
	P99  float64  `json:"p99"`
	P999 *float64 `json:"p999,omitempty"`
	Max  *float64 `json:"max,omitempty"`
}

// Result is what a run found. What does not apply is zero, and not in the JSON.
type Result struct {
	Bench      string `json:"bench"`
	URL        string `json:"url,omitempty"`
	Durability string `json:"durability,omitempty"`

	Pending int     `json:"pending,omitempty"`
	Count   int     `json:"count"` // messages of the load that were acknowledged
	Body    int     `json:"body"`
	Batch   int     `json:"batch"`
	Clients int     `json:"clients"`
	Seconds float64 `json:"seconds,omitempty"` // of the load

	Fsync *Times `json:"fsync_ms,omitempty"` // of the disk itself: 4 KiB, fdatasync

	FillPerS float64 `json:"fill_per_s,omitempty"` // storing what waits
	PutPerS  float64 `json:"put_per_s,omitempty"`
	Put      *Times  `json:"put_ms,omitempty"` // until the answer

	FireFirst *float64 `json:"fire_first_ms,omitempty"` // from due until it was read
	FireAll   *float64 `json:"fire_all_ms,omitempty"`
	FirePerS  float64  `json:"fire_per_s,omitempty"`  // until all were read
	Lateness  *Times   `json:"lateness_ms,omitempty"` // from due until it was read

	Beside   *Times    `json:"beside_lateness_ms,omitempty"` // of another topic's messages, while the load fired
	Filtered *Filtered `json:"filtered,omitempty"`           // the same load with the plugin

	Early int `json:"early"`
	Lost  int `json:"lost"`
	Twice int `json:"twice"`

	RSS            int64    `json:"rss_bytes,omitempty"` // the most during the load
	DiskPerPending float64  `json:"disk_bytes_per_pending,omitempty"`
	RestartMs      float64  `json:"restart_ms,omitempty"` // from the start of the process to the first answer to a put
	IdleCPU        *float64 `json:"idle_cpu_pct,omitempty"`
}

// Filtered is what firing was like with a plugin that decides about each message.
type Filtered struct {
	File      string  `json:"file"`
	FirePerS  float64 `json:"fire_per_s"`
	Ratio     float64 `json:"ratio"` // of the two rates: with the plugin, and without
	FireFirst float64 `json:"fire_first_ms"`
	FireAll   float64 `json:"fire_all_ms"`
	Lateness  *Times  `json:"lateness_ms"`
	Beside    *Times  `json:"beside_lateness_ms"`
}

// OK says that nothing was lost, twice or early.
func (r *Result) OK() bool { return r.Early == 0 && r.Lost == 0 && r.Twice == 0 }

// WriteTable prints the result for a person.
func (r *Result) WriteTable(w io.Writer) error {
	var rows [][3]string
	row := func(name, value, note string) { rows = append(rows, [3]string{name, value, note}) }
	where := "a process of its own"
	if r.URL != "" {
		where = r.URL
	}
	row("bench", r.Bench, "in "+where)
	if r.Durability != "" {
		row("durability", r.Durability, durabilityNote[r.Durability])
	}
	if r.Fsync != nil {
		row("fsync", times(r.Fsync), "the disk's own: 4 KiB, fdatasync, before and after the load")
	}
	if r.Pending > 0 {
		note := ""
		if r.FillPerS > 0 {
			note = fmt.Sprintf("stored at %s/s", thousands(int(r.FillPerS)))
		}
		row("pending", thousands(r.Pending), note)
	}
	if r.Count > 0 {
		row("messages", thousands(r.Count), fmt.Sprintf("of %d B, in batches of %d, from %d clients, in %.1f s",
			r.Body, r.Batch, r.Clients, r.Seconds))
	}
	if r.PutPerS > 0 {
		row("put", thousands(int(r.PutPerS))+"/s", "acknowledged")
	}
	if r.Put != nil {
		row("put answered", times(r.Put), "")
	}
	if r.FireFirst != nil && r.FireAll != nil {
		row("first fired", fmt.Sprintf("%.1f ms", *r.FireFirst), "after due, in the reader's hands")
		row("all fired", fmt.Sprintf("%.1f ms", *r.FireAll), thousands(int(r.FirePerS))+"/s")
	}
	if r.Lateness != nil {
		row("lateness", times(r.Lateness), "from due into the reader's hands")
	}
	if r.Beside != nil {
		row("another topic", times(r.Beside), "lateness, while they fired")
	}
	if f := r.Filtered; f != nil {
		row("filtered", fmt.Sprintf("%.1f ms", f.FireAll), fmt.Sprintf("all fired through %s: %s/s, %.0f %% of the rate without it",
			f.File, thousands(int(f.FirePerS)), 100*f.Ratio))
		row("lateness", times(f.Lateness), "through the plugin")
		row("another topic", times(f.Beside), "lateness, while they went through the plugin")
	}
	r.resources(row)
	row("early", strconv.Itoa(r.Early), "")
	row("lost", strconv.Itoa(r.Lost), "")
	row("twice", strconv.Itoa(r.Twice), "")
	if !r.OK() {
		row("", "NOT every message is accounted for.", "")
	}
	return writeRows(w, rows)
}

// writeRows aligns the columns: a package for that would align only lines that have as many of them.
func writeRows(w io.Writer, rows [][3]string) error {
	var wide [2]int
	for _, row := range rows {
		for i := range wide {
			wide[i] = max(wide[i], len(row[i]))
		}
	}
	for _, row := range rows {
		line := fmt.Sprintf("%-*s  %-*s  %s", wide[0], row[0], wide[1], row[1], row[2])
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " ")); err != nil {
			return err
		}
	}
	return nil
}

// resources prints what the store took.
func (r *Result) resources(row func(name, value, note string)) {
	if r.RSS > 0 {
		row("memory", fmt.Sprintf("%.0f MiB", float64(r.RSS)/(1<<20)), "resident, the most during the load")
	}
	if r.DiskPerPending > 0 {
		row("disk", fmt.Sprintf("%.0f B", r.DiskPerPending), "a pending message, beside its record in the log")
	}
	if r.RestartMs > 0 {
		row("restart", fmt.Sprintf("%.0f ms", r.RestartMs), "after kill -9, from exec to the first answer to a put")
	}
	if r.IdleCPU != nil {
		row("idle", fmt.Sprintf("%.2f %%", *r.IdleCPU), "of one core")
	}
}

var durabilityNote = map[string]string{
	Always:   "an answer leaves after fsync",
	Interval: "an answer leaves before fsync, which follows within the interval",
}

func times(t *Times) string {
	s := fmt.Sprintf("p50 %.2f ms, p99 %.2f ms", t.P50, t.P99)
	if t.P999 != nil && t.Max != nil {
		s += fmt.Sprintf(", p99.9 %.2f ms, max %.2f ms", *t.P999, *t.Max)
	}
	return s
}

// thousands writes a number with commas.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

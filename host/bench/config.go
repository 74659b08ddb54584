package bench

import (
	"errors"
	"fmt"
	"time"
)

// The benches.
const (
	Put     = "put"     // how many messages are stored in a second
	Fire    = "fire"    // how fast messages come that are due at one millisecond
	Mixed   = "mixed"   // how late messages come, beside many that wait; then kill -9 and an account
	Restart = "restart" // how long a store is away after kill -9
	Idle    = "idle"    // what a store costs that does nothing
)

// Spread as a delay means a due time of one to six days ahead, all over.
const Spread = -1

// None as a number of pending messages means none, where 0 means the default.
const None = -1

// Config says what is measured. Zero fields get the defaults of the bench.
type Config struct {
	Bench string // one of the constants above

	// URL is a server's; empty: a store of the bench's own, in a child process.
	URL string
	// Token is sent to the server if it is not empty; not in the open to another machine.
	Token string
	// Exe is the program whose ChildArgs call Child; not needed with a URL.
	Exe       string
	ChildArgs []string
	// Dir is where the store's files are, or, with a URL, where the disk is measured; empty with a URL: it is not. It
	// must exist. A store that is there already goes on to be used.
	Dir string
	// Durability is "always" or "interval".
	Durability string
	// Edge takes the engine's edge profile, for a box with 64 MB.
	Edge bool
	// CPUProfile is a file that a profile of the store's process under load is written to, for go tool pprof. Empty: none.
	CPUProfile string

	Pending  int           // messages that wait beside the load; None
	Count    int           // messages of the load; of Restart: kills
	Rate     int           // messages a second; 0: as fast as it goes
	Body     int           // bytes of a message's body
	Batch    int           // messages that are sent together
	Clients  int           // that send side by side
	Duration time.Duration // of the load
	Delay    time.Duration // until a message is due; Spread; Put also takes 0, visible at once

	// Plugin is a WebAssembly module with the hook filter, for Fire: the load is fired once without it, and once into a topic whose
	// messages it decides about at their due time. It has to keep them: what it drops is lost. Empty: none.
	Plugin string

	// Progress hears how it goes. It may be called from several goroutines, one at a time. May be nil.
	Progress func(Progress)
}

// Progress is how a run goes.
type Progress struct {
	Phase string `json:"phase"` // what is being done
	Done  int    `json:"done"`  // of Total; messages, or ms of a wait
	Total int    `json:"total"`
}

// Durabilities.
const (
	Always   = "always"
	Interval = "interval"
)

// WithDefaults is the configuration with its zero fields filled, as Run does it.
func (c Config) WithDefaults() Config {
	fill := func(field *int, inProcess, remote int) {
		if *field == 0 && c.URL == "" {
			*field = inProcess
		} else if *field == 0 {
			*field = remote
		}
	}
	if c.Durability == "" {
		c.Durability = Always
	}
	fill(&c.Body, 200, 200)
	switch c.Bench {
	case Put:
		if c.Duration == 0 {
			fill(&c.Count, 1_000_000, 100_000)
		}
		fill(&c.Batch, 100, 1)
		fill(&c.Clients, 16, 64)
	case Fire:
		fill(&c.Count, 100_000, 100_000)
		fill(&c.Batch, 100, 100)
		fill(&c.Clients, 16, 4)
	case Mixed:
		fill(&c.Pending, 1_000_000, 0)
		fill(&c.Rate, 2000, 2000)
		fill(&c.Batch, 1, 1)
		fill(&c.Clients, 64, 64)
		if c.Duration == 0 {
			c.Duration = 30 * time.Second
		}
		if c.Delay == 0 {
			c.Delay = 2 * time.Second
		}
	case Restart:
		fill(&c.Pending, 1_000_000, 0)
		fill(&c.Count, 3, 0)
		fill(&c.Batch, 100, 100)
		fill(&c.Clients, 16, 16)
	case Idle:
		fill(&c.Pending, 1_000_000, 0)
		fill(&c.Batch, 100, 100)
		fill(&c.Clients, 16, 16)
		if c.Duration == 0 {
			c.Duration = 10 * time.Second
		}
	}
	if c.Pending == None {
		c.Pending = 0
	}
	return c
}

// Validate says what is wrong with a configuration, all of it.
func (c Config) Validate() error { return c.WithDefaults().validate() }

// validate is for a configuration with its defaults.
func (c Config) validate() error {
	var faults []error
	check := func(ok bool, what string, got any, allowed string) {
		if !ok {
			faults = append(faults, fmt.Errorf("bench: %s is %v, allowed is %s", what, got, allowed))
		}
	}
	switch c.Bench {
	case Put, Fire, Mixed, Restart, Idle:
	default:
		check(false, "the bench", fmt.Sprintf("%q", c.Bench), "put, fire, mixed, restart, idle")
	}
	own := c.Bench == Restart || c.Bench == Idle
	check(!own || c.URL == "", "the URL", c.URL, "none: only a store of its own can be killed, and its processor time measured")
	check(c.URL == "" || c.Durability == Always, "the durability", c.Durability, "none with a URL: the server has its own")
	check(c.URL == "" || c.CPUProfile == "", "the profile", c.CPUProfile, "none with a URL: the server is another process")
	check(c.Plugin == "" || c.Bench == Fire && c.URL == "", "the plugin", c.Plugin, "one of a fire bench without a URL: a server has its own")
	check(c.URL == "" || !c.Edge, "the profile", "edge", "none with a URL: the server has its own")
	check(c.Durability == Always || c.Durability == Interval, "the durability", c.Durability, "always, interval")
	check(c.Body >= minBody && c.Body <= 4<<20, "the body", c.Body, fmt.Sprintf("%d to %d bytes", minBody, 4<<20))
	check(c.Batch >= 1 && c.Batch <= 10_000, "the batch", c.Batch, "1 to 10000 messages")
	check(c.Batch*c.Body <= 7<<20, "a batch's bodies", c.Batch*c.Body, "7 MiB together")
	check(c.Clients >= 1 && c.Clients <= 10_000, "the number of clients", c.Clients, "1 to 10000")
	check(c.Pending >= 0 && c.Pending <= 1_000_000_000, "pending", c.Pending, "0 to 1000000000")
	check(c.Count >= 0 && c.Count <= maxNumbers, "the count", c.Count, fmt.Sprintf("0 to %d", maxNumbers))
	check(c.Rate >= 0, "the rate", c.Rate, "0 or more")
	check(c.Duration >= 0 && c.Duration <= 24*time.Hour, "the duration", c.Duration, "0 to 24 hours")
	check(c.Delay == Spread || c.Delay >= 0 && c.Delay <= 6*24*time.Hour, "the delay", c.Delay, "0 to 6 days")
	return errors.Join(faults...)
}

// maxNumbers bounds the sequence numbers of a run: a bit each in the ledger.
const maxNumbers = 1 << 30

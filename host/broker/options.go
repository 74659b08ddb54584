package broker

import (
	"errors"
	"fmt"
	"time"

	"github.com/tidewheel/tidewheel/engine"
)

// Env is what the world lends a broker. FS is required; clocks that are nil are taken from package time.
type Env = engine.Env

// Limits of a wait and of what is asked for at once.
const (
	// MaxWait is the longest wait of a Pull.
	MaxWait = time.Minute
	// MaxPull is the most messages that a Pull returns.
	MaxPull = 1024
)

// Options tune a broker. The zero value is right for most.
type Options struct {
	// Engine tunes the engine below.
	Engine engine.Options
	// Workers is how many of the engine's jobs run at once. 2.
	Workers int
	// QueueBytes bounds what waits for the writer, in bytes of messages; a caller beyond it waits. 32 MiB.
	QueueBytes int
	// UnsyncedBytes bounds what is appended but not durable yet, in bytes of log; beyond it the writer waits for the
	// fsync. 16 MiB.
	UnsyncedBytes int64
	// Durability says when a Put is answered. Always: when it is durable. Interval: when it is written, which a power cut
	// may take back, and no other end of the process.
	Durability Durability
	// SyncInterval bounds, with Interval, how long what was written waits for its fsync. 1 s.
	SyncInterval time.Duration
}

func (o Options) withDefaults() Options {
	if o.Workers == 0 {
		o.Workers = 2
	}
	if o.QueueBytes == 0 {
		o.QueueBytes = 32 << 20
	}
	if o.UnsyncedBytes == 0 {
		o.UnsyncedBytes = 16 << 20
	}
	if o.SyncInterval == 0 {
		o.SyncInterval = time.Second
	}
	return o
}

func (o Options) validate() error {
	var faults []error
	check := func(ok bool, field string, got any, allowed string) {
		if !ok {
			faults = append(faults, fmt.Errorf("broker: option %s is %v, allowed is %s", field, got, allowed))
		}
	}
	check(o.Workers >= 1 && o.Workers <= 64, "Workers", o.Workers, "1 to 64")
	check(o.QueueBytes >= 1, "QueueBytes", o.QueueBytes, "1 or more")
	check(o.Durability <= Interval, "Durability", uint8(o.Durability), "Always and Interval")
	check(o.SyncInterval >= time.Millisecond && o.SyncInterval <= time.Minute, "SyncInterval", o.SyncInterval, "1ms to 1m")
	check(o.UnsyncedBytes >= 1, "UnsyncedBytes", o.UnsyncedBytes, "1 or more")
	return errors.Join(faults...)
}

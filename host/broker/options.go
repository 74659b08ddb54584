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
	// MaxAckTimeout is the longest lease.
	MaxAckTimeout = 12 * time.Hour
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

	// Hooks decide about messages on their way. Nil: nobody does. A topic is staged, its due messages waiting for Hooks.Due,
	// when it is made, when the broker is opened, and by Rehook; Engine.Stage is not used.
	Hooks Hooks

	// AckTimeout is how long a group's reader has a message before it is delivered again, unless it asks for another
	// time. 30 s, at most MaxAckTimeout.
	AckTimeout time.Duration
	// MaxAttempts is how often a message is delivered to a group before it becomes a dead letter. 16.
	MaxAttempts int
	// MaxUnacked bounds how far a group reads on in a queue above its lowest message that is not acked, in offsets, and
	// with it the memory for leases, 40 bytes each, and what comes again after a restart. Beyond it a pull finds nothing
	// new in that queue until the lowest is acked, retried or rejected; leases that end are delivered again all the same.
	// 16,384.
	MaxUnacked int
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
	if o.AckTimeout == 0 {
		o.AckTimeout = 30 * time.Second
	}
	if o.MaxAttempts == 0 {
		o.MaxAttempts = 16
	}
	if o.MaxUnacked == 0 {
		o.MaxUnacked = 16384
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
	check(o.AckTimeout >= time.Millisecond && o.AckTimeout <= MaxAckTimeout, "AckTimeout", o.AckTimeout, "1ms to 12h")
	check(o.MaxAttempts >= 1 && o.MaxAttempts <= 1000, "MaxAttempts", o.MaxAttempts, "1 to 1000")
	check(o.MaxUnacked >= 1 && o.MaxUnacked <= 1<<20, "MaxUnacked", o.MaxUnacked, "1 to 1,048,576")
	return errors.Join(faults...)
}

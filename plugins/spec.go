package plugins

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"

	"github.com/tidewheel/tidewheel/plugins/abi"
)

// Digest is the SHA-256 of a plugin's file.
type Digest [sha256.Size]byte

// String is the digest in hexadecimal digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// ParseDigest reads 64 hexadecimal digits.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(d) {
		return d, fmt.Errorf("plugins: %q is not a SHA-256 in hexadecimal digits", s)
	}
	copy(d[:], b)
	return d, nil
}

// OnError says what becomes of a record that a plugin failed on. There is no default: a plugin without a stated policy is an
// error.
type OnError uint8

// The policies.
const (
	OnErrorDeadLetter OnError = 1 + iota // to the dead-letter topic, with the failure
	OnErrorSkip                          // as if the plugin had not been asked: keep; for prepare: drop
	OnErrorDrop                          // forget the message
	OnErrorBlock                         // do not decide: this record and what follows is asked again
	OnErrorRetry                         // ask again later, and after Policy.RetryMax attempts to the dead-letter topic
)

var onErrorNames = []string{"", "dead_letter", "skip", "drop", "block", "retry"}

// String is the name of the policy as in configuration files.
func (o OnError) String() string {
	if int(o) >= len(onErrorNames) {
		return "unknown"
	}
	return onErrorNames[o]
}

// ParseOnError is the inverse of String.
func ParseOnError(s string) (OnError, error) {
	for i, name := range onErrorNames[1:] {
		if name == s {
			return OnError(i + 1), nil
		}
	}
	return 0, fmt.Errorf("plugins: %q is not one of dead_letter, skip, drop, block, retry", s)
}

// Policy says what happens when a plugin fails.
type Policy struct {
	OnError OnError

	RetryMax     uint32 // OnErrorRetry: attempts before the dead-letter topic; 5 if zero
	RetryDelayMs uint32 // OnErrorRetry: 1,000 if zero

	// FailOpen: while the plugin is quarantined its records pass as if it had not been asked. Otherwise they stay undecided.
	FailOpen bool

	QuarantineAfter int   // deaths without one answer in between; 5 if zero
	QuarantineMs    int64 // first pause; doubled up to QuarantineMaxMs; 1,000 if zero
	QuarantineMaxMs int64 // 30,000 if zero
}

// Grants are what a plugin may import beside log and log_level. Nothing is granted by default.
type Grants struct {
	JSON    bool // json_get
	Headers bool // hdr_get
	Match   bool // match
}

// DefaultFuelBase is Limits.FuelBase when it is zero. It is more than most calls need: what a Go guest sets up once, on the first
// record that it reads with encoding/json, would otherwise be that record's fault, in each new instance again.
const DefaultFuelBase = 1_000_000

// Limits bound a plugin. Zero fields take the defaults that are named.
type Limits struct {
	BinaryMax      int    // bytes of the file; 16 MiB
	MemoryMax      int64  // bytes of memory of one instance, in steps of 64 KiB; 16 MiB; a Go guest needs 8 MiB
	FuelInit       int64  // start, _initialize, tw_configure, tw_alloc; 50 million
	FuelBase       int64  // a call without records; DefaultFuelBase, 1 million
	FuelPerRecord  int64  // what each record adds; 200,000
	FuelCallMax    int64  // most of one call; 10 million
	BatchMax       int    // records of a call; 256
	BatchBytes     int    // bytes of a call with several records; 1 MiB
	RecordBytes    int    // bytes of one record; 4 MiB, at most a quarter of MemoryMax
	OutBytesMax    int    // bytes of an output; 4 MiB
	OutPerRecord   int    // output records for each record of the batch; 4
	LogPerSecond   int    // lines; 100
	RecycleCalls   int64  // calls after which an instance is replaced; 0 is never
	RecyclePercent int    // of MemoryMax after which an instance is replaced, since memory never shrinks; 75
	Instances      int    // at the same time; GOMAXPROCS
	Compile        Counts // structure of the module; see Counts
}

// Counts override limits of the module's structure; zero fields keep the default.
type Counts struct {
	Body    int // bytes of one function; 131,072
	Nesting int // blocks within blocks; 2,048
	Locals  int // of one function; 1,024
}

func (l Limits) withDefaults() Limits {
	set := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	set64 := func(p *int64, v int64) {
		if *p == 0 {
			*p = v
		}
	}
	set(&l.BinaryMax, 16<<20)
	set64(&l.MemoryMax, 16<<20)
	set64(&l.FuelInit, 50_000_000)
	set64(&l.FuelBase, DefaultFuelBase)
	set64(&l.FuelPerRecord, 200_000)
	set64(&l.FuelCallMax, 10_000_000)
	set(&l.BatchMax, 256)
	set(&l.BatchBytes, 1<<20)
	set(&l.RecordBytes, int(min(4<<20, l.MemoryMax/4)))
	set(&l.OutBytesMax, 4<<20)
	set(&l.OutPerRecord, 4)
	set(&l.LogPerSecond, 100)
	set(&l.RecyclePercent, 75)
	set(&l.Instances, runtime.GOMAXPROCS(0))
	return l
}

// Spec is what the configuration says about one plugin.
type Spec struct {
	Name   string
	Pin    *Digest         // the file must have this digest; nil takes any
	Hooks  []abi.Hook      // must all be implemented; empty takes those that are
	Policy Policy          //
	Grants Grants          //
	Limits Limits          //
	Config json.RawMessage // a JSON object for tw_configure; nil for none

	// Targets are what the verdict route names by index; an index beyond them fails the record. Nil: any index is taken.
	Targets []string
}

func (s Spec) withDefaults() Spec {
	s.Limits = s.Limits.withDefaults()
	p := &s.Policy
	if p.RetryMax == 0 {
		p.RetryMax = 5
	}
	if p.RetryDelayMs == 0 {
		p.RetryDelayMs = 1000
	}
	if p.QuarantineAfter == 0 {
		p.QuarantineAfter = 5
	}
	if p.QuarantineMs == 0 {
		p.QuarantineMs = 1000
	}
	if p.QuarantineMaxMs == 0 {
		p.QuarantineMaxMs = 30_000
	}
	return s
}

// validate is called after withDefaults and reports every problem.
func (s Spec) validate() error {
	var all []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			all = append(all, fmt.Errorf(format, args...))
		}
	}
	l, p := s.Limits, s.Policy
	bad(s.Name == "", "name is empty")
	bad(p.OnError < OnErrorDeadLetter || p.OnError > OnErrorRetry, "on_error is missing: one of dead_letter, skip, drop, block, retry")
	bad(p.QuarantineAfter < 0 || p.QuarantineMs < 0 || p.QuarantineMaxMs < p.QuarantineMs, "quarantine with negative or falling values")
	bad(l.MemoryMax < 1<<16 || l.MemoryMax > 4<<30 || l.MemoryMax%(1<<16) != 0, "memory_max %d is not a multiple of 65536 up to 4 GiB", l.MemoryMax)
	bad(l.FuelInit <= 0 || l.FuelBase <= 0 || l.FuelPerRecord <= 0, "fuel that is not positive")
	bad(l.FuelCallMax < l.FuelBase+l.FuelPerRecord, "fuel_call_max %d is less than one record takes", l.FuelCallMax)
	bad(l.FuelInit > 1<<50 || l.FuelCallMax > 1<<50, "fuel above 2^50")
	bad(l.BatchMax < 1 || l.BatchMax > 65536, "batch_max %d is not 1 to 65536", l.BatchMax)
	bad(l.BatchBytes < 1 || l.RecordBytes < 1 || l.OutBytesMax < 0 || l.OutPerRecord < 0 || l.LogPerSecond < 0, "a size that is negative or zero")
	bad(int64(l.RecordBytes) > l.MemoryMax/2, "record_bytes %d is more than half of the memory", l.RecordBytes)
	bad(l.RecyclePercent < 1 || l.RecyclePercent > 100, "recycle_percent %d is not 1 to 100", l.RecyclePercent)
	bad(l.Instances < 1 || l.Instances > 1024, "instances %d is not 1 to 1024", l.Instances)
	bad(l.BinaryMax < 8, "binary_max %d", l.BinaryMax)
	bad(l.RecycleCalls < 0, "recycle_calls %d", l.RecycleCalls)
	for _, h := range s.Hooks {
		bad(h == 0 || h >= abi.Hooks, "unknown hook %d", h)
	}
	if s.Config != nil {
		var object map[string]json.RawMessage
		bad(json.Unmarshal(s.Config, &object) != nil, "config is not a JSON object")
	}
	if len(all) == 0 {
		return nil
	}
	return fmt.Errorf("%w: plugin %q: %w", ErrSpec, s.Name, errors.Join(all...))
}

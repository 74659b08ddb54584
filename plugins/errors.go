package plugins

import (
	"errors"
	"fmt"
)

// Why a module is refused. Runtime.Load wraps one of these, or an error of the checks before compilation.
var (
	// ErrPin: the file is not the one that was pinned.
	ErrPin = errors.New("file differs from its pinned SHA-256")
	// ErrABI: the module does not speak this ABI: an export is missing or has another type.
	ErrABI = errors.New("module does not speak the plugin ABI")
	// ErrImport: the module imports a function that does not exist or was not granted.
	ErrImport = errors.New("import not granted")
	// ErrHook: a hook that was configured is not exported, or none is.
	ErrHook = errors.New("hook not implemented")
	// ErrManifest: the manifest in the module is damaged or contradicts the configuration.
	ErrManifest = errors.New("bad manifest")
	// ErrCompile: the runtime does not accept the module.
	ErrCompile = errors.New("module does not compile")
	// ErrStart: the module failed while it was started, configured or probed.
	ErrStart = errors.New("module does not start")
	// ErrBudget: the memory of all plugins would exceed Options.MemoryTotal.
	ErrBudget = errors.New("not enough memory budget")
)

// What Decide and others return.
var (
	// ErrClosed: the plugin, module or runtime is closed.
	ErrClosed = errors.New("plugins: closed")
	// ErrSpec: a Spec or Options with values that are not allowed.
	ErrSpec = errors.New("plugins: bad specification")
	// ErrNoPrevious: there is no generation to roll back to.
	ErrNoPrevious = errors.New("plugins: no earlier generation")
)

// LoadError says which plugin could not be loaded, and why.
type LoadError struct {
	Plugin string
	Digest Digest // of the file; zero when it could not be read
	Err    error
}

// Error names the plugin and the reason.
func (e *LoadError) Error() string { return fmt.Sprintf("plugins: load %s: %v", e.Plugin, e.Err) }

// Unwrap returns the reason.
func (e *LoadError) Unwrap() error { return e.Err }

// Class says how a plugin failed on a record. The first valid one is 1.
type Class uint8

// The classes.
const (
	ClassError    Class = 1 + iota // it answered with the verdict error
	ClassStatus                    // the hook returned a status other than 0
	ClassTrap                      // it ran into a trap: unreachable, a bad address, a stack overflow
	ClassFuel                      // it spent its budget
	ClassMemory                    // it ran into a trap after its memory grew to three quarters of the maximum or more
	ClassExit                      // it called proc_exit
	ClassProtocol                  // a verdict, a pointer or an output that breaks the ABI
	ClassTooLarge                  // the record is larger than the plugin may be given; it was not called
	ClassStart                     // no instance could be started
	ClassOff                       // the plugin is quarantined; it was not called

	classes
)

var classNames = [classes]string{"none", "error", "status", "trap", "fuel", "memory", "exit", "protocol", "too_large", "start", "quarantined"}

// String is the name of the class as in metrics and dead letters.
func (c Class) String() string {
	if c >= classes {
		return "unknown"
	}
	return classNames[c]
}

// MaxMessage and MaxStack are the most bytes of a Failure's texts.
const (
	MaxMessage = 1024
	MaxStack   = 2048
)

// Failure says why a plugin has no valid answer for a record. It is what a dead letter carries. It is read-only.
type Failure struct {
	Class   Class
	Code    uint16 // of the verdict error; the exit code; minus the status
	Message string // one line of valid UTF-8 without control characters, at most MaxMessage bytes
	Stack   string // of the guest, innermost function first, a line each, at most MaxStack bytes
	Fuel    int64  // used by the call, or by all of them when there were several
	Digest  Digest // of the file
}

// Error describes the failure in one line.
func (f *Failure) Error() string {
	return fmt.Sprintf("plugins: %v (code %d): %s", f.Class, f.Code, f.Message)
}

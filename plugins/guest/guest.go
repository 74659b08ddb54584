package guest

import (
	"fmt"

	"github.com/tidewheel/tidewheel/plugins/abi"
)

// Verdict is what a plugin decides about a record. Make one with Keep, Drop and so on; the zero Verdict is an error.
type Verdict struct {
	v      abi.Verdict
	output *abi.Record // for replace and send
	text   string      // for fail
}

// Keep lets the message go on; for Result the delivery is acknowledged.
func Keep() Verdict { return Verdict{v: abi.NewVerdict(abi.Keep, 0, 0)} }

// Drop forgets the message; code says why.
func Drop(code uint16) Verdict { return Verdict{v: abi.NewVerdict(abi.Drop, code, 0)} }

// RetryAfter asks again after delayMs milliseconds. For Result, 0 leaves the delay to the host, which waits longer with each
// attempt, and never less than the receiver asks for in Retry-After.
func RetryAfter(delayMs uint32, code uint16) Verdict {
	return Verdict{v: abi.NewVerdict(abi.Retry, code, delayMs)}
}

// DeadLetter sends the message to the dead-letter topic; code says why.
func DeadLetter(code uint16) Verdict { return Verdict{v: abi.NewVerdict(abi.DeadLetter, code, 0)} }

// Route sends the message to the target with an index in the plugin's configuration.
func Route(target uint32) Verdict { return Verdict{v: abi.NewVerdict(abi.Route, 0, target)} }

// Defer has no opinion: the next plugin decides.
func Defer() Verdict { return Verdict{v: abi.NewVerdict(abi.Defer, 0, 0)} }

// Fail says that the plugin cannot decide. Its failure policy does, and a dead letter carries code and text.
func Fail(code uint16, text string) Verdict {
	return Verdict{v: abi.NewVerdict(abi.Error, code, 0), text: text}
}

// Replacement is what a message is replaced with. Its slices are copied before the hook returns.
type Replacement struct {
	Topic, Key []byte
	Headers    Headers
	Body       []byte
}

// Replace puts another message in the place of this one.
func Replace(r Replacement) Verdict {
	return Verdict{v: abi.NewVerdict(abi.Replace, 0, 0), output: &abi.Record{Topic: r.Topic, Key: r.Key, Headers: r.Headers, Body: r.Body}}
}

// Request is an HTTP request for the host to send.
type Request struct {
	URL     string
	Method  string // POST when empty
	Headers Headers
	Body    []byte
}

// Send has a request sent; for Prepare.
func Send(r Request) Verdict {
	return Verdict{v: abi.NewVerdict(abi.Replace, 0, 0), output: &abi.Record{Topic: []byte(r.URL), Key: []byte(r.Method), Headers: r.Headers, Body: r.Body}}
}

// Action is what the verdict does, for tests of plugins.
func (v Verdict) Action() abi.Action { return v.v.Action() }

// Code is the verdict's code.
func (v Verdict) Code() uint16 { return v.v.Code() }

// Arg is the delay of a retry or the target of a route.
func (v Verdict) Arg() uint32 { return v.v.Arg() }

// Output is the replacement or the request; false without one.
func (v Verdict) Output() (abi.Record, bool) {
	if v.output == nil {
		return abi.Record{}, false
	}
	return *v.output, true
}

// Text is the text of Fail, or of a panic.
func (v Verdict) Text() string { return v.text }

// Headers are the headers of a record; Append makes new ones.
type Headers = abi.Headers

// Record is a message that the plugin is asked about.
type Record struct {
	abi.Record
	now int64
}

// NowMs is the time of the call, in ms since the epoch.
func (r *Record) NowMs() int64 { return r.now }

// Header returns the value of a header; false when there is none.
func (r *Record) Header(name string) ([]byte, bool) {
	v, _, ok := r.Headers.Get(name)
	return v, ok
}

// JSON returns the value in the body that a JSON pointer names, strings with their quotes; false when there is none.
func (r *Record) JSON(pointer string) ([]byte, bool) {
	lo, hi, ok := abi.JSONGet(r.Body, pointer)
	return r.Body[lo:hi], ok
}

// Status is the HTTP status of a response, 0 when none came and Body is the reason. For Result.
func (r *Record) Status() int {
	if r.Flags&abi.FlagNoResponse != 0 {
		return 0
	}
	return int(r.Flags >> 16)
}

// Cut says that a response was longer than the host takes, and that Body is its beginning. For Result.
func (r *Record) Cut() bool { return r.Flags&abi.FlagCut != 0 }

var hooks [abi.Hooks]func(*Record) Verdict

// Publish registers the function for messages that are about to be stored.
func Publish(f func(*Record) Verdict) { hooks[abi.Publish] = f }

// Filter registers the function for messages that are due.
func Filter(f func(*Record) Verdict) { hooks[abi.Filter] = f }

// Transform registers the function that may replace messages that are due.
func Transform(f func(*Record) Verdict) { hooks[abi.Transform] = f }

// Prepare registers the function that makes requests of messages.
func Prepare(f func(*Record) Verdict) { hooks[abi.Prepare] = f }

// Result registers the function that judges responses.
func Result(f func(*Record) Verdict) { hooks[abi.Result] = f }

var configure func(config []byte) error

// Configure registers the function that takes the plugin's configuration, a JSON object. An error refuses to start.
func Configure(f func(config []byte) error) { configure = f }

// Configured gives the plugin its configuration: the host does so before the first batch, and a native test before Run. It
// returns the plugin's error; without a registered function nothing happens.
func Configured(config []byte) error {
	if configure == nil {
		return nil
	}
	return configure(config)
}

// function is the registered function of a hook, or one that fails every record: a plugin that kept them would look as if it
// worked.
func function(h abi.Hook) func(*Record) Verdict {
	if f := hooks[h]; f != nil {
		return f
	}
	return func(*Record) Verdict {
		return Fail(PanicCode, "the plugin has no function for "+h.String()+": register one in init, not in main")
	}
}

// decide asks the registered function about one record. A panic becomes a failure of the record: the instance goes on.
func decide(h abi.Hook, r *Record) (v Verdict) {
	defer func() {
		if e := recover(); e != nil {
			v = panicked(e)
		}
	}()
	return function(h)(r)
}

// panicked is the verdict of a function that panicked with e.
func panicked(e any) Verdict { return Fail(PanicCode, fmt.Sprint("panic: ", e)) }

// PanicCode is the code of a record whose function panicked, or for which there is none.
const PanicCode = 0xffff

// Run decides records natively, as the host would with the compiled plugin: for tests. A verdict that the hook must not give
// comes back as a failure. It does not change records.
func Run(h abi.Hook, nowMs int64, records []abi.Record) []Verdict {
	all := make([]Verdict, len(records))
	for i := range records {
		r := Record{Record: records[i], now: nowMs}
		v := decide(h, &r)
		if !v.v.Valid(h) {
			v = Fail(0, fmt.Sprintf("verdict %v is not allowed in %v", v.v.Action(), h))
		}
		all[i] = v
	}
	return all
}

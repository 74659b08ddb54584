package abi

// Action is what becomes of a record. The zero Action means that the guest wrote none.
type Action uint8

// The actions, with the meaning of a verdict's code and argument.
const (
	Unset      Action = 0
	Keep       Action = 1 // go on; for Result: acknowledged
	Drop       Action = 2 // forget the message; code says why
	Retry      Action = 3 // ask again after arg milliseconds
	DeadLetter Action = 4 // to the dead-letter topic; code says why
	Route      Action = 5 // to the target with index arg of the plugin's configuration
	Replace    Action = 6 // with record arg of the output; for Prepare: send it as a request
	Error      Action = 7 // the plugin fails on this record: its policy decides. arg-1 is the output record with a message, 0 for none
	Defer      Action = 8 // no opinion; the next plugin decides

	actions = 9
)

var actionNames = [actions]string{"unset", "keep", "drop", "retry", "dead_letter", "route", "replace", "error", "defer"}

// String is the name of the action: keep, drop, retry, dead_letter, route, replace, error, defer.
func (a Action) String() string {
	if a >= actions {
		return "unknown"
	}
	return actionNames[a]
}

// Verdict is one entry of the verdict array: action in bits 0–7, zero in 8–15, code in 16–31, argument in 32–63.
type Verdict uint64

// NewVerdict puts a verdict together.
func NewVerdict(a Action, code uint16, arg uint32) Verdict {
	return Verdict(a) | Verdict(code)<<16 | Verdict(arg)<<32
}

// Action is what becomes of the record.
func (v Verdict) Action() Action { return Action(v) }

// Code is the plugin's own number for the reason.
func (v Verdict) Code() uint16 { return uint16(v >> 16) }

// Arg is the argument; its meaning depends on the action.
func (v Verdict) Arg() uint32 { return uint32(v >> 32) }

// allowed has a bit per action and hook.
var allowed = [Hooks]uint16{
	Publish:   bits(Keep, Drop, DeadLetter, Route, Replace, Error, Defer),
	Filter:    bits(Keep, Drop, Retry, DeadLetter, Route, Error, Defer),
	Transform: bits(Keep, Drop, Retry, DeadLetter, Route, Replace, Error, Defer),
	Prepare:   bits(Drop, Retry, DeadLetter, Replace, Error),
	Result:    bits(Keep, Retry, DeadLetter, Error),
}

func bits(all ...Action) (set uint16) {
	for _, a := range all {
		set |= 1 << a
	}
	return set
}

// Allowed says whether a hook may answer with an action.
func (h Hook) Allowed(a Action) bool { return h < Hooks && a < actions && allowed[h]>>a&1 == 1 }

// Valid says whether v is a verdict that hook h may give: an allowed action, and zero where nothing is defined.
func (v Verdict) Valid(h Hook) bool { return h.Allowed(v.Action()) && byte(v>>8) == 0 }

// plain are the allowed actions whose argument nobody has to look up.
var plain = func() (all [Hooks]uint16) {
	for h := range all {
		all[h] = allowed[h] &^ bits(Route, Replace, Error)
	}
	return all
}()

// Plain says whether v is a valid verdict of hook h that stands for itself: its argument names no target and no output record.
func (v Verdict) Plain(h Hook) bool {
	return h < Hooks && byte(v>>8) == 0 && v.Action() < actions && plain[h]>>v.Action()&1 == 1
}

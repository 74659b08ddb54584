package enginetest

import (
	"regexp"
	"slices"
	"time"
)

// where is where a failure was seen, and particular what two failures of one kind differ in.
var (
	where      = regexp.MustCompile(`^(step|crash) [^:]*: |^at the end: |^after a crash: `)
	particular = regexp.MustCompile(`\S*[0-9]\S*`)
)

// kindOf is the text of a failure without what is particular to it.
func kindOf(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	for where.MatchString(text) {
		text = where.ReplaceAllString(text, "")
	}
	text = particular.ReplaceAllString(text, "")
	return text[:min(len(text), 50)]
}

// Shrink removes steps and simplifies their numbers as long as fails returns an error of the same kind, for at most
// the time given. It returns the shorter history; fails must be deterministic.
func Shrink(h History, limit time.Duration, now func() time.Time, fails func(History) error) History {
	until := now().Add(limit)
	want := kindOf(guard(func() error { return fails(h) }))
	still := func(list []Op) bool {
		if now().After(until) {
			return false
		}
		return kindOf(guard(func() error { return fails(History{h.Seed, list}) })) == want
	}
	for n := len(h.Ops) / 2; n > 0; n /= 2 {
		for i := 0; i+n <= len(h.Ops); {
			if c := slices.Concat(h.Ops[:i], h.Ops[i+n:]); still(c) {
				h.Ops = c
			} else {
				i += n
			}
		}
	}
	for i := range h.Ops {
		for _, simpler := range []Op{{h.Ops[i].Kind, 0, 0}, {h.Ops[i].Kind, h.Ops[i].A, 0}, {h.Ops[i].Kind, 0, h.Ops[i].B}} {
			c := slices.Clone(h.Ops)
			if c[i] != simpler {
				if c[i] = simpler; still(c) {
					h.Ops = c
					break
				}
			}
		}
	}
	return h
}

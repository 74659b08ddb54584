//go:build invariants

package invariant

import "fmt"

// On says whether assertions are compiled in.
const On = true

// That panics when an invariant does not hold; the message is formatted as by fmt.Sprintf.
func That(ok bool, format string, args ...any) {
	if !ok {
		panic("invariant: " + fmt.Sprintf(format, args...))
	}
}

//go:build !race

package handle_test

// race says whether the race detector is compiled in.
const race = false

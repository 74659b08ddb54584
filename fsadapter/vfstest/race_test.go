//go:build race

package vfstest_test

// underRace says that the race detector is on: it slows the interpreter of the guest tenfold, and sees nothing of the guest.
const underRace = true

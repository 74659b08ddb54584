//go:build !race

package vfstest_test

const underRace = false

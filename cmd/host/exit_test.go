package main

import (
	"testing"

	"github.com/tidewheel/tidewheel/host/httpapi"
)

// TestExitOfConflicts: 4 is about what became of a message, and other conflicts are errors.
func TestExitOfConflicts(t *testing.T) {
	for code, want := range map[string]int{
		"superseded": exitTooLate, "already_delivered": exitTooLate, "lease_expired": exitTooLate,
		"broadcast": exitError, "idempotency_busy": exitError, "bulk_busy": exitError, "bulk_expired": exitError,
	} {
		if got := exitCode(&httpapi.Problem{Status: 409, Code: code}); got != want {
			t.Errorf("%s ends with %d, want %d", code, got, want)
		}
	}
}

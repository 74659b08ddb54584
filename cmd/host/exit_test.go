package main

import (
	"strings"
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

// TestTokenHint: who types a command is told of flags, not of headers.
func TestTokenHint(t *testing.T) {
	var said strings.Builder
	a := &app{stderr: &said, format: formatTable}
	a.complain(&httpapi.Problem{Status: 401, Code: "unauthorized", Title: "A token is needed"})
	if !strings.Contains(said.String(), "--token-file") {
		t.Errorf("it says %q", said.String())
	}
}

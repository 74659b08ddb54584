package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tidewheel/tidewheel/host/client"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

// The values of -o.
const (
	formatTable  = "table"
	formatJSON   = "json"
	formatNDJSON = "ndjson"
	formatCSV    = "csv"
	formatName   = "name" // only what names a result: its handle, say
)

var formats = []string{formatTable, formatJSON, formatNDJSON, formatCSV, formatName}

func (a *app) checkFormat() error {
	if slices.Contains(formats, a.format) {
		return nil
	}
	got := a.format
	a.format = formatTable
	return fmt.Errorf("%w: -o is %q, allowed is %s", errUsage, got, strings.Join(formats, ", "))
}

// complain says an error on standard error, in the format that was asked for.
func (a *app) complain(err error) {
	if errors.Is(err, errReported) {
		return
	}
	if a.format == formatJSON || a.format == formatNDJSON {
		_ = encode(a.stderr, asProblem(err), "")
		return
	}
	fmt.Fprintln(a.stderr, "tidewheel:", text(err))
	var p *httpapi.Problem
	if errors.As(err, &p) && p.Code == "unauthorized" {
		fmt.Fprintln(a.stderr, "See: --token-file, or TIDEWHEEL_TOKEN")
	}
	if errors.Is(err, errUsage) {
		fmt.Fprintf(a.stderr, "See: %s --help\n", a.verb)
	}
}

// text is an error for a person: the kinds that only choose the exit code are left out.
func text(err error) string {
	s := err.Error()
	for _, kind := range []error{errUsage, errNotFound, errDamage} {
		s = strings.TrimPrefix(s, kind.Error()+": ")
		s = strings.TrimPrefix(s, kind.Error()+"\n")
	}
	return s
}

// asProblem makes a problem of any error.
func asProblem(err error) *httpapi.Problem {
	var p *httpapi.Problem
	if errors.As(err, &p) {
		return p
	}
	code, title := "error", "The command failed"
	switch {
	case errors.Is(err, errUsage):
		code, title = "usage", "The command line is wrong"
	case errors.Is(err, client.ErrUnreachable):
		code, title = "unreachable", "The server does not answer"
	case errors.Is(err, errNotFound):
		code, title = "not_found", "Not found"
	case errors.Is(err, errDamage):
		code, title = "damaged", "Stored data is damaged"
	}
	return &httpapi.Problem{Type: "/problems/" + code, Title: title, Code: code, Detail: text(err)}
}

func encode(w io.Writer, v any, indent string) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	return enc.Encode(v)
}

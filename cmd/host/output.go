package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/tidewheel/tidewheel/host/client"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

// The values of -o.
const (
	formatTable  = "table"
	formatJSON   = "json"
	formatNDJSON = "ndjson"
)

func (a *app) checkFormat() error {
	switch a.format {
	case formatTable, formatJSON, formatNDJSON:
		return nil
	}
	got := a.format
	a.format = formatTable
	return fmt.Errorf("%w: -o is %q, allowed is table, json, ndjson", errUsage, got)
}

// one prints a single result: the table is what table prints.
func (a *app) one(v any, table func(w io.Writer)) error {
	switch a.format {
	case formatJSON:
		return encode(a.stdout, v, "  ")
	case formatNDJSON:
		return encode(a.stdout, v, "")
	}
	t := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	table(t)
	return t.Flush()
}

// list prints results as they come. It is not safe for concurrent use; end it with close.
type list struct {
	a      *app
	header string // columns with tabs between them
	n      int
	table  *tabwriter.Writer
}

func (a *app) list(header string) *list { return &list{a: a, header: header} }

// add prints one result; the row has tabs between its columns.
func (l *list) add(v any, row string) error {
	l.n++
	switch l.a.format {
	case formatJSON:
		lead := "[\n"
		if l.n > 1 {
			lead = ",\n"
		}
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(l.a.stdout, "%s%s", lead, b)
		return err
	case formatNDJSON:
		return encode(l.a.stdout, v, "")
	}
	if l.table == nil {
		l.table = tabwriter.NewWriter(l.a.stdout, 0, 0, 2, ' ', 0)
	}
	if l.n == 1 {
		fmt.Fprintln(l.table, l.header)
	}
	_, err := fmt.Fprintln(l.table, row)
	return err
}

// flush shows what was added. Columns are aligned among what is flushed together.
func (l *list) flush() error {
	if l.table == nil {
		return nil
	}
	return l.table.Flush()
}

// close ends the list.
func (l *list) close() error {
	switch {
	case l.a.format != formatJSON:
		return l.flush()
	case l.n == 0:
		_, err := fmt.Fprintln(l.a.stdout, "[]")
		return err
	}
	_, err := fmt.Fprintln(l.a.stdout, "\n]")
	return err
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
	if errors.Is(err, errUsage) {
		fmt.Fprintln(a.stderr, "See: tidewheel --help")
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

// cell makes text fit one cell of a table.
func cell(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return s
}

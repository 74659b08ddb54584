package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// cellWidth is how many characters of a cell a table shows, if the column says nothing else.
const cellWidth = 100

// list prints results as they come, one a line. It is not safe for concurrent use; end it with close.
type list struct {
	a       *app
	columns []column
	name    int   // the column that -o name prints
	shown   []int // indexes of columns, in the order in which they are shown; nil: nothing was added
	n       int
	rows    [][]string // of a table, not shown yet
	widths  []int      // of a table's columns so far
	headed  bool       // the table's head is out
}

// column is a column of a list.
type column struct {
	name  string
	most  int  // characters that a table shows
	extra bool // shown when --columns asks for it
}

// list begins a list with columns, in the order in which add has their cells.
func (a *app) list(columns ...string) *list {
	l := &list{a: a}
	for _, name := range columns {
		l.columns = append(l.columns, column{name: name, most: cellWidth})
	}
	return l
}

// named says which column names a result; without it, the first one does.
func (l *list) named(name string) *list {
	l.name = slices.IndexFunc(l.columns, func(c column) bool { return c.name == name })
	return l
}

// cut says how many characters of a column a table shows; 0: all.
func (l *list) cut(name string, most int) *list {
	for i := range l.columns {
		if l.columns[i].name == name {
			l.columns[i].most = most
		}
	}
	return l
}

// extra says which columns are shown only when --columns asks for them.
func (l *list) extra(names ...string) *list {
	for i := range l.columns {
		l.columns[i].extra = l.columns[i].extra || slices.Contains(names, l.columns[i].name)
	}
	return l
}

// choose decides which columns are shown.
func (l *list) choose() error {
	if l.shown != nil {
		return nil
	}
	for i, c := range l.columns {
		if !c.extra && l.a.columns == nil {
			l.shown = append(l.shown, i)
		}
	}
	for _, want := range l.a.columns {
		i := slices.IndexFunc(l.columns, func(c column) bool { return strings.EqualFold(c.name, want) })
		if i < 0 {
			var names []string
			for _, c := range l.columns {
				names = append(names, strings.ToLower(c.name))
			}
			return fmt.Errorf("%w: --columns: there is no %q, there are %s", errUsage, want, strings.Join(names, ", "))
		}
		l.shown = append(l.shown, i)
	}
	return nil
}

// add prints one result: v in JSON, else a cell for each column; what is not there is empty.
func (l *list) add(v any, cells ...string) error {
	if err := l.choose(); err != nil {
		return err
	}
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
	case formatName:
		_, err := fmt.Fprintln(l.a.stdout, cells[l.name])
		return err
	case formatCSV:
		if err := l.head(); err != nil {
			return err
		}
		return writeCSV(l.a.stdout, l.pick(cells))
	}
	row := l.pick(cells)
	for i, c := range l.shown {
		row[i] = dash(row[i], l.columns[c].most)
	}
	l.rows = append(l.rows, row)
	return nil
}

// pick is the cells that are shown.
func (l *list) pick(cells []string) []string {
	row := make([]string, len(l.shown))
	for i, c := range l.shown {
		row[i] = cells[c]
	}
	return row
}

// head prints the names of the columns of a csv, once.
func (l *list) head() error {
	if l.headed || l.a.later {
		return nil
	}
	l.headed = true
	return writeCSV(l.a.stdout, l.titles(strings.ToLower))
}

func (l *list) titles(form func(string) string) (titles []string) {
	for _, c := range l.shown {
		titles = append(titles, form(l.columns[c].name))
	}
	return titles
}

// flush shows what was added. Columns of a table only get wider, so that what is flushed later stands below.
func (l *list) flush() error {
	if len(l.rows) == 0 {
		return nil
	}
	rows := l.rows
	if !l.headed {
		l.headed = true
		rows = append([][]string{l.titles(strings.ToUpper)}, rows...)
	}
	l.rows = nil
	var err error
	l.widths, err = align(l.a.stdout, rows, l.widths)
	return err
}

// close ends the list.
func (l *list) close() error {
	if err := l.choose(); err != nil {
		return err
	}
	switch {
	case l.a.format == formatCSV:
		return l.head()
	case l.a.format != formatJSON:
		return l.flush()
	case l.n == 0:
		_, err := fmt.Fprintln(l.a.stdout, "[]")
		return err
	}
	_, err := fmt.Fprintln(l.a.stdout, "\n]")
	return err
}

// align prints rows with two spaces between columns, which are at least as wide as they were, and says how wide they are.
func align(w io.Writer, rows [][]string, widths []int) ([]int, error) {
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b bytes.Buffer
	for _, row := range rows {
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
			}
		}
		b.WriteByte('\n')
	}
	_, err := w.Write(b.Bytes())
	return widths, err
}

func writeCSV(w io.Writer, row []string) error {
	c := csv.NewWriter(w)
	if err := c.Write(row); err != nil {
		return err
	}
	c.Flush()
	return c.Error()
}

// dash is text in a cell of a table: at most so many characters (0: all), and a dash for nothing.
func dash(s string, most int) string {
	if s == "" {
		return "-"
	}
	if most == 0 {
		most = len(s)
	}
	return cell(s, most)
}

// whole is a whole number in a cell.
func whole[N ~int | ~int32 | ~int64 | ~uint64](n N) string { return fmt.Sprintf("%d", n) }

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

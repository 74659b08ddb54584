package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
)

// mostErrors bounds how often a file is parsed again.
const mostErrors = 20

// parse reads a document. The decoder stops at the first error; so what it does not take is noted as a problem and left
// out, and the rest is tried again: a line that is "key = value", and with a bad [table] all that belongs to it. What
// else can be wrong, as a string without an end, leaves nothing to go on with: then tree is nil. Clean is the document
// without what was left out, each line where it was.
func (l *loader) parse(doc string) (clean string, tree map[string]any) {
	for range mostErrors {
		tree, err := decode(doc)
		if err == nil {
			return doc, tree
		}
		l.partial = true
		problem := Problem{Source: l.src.File, Text: err.Error()}
		rows := strings.SplitAfter(doc, "\n")
		first, end := 0, 0 // what is left out
		if syntax := (toml.ParseError{}); errors.As(err, &syntax) {
			problem.Line, problem.Text = lineOf(doc, syntax), syntax.Message
			first = problem.Line - 1
			end = extent(rows, first)
			problem.Text += hint(rows[first])
		}
		switch {
		case first == end:
			problem.Text += "; the rest of the file is not checked"
		case isHeader(rows[first]):
			problem.Text += "; what belongs to this table is not checked"
		}
		l.problems = append(l.problems, problem)
		if first == end {
			return "", nil
		}
		for i := first; i < end; i++ {
			rows[i] = strings.Repeat("\n", strings.Count(rows[i], "\n"))
		}
		doc = strings.Join(rows, "")
	}
	return "", nil
}

// extent is where what begins on a line ends, or that line if it is not clear.
func extent(rows []string, first int) (end int) {
	if _, _, ok := plainPair(rows[first]); ok {
		return first + 1
	}
	if !isHeader(rows[first]) {
		return first
	}
	end = first + 1
	for end < len(rows) && !isHeader(rows[end]) {
		end++
	}
	return end
}

func isHeader(row string) bool { return strings.HasPrefix(strings.TrimSpace(row), "[") }

// decode turns what the decoder thinks impossible into an error, too.
func decode(doc string) (tree map[string]any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("it cannot be parsed: %v", r)
		}
	}()
	tree = map[string]any{}
	_, err = toml.Decode(doc, &tree)
	return tree, err
}

// lineOf is the line of an error. The decoder's own is one too small at the end of a file without a line end.
func lineOf(doc string, err toml.ParseError) int {
	end := min(max(err.Position.Start, 0), len(doc))
	return 1 + strings.Count(doc[:end], "\n")
}

// plainPair takes apart a line that is a key and a value and nothing else, as far as one can see: leaving it out leaves
// the lines around it as they were.
func plainPair(row string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(strings.TrimSpace(row), "=")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	for _, c := range name {
		ok = ok && (c == '_' || c == '-' || c == '.' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z')
	}
	long := strings.Contains(value, `"""`) || strings.Contains(value, `'''`) || strings.ContainsAny(value, "[{")
	return name, value, ok && name != "" && !long
}

// hint is what helps with the mistake that people make most: a value with a unit, or a word, without quotes.
func hint(row string) string {
	_, value, ok := plainPair(row)
	value, _, _ = strings.Cut(value, "#")
	value = strings.TrimSpace(value)
	if !ok || value == "" || value == "true" || value == "false" || strings.ContainsAny(value, "\"'\\") ||
		strings.Trim(value, "0123456789_+-") == "" {
		return ""
	}
	return fmt.Sprintf("; text and values with a unit stand in quotes: %q", shorten(value))
}

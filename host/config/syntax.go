package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
)

// mostErrors bounds how often a file is parsed again.
const mostErrors = 20

// parse reads a document. The decoder stops at the first error; so a line "key = value" that it does not take is noted
// as a problem and left out, and the rest is tried again; clean is the document without it. If the error is elsewhere,
// as in the name of a table, what follows can't be understood any more: then tree is nil.
func (l *loader) parse(doc string) (clean string, tree map[string]any) {
	rows := strings.SplitAfter(doc, "\n")
	for range mostErrors {
		tree, err := decode(doc)
		if err == nil {
			return doc, tree
		}
		var syntax toml.ParseError
		if !errors.As(err, &syntax) {
			l.problems = append(l.problems, Problem{Source: l.src.File, Text: err.Error()})
			return "", nil
		}
		line := lineOf(doc, syntax)
		row := rows[line-1]
		problem := Problem{Source: l.src.File, Line: line, Text: syntax.Message + hint(row)}
		_, _, alone := plainPair(row)
		if !alone {
			problem.Text += "; the rest of the file is not checked"
		}
		l.problems = append(l.problems, problem)
		if !alone {
			return "", nil
		}
		// As long as before, so that positions stay.
		rows[line-1] = strings.Map(func(r rune) rune {
			if r == '\n' || r == '\r' {
				return r
			}
			return ' '
		}, row)
		doc = strings.Join(rows, "")
	}
	return "", nil
}

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

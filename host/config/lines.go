package config

import (
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
)

// lines says on which line each key and table of a document stands, by path: "timer.max_delay", "topic[0].name". The
// decoder knows lines only for what it can't parse, and only one per key when a table repeats. The document must be
// one that the decoder took: of any other the answer is useless, and still made without panic.
func lines(doc string) map[string]int {
	s := &scanner{text: doc, line: 1, at: map[string]int{}, lists: map[string]int{}}
	s.document()
	return s.at
}

// scanner walks over a document and notes where keys are. Every loop of it moves pos or ends.
type scanner struct {
	text  string
	pos   int
	line  int
	at    map[string]int
	lists map[string]int // how many tables [[path]] has had
}

func (s *scanner) document() {
	prefix := ""
	for s.space(); s.pos < len(s.text); s.space() {
		if s.peek() == '[' {
			prefix = s.header()
		} else {
			s.pair(prefix)
		}
	}
}

// peek is the byte at pos, 0 at the end.
func (s *scanner) peek() byte {
	if s.pos < len(s.text) {
		return s.text[s.pos]
	}
	return 0
}

// skip moves over n bytes.
func (s *scanner) skip(n int) {
	n = min(n, len(s.text)-s.pos)
	s.line += strings.Count(s.text[s.pos:s.pos+n], "\n")
	s.pos += n
}

// until moves to the first of the bytes, or to the end.
func (s *scanner) until(bytes string) {
	n := strings.IndexAny(s.text[s.pos:], bytes)
	if n < 0 {
		n = len(s.text) - s.pos
	}
	s.skip(n)
}

// space moves over blanks, line ends and comments, and over commas, which only stand where nothing else can be meant.
func (s *scanner) space() {
	for s.pos < len(s.text) {
		switch s.peek() {
		case ' ', '\t', '\r', '\n', ',':
			s.skip(1)
		case '#':
			s.until("\n")
		default:
			return
		}
	}
}

// header reads [a.b] or [[a.b]] and returns its path.
func (s *scanner) header() string {
	s.skip(1)
	list := s.peek() == '['
	if list {
		s.skip(1)
	}
	line := s.line
	names := s.names()
	s.until("\n")
	path := ""
	for i, name := range names {
		path = child(path, name)
		s.note(path, line)
		switch n, seen := s.lists[path]; {
		case list && i == len(names)-1:
			s.lists[path]++
			path = item(path, n)
		case seen:
			path = item(path, n-1) // [a.b] below [[a]] belongs to the last one
		}
		s.note(path, line)
	}
	return path
}

// pair reads key = value.
func (s *scanner) pair(prefix string) {
	line := s.line
	names := s.names()
	for _, name := range names {
		prefix = child(prefix, name)
		s.note(prefix, line)
	}
	if len(names) == 0 || s.peek() != '=' {
		s.pos = len(s.text) // the decoder would not have taken it
		return
	}
	s.skip(1)
	s.value(prefix)
}

// note keeps the first line of a path.
func (s *scanner) note(path string, line int) {
	if _, ok := s.at[path]; !ok {
		s.at[path] = line
	}
}

// names reads a name with dots.
func (s *scanner) names() []string {
	var names []string
	for s.pos < len(s.text) {
		s.blanks()
		start := s.pos
		if c := s.peek(); c == '"' || c == '\'' {
			s.quoted()
			names = append(names, unquote(s.text[start:s.pos]))
		} else {
			s.until(" \t.=]\r\n")
			names = append(names, s.text[start:s.pos])
		}
		s.blanks()
		if s.peek() != '.' {
			break
		}
		s.skip(1)
	}
	return names
}

func (s *scanner) blanks() {
	for c := s.peek(); c == ' ' || c == '\t'; c = s.peek() {
		s.skip(1)
	}
}

// unquote lets the decoder read a quoted name.
func unquote(quoted string) string {
	var v struct{ X string }
	if _, err := toml.Decode("X = "+quoted, &v); err != nil {
		return quoted
	}
	return v.X
}

// value moves over a value; tables in it have keys to note.
func (s *scanner) value(path string) {
	s.space()
	switch s.peek() {
	case '"', '\'':
		s.quoted()
	case '[':
		s.skip(1)
		for i := 0; s.more(']'); i++ {
			s.note(item(path, i), s.line)
			s.value(item(path, i))
		}
	case '{':
		s.skip(1)
		for s.more('}') {
			s.pair(path)
		}
	default:
		s.until(",]}#\n")
	}
}

// more moves to the next item of an array or an inline table, or over its end.
func (s *scanner) more(end byte) bool {
	s.space()
	switch c := s.peek(); {
	case s.pos >= len(s.text):
		return false
	case c == end:
		s.skip(1)
		return false
	case c == ']' || c == '}':
		s.pos = len(s.text) // the decoder would not have taken it
		return false
	}
	return true
}

// quoted moves over a string of any of the four forms.
func (s *scanner) quoted() {
	quote := s.text[s.pos : s.pos+1]
	end := quote
	if strings.HasPrefix(s.text[s.pos:], quote+quote+quote) {
		end = quote + quote + quote
	}
	s.skip(len(end))
	for s.pos < len(s.text) {
		switch {
		case quote == `"` && s.peek() == '\\':
			s.skip(2)
		case strings.HasPrefix(s.text[s.pos:], end):
			s.skip(len(end))
			// A long string may end in quotes of its own: """a"""".
			for len(end) == 3 && s.peek() == quote[0] {
				s.skip(1)
			}
			return
		default:
			s.skip(1)
		}
	}
}

// child and item are the paths of what stands in a table and in an array.
func child(path, name string) string {
	if strings.ContainsAny(name, `."[]`) || name == "" {
		name = fmt.Sprintf("%q", name)
	}
	return join(path, name)
}

func item(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

package plugins

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// What a guest writes ends in logs, dead letters and terminals. It is taken for nothing but letters.

// line makes a text one line of valid UTF-8 without control characters, of at most n bytes.
func line(s string, n int) string { return clean(s, n, "") }

// lines is line for a text that may have several.
func lines(s string, n int) string { return clean(s, n, "\n") }

func clean(s string, n int, keep string) string {
	s = s[:min(len(s), 2*n)] // more of it does not matter
	return cut(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && !strings.ContainsRune(keep, r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?")), n)
}

// cut shortens valid UTF-8 to at most n bytes, and leaves no half of a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

package abi

import "unicode/utf8"

// JSONGet finds the value that a JSON pointer (RFC 6901: /orders/0/id, "" for the whole document) names, and returns where it
// begins and ends in doc: with its quotes for a string. Of equal keys the first counts. It only reads up to the value, and it
// does not validate: in a damaged document it may find nothing or a part of it, never bytes outside. Its time is linear in
// len(doc), and it allocates nothing.
func JSONGet(doc []byte, pointer string) (lo, hi int, ok bool) {
	p := space(doc, 0)
	for pointer != "" {
		if pointer[0] != '/' {
			return 0, 0, false
		}
		token := pointer[1:]
		pointer = ""
		for i := range len(token) {
			if token[i] == '/' {
				token, pointer = token[:i], token[i:]
				break
			}
		}
		if p = child(doc, p, token); p < 0 {
			return 0, 0, false
		}
	}
	end := skip(doc, p)
	if end < 0 {
		return 0, 0, false
	}
	return p, end, true
}

func space(doc []byte, p int) int {
	for p < len(doc) && (doc[p] == ' ' || doc[p] == '\n' || doc[p] == '\t' || doc[p] == '\r') {
		p++
	}
	return p
}

// child returns where the member called token of the object or array at p begins, -1 when there is none.
func child(doc []byte, p int, token string) int {
	if p >= len(doc) || doc[p] != '{' && doc[p] != '[' {
		return -1
	}
	object := doc[p] == '{'
	want := -1
	if !object {
		if want = number(token); want < 0 {
			return -1
		}
	}
	p = space(doc, p+1)
	for n := 0; p < len(doc) && doc[p] != '}' && doc[p] != ']'; n++ {
		found := n == want
		if object {
			end := text(doc, p)
			if end < 0 {
				return -1
			}
			found = sameKey(doc[p+1:end-1], token)
			if p = space(doc, end); p >= len(doc) || doc[p] != ':' {
				return -1
			}
			p = space(doc, p+1)
		}
		if found {
			return p
		}
		if p = skip(doc, p); p < 0 {
			return -1
		}
		if p = space(doc, p); p < len(doc) && doc[p] == ',' {
			p = space(doc, p+1)
		}
	}
	return -1
}

// number parses an array index without leading zeros, at most nine digits.
func number(s string) int {
	if s == "" || len(s) > 9 || s[0] == '0' && len(s) > 1 {
		return -1
	}
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return -1
		}
		n = n*10 + int(s[i]-'0')
	}
	return n
}

// text returns the end of the string at p, -1 when there is none.
func text(doc []byte, p int) int {
	if p >= len(doc) || doc[p] != '"' {
		return -1
	}
	for p++; p < len(doc); p++ {
		switch doc[p] {
		case '"':
			return p + 1
		case '\\':
			p++
		}
	}
	return -1
}

// skip returns the end of the value at p, -1 when there is none. Every turn moves on, so damaged nesting cannot hold it up.
func skip(doc []byte, p int) int {
	depth := 0
	for p < len(doc) {
		switch c := doc[p]; {
		case c == '"':
			if p = text(doc, p); p < 0 {
				return -1
			}
		case c == '{' || c == '[':
			depth++
			p++
		case c == '}' || c == ']':
			if depth--; depth < 0 {
				return -1
			}
			p++
		case depth > 0 && (c == ',' || c == ':' || c <= ' '):
			p++
			continue
		case c == ',' || c == ':' || c <= ' ':
			return -1
		default:
			for p < len(doc) && scalar(doc[p]) {
				p++
			}
			if p < len(doc) && doc[p] == '"' || p < len(doc) && doc[p] > 0x7e {
				return -1
			}
		}
		if depth == 0 {
			return p
		}
	}
	return -1
}

// scalar says whether c may be part of a number, true, false or null.
func scalar(c byte) bool {
	return c > ' ' && c != ',' && c != ':' && c != ']' && c != '}' && c != '[' && c != '{' && c != '"' && c < 0x7f
}

// sameKey compares the inside of a JSON string with a token of a pointer, both with their escapes.
func sameKey(key []byte, token string) bool {
	for len(key) > 0 && len(token) > 0 {
		k, kn := keyRune(key)
		t, tn := tokenRune(token)
		if k != t {
			return false
		}
		key, token = key[kn:], token[tn:]
	}
	return len(key) == 0 && len(token) == 0
}

func tokenRune(s string) (rune, int) {
	if s[0] == '~' && len(s) > 1 {
		switch s[1] {
		case '0':
			return '~', 2
		case '1':
			return '/', 2
		}
	}
	if s[0] < utf8.RuneSelf {
		return rune(s[0]), 1
	}
	return utf8.DecodeRuneInString(s)
}

func keyRune(s []byte) (rune, int) {
	if s[0] != '\\' || len(s) < 2 {
		if s[0] < utf8.RuneSelf {
			return rune(s[0]), 1
		}
		return utf8.DecodeRune(s)
	}
	switch s[1] {
	case 'n':
		return '\n', 2
	case 't':
		return '\t', 2
	case 'r':
		return '\r', 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'u':
		hi := hex4(s[2:])
		if hi < 0 {
			return utf8.RuneError, 2
		}
		if hi >= 0xd800 && hi < 0xdc00 && len(s) >= 12 && s[6] == '\\' && s[7] == 'u' {
			if lo := hex4(s[8:]); lo >= 0xdc00 && lo < 0xe000 {
				return (hi-0xd800)<<10 | (lo - 0xdc00) + 0x10000, 12
			}
		}
		return hi, 6
	}
	return rune(s[1]), 2
}

func hex4(s []byte) rune {
	if len(s) < 4 {
		return -1
	}
	var x rune
	for _, c := range s[:4] {
		switch {
		case c >= '0' && c <= '9':
			x = x<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			x = x<<4 | rune(c|0x20-'a'+10)
		default:
			return -1
		}
	}
	return x
}

// Match says whether s matches pattern, in which * stands for any bytes and ? for one byte; there is no escape. Its time is
// at most len(s) times len(pattern).
func Match(pattern string, s []byte) bool {
	p, i := 0, 0
	star, from := -1, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == s[i]):
			p++
			i++
		case star >= 0:
			from++
			p, i = star+1, from
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

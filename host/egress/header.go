package egress

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Header is one line of a header.
type Header struct{ Name, Value string }

// Limits of a request's headers.
const (
	maxHeaders     = 100
	maxHeaderBytes = 32 << 10
)

// hosts are the headers that are not a plugin's: what frames the message, concerns one connection alone, says where it goes,
// or what the host signs with.
var hosts = []string{
	"Connection", "Content-Length", "Expect", "Host", "Http2-Settings", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding",
	"Upgrade", HeaderID, HeaderTimestamp, HeaderSignature,
}

// header checks what a plugin wants to send, and makes it what net/http takes.
func header(list []Header) (http.Header, error) {
	if len(list) > maxHeaders {
		return nil, fmt.Errorf("%w: %d headers, at most %d", ErrRefused, len(list), maxHeaders)
	}
	all, size := http.Header{}, 0
	for _, h := range list {
		if size += len(h.Name) + len(h.Value); size > maxHeaderBytes {
			return nil, fmt.Errorf("%w: headers of more than %d bytes", ErrRefused, maxHeaderBytes)
		}
		if !token(h.Name) {
			return nil, fmt.Errorf("%w: %q is not the name of a header", ErrRefused, cut(h.Name))
		}
		name := http.CanonicalHeaderKey(h.Name)
		if plain := dashed(name); slices.Contains(hosts, plain) || strings.HasPrefix(plain, "Proxy-") {
			return nil, fmt.Errorf("%w: header %s is not the plugin's to set", ErrRefused, name)
		}
		if i := strings.IndexFunc(h.Value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }); i >= 0 {
			return nil, fmt.Errorf("%w: header %s has a control character", ErrRefused, name)
		}
		all.Add(name, strings.Trim(h.Value, " \t"))
	}
	return all, nil
}

// dashed is a name as servers read it that hand headers on as variables, where - and _ are the same.
func dashed(name string) string { return http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-")) }

// token says whether a name or method has the characters that HTTP allows.
func token(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}

// lines are the headers of a response: names in small letters, in order of names, and values in the order in which they came.
func lines(all http.Header) []Header {
	var list []Header
	for name, values := range all {
		for _, v := range values {
			list = append(list, Header{strings.ToLower(name), v})
		}
	}
	slices.SortStableFunc(list, func(a, b Header) int { return strings.Compare(a.Name, b.Name) })
	return list
}

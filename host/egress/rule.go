package egress

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// maxName is the longest name of a host.
const maxName = 253

// Rule is one entry of an allow-list. ParseRule makes it; the zero Rule allows nothing. It can be compared.
type Rule struct {
	scheme string // https or http
	host   string // a name or address; ".suffix" for *.suffix; "*" for any name
	port   uint16
}

// ParseRule reads an entry of an allow-list:
//
//	api.example.com            https, port 443
//	api.example.com:8443       https on another port
//	http://intern:8080         without TLS, which has to be said
//	*.example.com              every name that ends so, at any depth; not example.com itself
//	*                          every name: for URLs that customers give
//	192.0.2.7, [2001:db8::1]   an address that stands in the URL itself
//
// Whether a host may have a private address is another question; see Options.Private.
func ParseRule(text string) (Rule, error) {
	r := Rule{scheme: "https", port: 443}
	bad := func(why string) (Rule, error) { return Rule{}, fmt.Errorf("egress: allowed host %q: %s", text, why) }
	rest := text
	if scheme, after, ok := strings.Cut(text, "://"); ok {
		switch scheme {
		case "https":
		case "http":
			r.scheme, r.port = "http", 80
		default:
			return bad("the scheme is not https or http")
		}
		rest = after
	}
	if strings.ContainsAny(rest, "/?#@\\") {
		return bad("only a host and a port, without path or user")
	}
	host, port, err := splitPort(rest, r.port)
	if err != nil {
		return bad(err.Error())
	}
	r.port = port
	switch suffix, wild := strings.CutPrefix(host, "*."); {
	case host == "*":
		r.host = host
		return r, nil
	case wild:
		r.host = "." + suffix
		host = suffix
		if _, err := netip.ParseAddr(strings.Trim(suffix, "[]")); err == nil {
			return bad("an address has no names below it")
		}
	default:
		r.host = host
	}
	if err := validHost(host); err != nil {
		return bad(err.Error())
	}
	return r, nil
}

// String is the rule as ParseRule reads it, with its port.
func (r Rule) String() string {
	host := r.host
	if strings.HasPrefix(host, ".") {
		host = "*" + host
	}
	if r.scheme == "http" {
		host = "http://" + host
	}
	return host + ":" + strconv.Itoa(int(r.port))
}

// allows says whether a target is one that the rule names.
func (r Rule) allows(t *Target) bool {
	if r.scheme != t.URL.Scheme || r.port != t.Port || r.port == 0 {
		return false
	}
	switch {
	case r.host == "*":
		return !t.literal
	case strings.HasPrefix(r.host, "."):
		return !t.literal && len(t.Host) > len(r.host) && strings.HasSuffix(t.Host, r.host)
	}
	return r.host == t.Host
}

// splitPort takes a port off a host. Brackets stay.
func splitPort(text string, port uint16) (string, uint16, error) {
	at := strings.LastIndexByte(text, ':')
	if at < 0 || strings.HasSuffix(text, "]") {
		return text, port, nil
	}
	digits := text[at+1:]
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || n == 0 || digits[0] == '0' || digits[0] == '+' {
		return "", 0, fmt.Errorf("%q is not a port", digits)
	}
	return text[:at], uint16(n), nil
}

// validHost says whether a host has the one form in which it is accepted: lower-case letters of ASCII, or an address as
// package netip writes it, one of version 6 in brackets.
func validHost(host string) error {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		addr, err := netip.ParseAddr(inner)
		switch {
		case !ok || err != nil || !addr.Is6():
			return fmt.Errorf("%q is not an address of version 6 in brackets", host)
		case addr.Zone() != "":
			return fmt.Errorf("%q has a zone", host)
		case addr.Is4In6() || addr.String() != inner:
			return fmt.Errorf("%q is not written in its canonical form", host)
		}
		return nil
	}
	switch {
	case host == "":
		return fmt.Errorf("there is no host")
	case len(host) > maxName:
		return fmt.Errorf("the host has %d bytes, at most %d", len(host), maxName)
	case strings.HasSuffix(host, "."):
		return fmt.Errorf("%q ends with a dot", host)
	}
	last := ""
	for label := range strings.SplitSeq(host, ".") {
		if err := validLabel(host, label); err != nil {
			return err
		}
		last = label
	}
	// A last label of digits makes an address of the name in many programs, as 127.1, 0177.0.0.1 and 2130706433 do.
	if last[0] >= '0' && last[0] <= '9' && numeric(last) {
		if addr, err := netip.ParseAddr(host); err != nil || !addr.Is4() {
			return fmt.Errorf("%q is a number and not an address in its canonical form", host)
		}
	}
	return nil
}

func validLabel(host, label string) error {
	if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
		return fmt.Errorf("%q is not a host's name", host)
	}
	for i := range len(label) {
		switch c := label[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_':
		case c >= 'A' && c <= 'Z':
			return fmt.Errorf("%q has capital letters", host)
		case c >= 0x80:
			return fmt.Errorf("%q is not ASCII: write it in its form with xn--", host)
		default:
			return fmt.Errorf("%q has a character that no host's name has", host)
		}
	}
	return nil
}

// numeric says whether a label would be read as a number, decimal or 0x hexadecimal.
func numeric(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

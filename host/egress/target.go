package egress

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// maxURL is the longest URL, in bytes.
const maxURL = 8192

// Target is where a request goes: a URL that passed the gate.
type Target struct {
	URL  *url.URL
	Host string // name or address, one of version 6 in brackets; as it stands in URL
	Port uint16

	literal bool // Host is an address
}

// Authority is the host with its port.
func (t *Target) Authority() string { return t.Host + ":" + strconv.Itoa(int(t.Port)) }

// ParseTarget reads a URL as a plugin gave it and refuses every form about which programs disagree. It does not ask whether
// the host is allowed; Client.Target does both. The error is of kind ErrRefused.
func ParseTarget(text string) (*Target, error) {
	bad := func(why string) (*Target, error) {
		return nil, fmt.Errorf("%w: URL %q: %s", ErrRefused, cut(text), why)
	}
	if len(text) > maxURL {
		return bad(fmt.Sprintf("%d bytes, at most %d", len(text), maxURL))
	}
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c >= 0x7f || c == '\\' {
			return bad("it has a character that must be escaped")
		}
	}
	u, err := url.Parse(text)
	if err != nil {
		return bad("it is no URL")
	}
	t := &Target{URL: u}
	switch {
	case u.Scheme == "https" && strings.HasPrefix(text, "https://"):
		t.Port = 443
	case u.Scheme == "http" && strings.HasPrefix(text, "http://"):
		t.Port = 80
	default:
		return bad("it does not begin with https:// or http://")
	}
	if u.User != nil || strings.Contains(authority(text), "@") {
		return bad("it names a user")
	}
	if u.Fragment != "" || strings.Contains(text, "#") {
		return bad("it has a fragment")
	}
	// What package url made of the authority must be what stands there: it decodes escapes.
	if u.Host != authority(text) || strings.Contains(u.Host, "%") {
		return bad("the host has an escape")
	}
	if t.Host, t.Port, err = splitPort(u.Host, t.Port); err != nil {
		return bad(err.Error())
	}
	if err := validHost(t.Host); err != nil {
		return bad(err.Error())
	}
	t.literal = t.Host[0] == '[' || numeric(t.Host[strings.LastIndexByte(t.Host, '.')+1:])
	return t, nil
}

// authority is what stands between the slashes.
func authority(text string) string {
	_, rest, _ := strings.Cut(text, "://")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	return rest
}

// cut shortens what a plugin gave, for messages.
func cut(text string) string {
	const most = 200
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "?") + "…"
	}
	return text
}

package httpapi

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
)

// Role is what somebody may do. Each includes those before it.
type Role uint8

// The roles.
const (
	RoleNone    Role = iota // a stranger: health, documents
	RoleRead                // looks, and changes nothing
	RoleProduce             // stores, cancels and moves messages, and consumes them as a group
	RoleOperate             // topics, groups, dead letters, bulk changes, the configuration
)

var roleWords = [...]string{"none", "read", "produce", "operate"}

// String is the role's word, as the tokens file has it.
func (r Role) String() string { return roleWords[r] }

// ErrTokens is the kind of every error about a tokens file.
var ErrTokens = errors.New("tokens file")

// Tokens are the bearer tokens of a file: who they are of, and what they allow. The file has their hashes only. A line is
// the SHA-256 of a token in hex, a role and a name, which is what a log calls whoever has it; # begins a comment:
//
//	# printf %s "$TOKEN" | sha256sum        (printf, since echo adds a line feed)
//	9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08  produce  shop
//
// It is safe for concurrent use.
type Tokens struct {
	file string
	list atomic.Pointer[[]token]
}

// token is one line of the file.
type token struct {
	hash [sha256.Size]byte
	role Role
	name string
}

// maxTokensFile bounds what is read of the file, bytes.
const maxTokensFile = 1 << 20

// OpenTokens reads a tokens file. The error is of kind ErrTokens and names the line.
func OpenTokens(file string) (*Tokens, error) {
	t := &Tokens{file: file}
	if err := t.Reload(); err != nil {
		return nil, err
	}
	return t, nil
}

// Reload reads the file again: from then on its tokens count and no others. After an error those of before do.
func (t *Tokens) Reload() error {
	f, err := os.Open(t.file)
	if err != nil {
		return fmt.Errorf("httpapi: %w: %w", ErrTokens, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxTokensFile+1))
	if err != nil {
		return fmt.Errorf("httpapi: %w: %w", ErrTokens, err)
	}
	if len(text) > maxTokensFile {
		return fmt.Errorf("httpapi: %w: %s has more than %d bytes", ErrTokens, t.file, maxTokensFile)
	}
	list, err := parseTokens(text)
	if err != nil {
		return fmt.Errorf("httpapi: %w: %s: %w", ErrTokens, t.file, err)
	}
	t.list.Store(&list)
	return nil
}

// Count is the number of tokens.
func (t *Tokens) Count() int { return len(*t.list.Load()) }

// parseTokens reads the lines. All that is wrong is in the error.
func parseTokens(text []byte) ([]token, error) {
	var list []token
	var faults []error
	lines := map[[sha256.Size]byte]int{}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		words, _, _ := strings.Cut(string(line), "#")
		fields := strings.Fields(words)
		if len(fields) == 0 {
			continue
		}
		tok, err := parseToken(fields)
		if first := lines[tok.hash]; err == nil && first != 0 {
			err = fmt.Errorf("the same token as in line %d", first)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("line %d: %w", number, err))
			continue
		}
		lines[tok.hash] = number
		list = append(list, tok)
	}
	if len(list) == 0 && faults == nil {
		return nil, errors.New("there is no token in it, so nobody could do anything")
	}
	return list, errors.Join(faults...)
}

// roleOf finds a role by its word.
func roleOf(word string) (Role, bool) {
	for r := RoleRead; r <= RoleOperate; r++ {
		if r.String() == word {
			return r, true
		}
	}
	return RoleNone, false
}

func parseToken(fields []string) (token, error) {
	var tok token
	if len(fields) != 3 {
		return tok, fmt.Errorf("it has %d words and not 3: the SHA-256 of a token in hex, a role, a name", len(fields))
	}
	hash, err := hex.DecodeString(fields[0])
	if err != nil || len(hash) != sha256.Size {
		// Whatever it is, it may be a token in plain: it must not get into a log.
		return tok, errors.New("the first word is not the SHA-256 of a token in hex, 64 digits")
	}
	copy(tok.hash[:], hash)
	if tok.hash == sha256.Sum256(nil) {
		return tok, errors.New("it is the hash of an empty token")
	}
	role, ok := roleOf(fields[1])
	if !ok {
		return tok, fmt.Errorf("role %q is not one of read, produce, operate", shorten(fields[1]))
	}
	tok.role, tok.name = role, fields[2]
	return tok, nil
}

// find tells a token's role and name. It compares with every token, and each for the same time, so that the time an
// answer takes says nothing about a token.
func (t *Tokens) find(text string) (role Role, name string, ok bool) {
	hash := sha256.Sum256([]byte(text))
	for _, tok := range *t.list.Load() {
		if subtle.ConstantTimeCompare(hash[:], tok.hash[:]) == 1 {
			role, name, ok = tok.role, tok.name, true
		}
	}
	return role, name, ok
}

// bearer is the token that a request has; empty: none.
func bearer(r *http.Request) string {
	scheme, text, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(text)
}

// who asks: without tokens everybody, who is on this machine then, may do everything.
func (a *API) who(r *http.Request) (role Role, known bool) {
	if a.opts.Tokens == nil {
		return RoleOperate, true
	}
	text := bearer(r)
	if text == "" {
		return RoleNone, false
	}
	role, _, known = a.opts.Tokens.find(text)
	return role, known
}

// admit says whether a call may go on; else it has been answered, and nothing of its body was read.
func (a *API) admit(c *call) bool {
	var known bool
	c.role, known = a.who(c.r)
	var p *Problem
	switch {
	case c.route.role > RoleNone && !known:
		c.w.Header().Set("WWW-Authenticate", `Bearer realm="tidewheel"`)
		p = problem("unauthorized")
		p.Fix = "send Authorization: Bearer TOKEN"
	case c.role < c.route.role:
		p = forbidden(c.role, c.route.role)
	case c.route.writes() && a.opts.ReadOnly:
		p = problem("read_only")
	default:
		return true
	}
	turnAway(c.w, p)
	return false
}

// turnAway answers without reading the body: the connection ends instead.
func turnAway(w http.ResponseWriter, p *Problem) {
	leaveBody(w)
	p.write(w)
}

// needs refuses a call whose token has not the role that what it asks for takes.
func (c *call) needs(role Role) error {
	if c.role < role {
		return forbidden(c.role, role)
	}
	return nil
}

func forbidden(has, needs Role) *Problem {
	p := problem("forbidden")
	p.Field, p.Got, p.Limit = "role", has.String(), needs.String()
	return p
}

package egress

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
)

// The headers of Standard Webhooks. They are the host's: a plugin cannot set them.
const (
	HeaderID        = "Webhook-Id"        // the same for each attempt of a message
	HeaderTimestamp = "Webhook-Timestamp" // of this attempt, seconds since 1970
	HeaderSignature = "Webhook-Signature"
)

const secretPrefix = "whsec_"

// Secret is a key that webhooks are signed with. It never prints itself.
type Secret struct{ key []byte }

// String hides the key.
func (Secret) String() string { return secretPrefix + "…" }

// Format hides the key, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue hides the key.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// ParseSecret reads a secret as Standard Webhooks writes it: whsec_ and 24 to 64 bytes in base64. The error does not quote it.
func ParseSecret(text string) (Secret, error) {
	digits, ok := strings.CutPrefix(text, secretPrefix)
	if !ok {
		return Secret{}, errors.New("egress: a signing secret begins with whsec_")
	}
	key, err := base64.StdEncoding.DecodeString(digits)
	if err != nil {
		if key, err = base64.RawStdEncoding.DecodeString(digits); err != nil {
			return Secret{}, errors.New("egress: a signing secret is whsec_ and base64")
		}
	}
	if len(key) < 24 || len(key) > 64 {
		return Secret{}, fmt.Errorf("egress: a signing secret has 24 to 64 bytes, this one %d", len(key))
	}
	return Secret{key}, nil
}

// MaxSecrets is how many secrets sign a request at most.
const MaxSecrets = 8

// ParseSecrets reads a file of secrets, one a line; empty lines and lines that begin with # are passed over. All of them sign:
// to change a secret, add the new one, tell the receivers, and take the old one out. The error names a line and no secret.
func ParseSecrets(text string) ([]Secret, error) {
	var all []Secret
	n := 0
	for line := range strings.Lines(text) {
		n++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		s, err := ParseSecret(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if all = append(all, s); len(all) > MaxSecrets {
			return nil, fmt.Errorf("line %d: egress: more than %d signing secrets", n, MaxSecrets)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("egress: there is no signing secret")
	}
	return all, nil
}

// Signature is the value of the header: a signature with each secret, in their order.
func Signature(secrets []Secret, id string, seconds int64, body []byte) string {
	all := make([]string, len(secrets))
	for i, s := range secrets {
		all[i] = "v1," + base64.StdEncoding.EncodeToString(s.sum(id, seconds, body))
	}
	return strings.Join(all, " ")
}

// Verify says whether one of the signatures in a header is that of the secret: what a receiver does, which also has to refuse
// timestamps that are not near its clock, and ids that it has seen. It takes the same time for every signature of the right
// length.
func Verify(s Secret, id string, seconds int64, body []byte, header string) bool {
	want, ok := s.sum(id, seconds, body), false
	for one := range strings.FieldsSeq(header) {
		digits, v1 := strings.CutPrefix(one, "v1,")
		if !v1 {
			continue // another version
		}
		if got, err := base64.StdEncoding.DecodeString(digits); err == nil && hmac.Equal(got, want) {
			ok = true
		}
	}
	return ok
}

// sum is the HMAC of "id.timestamp.body".
func (s Secret) sum(id string, seconds int64, body []byte) []byte {
	h := hmac.New(sha256.New, s.key)
	h.Write([]byte(id + "." + strconv.FormatInt(seconds, 10) + "."))
	h.Write(body)
	return h.Sum(nil)
}

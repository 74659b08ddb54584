package config

import "log/slog"

// Secret is text that no print, log or JSON shows. It comes from a file of its own or from a variable, never from the
// configuration file. The zero value is not set. It is safe for concurrent use.
type Secret struct{ text string }

// What is shown of a secret.
const (
	secretSet   = "(set)"
	secretUnset = "(not set)"
)

// Reveal is the secret itself; empty: not set.
func (s Secret) Reveal() string { return s.text }

// String says whether the secret is set.
func (s Secret) String() string {
	if s.text == "" {
		return secretUnset
	}
	return secretSet
}

// GoString is String: %#v shows no more than %v.
func (s Secret) GoString() string { return s.String() }

// MarshalText is String.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue is String.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

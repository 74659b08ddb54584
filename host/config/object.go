package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
)

// Object is a table with keys that only a plugin knows, as a JSON object. What stands in it for a secret is shown as where
// the secret comes from, by every print, log and JSON. The zero value is no table. It is safe for concurrent use.
type Object struct {
	text  string // JSON, with the secrets
	shown string // JSON, without them
}

// Reveal is the object with its secrets, with its members in the order of their names; nil: there is none.
func (o Object) Reveal() json.RawMessage {
	if o.text == "" {
		return nil
	}
	return json.RawMessage(o.text)
}

// String is the object without its secrets.
func (o Object) String() string { return o.shown }

// GoString is String: %#v shows no more than %v.
func (o Object) GoString() string { return o.shown }

// MarshalText is String.
func (o Object) MarshalText() ([]byte, error) { return []byte(o.shown), nil }

// LogValue is String.
func (o Object) LogValue() slog.Value { return slog.StringValue(o.shown) }

// Keys of the inline tables that stand for a secret.
const (
	secretVariable = "secret"
	secretFile     = "secret_file"
)

// secretPrefix begins the name of every variable with a secret for a plugin.
const secretPrefix = envPrefix + "SECRET_"

// object makes an Object of a table of the file. What is wrong in it is noted.
func (l *loader) object(value any, path string) Object {
	content, ok := value.(map[string]any)
	if !ok {
		l.bad(path, "it must be a table")
		return Object{}
	}
	before := len(l.problems)
	text, shown := l.plain(content, path)
	if len(l.problems) > before {
		return Object{}
	}
	a, errText := json.Marshal(text)
	b, errShown := json.Marshal(shown)
	if err := errors.Join(errText, errShown); err != nil {
		l.bad(path, err.Error())
		return Object{}
	}
	return Object{string(a), string(b)}
}

// plain makes a value of the file one that JSON has: as it is, and as it may be shown.
func (l *loader) plain(value any, path string) (text, shown any) {
	switch v := value.(type) {
	case string, bool, int64:
		return v, v
	case float64:
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			return v, v
		}
		l.bad(path, fmt.Sprintf("it is %v, which JSON does not have", v))
	case map[string]any:
		if len(v) == 1 && (v[secretVariable] != nil || v[secretFile] != nil) {
			secret, err := l.secret(v)
			if err != nil {
				l.bad(path, err.Error())
			}
			return secret, v
		}
		texts, showns := map[string]any{}, map[string]any{}
		for _, word := range slices.Sorted(maps.Keys(v)) {
			texts[word], showns[word] = l.plain(v[word], child(path, word))
		}
		return texts, showns
	case []map[string]any:
		items := make([]any, len(v))
		for i := range v {
			items[i] = v[i]
		}
		return l.plain(items, path)
	case []any:
		texts, showns := make([]any, len(v)), make([]any, len(v))
		for i := range v {
			texts[i], showns[i] = l.plain(v[i], item(path, i))
		}
		return texts, showns
	default:
		l.bad(path, "it is a date, which JSON does not have: write it as text, in quotes")
	}
	return nil, nil
}

// secret reads what { secret = "NAME" } or { secret_file = "FILE" } stands for.
func (l *loader) secret(from map[string]any) (string, error) {
	if name, ok := from[secretVariable]; ok {
		text, ok := name.(string)
		if !ok || text == "" || strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") != "" {
			return "", fmt.Errorf("%v: the name of a secret is of A-Z a-z 0-9 _, and its value stands in %sNAME", name, secretPrefix)
		}
		variable := secretPrefix + strings.ToUpper(text)
		for _, entry := range l.src.Environ {
			if value, ok := strings.CutPrefix(entry, variable+"="); ok && value != "" {
				return value, nil
			}
		}
		return "", fmt.Errorf("the variable %s is not set", variable)
	}
	file, ok := from[secretFile].(string)
	if !ok {
		return "", errors.New("secret_file must be the path of a file, in quotes")
	}
	data, err := readFile(l.absolute(file))
	if err != nil {
		return "", err
	}
	text := strings.TrimRight(string(data), "\r\n")
	if text == "" {
		return "", fmt.Errorf("%s is empty", file)
	}
	return text, nil
}

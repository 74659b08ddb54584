package plugins

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tidewheel/tidewheel/plugins/abi"
)

// Manifest is what a module says about itself in its section tw.manifest. It asks; it grants nothing.
type Manifest struct {
	Name        string   `json:"name"`
	Version     string   `json:"version"`
	Description string   `json:"description"`
	Hooks       []string `json:"hooks"`
	Imports     []Asked  `json:"imports"`
}

// Asked is an import that a plugin wants, and what for.
type Asked struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

const maxManifest = 64 << 10

// ParseManifest reads the data of the section. Unknown members, more than one value and unknown hooks are errors that wrap
// ErrManifest.
func ParseManifest(data []byte) (Manifest, error) {
	var m Manifest
	if len(data) > maxManifest {
		return m, fmt.Errorf("%w: %d bytes, at most %d", ErrManifest, len(data), maxManifest)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return Manifest{}, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return Manifest{}, fmt.Errorf("%w: more than one JSON value", ErrManifest)
	}
	for _, h := range m.Hooks {
		if _, ok := abi.ParseHook(h); !ok {
			return Manifest{}, fmt.Errorf("%w: unknown hook %q", ErrManifest, h)
		}
	}
	return m, nil
}

// meant refuses hooks that the manifest does not name. A Go guest exports all of them, so without this a table with the wrong
// hook would load, and the plugin would keep every message that it was put there to decide about.
func (m *Manifest) meant(hooks []abi.Hook) error {
	for _, h := range hooks {
		if len(m.Hooks) > 0 && !slices.Contains(m.Hooks, h.String()) {
			return fmt.Errorf("%w: the plugin is not made for %s: its manifest names %s", ErrHook, h, strings.Join(m.Hooks, ", "))
		}
	}
	return nil
}

package demo

import (
	"crypto/sha256"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
)

// pluginModule is examples/wasm/demo-c, built: the demo runs where no compiler is.
//
//go:embed plugin.wasm
var pluginModule []byte

// Of the plugins: where their messages come from.
const (
	filteredTopic = "orders"
	hookedTopic   = "reminders"
	// paidProperty is the property of what the filter drops.
	paidProperty = "paid"
)

// pluginConfig is the configuration of the server: a filter, and a webhook at 127.0.0.1. By %s: pin, pin, address, address.
const pluginConfig = `# Written by tidewheel demo: one module, twice.
[plugins]
dir = "plugins"

# Drops orders to be closed that were paid meanwhile.
[[plugin]]
name = "paid"
file = "demo.wasm"
sha256 = "%s"
hooks = ["filter"]
match = ["` + filteredTopic + `"]
on_error = "dead_letter"

# Calls a webhook for each reminder.
[[plugin]]
name = "webhook"
file = "demo.wasm"
sha256 = "%s"
hooks = ["deliver"]
match = ["` + hookedTopic + `"]
on_error = "dead_letter"

[plugin.capabilities]
egress = ["http://%s"]
private_addresses = ["127.0.0.1/32"]

[plugin.config]
url = "http://%s/reminders"
`

// installPlugins writes the module and the server's configuration into a directory, and returns the path of the latter.
func installPlugins(dir, address string) (file string, err error) {
	if err := os.MkdirAll(filepath.Join(dir, "plugins"), 0o700); err != nil {
		return "", fmt.Errorf("demo: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "plugins", "demo.wasm"), pluginModule, 0o600); err != nil {
		return "", fmt.Errorf("demo: %w", err)
	}
	pin := fmt.Sprintf("%x", sha256.Sum256(pluginModule))
	file = filepath.Join(dir, "tidewheel.toml")
	text := fmt.Sprintf(pluginConfig, pin, pin, address, address)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("demo: %w", err)
	}
	return file, nil
}

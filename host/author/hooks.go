package author

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
)

// errHook is returned when it can't be told which hook is meant.
var errHook = errors.New("which hook")

// Hooks are the hooks that a plugin is for: those of its manifest, or without one those that it exports. Go guests export all
// five, whatever they do with them.
func Hooks(info plugins.Info) []abi.Hook {
	var wanted []abi.Hook
	for _, name := range info.Manifest.Hooks {
		if h, ok := abi.ParseHook(name); ok {
			wanted = append(wanted, h)
		}
	}
	if len(wanted) > 0 {
		return wanted
	}
	return info.Hooks
}

// PickHook is the hook of a name, which the plugin must export, or without a name the only one that it is for.
func PickHook(info plugins.Info, name string) (abi.Hook, error) {
	if name == "" {
		all := Hooks(info)
		if len(all) == 1 {
			return all[0], nil
		}
		return 0, fmt.Errorf("%w: the plugin has %s; say which with --hook", errHook, hookNames(all))
	}
	h, ok := abi.ParseHook(name)
	if !ok {
		return 0, fmt.Errorf("%w: %q is none of publish, filter, transform, prepare, result", errHook, name)
	}
	for _, has := range info.Hooks {
		if has == h {
			return h, nil
		}
	}
	return 0, fmt.Errorf("%w: the plugin has %s, not %s", errHook, hookNames(info.Hooks), name)
}

func hookNames(hooks []abi.Hook) string {
	var names []string
	for _, h := range hooks {
		names = append(names, h.String())
	}
	return strings.Join(names, ", ")
}

// ConfiguredHooks are the names that a configuration has for hooks: the two of a delivery are one there.
func ConfiguredHooks(hooks []abi.Hook) []string {
	var names []string
	delivers := false
	for _, h := range hooks {
		if h == abi.Prepare || h == abi.Result {
			delivers = true
			continue
		}
		names = append(names, h.String())
	}
	if delivers {
		names = append(names, deliver)
	}
	return names
}

package pluginhost

import "errors"

// What the calls about one plugin return, beside the errors of package plugins.
var (
	// ErrNoPlugin: no plugin has the name.
	ErrNoPlugin = errors.New("pluginhost: there is no such plugin")
	// ErrFailed: the plugin's file could not be loaded; Host.Plugin says why.
	ErrFailed = errors.New("pluginhost: the plugin is not loaded")
)

package author

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/tidewheel/tidewheel/host/config"
	"github.com/tidewheel/tidewheel/host/pluginhost"
	"github.com/tidewheel/tidewheel/plugins"
)

// Checked is what Check and CheckConfig found about one plugin.
type Checked struct {
	Name     string
	File     string
	Info     plugins.Info
	Warnings []string
	Err      error // why a server would not run it; nil when it would
}

// Check loads a file as a server would, with every function granted, and starts an instance of it.
func Check(ctx context.Context, file string, set Setting) Checked {
	c := Checked{File: file}
	module, err := os.ReadFile(file)
	if err != nil {
		c.Err = err
		return c
	}
	c.inspect(module)
	s, err := Open(ctx, module, set)
	if err != nil {
		c.Err = err
		return c
	}
	c.Err = s.Close()
	return c
}

// inspect fills in what the file says of itself.
func (c *Checked) inspect(module []byte) {
	var err error
	if c.Info, err = plugins.Inspect(module, AllGrants); err == nil {
		c.Warnings = Warnings(c.Info)
	}
	if c.Name == "" {
		c.Name = c.Info.Manifest.Name
	}
}

// CheckConfig loads each plugin of a configuration as a server would: with its limits, grants, pin and configuration. A server
// may be running; nothing is changed, and the cache of compiled code is only used if cacheDir is one.
func CheckConfig(ctx context.Context, cfg *config.Config, cacheDir string) ([]Checked, error) {
	if len(cfg.Plugins) == 0 {
		return nil, nil
	}
	r, err := plugins.NewRuntime(plugins.Options{MemoryTotal: int64(cfg.PluginHost.MemoryTotal), CacheDir: cacheDir})
	if err != nil {
		return nil, err
	}
	var all []Checked
	var open []*plugins.Plugin // all at once, because they share the memory
	for i := range cfg.Plugins {
		t := &cfg.Plugins[i]
		c := Checked{Name: t.Name, File: t.File}
		if !filepath.IsAbs(c.File) {
			c.File = filepath.Join(cfg.PluginDir(), c.File)
		}
		p, err := c.load(ctx, r, t)
		if err != nil {
			var load *plugins.LoadError
			if errors.As(err, &load) {
				err = load.Err // the name stands beside it
			}
			c.Err = err
		} else {
			open = append(open, p)
		}
		all = append(all, c)
	}
	for _, p := range open {
		err = errors.Join(err, p.Close())
	}
	return all, errors.Join(err, r.Close())
}

// load does for one table what a server does when it starts.
func (c *Checked) load(ctx context.Context, r *plugins.Runtime, t *config.PluginTable) (*plugins.Plugin, error) {
	module, err := os.ReadFile(c.File)
	if err != nil {
		return nil, err
	}
	c.inspect(module)
	m, err := r.Load(ctx, module, pluginhost.Spec(t))
	if err != nil {
		return nil, err
	}
	for _, asked := range Capabilities(c.Info) {
		if asked.Name == "egress" && slices.Contains(t.Hooks, deliver) && !reaches(t.Capabilities.Egress, asked.Host) {
			c.Warnings = append(c.Warnings, fmt.Sprintf("it asks for egress to %s, which is not granted", asked.Host))
		}
	}
	return r.NewPlugin(m)
}

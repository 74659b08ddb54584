package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/author"
	"github.com/tidewheel/tidewheel/host/config"
	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/guest/golden"
)

// authorVerbs are the verbs of plugin for those who write plugins. None of them needs a server.
func (a *app) authorVerbs() []*cobra.Command {
	return []*cobra.Command{
		a.pluginNew(), a.pluginBuild(), a.pluginRun(), a.pluginTest(), a.pluginBench(),
		a.pluginInspect(), a.pluginCheck(), a.pluginVerify(), a.pluginDeploy(),
	}
}

// authored is what an author's verb is about: a module, and the project that it belongs to, if any.
type authored struct {
	file    string
	module  []byte
	info    plugins.Info
	project *author.Project // nil for a file that lies elsewhere
}

// authored finds it: the argument is a file or a project's directory; without one the project is here.
func (a *app) authored(args []string) (*authored, error) {
	place := "."
	if len(args) > 0 {
		place = args[0]
	}
	info, err := os.Stat(place)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: there is no file %s", errNotFound, place)
	case err != nil:
		return nil, err
	}
	m := &authored{file: place}
	if info.IsDir() {
		if m.project, err = author.Load(place); err != nil {
			return nil, notProject(err)
		}
		m.file = m.project.Module()
	} else if p, err := author.Load(filepath.Dir(place)); err == nil && same(p.Module(), place) {
		m.project = p
	}
	if m.project != nil {
		if stale := m.project.Stale(); stale != "" {
			fmt.Fprintf(a.stderr, "%s is newer than %s: tidewheel plugin build makes it anew\n", stale, m.file)
		}
	}
	m.module, err = os.ReadFile(m.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: there is no %s yet: tidewheel plugin build makes it", errNotFound, m.file)
	}
	return m, err
}

// same says whether two names are one file.
func same(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// usable is authored for verbs that run the module: one that a server would refuse is an error.
func (a *app) usable(args []string) (*authored, error) {
	m, err := a.authored(args)
	if err != nil {
		return nil, err
	}
	if m.info, err = plugins.Inspect(m.module, author.AllGrants); err != nil {
		return nil, fmt.Errorf("%s: %w", m.file, err)
	}
	return m, nil
}

// notProject makes the error of a directory without a project one of something that is not there.
func notProject(err error) error {
	if errors.Is(err, author.ErrNoProject) {
		return fmt.Errorf("%w: %w", errNotFound, err)
	}
	return err
}

// tests is the directory with the records of a module: that of its project, or the one beside the file.
func (m *authored) tests() string { return filepath.Join(filepath.Dir(m.file), author.TestDir) }

// setting are the flags of the verbs that run a module.
type setting struct {
	configFile string
	memoryMax  string
	fuel       int64
}

func (s *setting) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.configFile, "plugin-config", "", "a JSON file with the plugin's configuration; testdata/config.json if it is there")
	cmd.Flags().StringVar(&s.memoryMax, "memory-max", "16MiB", "what an instance's memory may grow to, as memory_max in a server")
	cmd.Flags().Int64Var(&s.fuel, "fuel-per-record", 200_000, "what a record may spend, as fuel_per_record in a server")
}

// open loads a module with the settings.
func (s *setting) open(ctx context.Context, m *authored) (*author.Session, error) {
	set, err := s.setting(m)
	if err != nil {
		return nil, err
	}
	session, err := author.Open(ctx, m.module, set)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.file, err)
	}
	return session, nil
}

// setting reads the flags.
func (s *setting) setting(m *authored) (set author.Setting, err error) {
	size, err := config.ParseSize(s.memoryMax)
	if err != nil || size <= 0 || size%(64<<10) != 0 {
		return set, fmt.Errorf("%w: --memory-max is %q, allowed are multiples of 64KiB", errUsage, s.memoryMax)
	}
	if s.fuel <= 0 {
		return set, fmt.Errorf("%w: --fuel-per-record is %d, allowed is 1 and more", errUsage, s.fuel)
	}
	set = author.Setting{MemoryMax: int64(size), FuelPerRecord: s.fuel, CacheDir: pluginCache()}
	if s.configFile == "" {
		set.Config, err = golden.Config(m.tests())
		return set, err
	}
	set.Config, err = os.ReadFile(s.configFile)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: --plugin-config: %w", errNotFound, err)
	}
	return set, err
}

// pluginCache is where compiled plugins of authors are kept, so that the second run of a Go plugin starts at once; empty when
// there is no such place.
func pluginCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	dir = filepath.Join(dir, "tidewheel", "plugins")
	if os.MkdirAll(dir, 0o700) != nil {
		return ""
	}
	return dir
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/author"
	"github.com/tidewheel/tidewheel/host/pluginhost"
	"github.com/tidewheel/tidewheel/plugins"
)

// verifiedLog is what plugin verify --data says.
type verifiedLog struct {
	File        string             `json:"file"`
	SHA256      string             `json:"sha256"`
	Verdicts    int64              `json:"verdicts"` // in the log, of this file
	Compared    int64              `json:"compared"`
	Gone        int64              `json:"gone"`  // whose messages the log does not hold any more
	Other       int64              `json:"other"` // of deliveries and retries
	Differences []loggedDifference `json:"differences"`
}

// loggedDifference is a verdict that the plugin does not give again.
type loggedDifference struct {
	Topic  string `json:"topic"`
	Queue  int    `json:"queue"`
	Offset string `json:"offset"`
	Key    string `json:"key,omitempty"`
	Logged string `json:"logged"`
	Again  string `json:"again"`
}

// verifyLog asks a plugin again about what a log says it decided.
func (a *app) verifyLog(ctx context.Context, m *authored, set *setting, data, configFile string) error {
	s, err := a.deployedSession(ctx, m, set, configFile)
	if err != nil {
		return err
	}
	defer s.Close()
	env, err := a.dataEnv(data)
	if err != nil {
		return err
	}
	e, err := engine.Open(env, ".", engine.Options{})
	if err != nil {
		return explain(data, err)
	}
	v, err := author.VerifyLog(ctx, e, s)
	if err = errors.Join(err, e.Close()); err != nil {
		return explain(data, err)
	}
	return a.showLogged(m, v)
}

// deployedSession loads a module with the settings of a configuration, or with those of the flags.
func (a *app) deployedSession(ctx context.Context, m *authored, set *setting, configFile string) (*author.Session, error) {
	if configFile == "" {
		return set.open(ctx, m)
	}
	cfg, err := loadConfig(configFile)
	if err != nil {
		return nil, err
	}
	for i := range cfg.Plugins {
		t := &cfg.Plugins[i]
		if t.SHA256 != m.info.Digest.String() && t.Name != m.info.Manifest.Name {
			continue
		}
		spec := pluginhost.Spec(t)
		spec.Pin = nil // an earlier file may be meant
		s, err := author.OpenSpec(ctx, m.module, spec, plugins.Options{CacheDir: pluginCache()})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.file, err)
		}
		return s, nil
	}
	return nil, fmt.Errorf("%w: %s has no plugin with the name or the digest of %s", errNotFound, configFile, m.file)
}

func (a *app) showLogged(m *authored, v author.Logged) error {
	out := verifiedLog{m.file, m.info.Digest.String(), v.Verdicts, v.Compared, v.Gone, v.Other, []loggedDifference{}}
	for _, d := range v.Differences {
		out.Differences = append(out.Differences, loggedDifference{d.Topic, d.Queue, whole(d.Offset), d.Key, d.Logged, d.Again})
	}
	agree := ": all agree"
	switch n := len(v.Differences); {
	case v.Compared == 0:
		agree = ""
	case n > 0:
		agree = ": " + count(int64(n), "differs", "differ")
	}
	if err := a.one(out, func(w io.Writer) {
		fmt.Fprintf(w, "plugin\t%s\nsha256\t%s\nverdicts\t%s of this file in the log\n", out.File, out.SHA256, thousands(out.Verdicts))
		fmt.Fprintf(w, "asked again\t%s%s\n", thousands(out.Compared), agree)
		if out.Gone > 0 {
			fmt.Fprintf(w, "not asked again\t%s, whose messages are gone\n", thousands(out.Gone))
		}
		if out.Other > 0 {
			fmt.Fprintf(w, "not asked again\t%s, of deliveries and retries\n", thousands(out.Other))
		}
	}); err != nil {
		return err
	}
	if len(v.Differences) == 0 {
		return nil
	}
	if a.format == formatTable {
		fmt.Fprintln(a.stdout)
		list := a.list("TOPIC", "QUEUE", "OFFSET", "KEY", "LOGGED", "AGAIN")
		for _, d := range out.Differences {
			if err := list.add(d, d.Topic, whole(d.Queue), d.Offset, d.Key, d.Logged, d.Again); err != nil {
				return err
			}
		}
		if err := list.close(); err != nil {
			return err
		}
	}
	return errReported
}

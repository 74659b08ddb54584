package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/author"
	"github.com/tidewheel/tidewheel/host/client"
	"github.com/tidewheel/tidewheel/host/pluginhost"
	"github.com/tidewheel/tidewheel/plugins"
)

// verifiedLog is what plugin verify --data or --running says.
type verifiedLog struct {
	Name        string             `json:"name,omitempty"` // of a plugin that runs
	File        string             `json:"file,omitempty"`
	SHA256      string             `json:"sha256"`
	Verdicts    int64              `json:"verdicts"` // in the log, of this file
	Compared    int64              `json:"compared"`
	Gone        int64              `json:"gone"`  // whose messages the log does not hold any more
	Other       int64              `json:"other"` // of deliveries and retries
	Differ      int64              `json:"differ"`
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
	out := verifiedLog{File: m.file, SHA256: m.info.Digest.String(), Verdicts: v.Verdicts, Compared: v.Compared, Gone: v.Gone, Other: v.Other, Differ: v.Differ}
	for _, d := range v.Differences {
		out.Differences = append(out.Differences, loggedDifference{d.Topic, d.Queue, whole(d.Offset), d.Key, d.Logged, d.Again})
	}
	return a.showLogged(out)
}

// verifyPage is of how many verdicts a server is asked at a time: the most, because each time it has to find its place anew.
const verifyPage = 100_000

// verifyRunning has a server ask a plugin that runs there, piece by piece.
func (a *app) verifyRunning(ctx context.Context, c *client.Client, name string) error {
	out := verifiedLog{Name: name}
	for from, until := int64(0), int64(0); ; {
		v, err := c.VerifyPlugin(ctx, name, from, until, verifyPage)
		if err != nil {
			return err
		}
		if out.SHA256 != "" && v.Digest != out.SHA256 {
			return fmt.Errorf("another file of %s runs now, %s, after %s verdicts of %s: verify it again", name, shortDigest(v.Digest),
				thousands(out.Verdicts), shortDigest(out.SHA256))
		}
		out.SHA256 = v.Digest
		out.Verdicts, out.Compared, out.Gone = out.Verdicts+v.Verdicts, out.Compared+v.Compared, out.Gone+v.Gone
		out.Other, out.Differ = out.Other+v.Other, out.Differ+v.Differ
		for _, d := range v.Differences[:min(len(v.Differences), pluginhost.MostDifferences-len(out.Differences))] {
			out.Differences = append(out.Differences, loggedDifference{d.Topic, d.Queue, whole(d.Offset), d.Key, d.Logged, d.Again})
		}
		if v.Next == nil {
			return a.showLogged(out)
		}
		if int64(*v.Next) <= from {
			return fmt.Errorf("the server does not get behind position %d of its log in the time that it takes: others verify, or change the configuration", from)
		}
		from, until = int64(*v.Next), int64(v.End)
	}
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

func (a *app) showLogged(out verifiedLog) error {
	agree := ": all agree"
	switch {
	case out.Compared == 0:
		agree = ""
	case out.Differ > 0:
		agree = ": " + count(out.Differ, "differs", "differ")
	}
	if out.Differences == nil {
		out.Differences = []loggedDifference{}
	}
	if err := a.one(out, func(w io.Writer) {
		fmt.Fprintf(w, "plugin\t%s\nsha256\t%s\nverdicts\t%s of this file in the log\n", cmp.Or(out.Name, out.File), out.SHA256, thousands(out.Verdicts))
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
	if out.Differ == 0 {
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

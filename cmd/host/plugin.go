package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/client"
	"github.com/tidewheel/tidewheel/host/httpapi"
	"github.com/tidewheel/tidewheel/plugins/abi"
)

// plugin has the verbs about the plugins of a running server, and those for their authors.
func (a *app) plugin() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugin",
		Short: "See, reload and roll back the plugins of a server; make and test plugins",
		Args:  cobra.NoArgs, // an unknown verb below
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.pluginLs(), a.pluginShow(), a.pluginLogs(), a.pluginReload(), a.pluginRollback())
	cmd.AddCommand(a.authorVerbs()...)
	return cmd
}

func (a *app) pluginLs() *cobra.Command {
	return a.reads(a.withURL(&cobra.Command{
		Use:   "ls",
		Short: "List the plugins of a server, in the order in which they are asked",
		Long: `List the plugins of a server, in the order in which they are asked. ATTENTION says in a sentence what is wrong with one:
its file could not be loaded, it is quarantined, an older file than the one that is there runs.`,
		Example: "  tidewheel plugin ls\n  tidewheel plugin ls --columns name,state,failures --watch",
		Args:    cobra.NoArgs,
		RunE: a.served(func(ctx context.Context, c *client.Client, _ []string) error {
			got, err := c.Plugins(ctx)
			if err != nil {
				return err
			}
			out := a.list("NAME", "STATE", "ASKED", "MATCH", "MESSAGES", "FAILURES", "GENERATION", "SHA256", "ATTENTION",
				"ORDER", "ON_ERROR", "FAIL", "FILE", "MEMORY").
				extra("ORDER", "ON_ERROR", "FAIL", "FILE", "MEMORY").cut("ATTENTION", 0).cut("FILE", 0)
			for i := range got.Plugins {
				p := &got.Plugins[i]
				if err := out.add(p, pluginRow(p)...); err != nil {
					return err
				}
			}
			return out.close()
		}),
	}))
}

// pluginRow are the cells of plugin ls.
func pluginRow(p *httpapi.Plugin) []string {
	messages, failures, memory := "", "", ""
	if n := p.Counts; n != nil {
		messages, failures, memory = whole(n.Messages), whole(sum(n.Failures)), whole(n.Memory)
	}
	generation := ""
	if p.Generation > 0 {
		generation = whole(p.Generation)
	}
	return []string{p.Name, p.State, pluginAsked(p), strings.Join(p.Match, " "), messages, failures, generation, shortDigest(p.SHA256), p.Attention,
		whole(p.Order), p.OnError, p.Fail, p.File, memory}
}

func sum(counts map[string]int64) (n int64) {
	for _, v := range counts {
		n += v
	}
	return n
}

// shortDigest is what tells one file from another in a table.
func shortDigest(digest string) string { return digest[:min(12, len(digest))] }

// pluginAsked says when a plugin is asked.
func pluginAsked(p *httpapi.Plugin) string {
	text := strings.Join(p.Hooks, ", ")
	switch {
	case p.At == "consume":
		text += " before " + strings.Join(p.Groups, " ") + " reads"
	case p.At == "due":
		text += " when due"
	}
	return text
}

func (a *app) pluginShow() *cobra.Command {
	var f timeFlags
	cmd := &cobra.Command{
		Use:   "show PLUGIN",
		Short: "Show how a plugin stands: what runs, what it may, what it did, why it failed last",
		Long: `Show how a plugin stands: which file runs, what the configuration grants and the file asks for, what was decided, and the
last failure with the stack of the module.`,
		Example: "  tidewheel plugin show tenant-filter",
		Args:    cobra.ExactArgs(1),
		RunE: a.served(func(ctx context.Context, c *client.Client, args []string) error {
			p, err := c.Plugin(ctx, args[0])
			if err != nil {
				return err
			}
			return a.one(p, func(w io.Writer) { pluginTable(w, &p, &f) })
		}),
	}
	f.addZone(cmd)
	return a.reads(a.withURL(cmd))
}

// pluginTable prints a plugin for a person.
func pluginTable(w io.Writer, p *httpapi.Plugin, f *timeFlags) {
	row := func(word, text string) {
		if text != "" {
			fmt.Fprintf(w, "%s\t%s\n", word, text)
		}
	}
	fmt.Fprintf(w, "%s\t%s\n", p.Name, p.State)
	row("attention", p.Attention)
	row("asked", fmt.Sprintf("%s, about %s, order %d", pluginAsked(p), strings.Join(p.Match, " "), p.Order))
	row("on error", p.OnError)
	row("fail", p.Fail)
	row("targets", strings.Join(p.Targets, " "))
	row("config", p.Config)
	row("file", p.File)
	if p.Loading {
		row("loading", "a new file")
	}
	if p.Generation > 0 {
		about := strings.TrimSpace(p.Version + " " + p.Description)
		row("module", about)
		row("generation", fmt.Sprintf("%d, sha256 %s, loaded in %d ms", p.Generation, p.SHA256, p.LoadMs))
		if p.Trial > 0 {
			row("on trial", fmt.Sprintf("for %s: a quarantine before that rolls it back", count(int64(p.Trial), "batch", "batches")))
		}
	}
	row("rollback to", p.Previous)
	if p.FileSHA256 != p.SHA256 {
		row("in the file", p.FileSHA256)
	}
	row("imports", importsText(p.Imports))
	row("granted", strings.Join(p.Granted, ", "))
	for _, ask := range p.Asks {
		row("asks for", fmt.Sprintf("%s: %s", ask.Name, ask.Reason))
	}
	if l := p.Limits; l != nil {
		row("limits", fmt.Sprintf("%s of %s; fuel of a call %s and %s a message, at most %s for %d",
			count(int64(l.Instances), "instance", "instances"), bytesText(l.MemoryMax), thousands(l.FuelBase), thousands(l.FuelPerRecord), thousands(l.FuelCallMax), l.BatchMax))
	}
	pluginCounts(row, p)
	pluginDelivery(row, p.Delivery, f.due)
	if x := p.Last; x != nil {
		row("last failure", fmt.Sprintf("%s, %s, code %d: %s", f.due(x.TimeMs), x.Class, x.Code, cell(x.Message, 400)))
		for _, line := range strings.Split(strings.TrimSpace(x.Stack), "\n") {
			row("  in", line)
		}
	}
}

// importsText names the functions that a module imports. A Go guest imports all of WASI, which says nothing: it is counted.
func importsText(imports []string) string {
	var names []string
	wasi := int64(0)
	for _, name := range imports {
		if _, plain := strings.CutPrefix(name, abi.Imports+"."); plain {
			names = append(names, name)
		} else {
			wasi++
		}
	}
	if wasi > 0 {
		names = append(names, count(wasi, "stand-in", "stand-ins")+" of WASI")
	}
	return strings.Join(names, ", ")
}

// pluginCounts prints what a plugin did.
func pluginCounts(row func(word, text string), p *httpapi.Plugin) {
	n := p.Counts
	if n == nil {
		return
	}
	row("messages", fmt.Sprintf("%s in %s", thousands(n.Messages), count(n.Batches, "batch", "batches")))
	verdicts := maps.Clone(n.Verdicts)
	delete(verdicts, "unset")
	row("verdicts", wordCounts(verdicts))
	if again := n.Verdicts["unset"]; again > 0 {
		row("undecided", count(again, "time", "times")+", and asked again")
	}
	row("failures", wordCounts(n.Failures))
	if n.Messages > 0 {
		row("fuel", fmt.Sprintf("%s, %s a message", thousands(n.Fuel), thousands(n.Fuel/n.Messages)))
	}
	row("instances", fmt.Sprintf("%d open, %d busy, with %s; one had %s at most; %s died",
		n.Instances, n.Busy, bytesText(n.Memory), bytesText(n.MemoryHigh), thousands(n.Deaths)))
	row("changes", fmt.Sprintf("%s, %s, %s, %s", count(n.Reloads, "reload", "reloads"), count(n.Failed, "failed load", "failed loads"),
		count(n.Rollbacks, "rollback", "rollbacks"), count(n.Quarantines, "quarantine", "quarantines")))
	if n.LogDropped > 0 {
		row("log", count(n.LogDropped, "line was", "lines were")+" above the limit")
	}
}

// wordCounts are counts by words, the largest first.
func wordCounts(counts map[string]int64) string {
	words := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		if counts[a] != counts[b] {
			return int(min(max(counts[b]-counts[a], -1), 1))
		}
		return strings.Compare(a, b)
	})
	for i, word := range words {
		words[i] = word + " " + thousands(counts[word])
	}
	return strings.Join(words, ", ")
}

func (a *app) pluginLogs() *cobra.Command {
	var f timeFlags
	cmd := &cobra.Command{
		Use:   "logs PLUGIN",
		Short: "Show the last lines that a plugin wrote",
		Long: `Show the last lines that a plugin wrote, at most 100, oldest first. They are in the log of the server, too, as "plugin says".
The time is the one that the plugin saw.`,
		Example: "  tidewheel plugin logs tenant-filter",
		Args:    cobra.ExactArgs(1),
		RunE: a.served(func(ctx context.Context, c *client.Client, args []string) error {
			got, err := c.PluginLogs(ctx, args[0])
			if err != nil {
				return err
			}
			out := a.list("TIME", "LEVEL", "TEXT").named("TEXT").cut("TEXT", 0)
			for i := range got.Lines {
				l := &got.Lines[i]
				if err := out.add(l, f.due(l.TimeMs), l.Level, l.Text); err != nil {
					return err
				}
			}
			return out.close()
		}),
	}
	f.addZone(cmd)
	return a.reads(a.withURL(cmd))
}

func (a *app) pluginReload() *cobra.Command {
	return a.withURL(&cobra.Command{
		Use:   "reload PLUGIN",
		Short: "Load a plugin's file now",
		Long: `Load a plugin's file now, and wait for it. A server looks at its files by itself, as reload_interval of [plugins] says: this
is for one that does not, for one that is in a hurry, and after a rollback. A file that cannot be loaded is refused with the
reason, and what ran goes on. The configuration is not read again: SIGHUP does that.`,
		Example: "  tidewheel plugin reload tenant-filter",
		Args:    cobra.ExactArgs(1),
		RunE: a.served(func(ctx context.Context, c *client.Client, args []string) error {
			p, err := c.ReloadPlugin(ctx, args[0])
			if err != nil {
				return err
			}
			return a.tellPlugin(&p)
		}),
	})
}

func (a *app) pluginRollback() *cobra.Command {
	return a.withURL(&cobra.Command{
		Use:   "rollback PLUGIN",
		Short: "Let the file that ran before decide again",
		Long: `Let a plugin's generation before the one that runs decide again, from the next batch on. It stays until the file changes, is
reloaded, or the server starts again: put the old file back, too. A second rollback takes the first one back.`,
		Example: "  tidewheel plugin rollback tenant-filter",
		Args:    cobra.ExactArgs(1),
		RunE: a.served(func(ctx context.Context, c *client.Client, args []string) error {
			p, err := c.RollbackPlugin(ctx, args[0])
			if err != nil {
				return err
			}
			return a.tellPlugin(&p)
		}),
	})
}

// tellPlugin says what runs now.
func (a *app) tellPlugin(p *httpapi.Plugin) error {
	return a.one(p, func(w io.Writer) {
		fmt.Fprintf(w, "%s runs generation %d, sha256 %s\n", p.Name, p.Generation, p.SHA256)
		if p.Attention != "" {
			fmt.Fprintf(w, "it %s\n", p.Attention)
		}
	})
}

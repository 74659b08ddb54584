package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/author"
	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
)

// inspected is what plugin inspect says.
type inspected struct {
	Name         string              `json:"name"` // of the manifest
	Version      string              `json:"version,omitempty"`
	Description  string              `json:"description,omitempty"`
	File         string              `json:"file"`
	SHA256       string              `json:"sha256"`
	Bytes        int                 `json:"bytes"`
	Metered      int                 `json:"metered_bytes"` // with the places where fuel is taken
	Hooks        []string            `json:"hooks"`         // those it is for
	Exported     []string            `json:"exported_hooks"`
	Functions    int                 `json:"functions"`
	Checks       int                 `json:"checks"` // places where fuel is taken
	Memory       int64               `json:"memory_bytes"`
	MemoryMax    int64               `json:"memory_max_bytes,omitempty"` // that it declares
	Imports      []importText        `json:"imports"`
	Capabilities []author.Capability `json:"capabilities"`
	Warnings     []string            `json:"warnings,omitempty"`
	Refused      string              `json:"refused,omitempty"` // why no server would take it
}

// importText is a function that a module imports.
type importText struct {
	Name  string `json:"name"`
	Grant string `json:"grant,omitempty"` // what a configuration has to grant for it
	Known bool   `json:"known"`           // the host has it
}

func (a *app) pluginInspect() *cobra.Command {
	return a.reads(&cobra.Command{
		Use:   "inspect [FILE]",
		Short: "Show what a plugin's file holds, without running it",
		Long: `Show what a plugin's file holds, without running or compiling it: its digest, size, manifest and hooks, what it
imports and what a configuration has to grant for that, its memory, and how many places there are where the host takes fuel.
FILE may be the directory of a project; without it the project is here. The exit code is 1 when no server would take the file.`,
		Example: "  tidewheel plugin inspect\n  tidewheel plugin inspect spam-filter.wasm -o json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			m, err := a.authored(args)
			if err != nil {
				return err
			}
			info, bad := plugins.Inspect(m.module, author.AllGrants)
			out := asInspected(m.file, info, bad)
			if err := a.one(out, func(w io.Writer) { inspectTable(w, out) }); err != nil {
				return err
			}
			if a.warn(out.Warnings); bad != nil {
				return fmt.Errorf("no server takes %s: %w", m.file, bad)
			}
			return nil
		},
	})
}

func asInspected(file string, info plugins.Info, bad error) inspected {
	out := inspected{
		Name: info.Manifest.Name, Version: info.Manifest.Version, Description: info.Manifest.Description,
		File: file, SHA256: info.Digest.String(), Bytes: info.Bytes, Metered: info.Metered,
		Hooks: author.ConfiguredHooks(author.Hooks(info)), Exported: []string{}, Functions: info.Functions, Checks: info.Checks,
		Memory: info.Memory, MemoryMax: info.MemoryMax, Imports: []importText{}, Capabilities: author.Capabilities(info),
	}
	for _, h := range info.Hooks {
		out.Exported = append(out.Exported, h.String())
	}
	for _, im := range info.Imports {
		out.Imports = append(out.Imports, importText{Name: im.Name, Grant: author.GrantOf(im.Name), Known: im.Exists})
	}
	if bad != nil {
		out.Refused = bad.Error()
	}
	if info.Functions > 0 { // it is a module
		out.Warnings = author.Warnings(info)
	}
	return out
}

func inspectTable(w io.Writer, p inspected) {
	row := func(name, format string, args ...any) { fmt.Fprintf(w, name+"\t"+format+"\n", args...) }
	if p.Name != "" {
		row("plugin", "%s", strings.TrimSpace(p.Name+" "+p.Version))
	}
	if p.Description != "" {
		row("", "%s", p.Description)
	}
	row("file", "%s", p.File)
	row("sha256", "%s", p.SHA256)
	row("size", "%s", bytesText(int64(p.Bytes)))
	if p.Functions == 0 {
		return
	}
	row("hooks", "%s", listText(p.Hooks))
	if got := listText(p.Exported); got != listText(p.Hooks) {
		row("exports", "%s", got)
	}
	most := "no maximum"
	if p.MemoryMax > 0 {
		most = "at most " + bytesText(p.MemoryMax)
	}
	row("memory", "%s at the start, %s", bytesText(p.Memory), most)
	row("code", "%s functions, %s places where fuel is taken, %s with them", thousands(int64(p.Functions)), thousands(int64(p.Checks)), bytesText(int64(p.Metered)))
	var free, unknown []string
	stand := int64(0)
	for _, im := range p.Imports {
		module, name, _ := strings.Cut(im.Name, ".")
		switch {
		case !im.Known:
			unknown = append(unknown, im.Name)
		case module == abi.Imports:
			free = append(free, name)
		default:
			stand++
		}
	}
	if stand > 0 {
		free = append(free, count(stand, "stand-in", "stand-ins")+" of WASI")
	}
	row("imports", "%s", listText(free))
	for _, c := range p.Capabilities {
		reason := c.Reason
		if reason == "" {
			reason = "no reason given"
		}
		row("asks for", "%s", strings.TrimSpace(c.Name+" "+c.Host)+": "+reason)
	}
	for _, name := range unknown {
		row("unknown", "%s: no host has it, or not with this type", name)
	}
}

// listText is a list for people.
func listText(all []string) string {
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

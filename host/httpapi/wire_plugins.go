package httpapi

import (
	"slices"
	"strings"

	"github.com/tidewheel/tidewheel/host/config"
	"github.com/tidewheel/tidewheel/host/pluginhost"
	"github.com/tidewheel/tidewheel/plugins"
)

// Plugins are those that a server runs.
type Plugins struct {
	Enabled        bool     `json:"enabled" doc:"false: this server hosts no plugins, whatever its configuration says"`
	MemoryReserved int64    `json:"memory_reserved" doc:"bytes that are set aside for their instances"`
	MemoryTotal    int64    `json:"memory_total" doc:"of so many"`
	Plugins        []Plugin `json:"plugins"`
}

// Plugin is how a plugin stands.
type Plugin struct {
	Name      string `json:"name"`
	State     string `json:"state" enum:"active,probing,quarantined,failed" doc:"failed: no file of it could be loaded"`
	Attention string `json:"attention,omitempty" doc:"what an operator has to know, in a sentence; absent when all is well"`

	File        string `json:"file" doc:"where its module is"`
	SHA256      string `json:"sha256,omitempty" doc:"of the module that runs"`
	FileSHA256  string `json:"file_sha256,omitempty" doc:"of the module that was loaded last; another one after a rollback"`
	Previous    string `json:"previous_sha256,omitempty" doc:"of the generation that a rollback brings back"`
	FileError   string `json:"file_error,omitempty" doc:"why what is configured does not run"`
	Loading     bool   `json:"loading,omitempty" doc:"a new file is being loaded"`
	Generation  uint64 `json:"generation,omitempty" doc:"of the modules since the start, from 1"`
	Trial       int    `json:"trial,omitempty" doc:"batches that a new generation has to pass before it is trusted; a quarantine before that rolls it back"`
	LoadMs      int64  `json:"load_ms,omitempty" doc:"that checking, compiling and starting the module took"`
	Version     string `json:"version,omitempty" doc:"as its manifest says"`
	Description string `json:"description,omitempty" doc:"as its manifest says"`

	Hooks   []string `json:"hooks" doc:"publish, filter, transform, deliver"`
	At      string   `json:"at,omitempty" enum:"due,consume" doc:"when filter and transform are asked"`
	Match   []string `json:"match" doc:"patterns of topics"`
	Groups  []string `json:"groups,omitempty" doc:"patterns of groups, with at consume"`
	Order   int      `json:"order"`
	OnError string   `json:"on_error"`
	Fail    string   `json:"fail" enum:"closed,open"`
	Targets []string `json:"targets,omitempty"`
	Config  string   `json:"config,omitempty" doc:"what it is configured with, as JSON without its secrets"`

	Imports []string       `json:"imports" doc:"host functions that the module uses"`
	Asks    []PluginAsk    `json:"asks,omitempty" doc:"what its manifest asks for, and why"`
	Granted []string       `json:"granted" doc:"capabilities that the configuration grants"`
	Limits  *PluginLimits  `json:"limits,omitempty" doc:"of what runs"`
	Counts  *PluginCounts  `json:"counts,omitempty" doc:"since the plugin was loaded first"`
	Last    *PluginFailure `json:"last_failure,omitempty"`

	Delivery *PluginDelivery `json:"delivery,omitempty" doc:"of a plugin that delivers"`

	QuarantinedUntilMs int64 `json:"quarantined_until_ms,omitempty"`
}

// PluginAsk is a capability that a manifest asks for.
type PluginAsk struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// PluginLimits are those of what runs.
type PluginLimits struct {
	Instances     int   `json:"instances"`
	MemoryMax     int64 `json:"memory_max" doc:"bytes of an instance"`
	FuelBase      int64 `json:"fuel_base" doc:"of a call"`
	FuelPerRecord int64 `json:"fuel_per_record" doc:"what each message adds"`
	FuelCallMax   int64 `json:"fuel_call_max" doc:"the most of a call"`
	BatchMax      int   `json:"batch_max" doc:"messages of a call"`
	RecordBytes   int   `json:"record_bytes"`
	LogPerSecond  int   `json:"log_per_second"`
}

// PluginCounts are what a plugin did.
type PluginCounts struct {
	Batches  int64            `json:"batches"`
	Messages int64            `json:"messages" doc:"that were decided about; one that is asked about again counts again"`
	Verdicts map[string]int64 `json:"verdicts" doc:"by their words, after the failure policy; unset is undecided"`
	Failures map[string]int64 `json:"failures" doc:"by class"`
	Fuel     int64            `json:"fuel"`

	Deaths      int64 `json:"deaths" doc:"of instances"`
	Quarantines int64 `json:"quarantines"`
	Reloads     int64 `json:"reloads" doc:"new generations"`
	Failed      int64 `json:"failed_loads" doc:"files that could not be loaded"`
	Rollbacks   int64 `json:"rollbacks"`
	LogDropped  int64 `json:"log_dropped" doc:"lines above the limit"`

	Instances  int64 `json:"instances" doc:"open now"`
	Busy       int64 `json:"busy" doc:"of them, with a batch"`
	Memory     int64 `json:"memory" doc:"bytes of all open instances"`
	MemoryHigh int64 `json:"memory_high" doc:"bytes that one instance has had at most"`
}

// PluginFailure is why a plugin had no answer.
type PluginFailure struct {
	Class   string `json:"class" doc:"error, status, trap, fuel, memory, exit, protocol, too_large or start"`
	Code    uint16 `json:"code"`
	Message string `json:"message"`
	Stack   string `json:"stack,omitempty" doc:"of the module, innermost function first"`
	Fuel    int64  `json:"fuel"`
	SHA256  string `json:"sha256"`
	TimeMs  int64  `json:"time_ms"`
}

// PluginLogs are lines that a plugin wrote.
type PluginLogs struct {
	Lines []PluginLine `json:"lines"`
}

// PluginLine is one of them.
type PluginLine struct {
	TimeMs int64  `json:"time_ms"`
	Level  string `json:"level" enum:"debug,info,warn,error"`
	Text   string `json:"text"`
}

func wirePlugin(v *pluginhost.View) Plugin {
	t, s := &v.Table, &v.Stats
	out := Plugin{
		Name: t.Name, State: v.State, Attention: v.Attention(), File: v.File.File, Loading: v.File.Loading,
		Hooks: t.Hooks, Match: t.Match, Order: t.Order, OnError: t.OnError, Fail: "closed", Targets: t.Targets, Config: t.Config.String(),
		Imports: []string{}, Granted: granted(t), QuarantinedUntilMs: s.UntilMs,
	}
	if t.FailOpen() {
		out.Fail = t.Fail
	}
	if slices.Contains(t.Hooks, "filter") || slices.Contains(t.Hooks, "transform") {
		out.At = t.At
	}
	if out.At == "consume" {
		out.Groups = t.Groups
	}
	if v.File.Err != nil {
		out.FileError = pluginhost.Cause(v.File.Err)
	}
	if v.File.Digest != (plugins.Digest{}) {
		out.FileSHA256 = v.File.Digest.String()
	}
	if v.State == pluginhost.StateFailed {
		return out
	}
	out.SHA256, out.Generation, out.Trial, out.LoadMs = s.Digest.String(), s.Generation, s.Trial, s.LoadNs/1e6
	out.Version, out.Description = s.Manifest.Version, s.Manifest.Description
	if s.Previous != nil {
		out.Previous = s.Previous.String()
	}
	out.Imports = append(out.Imports, s.Imports...)
	for _, a := range s.Manifest.Imports {
		out.Asks = append(out.Asks, PluginAsk(a))
	}
	l := &v.Spec.Limits
	out.Limits = &PluginLimits{l.Instances, l.MemoryMax, l.FuelBase, l.FuelPerRecord, l.FuelCallMax, l.BatchMax, l.RecordBytes, l.LogPerSecond}
	out.Counts = &PluginCounts{
		Batches: s.Batches, Messages: s.Records - s.Verdicts["unset"], Verdicts: s.Verdicts, Failures: s.Failures, Fuel: s.Fuel,
		Deaths: s.Deaths, Quarantines: s.Quarantines, Reloads: s.Reloads, Failed: v.File.Failed, Rollbacks: s.Rollbacks, LogDropped: s.LogDropped,
		Instances: s.Instances, Busy: s.Busy, Memory: s.Memory, MemoryHigh: s.MemoryHigh,
	}
	if f := s.LastFailure; f != nil {
		out.Last = &PluginFailure{f.Class.String(), f.Code, f.Message, f.Stack, f.Fuel, f.Digest.String(), s.LastFailureMs}
	}
	return out
}

// granted are the capabilities of a plugin's table.
func granted(t *config.PluginTable) []string {
	list, c := []string{}, &t.Capabilities
	for word, yes := range map[string]bool{"json": c.JSON, "headers": c.Headers, "match": c.Match} {
		if yes {
			list = append(list, word)
		}
	}
	slices.Sort(list)
	for _, host := range c.Egress {
		list = append(list, "egress "+host)
	}
	if len(c.PrivateAddresses) > 0 {
		list = append(list, "private addresses "+strings.Join(c.PrivateAddresses, " "))
	}
	return list
}

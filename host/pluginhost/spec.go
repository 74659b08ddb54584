package pluginhost

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/tidewheel/tidewheel/host/config"
	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
)

// hookDeliver is the word for prepare and result.
const hookDeliver = "deliver"

// Spec is what the configuration says about a plugin, as package plugins takes it.
func Spec(t *config.PluginTable) plugins.Spec {
	l := &t.Limits
	s := plugins.Spec{
		Name: t.Name,
		Policy: plugins.Policy{
			RetryMax: uint32(t.RetryMax), RetryDelayMs: uint32(time.Duration(t.RetryDelay).Milliseconds()),
			FailOpen: t.FailOpen(), QuarantineAfter: t.QuarantineAfter,
		},
		Grants: plugins.Grants{JSON: t.Capabilities.JSON, Headers: t.Capabilities.Headers, Match: t.Capabilities.Match},
		Limits: plugins.Limits{
			BinaryMax: int(l.BinaryMax), MemoryMax: int64(l.MemoryMax),
			FuelInit: int64(l.FuelInit), FuelBase: int64(l.FuelBase), FuelPerRecord: int64(l.FuelPerRecord), FuelCallMax: int64(l.FuelCallMax),
			BatchMax: l.BatchMax, BatchBytes: int(l.BatchBytes), RecordBytes: int(l.RecordBytes), OutBytesMax: int(l.OutBytesMax),
			LogPerSecond: l.LogPerSecond, RecycleCalls: int64(l.RecycleCalls), Instances: t.Instances,
		},
		Config:  t.Config.Reveal(),
		Targets: append([]string{}, t.Targets...), // never nil: without targets nothing can be routed
	}
	// The configuration has checked what could go wrong here.
	s.Policy.OnError, _ = plugins.ParseOnError(t.OnError)
	if d, err := plugins.ParseDigest(t.SHA256); err == nil {
		s.Pin = &d
	}
	for _, word := range t.Hooks {
		if word == hookDeliver {
			s.Hooks = append(s.Hooks, abi.Prepare, abi.Result)
			continue
		}
		h, _ := abi.ParseHook(word)
		s.Hooks = append(s.Hooks, h)
	}
	slices.Sort(s.Hooks)
	return s
}

// path is where a plugin's file is.
func path(dir string, t *config.PluginTable) string {
	if filepath.IsAbs(t.File) {
		return t.File
	}
	return filepath.Join(dir, t.File)
}

// Matches says whether a pattern covers a whole name: * is any text, ? one character.
func Matches(pattern, name string) bool {
	star, from := -1, 0 // where the last * is, and where what it covers ends for now
	p, n := 0, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0:
			from++
			p, n = star+1, from
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

func anyMatches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return Matches(p, name) })
}

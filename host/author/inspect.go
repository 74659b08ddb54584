package author

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
)

// Capability is a function of the host, or an address, that a plugin asks for and that a configuration has to grant.
type Capability struct {
	Name   string `json:"name"`             // json, headers, match, or egress
	Host   string `json:"host,omitempty"`   // for egress: host[:port] or *.suffix
	Reason string `json:"reason,omitempty"` // of the manifest; empty when it has none
	Used   bool   `json:"used"`             // false: the manifest asks for it, and the module does not import it
}

// granted are the functions that need a grant, and the names of their grants.
var granted = []struct{ function, grant string }{
	{"json_get", "json"}, {"hdr_get", "headers"}, {"match", "match"},
}

// egressPrefix marks an import in a manifest that is an address which a delivery plugin sends to.
const egressPrefix = "egress:"

// Capabilities are what a plugin asks for: what it imports, and what its manifest names, with the reasons from there.
func Capabilities(info plugins.Info) []Capability {
	reasons := map[string]string{}
	var all []Capability
	var egress []Capability
	for _, asked := range info.Manifest.Imports {
		name := strings.TrimPrefix(asked.Name, abi.Imports+".")
		reasons[name] = asked.Reason
		if host, ok := strings.CutPrefix(name, egressPrefix); ok {
			egress = append(egress, Capability{Name: "egress", Host: strings.TrimSpace(host), Reason: asked.Reason, Used: true})
		}
	}
	for _, g := range granted {
		used := slices.ContainsFunc(info.Imports, func(im plugins.ImportInfo) bool { return im.Name == abi.Imports+"."+g.function })
		reason, asked := reasons[g.function]
		if used || asked {
			all = append(all, Capability{Name: g.grant, Reason: reason, Used: used})
		}
	}
	return append(all, egress...)
}

// Warnings say what is odd about a module although a server would take it, and what its author probably did not mean.
func Warnings(info plugins.Info) []string {
	var all []string
	warn := func(odd bool, format string, args ...any) {
		if odd {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	start, reactor := slices.Contains(info.Exports, "_start"), slices.Contains(info.Exports, abi.Initialize)
	warn(start && !reactor, "it exports _start and no _initialize: it is a program; build Go with -buildmode=c-shared, C with --no-entry")
	warn(start && reactor, "its _start is never called; what it does there belongs into _initialize")
	named := info.Manifest.Name != ""
	warn(!named, "it has no manifest: nobody can see what it is and what it asks for; tidewheel plugin build puts manifest.json into it")
	warn(len(info.Manifest.Hooks) == 0 && len(info.Hooks) == int(abi.Hooks)-1,
		"it exports all five hooks, and no manifest says which it is for: name them in hooks")
	for _, name := range info.Manifest.Hooks {
		warn(!slices.ContainsFunc(info.Hooks, func(h abi.Hook) bool { return h.String() == name }), "the manifest names the hook %s, which it does not export", name)
	}
	hooks := Hooks(info)
	warn(slices.Contains(hooks, abi.Prepare) != slices.Contains(hooks, abi.Result), "delivery needs both hooks, prepare and result")
	for _, c := range Capabilities(info) {
		warn(!c.Used, "the manifest asks for %s, and it does not import it", c.Name)
		warn(c.Used && named && c.Reason == "", "the manifest has no reason for %s", c.Name)
	}
	warn(slices.Contains(hooks, abi.Prepare) && !slices.ContainsFunc(Capabilities(info), func(c Capability) bool { return c.Name == "egress" }),
		`the manifest does not say where it sends requests: imports with names like "%sapi.example.com:443"`, egressPrefix)
	const usual = 16 << 20
	warn(info.Memory > usual, "it begins with %d bytes of memory, and memory_max is %d unless it is raised", info.Memory, usual)
	warn(info.MemoryMax > 0 && info.MemoryMax < info.Memory+1<<20, "its memory can grow by less than 1 MiB: large batches may not fit")
	return all
}

// GrantOf is the name of the grant that an import needs, as module.name; empty when it needs none.
func GrantOf(name string) string {
	for _, g := range granted {
		if name == abi.Imports+"."+g.function {
			return g.grant
		}
	}
	return ""
}

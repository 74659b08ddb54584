package plugins

import (
	"crypto/sha256"

	"github.com/tidewheel/tidewheel/plugins/abi"
	"github.com/tidewheel/tidewheel/plugins/internal/fuel"
	"github.com/tidewheel/tidewheel/plugins/internal/wasm"
)

// Info is what a file says before anything of it runs.
type Info struct {
	Digest    Digest
	Bytes     int
	Manifest  Manifest
	Hooks     []abi.Hook
	Imports   []ImportInfo
	Exports   []string // functions, in the order of the file
	Functions int      // defined in the module
	Memory    int64    // bytes it begins with
	MemoryMax int64    // bytes it declares as its maximum; 0 without one
	Checks    int      // places where the host takes fuel
	Metered   int      // bytes of the module with them
}

// ImportInfo is a function that a module imports.
type ImportInfo struct {
	Name    string // module.name
	Exists  bool   // the host has it, with this type
	Granted bool   // the grants that were asked about cover it
}

// Inspect tells what a file is without compiling it, by default limits. It returns what it found and the first reason to refuse
// the file, which is nil for a file that Load would compile: imports that are not granted are such a reason.
func Inspect(file []byte, grants Grants) (Info, error) {
	info := Info{Digest: sha256.Sum256(file), Bytes: len(file)}
	m, err := wasm.Parse(file, wasm.DefaultLimits())
	if err != nil {
		return info, err
	}
	info.Functions = len(m.Funcs)
	info.Memory, info.MemoryMax = int64(m.Memory.Min)<<16, int64(m.Memory.Max)<<16
	for _, im := range m.Imports {
		f, ok := hostFunctions[[2]string{im.Module, im.Name}]
		info.Imports = append(info.Imports, ImportInfo{
			Name:    im.Module + "." + im.Name,
			Exists:  ok && f.typ == m.Types[im.Type].String(),
			Granted: ok && (f.granted == nil || f.granted(grants)),
		})
	}
	for _, e := range m.Exports {
		if e.Kind == wasm.KindFunc {
			info.Exports = append(info.Exports, e.Name)
		}
	}
	hooks, err := checkABI(m, &Spec{Grants: grants})
	for h, ok := range hooks {
		if ok {
			info.Hooks = append(info.Hooks, abi.Hook(h))
		}
	}
	if data, ok := m.Custom(abi.Manifest); ok {
		var bad error
		if info.Manifest, bad = ParseManifest(data); err == nil {
			err = bad
		}
	}
	_, stats, bad := fuel.Rewrite(m, fuel.Options{MemoryPages: max(m.Memory.Min, 1)})
	if err == nil {
		err = bad
	}
	info.Checks, info.Metered = stats.Checks, stats.Bytes
	return info, err
}

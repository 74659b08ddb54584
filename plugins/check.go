package plugins

import (
	"fmt"

	"github.com/tidewheel/tidewheel/plugins/abi"
	"github.com/tidewheel/tidewheel/plugins/internal/wasm"
)

// exportTypes are the functions of the ABI that a module exports, and their types.
func exportTypes() map[string]string {
	types := map[string]string{
		abi.Marker:     "() -> ()",
		abi.Initialize: "() -> ()",
		abi.Alloc:      "(i32) -> (i32)",
		abi.Configure:  "(i32 i32) -> (i32)",
	}
	for h := abi.Publish; h < abi.Hooks; h++ {
		types[h.Export()] = "(i32) -> (i32)"
	}
	return types
}

// checkABI compares a module with the ABI and with what was granted, and returns its hooks.
func checkABI(m *wasm.Module, s *Spec) ([abi.Hooks]bool, error) {
	var hooks [abi.Hooks]bool
	if err := checkExports(m); err != nil {
		return hooks, err
	}
	for _, im := range m.Imports {
		if err := checkImport(m, im, s.Grants); err != nil {
			return hooks, err
		}
	}
	any := false
	for h := abi.Publish; h < abi.Hooks; h++ {
		_, hooks[h] = m.Export(h.Export())
		any = any || hooks[h]
	}
	if !any {
		return hooks, fmt.Errorf("%w: the module exports none of tw_publish, tw_filter, tw_transform, tw_prepare, tw_result", ErrHook)
	}
	for _, h := range s.Hooks {
		if !hooks[h] {
			return hooks, fmt.Errorf("%w: the module does not export %s", ErrHook, h.Export())
		}
	}
	return hooks, nil
}

func checkExports(m *wasm.Module) error {
	if e, ok := m.Export(abi.Memory); !ok || e.Kind != wasm.KindMemory {
		return fmt.Errorf("%w: no memory is exported as %q", ErrABI, abi.Memory)
	}
	types := exportTypes()
	for _, e := range m.Exports {
		want, ours := types[e.Name]
		if !ours {
			continue
		}
		if e.Kind != wasm.KindFunc {
			return fmt.Errorf("%w: export %q is not a function", ErrABI, e.Name)
		}
		if t, _ := m.FuncType(e.Index); t.String() != want {
			return fmt.Errorf("%w: export %q has type %v, want %s", ErrABI, e.Name, t, want)
		}
	}
	_, start := m.Export("_start")
	_, reactor := m.Export(abi.Initialize)
	if start && !reactor {
		return fmt.Errorf("%w: the module is a program (it exports _start); build Go with -buildmode=c-shared, C with -mexec-model=reactor", ErrABI)
	}
	for _, name := range []string{abi.Marker, abi.Alloc} {
		if _, ok := m.Export(name); !ok {
			return fmt.Errorf("%w: export %q is missing: a plugin gets it from the kit (import plugins/guest in Go, tidewheel.h in C, and export { tw_abi_1, tw_alloc } from tidewheel.ts in AssemblyScript)", ErrABI, name)
		}
	}
	return nil
}

func checkImport(m *wasm.Module, im wasm.Import, g Grants) error {
	f, ok := hostFunctions[[2]string{im.Module, im.Name}]
	if !ok {
		hint := ""
		switch {
		case im.Module == wasiModule:
			hint = " (plugins have no files, sockets or processes)"
		case im.Module == "env" && im.Name == "abort":
			hint = ` (in AssemblyScript, compile with --use abort=tidewheel/tidewheel/abort, the path of the kit's tidewheel.ts; "use" in asconfig.json)`
		case im.Module == "env":
			hint = " (plugins have the functions of ABI.md only: no console, no Date, no random numbers of their own)"
		}
		return fmt.Errorf("%w: %s.%s does not exist%s", ErrImport, im.Module, im.Name, hint)
	}
	if t := m.Types[im.Type].String(); t != f.typ {
		return fmt.Errorf("%w: %s.%s has type %s, the module wants %s", ErrImport, im.Module, im.Name, f.typ, t)
	}
	if f.granted != nil && !f.granted(g) {
		return fmt.Errorf("%w: %s.%s, which %s = true in the capabilities grants", ErrImport, im.Module, im.Name, f.key)
	}
	return nil
}

package plugins

import (
	"context"
	"fmt"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/tidewheel/tidewheel/plugins/abi"
)

// hostFunction is a function that guests may import.
type hostFunction struct {
	typ     string                                                // as wasm.FuncType writes it
	call    func(in *instance, mem api.Memory, p []uint64) uint32 // nil for raw
	raw     api.GoModuleFunc
	granted func(Grants) bool // nil: always
	key     string            // what grants it, in a configuration; empty: always granted
}

// hostFunctions are all imports that exist, by module and name.
var hostFunctions = map[[2]string]hostFunction{
	{abi.Imports, "log"}:       {typ: "(i32 i32 i32) -> (i32)", call: hostLog},
	{abi.Imports, "log_level"}: {typ: "() -> (i32)", call: hostLogLevel},
	{abi.Imports, "json_get"}:  {typ: "(i32 i32 i32 i32) -> (i32)", call: hostJSON, granted: func(g Grants) bool { return g.JSON }, key: "json"},
	{abi.Imports, "hdr_get"}:   {typ: "(i32 i32 i32 i32) -> (i32)", call: hostHeader, granted: func(g Grants) bool { return g.Headers }, key: "headers"},
	{abi.Imports, "match"}:     {typ: "(i32 i32 i32 i32 i32) -> (i32)", call: hostMatch, granted: func(g Grants) bool { return g.Match }, key: "match"},

	{wasiModule, "args_get"}:            {typ: "(i32 i32) -> (i32)", call: wasiNothing},
	{wasiModule, "args_sizes_get"}:      {typ: "(i32 i32) -> (i32)", call: wasiEmptyList},
	{wasiModule, "environ_get"}:         {typ: "(i32 i32) -> (i32)", call: wasiNothing},
	{wasiModule, "environ_sizes_get"}:   {typ: "(i32 i32) -> (i32)", call: wasiEmptyList},
	{wasiModule, "clock_time_get"}:      {typ: "(i32 i64 i32) -> (i32)", call: wasiClock},
	{wasiModule, "random_get"}:          {typ: "(i32 i32) -> (i32)", call: wasiRandom},
	{wasiModule, "sched_yield"}:         {typ: "() -> (i32)", call: wasiNothing},
	{wasiModule, "poll_oneoff"}:         {typ: "(i32 i32 i32 i32) -> (i32)", call: wasiPoll},
	{wasiModule, "fd_write"}:            {typ: "(i32 i32 i32 i32) -> (i32)", call: wasiWrite},
	{wasiModule, "fd_close"}:            {typ: "(i32) -> (i32)", call: wasiStandard},
	{wasiModule, "fd_fdstat_get"}:       {typ: "(i32 i32) -> (i32)", call: wasiFdStat},
	{wasiModule, "fd_fdstat_set_flags"}: {typ: "(i32 i32) -> (i32)", call: wasiStandard},
	{wasiModule, "fd_prestat_get"}:      {typ: "(i32 i32) -> (i32)", call: wasiNoFile},
	{wasiModule, "fd_prestat_dir_name"}: {typ: "(i32 i32 i32) -> (i32)", call: wasiNoFile},
	{wasiModule, "proc_exit"}:           {typ: "(i32) -> ()", raw: wasiExit},
}

// hostCost is charged for each call of a host function, beside its work.
const hostCost = 100

// addHost makes the host's modules known to a runtime. Host functions keep no state of their own: everything is in the
// instance that calls, which comes with the context.
func addHost(ctx context.Context, r wazero.Runtime) error {
	for _, module := range []string{abi.Imports, wasiModule} {
		b := r.NewHostModuleBuilder(module)
		for name, f := range hostFunctions {
			if name[0] != module {
				continue
			}
			params, results := valueTypes(f.typ)
			fn := f.raw
			if fn == nil {
				fn = wrap(f.call)
			}
			b.NewFunctionBuilder().WithGoModuleFunction(fn, params, results).Export(name[1])
		}
		if _, err := b.Instantiate(ctx); err != nil {
			return fmt.Errorf("plugins: host module %s: %w", module, err)
		}
	}
	return nil
}

func wrap(call func(in *instance, mem api.Memory, p []uint64) uint32) api.GoModuleFunc {
	return func(ctx context.Context, mod api.Module, stack []uint64) {
		in := ctx.Value(instanceKey{}).(*instance)
		in.charge(hostCost)
		stack[0] = uint64(call(in, mod.Memory(), stack))
	}
}

// valueTypes reads a type as wasm.FuncType writes it.
func valueTypes(typ string) (params, results []api.ValueType) {
	p, r, _ := strings.Cut(typ, " -> ")
	for i, list := range []string{p, r} {
		for _, t := range strings.Fields(strings.Trim(list, "()")) {
			v := api.ValueTypeI32
			if t == "i64" {
				v = api.ValueTypeI64
			}
			if i == 0 {
				params = append(params, v)
			} else {
				results = append(results, v)
			}
		}
	}
	return params, results
}

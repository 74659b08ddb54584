package fuel_test

import (
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"

	"github.com/tidewheel/tidewheel/plugins/internal/fuel"
	"github.com/tidewheel/tidewheel/plugins/internal/wasm"
	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

func BenchmarkRewrite(b *testing.B) {
	m := plugintest.New()
	m.Memory(1, 1)
	for range 1000 {
		m.Func("$f", "$n:i32 -> i32", "", strings.Repeat("loop local.get $n i32.const 3 i32.mul local.tee $n br_if 0 end ", 50)+"local.get $n")
	}
	p, err := wasm.Parse(m.Bytes(), wasm.DefaultLimits())
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(m.Bytes())))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := fuel.Rewrite(p, fuel.Options{MemoryPages: 16}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSum adds 1 KiB byte by byte, the worst case: a turn has twelve instructions and one check.
func BenchmarkSum(b *testing.B) {
	file := one("f", "$n:i32 -> i32", "$s:i32", `
		loop
			local.get $n i32.const 1 i32.sub local.tee $n i32.load8_u local.get $s i32.add local.set $s
			local.get $n br_if 0
		end
		local.get $s`)
	run := func(b *testing.B, file []byte, config wazero.RuntimeConfig) {
		mod := instantiate(b, config, file)
		f := mod.ExportedFunction("f")
		stack := make([]uint64, 1)
		for b.Loop() {
			stack[0] = 1024
			if err := f.CallWithStack(ctx, stack); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("plain", func(b *testing.B) { run(b, file, wazero.NewRuntimeConfigCompiler()) })
	b.Run("fuel", func(b *testing.B) { run(b, rewrite(b, file), wazero.NewRuntimeConfigCompiler()) })
	b.Run("close on context done", func(b *testing.B) {
		run(b, file, wazero.NewRuntimeConfigCompiler().WithCloseOnContextDone(true))
	})
}

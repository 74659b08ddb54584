// Package plugintest assembles WebAssembly modules for tests, so that no test of the plugin host needs a compiler.
//
// A Module is built in Go, one call per part; the bodies of functions are the flat form of the WebAssembly text format:
//
//	m := plugintest.New()
//	m.Memory(1, 16)
//	m.Func("sum", "$n:i32 -> i32", "$s:i32", `
//		loop $again
//			local.get $s  local.get $n  i32.add  local.set $s
//			local.get $n  i32.const 1  i32.sub  local.tee $n
//			br_if $again
//		end
//		local.get $s`)
//	wasm := m.Bytes()
//
// Values are named with $ in signatures and lists of locals, or numbered; labels are names after block, loop and if, or
// depths. A block with a result is written if result=i32. Memory accesses take offset=N. Comments run from ;; to the end
// of the line. What the assembler does not understand panics: a test's module is part of the test.
//
// Only tests may import this package. A Module is not safe for concurrent use.
package plugintest

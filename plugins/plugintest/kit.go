package plugintest

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// Case is one rule of ABI.md as a module: what must happen when it is loaded, or when its filter is asked about three records
// with the bodies a, b and c.
type Case struct {
	Name    string
	Section int // of ABI.md
	Wasm    []byte

	Load string // part of the error of loading; empty when it loads
	Want string // the classes of failure of the three records, "-" for none
}

// Kit returns the conformance kit: small modules, one per rule.
func Kit() []Case {
	var k kit
	k.module()
	k.verdicts()
	k.states()
	k.output()
	k.imports()
	k.budget()
	k.manifest()
	return k.all
}

type kit struct{ all []Case }

func (k *kit) add(section int, name, load, want string, build func(m *Module)) {
	m := New()
	build(m)
	k.all = append(k.all, Case{Name: name, Section: section, Wasm: m.Bytes(), Load: load, Want: want})
}

// guest is what a plugin needs and f.
func guest(f func(m *Module)) func(m *Module) {
	return func(m *Module) { g := Guest(); f(g); *m = *g }
}

// record is a plugin with a filter that gives the verdict of text for each record.
func record(text string) func(m *Module) {
	return guest(func(m *Module) { m.Hook("tw_filter", text) })
}

// hook is a plugin whose filter is text.
func hook(text string) func(m *Module) {
	return guest(func(m *Module) { m.Func("tw_filter", "$b:i32 -> i32", "$x:i32", text) })
}

// module is section 1.
func (k *kit) module() {
	k.add(1, "no memory exported", "memory", "", func(m *Module) {
		m.memory = append(m.memory, bounds(1, 1))
		m.Func("tw_abi_1", "", "", "")
	})
	k.add(1, "no marker", "tw_abi_1", "", func(m *Module) {
		m.Memory(1, 1)
		m.Func("tw_alloc", "i32 -> i32", "", "i32.const 0")
		m.Func("tw_filter", "i32 -> i32", "", "i32.const 0")
	})
	k.add(1, "marker of a wrong type", "tw_abi_1", "", func(m *Module) { m.Memory(1, 1); m.Func("tw_abi_1", "i32", "", "") })
	k.add(1, "no alloc", "tw_alloc", "", func(m *Module) { m.Memory(1, 1); m.Func("tw_abi_1", "", "", "") })
	k.add(1, "hook of a wrong type", "tw_filter", "", guest(func(m *Module) { m.Func("tw_filter", "i32 i32 -> i32", "", "i32.const 0") }))
	k.add(1, "hook that is a memory", "not a function", "", guest(func(m *Module) {
		m.exports = append(m.exports, str("tw_filter")+"\x02\x00")
	}))
	k.add(1, "no hook", "none of", "", guest(func(m *Module) {}))
	k.add(1, "program", "c-shared", "", guest(func(m *Module) { m.Func("_start", "", "", ""); m.Hook("tw_filter", "i64.const 1") }))
	k.add(1, "start function spins", "start", "", guest(func(m *Module) {
		m.Func("$s", "", "", "loop br 0 end")
		m.Start("$s")
		m.Hook("tw_filter", "i64.const 1")
	}))
	k.add(1, "initialize traps", "_initialize", "", guest(func(m *Module) { m.Func("_initialize", "", "", "unreachable"); m.Hook("tw_filter", "i64.const 1") }))
	k.add(1, "configure refuses", "tw_configure", "", guest(func(m *Module) {
		m.Func("tw_configure", "i32 i32 -> i32", "", "i32.const -1")
		m.Hook("tw_filter", "i64.const 1")
	}))
	k.add(1, "alloc refuses", "refused", "", alloc("i32.const 0"))
	k.add(1, "alloc not aligned", "8-aligned", "", alloc("i32.const 4"))
	k.add(1, "alloc outside the memory", "memory ends", "", alloc("i32.const 0x7ffffff8"))
	k.add(1, "alloc spins", "fuel", "", alloc("loop br 0 end unreachable"))
	k.add(1, "memory is gone after the call", "", "- - -", guest(func(m *Module) {
		m.Hook("tw_filter", "i32.const 1 memory.grow drop i64.const 1")
	}))
}

// verdicts is sections 2 and 3.
func (k *kit) verdicts() {
	k.add(3, "keeps", "", "- - -", record("i64.const 1"))
	k.add(3, "unset", "", "- protocol -", record("local.get $i i32.const 1 i32.ne i64.extend_i32_u"))
	k.add(3, "not allowed in the hook", "", "protocol protocol protocol", record("i64.const 6"))
	k.add(3, "unknown action", "", "protocol protocol protocol", record("i64.const 200"))
	k.add(3, "reserved bits", "", "protocol protocol protocol", record("i64.const 0x101"))
	k.add(3, "cursor ahead", "", "- trap -", record(`
		local.get $i i32.const 1 i32.eq if local.get $b i32.const 2 i32.store offset=44 unreachable end i64.const 1`))
	k.add(3, "cursor of nonsense", "", "- trap -", record(`
		local.get $i i32.const 1 i32.eq if local.get $b i32.const -2 i32.store offset=44 unreachable end i64.const 1`))
	k.add(3, "header overwritten", "", "protocol protocol protocol", record("local.get $b i32.const 0 i32.store i64.const 1"))
	k.add(3, "count overwritten", "", "protocol protocol protocol", record("local.get $b i32.const 0x7fffffff i32.store offset=8 i64.const 1"))
	k.add(3, "traps in the middle", "", "- trap -", record("local.get $i i32.const 1 i32.eq if unreachable end i64.const 1"))
	k.add(3, "traps before the first record", "", "trap trap trap", hook("local.get $b i32.load offset=8 i32.eqz if i32.const 0 return end unreachable"))
	k.add(3, "error with a code", "", "error error error", record("i64.const 0x30007"))
}

// states is section 4.
func (k *kit) states() {
	k.add(4, "error status", "", "status status status", hook("local.get $b i32.load offset=8 i32.eqz if i32.const 0 return end i32.const -1"))
	k.add(4, "error status with a message outside", "", "status status status", hook(`
		local.get $b i32.load offset=8 i32.eqz if i32.const 0 return end
		local.get $b i32.const -8 i32.store offset=32 local.get $b i32.const 0x7fffffff i32.store offset=40 i32.const -1`))
	k.add(4, "unknown status", "", "status status status", hook("local.get $b i32.load offset=8 i32.eqz if i32.const 0 return end i32.const 9"))
	k.add(4, "empty batch fails", "empty batch", "", hook("unreachable"))
}

// output is section 5.
func (k *kit) output() {
	out := func(ptr, size string, data string) func(m *Module) {
		return guest(func(m *Module) {
			m.Data(1024, data)
			m.Func("tw_filter", "i32 -> i32", "", "i32.const 0")
			m.Hook("tw_transform", "local.get $b "+ptr+" i32.store offset=32 local.get $b "+size+" i32.store offset=36 i64.const 6")
		})
	}
	empty := make([]byte, 64)
	copy(empty, "TWB1")
	binary.LittleEndian.PutUint16(empty[6:], 64)
	for _, at := range []int{12, 16, 20, 24} {
		binary.LittleEndian.PutUint32(empty[at:], 64)
	}
	all3 := "protocol protocol protocol"
	k.add(5, "output missing", "", all3, out("i32.const 0", "i32.const 0", ""))
	k.add(5, "output outside the memory", "", all3, out("i32.const -64", "i32.const 64", ""))
	k.add(5, "output wraps", "", all3, out("i32.const -8", "i32.const 1000", ""))
	k.add(5, "output over the batch", "", all3, out("local.get $b", "i32.const 64", ""))
	k.add(5, "output too large", "", all3, out("i32.const 0", "i32.const 0x7fffffff", ""))
	k.add(5, "output is no batch", "", all3, out("i32.const 1024", "i32.const 64", "XXXX"))
	k.add(5, "output of no records", "", all3, out("i32.const 1024", "i32.const 64", string(empty)))
}

// imports is sections 6 and 7.
func (k *kit) imports() {
	imported := func(module, name, sig string) func(m *Module) {
		return func(m *Module) {
			*m = *GuestWith(func(m *Module) { m.Import(module, name, sig) })
			m.Hook("tw_filter", "i64.const 1")
		}
	}
	k.add(6, "import that does not exist", "tw_v1.publish", "", imported("tw_v1", "publish", "i32 -> i32"))
	k.add(6, "import of a wrong type", "tw_v1.log", "", imported("tw_v1", "log", "i32 -> i32"))
	k.add(6, "import of AssemblyScript's abort", "--use abort=", "", imported("env", "abort", "i32 i32 i32 i32"))
	k.add(6, "import from env", "no console", "", imported("env", "seed", "-> i32"))
	k.add(6, "import not granted", "tw_v1.json_get", "", imported("tw_v1", "json_get", "i32 i32 i32 i32 -> i32"))
	for _, f := range strings.Fields("path_open fd_read fd_pwrite sock_accept path_symlink fd_readdir") {
		k.add(7, "WASI "+f, "plugins have no files", "", imported("wasi_snapshot_preview1", f, "i32 -> i32"))
	}
}

// budget is section 8.
func (k *kit) budget() {
	// A record is asked once more alone, so it is told by its body and not by its place.
	second := "local.get $len if result=i32 local.get $body i32.load8_u else i32.const 0 end i32.const 98 i32.eq if "
	k.add(8, "spins on one record", "", "- fuel -", record(second+"loop br 0 end end i64.const 1"))
	k.add(8, "memory at its end", "", "- memory -", record(second+`
		loop i32.const 1 memory.grow i32.const -1 i32.ne br_if 0 end unreachable end i64.const 1`))
	k.add(8, "needs more memory than allowed", "pages", "", guest(func(m *Module) {
		m.Hook("tw_filter", "i64.const 1")
		m.Raw(5, []byte("\x01\x00\x80\x80\x04"))
	}))
}

// manifest is section 9.
func (k *kit) manifest() {
	for i, bad := range []string{"", "{", `{"name":1}`, `{"unknown":1}`, `{} {}`, `{"hooks":["fly"]}`, `{"hooks":["publish"]}`} {
		k.add(9, fmt.Sprintf("bad manifest %d", i), "manifest", "", guest(func(m *Module) {
			m.Hook("tw_filter", "i64.const 1")
			m.Custom("tw.manifest", []byte(bad))
		}))
	}
	k.add(9, "manifest", "", "- - -", guest(func(m *Module) {
		m.Hook("tw_filter", "i64.const 1")
		m.Custom("tw.manifest", []byte(`{"name":"kit","version":"1","description":"d","hooks":["filter"],"imports":[{"name":"log","reason":"r"}]}`))
	}))
}

// alloc is a plugin whose tw_alloc is body.
func alloc(body string) func(m *Module) {
	return func(m *Module) {
		m.Memory(1, 1)
		m.Func("tw_abi_1", "", "", "")
		m.Func("tw_alloc", "i32 -> i32", "", body)
		m.Hook("tw_filter", "i64.const 1")
	}
}

package plugintest

// Guest returns a module with what every plugin needs: a memory of 2 pages and more, the marker tw_abi_1, and a tw_alloc that
// always gives the region from the second page on. The first page is the test's.
func Guest() *Module { return GuestWith(nil) }

// GuestWith is Guest with imports, which must come first.
func GuestWith(imports func(m *Module)) *Module {
	m := New()
	if imports != nil {
		imports(m)
	}
	m.Memory(2, -1)
	m.Func("tw_abi_1", "", "", "")
	m.Func("tw_alloc", "$n:i32 -> i32", "$need:i32", `
		local.get $n i32.const 131071 i32.add i32.const 16 i32.shr_u local.tee $need
		memory.size i32.gt_u if
			local.get $need memory.size i32.sub memory.grow i32.const -1 i32.eq if i32.const 0 return end
		end
		i32.const 65536`)
	return m
}

// Hook adds a hook that walks the batch as ABI.md says. record is the text for one record; it leaves an i64, the verdict. It
// may use $b the batch, $i the number of the record, $r its index entry, $body and $len; $x and $y are its own i32.
func (m *Module) Hook(name, record string) {
	m.Func(name, "$b:i32 -> i32", "$i:i32 $n:i32 $r:i32 $v:i32 $body:i32 $len:i32 $x:i32 $y:i32 $verdict:i64", `
		local.get $b i32.load offset=8 local.set $n
		local.get $b local.get $b i32.load offset=24 i32.add local.set $r
		local.get $b local.get $b i32.load offset=20 i32.add local.set $v
		block $done
			loop $next
				local.get $i local.get $n i32.ge_u br_if $done
				local.get $b local.get $i i32.store offset=44
				local.get $b local.get $r i32.load offset=56 i32.add local.set $body
				local.get $r i32.load offset=60 local.set $len
				`+record+`
				local.set $verdict
				local.get $v local.get $verdict i64.store
				local.get $i i32.const 1 i32.add local.set $i
				local.get $r i32.const 64 i32.add local.set $r
				local.get $v i32.const 8 i32.add local.set $v
				br $next
			end
		end
		i32.const 0`)
}

// Scripted is a plugin whose hooks publish, filter and transform do what the first byte of a body says: '!' traps, 's' spins,
// 'm' fills its memory and traps, 'r' recurses, 'd' drops with code 7, 'e' answers error 5, 'u' gives no verdict, 'i' gives one
// that does not exist, everything else is kept.
func Scripted() []byte {
	m := Guest()
	m.Func("$deep", "", "", "call $deep")
	for _, hook := range []string{"tw_publish", "tw_filter", "tw_transform"} {
		m.Hook(hook, `
			local.get $len if result=i32 local.get $body i32.load8_u else i32.const 0 end local.set $x
			local.get $x i32.const 33 i32.eq if unreachable end
			local.get $x i32.const 115 i32.eq if loop $spin br $spin end end
			local.get $x i32.const 109 i32.eq if loop $grow i32.const 16 memory.grow i32.const -1 i32.ne br_if $grow end
				loop $grow1 i32.const 1 memory.grow i32.const -1 i32.ne br_if $grow1 end unreachable end
			local.get $x i32.const 114 i32.eq if call $deep end
			i64.const 1
			i64.const 0x70002 local.get $x i32.const 100 i32.ne select
			i64.const 0x50007 local.get $x i32.const 101 i32.ne select
			i64.const 0 local.get $x i32.const 117 i32.ne select
			i64.const 99 local.get $x i32.const 105 i32.ne select`)
	}
	return m.Bytes()
}

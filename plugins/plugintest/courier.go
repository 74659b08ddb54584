package plugintest

// Courier is a delivery plugin. Its requests are the message's body posted to the URL that the body is. A body that begins with
// d is dropped with code 7, x makes a dead letter with code 8, r is put off for a second with code 9, e answers error 5 and !
// traps.
//
// It acks what is answered with 2xx. 410 makes a dead letter with that code, 400 answers error 400, 418 traps. Everything
// else is to be tried again after 20 ms, with the status as code, and after 21 ms with code 1 when no answer came; 503 leaves
// the delay to the host.
func Courier() []byte {
	m := Guest()
	m.Func("$copy", "$b:i32", "$out:i32 $total:i32 $need:i32", `
		local.get $b i32.load offset=16 local.set $total
		local.get $b local.get $total i32.add i32.const 7 i32.add i32.const -8 i32.and local.set $out
		local.get $out local.get $total i32.add i32.const 65535 i32.add i32.const 16 i32.shr_u local.tee $need
		memory.size i32.gt_u if
			local.get $need memory.size i32.sub memory.grow i32.const -1 i32.eq if unreachable end
		end
		local.get $out local.get $b local.get $total memory.copy
		local.get $b local.get $out i32.store offset=32
		local.get $b local.get $total i32.store offset=36`)
	// The output is a copy of the batch in which the topic of each record, its URL, is where the body is.
	m.Hook("tw_prepare", `
		local.get $i i32.eqz if local.get $b call $copy end
		local.get $len if result=i32 local.get $body i32.load8_u else i32.const 0 end local.set $y
		local.get $y i32.const 33 i32.eq if unreachable end
		local.get $b i32.load offset=32 local.get $r i32.add local.get $b i32.sub local.set $x
		local.get $x local.get $x i32.load offset=56 i32.store offset=32
		local.get $x local.get $len i32.store offset=36
		local.get $x i32.const 0 i32.store offset=44
		local.get $x i32.const 0 i32.store offset=52
		local.get $i i64.extend_i32_u i64.const 32 i64.shl i64.const 6 i64.or
		i64.const 0x70002 local.get $y i32.const 100 i32.ne select
		i64.const 0x80004 local.get $y i32.const 120 i32.ne select
		i64.const 0x3e800090003 local.get $y i32.const 114 i32.ne select
		i64.const 0x50007 local.get $y i32.const 101 i32.ne select`)
	m.Hook("tw_result", `
		local.get $r i32.load offset=28 i32.const 16 i32.shr_u local.set $x
		local.get $x i32.const 418 i32.eq if unreachable end
		local.get $x i64.extend_i32_u i64.const 16 i64.shl i64.const 0x1400000003 i64.or
		i64.const 1 local.get $x i32.const 100 i32.div_u i32.const 2 i32.ne select
		i64.const 0x19a0004 local.get $x i32.const 410 i32.ne select
		i64.const 0x1900007 local.get $x i32.const 400 i32.ne select
		i64.const 0x1f70003 local.get $x i32.const 503 i32.ne select
		i64.const 0x1500010003 local.get $r i32.load offset=28 i32.const 1 i32.and i32.eqz select`)
	return m.Bytes()
}

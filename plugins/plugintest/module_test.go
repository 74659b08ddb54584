package plugintest_test

import (
	"context"
	"testing"

	"github.com/tetratelabs/wazero"

	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

// TestAssembler runs what it assembles: names, labels, memory, tables, segments and globals end up where they belong.
func TestAssembler(t *testing.T) {
	m := plugintest.New()
	m.Memory(1, 2)
	m.Table(2, 2)
	m.Global("$calls", "i64", 40)
	m.Data(8, "\x05\x00\x00\x00")
	m.Func("$twice", "$x:i32 -> i32", "", `local.get $x i32.const 2 i32.mul`)
	m.Func("$next", "$x:i32 -> i32", "", `local.get $x i32.const 1 i32.add`)
	m.Elem(0, "$twice", "$next")
	m.Func("sum", "$n:i32 -> i32", "$s:i32", `
		block $done
			loop $again
				local.get $n i32.eqz br_if $done
				local.get $s  local.get $n  i32.add  local.set $s   ;; s += n
				local.get $n  i32.const 1  i32.sub  local.set $n
				br $again
			end
		end
		global.get $calls i64.const 2 i64.add global.set $calls
		local.get $s i32.const 0 i32.load offset=8 i32.add`)
	m.Func("apply", "$f:i32 $x:i32 -> i32", "", `local.get $x local.get $f call_indirect 0`)
	m.Func("calls", "-> i64", "", `global.get $calls`)
	m.Func("pick", "$i:i32 -> i32", "", `
		block $b block $a
			local.get $i br_table 1 $a $b
		end i32.const 10 return
		end
		local.get $i i32.const 7 i32.eq if result=i32 i32.const 70 else f64.const 2.5 i32.trunc_sat_f64_s end`)
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer r.Close(ctx)
	mod, err := r.Instantiate(ctx, m.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		fn   string
		args []uint64
		want uint64
	}{
		{"sum", []uint64{4}, 15}, {"calls", nil, 42}, {"apply", []uint64{0, 21}, 42}, {"apply", []uint64{1, 21}, 22},
		{"pick", []uint64{0}, 10}, {"pick", []uint64{7}, 70}, {"pick", []uint64{8}, 2},
	} {
		got, err := mod.ExportedFunction(c.fn).Call(ctx, c.args...)
		if err != nil || got[0] != c.want {
			t.Errorf("%s%v = %v, %v, want %d", c.fn, c.args, got, err, c.want)
		}
	}
}

func TestAssemblerRefuses(t *testing.T) {
	for _, body := range []string{"i33.add", "local.get $nobody", "br $nowhere", "i32.const x", "block", "call"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q was assembled", body)
				}
			}()
			m := plugintest.New()
			m.Func("f", "", "", body)
			m.Bytes()
		}()
	}
}

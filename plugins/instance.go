package plugins

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"

	"github.com/tidewheel/tidewheel/plugins/abi"
	"github.com/tidewheel/tidewheel/plugins/internal/fuel"
)

// instance is one running copy of a module, borrowed by one goroutine at a time.
//
//  1. start instantiates it and runs the start function, _initialize, tw_configure and a probe of each hook.
//  2. call runs a hook over a batch, as often as needed.
//  3. After a call that did not end well dead is set; close follows in any case. Nothing else is ever done with a dead one: a
//     guest that trapped would answer the next call as if nothing had happened.
type instance struct {
	m     *Module
	ctx   context.Context // carries the instance to the host functions
	mod   api.Module
	mem   api.Memory
	fuel  fuel.Tank // none while the module is being instantiated
	alloc api.Function
	hooks [abi.Hooks]api.Function
	stack [2]uint64

	arena, size uint32 // the region from tw_alloc
	calls       int64
	dead        bool
	noted       int64 // bytes of memory, as Module.measure saw them last

	// The call in hand, for the host functions. hook is 0 between calls.
	hook     abi.Hook
	count    int
	total    uint32 // bytes of the batch
	now      int64  // ms
	mono     int64  // ns, the guest's monotonic clock
	began    int64  // ns, mono when the call began
	seed     uint64
	random   *rand.ChaCha8 // made when it is first asked for
	last     string        // argument of the kernel that was called last
	record   abi.Record    // in the kernel's hand
	line     []byte        // of the guest's standard error, not ended yet
	matching abi.Field     // what Match looks at
	stderr   []byte        // what the call wrote there first: the text of a panic
}

type instanceKey struct{}

// death is how a call ended when it did not end well. Reading it allocates; there is one per thrown-away instance.
type death struct {
	class   Class
	code    uint16
	message string
	stack   string
}

func (m *Module) start() (*instance, error) {
	in := &instance{m: m}
	in.ctx = context.WithValue(context.Background(), instanceKey{}, in)
	mod, err := m.runtime.InstantiateModule(in.ctx, m.compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, firstLine(err))
	}
	in.mod, in.mem = mod, mod.Memory()
	in.fuel = fuel.NewTank(mod.ExportedGlobal(fuel.ExportSlice).(api.MutableGlobal), mod.ExportedGlobal(fuel.ExportRest).(api.MutableGlobal))
	in.alloc = mod.ExportedFunction(abi.Alloc)
	for h := abi.Publish; h < abi.Hooks; h++ {
		in.hooks[h] = mod.ExportedFunction(h.Export())
	}
	if err := in.prepare(); err != nil {
		in.close()
		return nil, err
	}
	return in, nil
}

// prepare runs what comes before the first batch, all of it on the fuel for the start.
func (in *instance) prepare() error {
	l := &in.m.spec.Limits
	left := l.FuelInit
	step := func(what string, f api.Function, params ...uint64) (uint64, error) {
		in.fuel.Fill(left)
		in.stack = [2]uint64{}
		copy(in.stack[:], params)
		err := f.CallWithStack(in.ctx, in.stack[:])
		if left = in.fuel.Left(); err != nil {
			d := in.autopsy(err)
			return 0, fmt.Errorf("%w: %s: %v: %s", ErrStart, what, d.class, d.message)
		}
		return in.stack[0], nil
	}
	if f := in.mod.ExportedFunction(abi.Initialize); f != nil {
		if _, err := step(abi.Initialize, f); err != nil {
			return err
		}
	}
	if f := in.mod.ExportedFunction(abi.Configure); f != nil && in.m.spec.Config != nil {
		config := in.m.spec.Config
		if d := in.ensure(len(config)); d != nil {
			return fmt.Errorf("%w: %s: %s", ErrStart, abi.Alloc, d.message)
		}
		in.mem.Write(in.arena, config)
		status, err := step(abi.Configure, f, uint64(in.arena), uint64(len(config)))
		if err != nil {
			return err
		}
		if int32(status) != 0 {
			return fmt.Errorf("%w: %s returned status %d", ErrStart, abi.Configure, int32(status))
		}
	}
	for h := abi.Publish; h < abi.Hooks; h++ {
		if in.hooks[h] == nil {
			continue
		}
		if _, d := in.call(abi.Head{Hook: h}, nil, abi.Size(nil)); d != nil {
			return fmt.Errorf("%w: %s with an empty batch: %v: %s", ErrStart, h.Export(), d.class, d.message)
		}
	}
	return nil
}

// ensure makes the arena hold n bytes. The region grows in powers of two, so that a growing batch asks seldom.
func (in *instance) ensure(n int) *death {
	if uint64(in.size) >= uint64(n) && in.size > 0 {
		return nil
	}
	want := uint64(64 << 10)
	for want < uint64(n) {
		want <<= 1
	}
	if int64(want) > in.m.spec.Limits.MemoryMax {
		return &death{class: ClassMemory, message: fmt.Sprintf("a batch of %d bytes does not fit into the memory", n)}
	}
	in.fuel.Fill(in.m.spec.Limits.FuelInit)
	in.stack[0] = want
	if err := in.alloc.CallWithStack(in.ctx, in.stack[:]); err != nil {
		return in.autopsy(err)
	}
	p := uint64(uint32(in.stack[0]))
	switch {
	case p == 0:
		return &death{class: ClassMemory, message: fmt.Sprintf("tw_alloc refused %d bytes", want)}
	case p%8 != 0:
		return &death{class: ClassProtocol, message: fmt.Sprintf("tw_alloc returned %#x, which is not 8-aligned", p)}
	case p+want > uint64(in.mem.Size()):
		return &death{class: ClassProtocol, message: fmt.Sprintf("tw_alloc returned %d bytes at %#x, memory ends at %#x", want, p, in.mem.Size())}
	}
	in.arena, in.size = uint32(p), uint32(want)
	return nil
}

// call runs a hook over a batch and returns the batch as the guest left it, also after a death that happened inside the hook:
// then the verdicts before the cursor stand. n is abi.Size of the records. The batch is a window of the guest's memory, valid
// until the next call.
func (in *instance) call(h abi.Head, records []abi.Record, n int) (abi.Batch, *death) {
	if d := in.ensure(n); d != nil {
		in.dead = true
		in.fuel.Fill(in.budget(len(records))) // the hook used none
		return abi.Batch{}, d
	}
	view, ok := in.mem.Read(in.arena, uint32(n))
	if !ok || abi.Encode(view, h, records) != nil {
		in.dead = true
		return abi.Batch{}, &death{class: ClassProtocol, message: "the region from tw_alloc is gone"}
	}
	in.hook, in.count, in.total = h.Hook, len(records), uint32(n)
	in.now, in.seed, in.random, in.stderr, in.began = h.NowMs, h.Seed, nil, in.stderr[:0], in.mono
	in.fuel.Fill(in.budget(len(records)))
	in.stack[0] = uint64(in.arena)
	err := in.hooks[h.Hook].CallWithStack(in.ctx, in.stack[:])
	in.hook = 0
	in.calls++
	var d *death
	if err != nil {
		d = in.autopsy(err)
	} else if status := abi.Status(int32(in.stack[0])); status != abi.StatusOK {
		d = in.badStatus(status)
	}
	// Memory may have moved while the guest ran.
	if view, ok = in.mem.Read(in.arena, uint32(n)); !ok {
		in.dead = true
		return abi.Batch{}, &death{class: ClassProtocol, message: "the region from tw_alloc is gone"}
	}
	// The guest may have written anywhere in its memory, also over the header.
	b, openErr := abi.Open(view)
	if openErr != nil || b.Len() != len(records) {
		if d == nil {
			d = &death{class: ClassProtocol, message: "the guest wrote over the header of the batch"}
		}
		b = abi.Batch{}
	}
	in.dead = d != nil
	return b, d
}

func (in *instance) budget(n int) int64 {
	l := &in.m.spec.Limits
	return min(l.FuelBase+int64(n)*l.FuelPerRecord, l.FuelCallMax)
}

// used is the fuel that the last call of n records took.
func (in *instance) used(n int) int64 { return in.budget(n) - in.fuel.Left() }

func (in *instance) badStatus(s abi.Status) *death {
	d := &death{class: ClassStatus, code: uint16(-s), message: fmt.Sprintf("status %d", s)}
	if s != abi.StatusError {
		return d
	}
	if view, ok := in.mem.Read(in.arena, abi.HeaderSize); ok {
		ptr, errLen := binary.LittleEndian.Uint32(view[abi.OffOutPtr:]), binary.LittleEndian.Uint32(view[abi.OffErrLen:])
		if text, ok := in.mem.Read(ptr, min(errLen, MaxMessage)); ok && len(text) > 0 {
			d.message = line(string(text), MaxMessage)
		}
	}
	return d
}

// outOfFuel says what people look for first.
const outOfFuel = "out of fuel: a loop without end, or fuel_per_record is too low for the record"

// autopsy finds out what an error of the runtime means.
func (in *instance) autopsy(err error) *death {
	text, stack, _ := strings.Cut(err.Error(), "\nwasm stack trace:\n")
	d := &death{class: ClassTrap, message: strings.TrimPrefix(text, "wasm error: "), stack: lines(strings.ReplaceAll(stack, "\t", ""), MaxStack)}
	var exit *sys.ExitError
	switch {
	case in.fuel.There() && in.fuel.Left() < 0:
		d.class, d.message, d.stack = ClassFuel, outOfFuel, strings.TrimPrefix(d.stack, in.m.refill)
	case errors.As(err, &exit):
		d.class, d.code, d.message = ClassExit, uint16(exit.ExitCode()), fmt.Sprintf("exit code %d", exit.ExitCode())
	}
	// Guests ask for more than a page at a time, and die when there is less than that left.
	if in.mem != nil && int64(in.mem.Size()) >= in.m.memoryCap/4*3 && int64(in.mem.Size()) > in.m.firstMemory && d.class == ClassTrap {
		d.class = ClassMemory
	}
	if len(in.stderr) > 0 {
		d.message += ": " + strings.TrimSpace(string(in.stderr))
	}
	d.message = line(d.message, MaxMessage)
	return d
}

// worn says whether the instance should be replaced although it did nothing wrong: memory never shrinks.
func (in *instance) worn() bool {
	l := &in.m.spec.Limits
	return in.dead || l.RecycleCalls > 0 && in.calls >= l.RecycleCalls ||
		int64(in.mem.Size()) > in.m.firstMemory && int64(in.mem.Size())*100 > l.MemoryMax*int64(l.RecyclePercent)
}

func (in *instance) close() {
	in.dead = true
	in.mod.Close(in.ctx)
}

// charge takes fuel for the work of a host function; false when there is not enough, and the guest then stops at its next
// check.
func (in *instance) charge(n int64) bool {
	return !in.fuel.There() || in.fuel.Take(n)
}

// numbers are the random numbers of the call: from the file and the batch, so that a second run draws the same.
func (in *instance) numbers() *rand.ChaCha8 {
	if in.random == nil {
		var text [sha256.Size + 8]byte
		copy(text[:], in.m.digest[:])
		binary.LittleEndian.PutUint64(text[sha256.Size:], in.seed)
		in.random = rand.NewChaCha8(sha256.Sum256(text[:]))
	}
	return in.random
}

func firstLine(err error) error {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return errors.New(line(text, MaxMessage))
}

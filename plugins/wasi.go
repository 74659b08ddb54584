package plugins

import (
	"context"
	"encoding/binary"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"
)

const wasiModule = "wasi_snapshot_preview1"

// Error numbers of WASI.
const (
	wasiOK     = 0
	wasiBadFd  = 8
	wasiFault  = 21
	wasiInval  = 28
	wasiBudget = 63 // EPERM: the fuel does not pay for it
)

var le = binary.LittleEndian

// The stand-ins for WASI. They give a guest what its toolchain's runtime asks for at start and in a panic, and nothing of the
// world: the clock is the batch's, random numbers come from a seed, sleeping moves the clock, and there is no file.
// Each returns an error number; each checks pointers with the memory's own bounds.

func wasiNothing(*instance, api.Memory, []uint64) uint32 { return wasiOK }

func wasiNoFile(*instance, api.Memory, []uint64) uint32 { return wasiBadFd }

func wasiEmptyList(_ *instance, mem api.Memory, p []uint64) uint32 {
	if !mem.WriteUint32Le(uint32(p[0]), 0) || !mem.WriteUint32Le(uint32(p[1]), 0) {
		return wasiFault
	}
	return wasiOK
}

func wasiClock(in *instance, mem api.Memory, p []uint64) uint32 {
	in.mono += 1000
	t := in.mono
	if uint32(p[0]) == 0 {
		t += in.now*1_000_000 - in.began
	}
	if !mem.WriteUint64Le(uint32(p[2]), uint64(t)) {
		return wasiFault
	}
	return wasiOK
}

func wasiRandom(in *instance, mem api.Memory, p []uint64) uint32 {
	if !in.charge(int64(uint32(p[1]))) {
		return wasiBudget
	}
	b, ok := mem.Read(uint32(p[0]), uint32(p[1]))
	if !ok {
		return wasiFault
	}
	in.numbers().Read(b)
	return wasiOK
}

func wasiWrite(in *instance, mem api.Memory, p []uint64) uint32 {
	fd, iov, n := uint32(p[0]), uint64(uint32(p[1])), uint64(uint32(p[2]))
	if fd != 1 && fd != 2 {
		return wasiBadFd
	}
	if n > 1024 {
		return wasiInval
	}
	var total uint32
	for i := range n {
		v, ok := mem.Read(uint32(iov+8*i), 8)
		if !ok || iov+8*i > 1<<32-8 {
			return wasiFault
		}
		b, ok := mem.Read(le.Uint32(v), le.Uint32(v[4:]))
		if !ok {
			return wasiFault
		}
		if !in.charge(100 + int64(len(b))/8) {
			return wasiBudget
		}
		total += uint32(len(b))
		in.write(b)
	}
	if !mem.WriteUint32Le(uint32(p[3]), total) {
		return wasiFault
	}
	return wasiOK
}

// wasiPoll serves subscriptions of 48 bytes: user data, kind (0 is a clock), clock, timeout, precision, flags (1 is absolute).
// The earliest timeout passes at once.
func wasiPoll(in *instance, mem api.Memory, p []uint64) uint32 {
	n := uint32(p[2])
	if n == 0 || n > 64 {
		return wasiInval
	}
	subs, ok := mem.Read(uint32(p[0]), n*48)
	events, ok2 := mem.Read(uint32(p[1]), n*32)
	if !ok || !ok2 {
		return wasiFault
	}
	first, found := int64(0), false
	for i := range int(n) {
		s := subs[48*i:]
		if s[8] != 0 {
			continue
		}
		t := int64(le.Uint64(s[24:]))
		if le.Uint16(s[40:])&1 != 0 {
			t -= in.mono
			if le.Uint32(s[16:]) == 0 {
				t -= in.now*1_000_000 - in.began
			}
		}
		if t = max(t, 0); !found || t < first {
			first, found = t, true
		}
	}
	// A guest may ask for a time beyond the end of the clock.
	in.mono = min(in.mono+min(first, 1<<61), 1<<61)
	count := uint32(0)
	for i := range int(n) {
		s, e := subs[48*i:], [32]byte{}
		copy(e[:8], s[:8])
		e[10] = s[8]
		if s[8] != 0 {
			le.PutUint16(e[8:], wasiBadFd)
		}
		copy(events[32*count:], e[:])
		count++
	}
	if !mem.WriteUint32Le(uint32(p[3]), count) {
		return wasiFault
	}
	return wasiOK
}

func wasiFdStat(_ *instance, mem api.Memory, p []uint64) uint32 {
	if uint32(p[0]) > 2 {
		return wasiBadFd
	}
	stat := [24]byte{0: 2} // a character device without rights
	if !mem.Write(uint32(p[1]), stat[:]) {
		return wasiFault
	}
	return wasiOK
}

func wasiStandard(_ *instance, _ api.Memory, p []uint64) uint32 {
	if uint32(p[0]) > 2 {
		return wasiBadFd
	}
	return wasiOK
}

// wasiExit unwinds the guest. The instance is closed by whoever borrowed it.
func wasiExit(_ context.Context, _ api.Module, stack []uint64) {
	panic(sys.NewExitError(uint32(stack[0])))
}

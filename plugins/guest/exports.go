//go:build wasip1

package guest

import (
	"runtime/debug"
	"unsafe"

	"github.com/tidewheel/tidewheel/plugins/abi"
)

// What the guest keeps between calls.
var (
	arena  []uint64 // the region of the host; of uint64 so that it is 8-aligned
	out    []byte   // the output batch, valid until the next call
	record Record
	outs   []abi.Record
)

func init() {
	// Memory never shrinks, so the heap is kept closer to what is live than by default.
	debug.SetGCPercent(50)
}

//go:wasmexport tw_abi_1
func marker() {}

//go:wasmexport tw_alloc
func alloc(n uint32) uint32 {
	if w := (int(n) + 7) / 8; cap(arena) < w {
		arena = make([]uint64, w)
	}
	return uint32(uintptr(unsafe.Pointer(unsafe.SliceData(arena))))
}

//go:wasmexport tw_configure
func configured(ptr, n uint32) int32 {
	if err := Configured(region(ptr, n)); err != nil {
		println("configure: " + err.Error())
		return int32(abi.StatusNotConfigured)
	}
	return int32(abi.StatusOK)
}

// region is the part of the arena at ptr. The host never passes another address.
func region(ptr, n uint32) []byte {
	base := uint32(uintptr(unsafe.Pointer(unsafe.SliceData(arena))))
	all := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(arena))), 8*cap(arena))
	return all[ptr-base:][:n]
}

//go:wasmexport tw_publish
func publish(b uint32) int32 { return batch(abi.Publish, b) }

//go:wasmexport tw_filter
func filter(b uint32) int32 { return batch(abi.Filter, b) }

//go:wasmexport tw_transform
func transform(b uint32) int32 { return batch(abi.Transform, b) }

//go:wasmexport tw_prepare
func prepare(b uint32) int32 { return batch(abi.Prepare, b) }

//go:wasmexport tw_result
func result(b uint32) int32 { return batch(abi.Result, b) }

// batch decides a batch: cursor, function, verdict, record by record.
func batch(h abi.Hook, ptr uint32) int32 {
	base := uint32(uintptr(unsafe.Pointer(unsafe.SliceData(arena))))
	b, err := abi.Open(region(ptr, uint32(8*cap(arena))-(ptr-base)))
	if err != nil {
		return int32(abi.StatusBadBatch)
	}
	outs = outs[:0]
	record.now = b.NowMs()
	for i := 0; i < b.Len(); {
		if i = decideFrom(b, function(h), i); i < 0 {
			return int32(abi.StatusBadBatch)
		}
	}
	if len(outs) == 0 {
		return int32(abi.StatusOK)
	}
	if out, err = abi.AppendBatch(out[:0], abi.Head{Hook: h}, outs); err != nil {
		return int32(abi.StatusNoMemory)
	}
	b.SetOutput(uint32(uintptr(unsafe.Pointer(unsafe.SliceData(out)))), uint32(len(out)), 0)
	return int32(abi.StatusOK)
}

// decideFrom decides records from one on until the end, or until f panics, which fails that record. It returns where to go on,
// and a number below 0 for a record that lies outside of the batch. A deferred call takes as long as a small function, so there
// is one for the batch and not one for each record.
func decideFrom(b abi.Batch, f func(*Record) Verdict, i int) (next int) {
	defer func() {
		if e := recover(); e != nil {
			answer(b, next, panicked(e))
			next++
		}
	}()
	for next = i; next < b.Len(); next++ {
		b.SetCursor(next)
		if b.Record(next, &record.Record) != nil {
			return -1
		}
		if v := f(&record); v.output == nil && v.text == "" {
			b.SetVerdict(next, v.v)
		} else {
			answer(b, next, v)
		}
	}
	return next
}

// answer writes a verdict that has an output or a text.
func answer(b abi.Batch, i int, v Verdict) {
	if v.output != nil {
		v.v = abi.NewVerdict(v.v.Action(), v.v.Code(), uint32(len(outs)))
		outs = append(outs, *v.output)
	} else {
		outs = append(outs, abi.Record{Body: []byte(v.text)})
		v.v = abi.NewVerdict(v.v.Action(), v.v.Code(), uint32(len(outs)))
	}
	b.SetVerdict(i, v.v)
}

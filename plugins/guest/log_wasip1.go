//go:build wasip1

package guest

import "unsafe"

//go:wasmimport tw_v1 log
func hostLog(level int32, p unsafe.Pointer, n uint32) int32

// Log writes a line: to the host's log, or to standard output under go test.
func Log(line string) {
	if line != "" {
		hostLog(0, unsafe.Pointer(unsafe.StringData(line)), uint32(len(line)))
	}
}

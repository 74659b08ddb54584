package wasm

// Limits bound what a module may hold. Each number is the largest accepted value. The defaults let a Go guest with
// encoding/json, fmt and regexp pass with room to spare: it has 3.9 MB, 6,455 table elements, functions of up to 50 KB, blocks
// nested 549 deep and 31 bulk operations in one function. What each number keeps away is said beside it.
type Limits struct {
	Binary      int    // bytes of the file
	Types       int    // function types
	Params      int    // of one type
	Results     int    // of one type
	Imports     int    // functions
	Functions   int    // defined
	Tables      int    //
	TableMax    uint32 // elements of one table: the memory limit does not cover tables
	MemoryPages uint32 // initial size of the memory, in pages of 64 KiB
	Globals     int    //
	Exports     int    //
	Segments    int    // element segments, and data segments
	Name        int    // bytes of one name
	Body        int    // bytes of one function: straight code compiles in more than linear time
	Locals      int    // of one function, parameters included
	LocalsTotal int    // of all functions: 200 functions with 50,000 locals each are a file of 2 KB
	Nesting     int    // blocks within blocks: 200,000 take a compiler a minute
	Height      int    // values on the operand stack of one function: they are part of its frame
	Blocks      int    // blocks and branches of one function: 8,000 beside one another take a compiler six seconds
	Loops       int    // loops of one function: 8,000 take it a minute
	Targets     int    // branch targets of one function, those in tables included
	Work        int    // sum over all functions of Code.Work, an estimate of the time to compile them
	Bulk        int    // bulk operations in one function: the compiler's time is quadratic in them
	BulkTotal   int    // in all functions
}

// DefaultLimits returns the limits of the plugin host.
func DefaultLimits() Limits {
	return Limits{
		Binary:      16 << 20,
		Types:       4096,
		Params:      128,
		Results:     16,
		Imports:     256,
		Functions:   65536,
		Tables:      4,
		TableMax:    32768,
		MemoryPages: 65536,
		Globals:     4096,
		Exports:     4096,
		Segments:    65536,
		Name:        1024,
		Body:        128 << 10,
		Locals:      1024,
		LocalsTotal: 256 << 10,
		Nesting:     2048,
		Height:      512,
		Blocks:      4096,
		Loops:       256,
		Targets:     16384,
		Work:        128 << 20,
		Bulk:        128,
		BulkTotal:   8192,
	}
}

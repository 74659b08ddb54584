// Package wasm reads a core WebAssembly module and refuses what could hurt the host, before anything compiles it.
//
// Parse walks every byte of the binary once: sections, types, imports, tables, memory, globals, exports, segments, names,
// and each instruction of each function. It returns a Module that later stages (the fuel rewriter, the checks of the ABI)
// work on without looking at the bytes again. The caller then compares the imports with what it grants.
//
// Three things make a compiler dangerous to feed. A length that is believed sizes an allocation: here every count is
// compared with a limit and with the bytes that are left before anything is allocated. Some shapes cost more than their
// size says (nested blocks, locals, bulk operations in one function take quadratic time): Limits has a number for each.
// And what the host does not know it cannot meter: an instruction outside the set below is an error, not a guess.
//
// Accepted is WebAssembly 2.0 (mutable globals, sign extension, saturating conversions, multiple results, bulk memory,
// reference types) with exactly one memory, which the module defines itself. Refused are SIMD, threads, tail calls,
// exceptions, 64-bit or several memories, and imports that are not functions.
//
// All errors are *Error. They name the offset in the file and unwrap to one of ErrMalformed, ErrUnsupported, ErrLimit.
package wasm

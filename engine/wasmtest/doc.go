// Package wasmtest proves that the engine runs as a WASM guest: its test compiles the tests of package engine for wasip1
// and runs the deterministic ones in a WASM runtime.
package wasmtest

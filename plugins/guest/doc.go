// Package guest is what a Go plugin is written with:
//
//	package main
//
//	import "github.com/tidewheel/tidewheel/plugins/guest"
//
//	func init() {
//		guest.Filter(func(r *guest.Record) guest.Verdict {
//			if paid, ok := r.JSON("/paid"); ok && string(paid) == "true" {
//				return guest.Drop(1)
//			}
//			return guest.Keep()
//		})
//	}
//
//	func main() {}
//
// It is built with
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o paid.wasm
//
// or with tidewheel plugin build, and needs a memory_max of 8 MiB or more. The same code runs natively under go test: Run decides
// records with the functions that were registered, as the host would, and package golden compares with files of verdicts that
// hold for the module, too. Examples with all hooks are in examples/wasm.
//
// A module exports all five hooks; the ones without a function fail every record, so name the wanted hooks in the manifest and in
// the configuration. A function that panics fails its record with the text of the panic, and the plugin goes on. Records are
// windows of the batch: they are valid until the function returns, and belong to the host. A plugin has no files, no network,
// no clock but NowMs, and no other goroutine: what is started inside a function runs only during later calls.
//
// Registration happens in init, before the first call. Nothing here is safe for concurrent use, because a guest never runs two
// calls at a time.
package guest

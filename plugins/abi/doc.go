// Package abi is what the plugin host and its guests agree on: the names, the numbers and the layout of a batch.
//
// ABI.md in this directory is the specification. This package is its Go form, compiled into the host and into Go guests
// alike, so it needs no runtime and allocates nothing on its hot paths. All integers in a batch are little-endian, since
// that is what a guest reads with a plain load.
//
// The host encodes a batch with Size and Encode into memory of the guest. The guest opens it with Open, reads its records,
// and writes one Verdict per record. Output (replaced records, requests to send, messages) travels the other way in a batch
// of the same layout, which a guest builds with AppendBatch; the host opens it with Open as well, because Open believes
// nothing: each offset and length is checked before it is used.
//
// JSONGet, Headers.Get and Match are the kernels that the host offers to guests as imports. They are here so that a guest's
// code gives the same answers when it runs natively in a test.
package abi

// Package faultfs lets operations of a file system fail: a vfs.FS around another, with rules that say which.
//
// Do: wrap the FS under the code under test; count its operations in a run without rules (Ops); then run again for each
// i in [1, Ops], once with Rule{Nth: i} and once with Rule{Nth: i, Sticky: true}. So every operation fails alone, and
// everything fails from every operation on. After each run, check that an error came back and that nothing that was
// acknowledged is lost.
//
//	f := faultfs.New(inner, faultfs.Rule{Op: faultfs.Sync, Path: "log/*", Nth: 3, Err: syscall.EIO})
//
// An operation that fails does not reach the file system inside, unless the rule says After. There is one exception: a
// Sync that fails makes a crashfs file lose what it had pending, as a kernel does.
//
// What a caller could not do anyway counts all the same: the FS inside decides that, and the wrapper does not ask it.
// Closing a file is no operation here and never fails for a rule.
package faultfs

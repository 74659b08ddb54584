// Package crashfs is a file system in memory that can lose power: a deterministic vfs.FS for tests of what survives.
//
// Do, in a loop: run the code under test on an FS; call Crash, which powers it off and returns the file system that a
// new process finds; open the code under test on that; check. Every choice comes from the *rand.Rand handed in, so a
// seed and the same calls give the same outcome.
//
//	fsys := crashfs.New(crashfs.Options{})
//	run(fsys)                                           // until it ends or the power fails, see CrashAt
//	after := fsys.Crash(rng, crashfs.Policy{KeepPct: 50, MetaPct: 50})
//	check(after)
//
// There are four ways on, each a new FS that shares memory with the old one until either changes:
//
//	            | the page cache is lost | it is kept
//	f is off    | Crash                  | Kill         a power cut; the death of the process
//	f goes on   | Snapshot               | Clone
//
// After Crash and Kill the old FS and every File of it answer ErrCrashed for ever, so a forgotten goroutine of the old
// life can't reach into the new one.
//
// # What it models
//
// Each file is there twice: as processes see it, and as the disk has it. A write changes the first and leaves a pending
// operation; Sync carries the pending operations to the second. Crash starts from the disk and draws, for every sector
// of every pending write and for every pending change of length, whether it got there on its own (Policy.KeepPct).
//
// Each directory is there twice too. Creating, removing and renaming are pending until SyncDir of the directory; Crash
// keeps a prefix of what is pending in each directory, as a journal would, or any subset (Policy.MetaPct,
// Policy.MetaAny). A rename is one change: both directories get it or neither, and SyncDir of one of them settles it
// for both, with what came before it in either. Syncing a file does not make its name durable. A file whose name was
// never durable is gone; one that was removed without SyncDir may be back.
//
// A Sync or SyncDir that fails (an error from the hook, see SetInject) loses what was pending: reads go on showing it, a
// later Sync says nil, and no Sync ever brings it to the disk. Kernels do that. Kill keeps it so: a process that comes
// back reads bytes that the next power cut takes away.
//
// # What else it can do
//
// CrashAt stops the machine before the n-th change, so that a loop over n visits every state; SetWatch visits them all
// in one run. SetInject calls a function before each operation, which may fail it or cut a write short. SetQuota makes the disk full. SetBad makes sectors
// unreadable. Rot, SwapSectors, Forget, Cut and Vanish damage files as disks and operators do. Durable shows what the
// disk has of a file, Trace the last operations.
//
// # What it costs
//
// Files lie in chunks of 4 KiB that are shared between the lives of a file system and copied on the first write. Holes and
// preallocated space take no memory. A write costs the bytes written, a Sync the bytes pending, a Crash the number of
// files and the bytes pending; none depends on the size of a file.
package crashfs

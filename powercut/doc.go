// Package powercut cuts the power of a real file system under a Tidewheel store, many times, and looks at what is left.
// It holds tests only, and is a module of its own so that FUSE stays out of the engine's dependencies.
//
// A file served by FUSE is the disk. A loop device over it carries ext4 or XFS, and on that a child process runs a
// store: puts, levels, times, moves, cancels, committed offsets, deliveries, with segments so small that many are
// sealed. Whatever reaches the disk is recorded in order: writes, flushes, and between them what the child was promised.
//
//	child: engine ─► fsadapter.OpenRoot ─► ext4 ─► loop ─► FUSE ─► disk.events: w w f w w w f ack w f ack …
//	                                                                    cut here ──────────▲
//	image: everything flushed before the cut, and of each later write a random subset of its sectors, in random order
//
// An image is a state that the power cut may leave behind by the rules of a disk with a volatile cache. Each image is
// mounted (its journal replays), the store is opened, and the judge compares it with what was promised before the cut:
// nothing acknowledged is lost, each message stands in its topic once and not early, a cancelled one never comes, what a
// reader saw stands where he saw it, and engine.Check finds nothing.
//
// The same is done once with a child whose fsync does nothing. That run must lose: it shows that the disk, the images and
// the judge can see a loss at all.
//
// Needed: Linux, root, /dev/fuse, loop devices, mkfs.ext4 (with mkfs.xfs, XFS runs too). Where one is missing the test is
// skipped and says which.
//
//	go test -v ./...                          60 images for each file system
//	TIDEWHEEL_VOLUME=ci|campaign go test …    150, 5,000
//	TIDEWHEEL_SEED=n go test …                the images of that seed
//
// # Processes
//
// A process that waits for its own FUSE server cannot be killed. So the test process serves the disk and touches no
// file on it; everything that mounts, writes or reads is a child, in a mount namespace of its own. The test process runs
// in a namespace of its own too, which the one started by go test makes for it. Mounts therefore end with their process,
// however it ends, and loop devices (set to clear themselves) with the mounts.
package powercut

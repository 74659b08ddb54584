// Package commitlog is the CommitLog: an append-only log of batches in segment files, the only synchronous write of the
// engine and its only truth.
package commitlog

// Package durable holds the two recipes by which a name becomes durable: a file that is replaced as a whole, and a
// directory that is made.
//
// A name is durable when the directory that holds it was synced, and that directory's own name when the one above was.
// A process that finds a name there knows nothing of this: the process before it may have been killed between making
// the name and syncing it, and then the name lives in memory only. So nothing here looks whether a name exists before
// it syncs; a sync too many costs a millisecond, one too few costs the file.
package durable

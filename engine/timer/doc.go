// Package timer is the scheduler: it holds what waits and gives out what is due, in the order of (due, id).
//
// A Lane is one instance of it with a frontier of its own; the delay levels are one lane. What waits in a lane lies in
// sorted sources, and firing is a merge of their heads:
//
//	schedule queues   one per delay value, in order by construction (package schedule)
//	loose memtable    what is out of that order: late messages, messages that were rolled, messages whose due time lies
//	                  more than a second before the tail of their queue since the clock stepped back
//	frozen memtable   the same, full, while a flush writes it
//	loose runs        sorted runs in the TimerLog that flushes and compactions wrote (package timerlog)
//
// The life of an entry: Put; perhaps Gone, when its message was cancelled or moved; Take, when it is due. A source may
// hold entries that are dead (delivered, cancelled, moved, rolled). The merge asks the fold about each entry that comes
// up, so sources need not be cleaned, and a restart may find more in them than is alive.
//
// # Frontier and late
//
// The frontier F is the greatest (due, id) that was delivered and was not late. It never moves back, so an entry that is
// not late and lies at or below F was delivered: that is the whole memory of what fired. A message that is stored with
// (due, id) at or below F (it was due at once, or the clock stepped back) is marked late in its record, has a state bit
// of its own, joins every merge, and does not move F.
//
// # Jobs
//
// A memtable is flushed when it is full, never because of a checkpoint. A checkpoint saves what it holds by a spill: the
// entries put since the last one, unsorted. When the spills of a table would hold more than twice its capacity (entries
// come and go, and it never fills), it is spilled whole, and the old spills go.
//
// Flush, Compaction and Spill are jobs in three steps: the lane makes it (writer), Run does the work on immutable inputs
// (any goroutine), Install links the result (writer). At most one of them is under way in a lane; the caller sees to it.
// Sources leave when the job is installed, so the merge finds each entry once.
//
// A Lane is not safe for concurrent use; only Run methods may run beside its other methods.
package timer

// Package state is the fold over the CommitLog: what is true after the records up to a position.
//
// There is one way to change a State, the methods of fold.go, and everybody uses it: the writer when it appends, a
// restart when it replays, a rebuild, a check. So what a crash leaves in the log is what a restart believes. Whatever a
// machine decides for itself (when memtables are flushed, where a checkpoint lies) does not show here: equal logs give
// equal states, and equal digests.
//
// The state is small. What grows with the number of messages lies in files that follow the fold, and the fold tells
// them through an Index: units of ConsumeQueues, entries of waiting messages, state bits.
//
// # State record
//
// The first batches of a segment hold the state in one canonical encoding (encode.go), cut into parts; so any suffix of
// the log that starts at a segment is complete, and the head can be deleted. Integers are varints, signed ones zigzag;
// lists have their length first and are sorted by id, so that equal states have equal bytes.
//
//	version                            1
//	end, logMs, wallMs, rolled         position after the seal; clocks; R
//	nextID, nextTopic, nextGroup
//	putCount, putBytes, pending, dropped
//	lanes    n × (due, id)             frontiers
//	levels   n × (delay, tail)         greatest due time that went into the schedule queue of a delay
//	topics   n × (id, attrs, count, name, pending, queues n × (min, next))
//	groups   n × (id, attrs, name)
//	offsets  n × (group, topic, queue, offset)
//	segments n × (base, end, visible, opened, sealed)
//	chunks   n × run (first, length, closed) of closed ones, and (pending, changed, changedAt) of open ones
//	steps    n × (logMs, wallMs)       how the two clocks lay to each other
//	holes    n × (from, to)
//	hours    n × (hour, count)         waiting messages by the hour of their due time, since 1970; zeros are left out
//	settled  n × (group, topic, queue, ranges n × (gap, length))   from version 2 on: offsets above the committed one
//	                                   that are settled. The gap is from the range before, or from the committed offset
//
// Rule for growth: a new field goes to the end and raises the version; a reader refuses a version it does not know. A state is
// encoded in the first version that can say it, so that what older writers wrote stays as it is: version 2 is for a state
// that has a stage (a topic whose name begins with record.StagePrefix) or something settled.
package state

package engine

import (
	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/handle"
)

// Offset is a byte position in the CommitLog. An answer may leave when the log is released up to the position that came
// with it.
type Offset = commitlog.Offset

// AnyQueue lets the writer choose: round robin.
const AnyQueue = -1

// Command is one thing to do, given to Append: *Put, *Cancel, *Move, *Undo, *CommitOffset, *DefineTopic, *DeleteTopic,
// *PauseTopic, *StageTopic, *DefineGroup, *DeleteGroup, *Settle or *MarkHole. The engine only reads it, and keeps nothing of it after Append returns.
type Command interface{ command() }

// Put stores a message. Without a level it is visible in its topic at once; with one, after the level's delay. In a topic that is
// staged it always waits: without a delay it is due at once, and goes through the stage.
type Put struct {
	Topic string
	Queue int // AnyQueue, or 0 and up to the topic's last
	// At most one of the three is set; none: the message is visible at once.
	//
	// Level is the delay level: 1 the table's first; above the last it counts as the last and the answer says so;
	// negative is an error. DueMs is a time, ms since 1970; one that is past counts as now. DelayMs is a delay in ms from
	// the moment of storing. Both may lie at most Options.MaxDelay ahead.
	Level          int
	DueMs, DelayMs int64

	Key, Tag   []byte // at most 127 bytes each
	Properties []byte // encoded by message.AppendProperty, at most 32 KiB
	Body       []byte // at most 4 MiB

	BornMs            int64 // the producer's clock; 0: the time of storing
	BornHost          []byte
	UserFlag, SysFlag uint32
	Attempts          uint16

	// IdempotencyKey, if any, names the put within its topic for Options.IdempotencyWindow, at most 255 bytes. The caller
	// has looked for it (Engine.FindKey) and found nothing; KeySince is the position that came with that. If a put with the
	// key may have come since, this one is refused with ErrKey: look again.
	IdempotencyKey []byte
	KeySince       Offset

	// Unstaged goes round the stage: the message is visible at once also in a topic that is staged. It has no delay.
	Unstaged bool

	// Then is done right behind the message and in the same batch, if that is stored: the commit of what the message is
	// a copy of, say. It has no answer of its own. Nil: nothing.
	Then Command
}

// Cancel takes back a message that is not delivered yet. The handle has been opened by Engine.OpenHandle.
type Cancel struct{ Handle handle.Handle }

// Move gives a pending message another due time: the old handle is superseded, the answer has the new one. The caller
// has read the message (Engine.ReadPending) before, since the writer reads no bodies. To fire a message is to move it to
// now.
type Move struct {
	Handle handle.Handle
	DueMs  int64 // ms since 1970; in the past: now
	Record Pending
}

// Undo takes back a cancel, until the message's due time and while its body is in the log: the message waits again under a
// new id, and the old handle is superseded. The caller has read it (Engine.ReadCancelled) before.
type Undo struct {
	Handle handle.Handle
	Record Pending
}

// CommitOffset sets a group's next offset in a queue; where offsets from there on are settled (Settle), it is the first that
// is not. Going back needs Seek, and a seek forgets what is settled in the queue, whichever way it goes.
type CommitOffset struct {
	Group   string
	Topic   string
	TopicID uint32 // if not 0, the topic must be this one, and not another that was made later under the name
	Queue   int
	Offset  int64
	Seek    bool
}

// DefineTopic makes a topic, or changes its number of queues.
type DefineTopic struct {
	Topic  string
	Queues int    // 1 to 65,536
	Attrs  uint32 // of the host, below 1<<24
}

// PauseTopic keeps groups from reading a topic, or lets them again, until the next one; its messages are stored and
// delivered all the same. The engine records it and says it (TopicInfo.Paused, Engine.Paused); it is the host that does
// not read.
type PauseTopic struct {
	Topic  string
	Paused bool
}

// DeleteTopic removes a topic with its queues and committed offsets. Messages waiting for it are dropped when due.
// A topic made later under the same name is another one.
type DeleteTopic struct{ Topic string }

// DefineGroup makes a consumer group, or changes its attributes; a CommitOffset of an unknown group makes it with none. A
// group with record.GroupBroadcast and messages with a delay exclude each other in a topic: while such a group has an offset
// in it, a put with a level, a due time or a delay is refused with ErrBroadcast; while messages wait for it, so is the
// group's first offset. Of topics whose names begin with "%" neither holds.
type DefineGroup struct {
	Group string
	Attrs uint32 // record.GroupBroadcast, and bits of the host
}

// MarkHole records that the bytes of one message cannot be read: from then on a pull has it with Err ErrHole, and goes on
// behind it.
type MarkHole struct {
	From, To Offset
	Reason   string
}

func (*Put) command()          {}
func (*Cancel) command()       {}
func (*Move) command()         {}
func (*Undo) command()         {}
func (*CommitOffset) command() {}
func (*DefineTopic) command()  {}
func (*DeleteTopic) command()  {}
func (*PauseTopic) command()   {}
func (*DefineGroup) command()  {}
func (*MarkHole) command()     {}

// Outcome is what became of a command.
type Outcome uint8

// The outcomes. Cancel and move answer Cancelled, Moved, AlreadyCancelled, Superseded, Delivered or NotFound.
const (
	Refused          Outcome = iota // Answer.Err says why; nothing happened
	Stored                          // put, visible at once
	Scheduled                       // put, waits until Answer.DueMs
	Cancelled                       //
	Moved                           // the new handle is Answer.Handle()
	AlreadyCancelled                //
	Superseded                      // it was moved; the newer handle counts
	Delivered                       // too late: it is in its topic, in the stage, or in the batch on the way there
	NotFound                        // unknown, forged, or forgotten after the retention
	Done                            // topics, groups, offsets, holes
	Restored                        // the cancel is undone; the new handle is Answer.Handle()
)

// Answer belongs to the command of the same index. It is a promise only when the log is released up to the position
// that Append returned.
type Answer struct {
	Outcome Outcome
	Err     error // set when Outcome is Refused

	Topic, Queue uint32
	Offset       int64  // queue offset of a message visible at once; -1 while it waits
	Position     Offset // of the message's record
	Size         int32  // bytes of the record
	ID           uint64 // number of a waiting message
	DueMs        int64
	Lane         uint8
	Level        int  // the level that was applied
	Clamped      bool // the level asked for was above the last
}

// Handle is the unsigned handle of a scheduled or moved message; Engine.SealHandle signs it.
func (a Answer) Handle() handle.Handle {
	return handle.Handle{Lane: a.Lane, Topic: a.Topic, ID: a.ID, Due: a.DueMs, Position: a.Position}
}

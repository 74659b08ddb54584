package record

import (
	"fmt"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/message"
)

// The kinds, after message.KindMessage, which is 1. They are part of the format, do not change.
const (
	KindDeliver   commitlog.Kind = 2  // messages became visible
	KindCancel    commitlog.Kind = 3  // a waiting message was taken back
	KindSupersede commitlog.Kind = 4  // a waiting message was moved: its new record follows in the batch
	KindTopic     commitlog.Kind = 5  // a topic was made, changed or deleted
	KindGroup     commitlog.Kind = 6  // a consumer group was made, changed or deleted
	KindCommit    commitlog.Kind = 7  // a group's next offset in a queue
	KindRoll      commitlog.Kind = 8  // what waits below a position has been copied
	KindTrim      commitlog.Kind = 9  // the log begins later
	KindState     commitlog.Kind = 10 // a part of the state at the begin of a segment
	KindHole      commitlog.Kind = 11 // bytes of the log that cannot be read
	KindVerdict   commitlog.Kind = 12 // what plugins decided about messages of a queue
	KindClaim     commitlog.Kind = 13 // reserved: a writer of a cluster takes over
	KindUndo      commitlog.Kind = 14 // a cancel was taken back: the message's new record follows in the batch
)

// names by kind.
var names = [...]string{
	message.KindMessage: "message",
	KindDeliver:         "deliver",
	KindCancel:          "cancel",
	KindSupersede:       "supersede",
	KindTopic:           "topic",
	KindGroup:           "group",
	KindCommit:          "commit",
	KindRoll:            "roll",
	KindTrim:            "trim",
	KindState:           "state",
	KindHole:            "hole",
	KindVerdict:         "verdict",
	KindClaim:           "claim",
	KindUndo:            "undo",
}

// Name is the word for a kind, messages included; "kind 99" for one that this version does not know.
func Name(k commitlog.Kind) string {
	if int(k) < len(names) && names[k] != "" {
		return names[k]
	}
	return fmt.Sprintf("kind %d", k)
}

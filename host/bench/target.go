package bench

import (
	"context"
	"encoding/hex"
	"errors"
	"time"
)

// Names of topics. Those of a load end in the nonce of the run, so that a store can be used again.
const (
	pendingTopic = "bench-pending"
	loadTopic    = "bench-load-"
	// filteredTopic is of a load that a plugin decides about, besideTopic of what fires beside a load.
	filteredTopic = "bench-filtered-"
	besideTopic   = "bench-beside-"
)

// queuesOf is how many queues a topic of a load has.
const queuesOf = 4

// letter is a message of a load: its number, and when it is due, ms since 1970; 0: at once.
type letter struct {
	number int
	dueMs  int64
}

// target is a store under load. It is safe for concurrent use.
type target interface {
	// sender makes a connection for one goroutine.
	sender(topic, nonce string, body int) (sender, error)
	// define makes a topic.
	define(ctx context.Context, topic string) error
	// reader makes a reader of one queue, or with a queue below 0 of all queues of a topic, from their first messages.
	reader(topic string, queue int) reader
	// pending counts what waits, of all topics.
	pending(ctx context.Context) (int, error)
	// waiting counts what waits in a topic, by looking at each message.
	waiting(ctx context.Context, topic string) (int, error)
}

// sender sends for one goroutine.
type sender interface {
	// send stores letters; nil when all are durable, or as durable as was asked for.
	send(ctx context.Context, letters []letter) error
	close()
}

// reader reads for one goroutine.
type reader interface {
	// read calls see for each message that it reads, and waits a while when there is none. It returns how many.
	read(ctx context.Context, wait time.Duration, see func(body []byte) error) (int, error)
}

// The body of a letter is text: the run's nonce, the number and the due time, 16 digits each, and filling.
const (
	nonceSize = 16
	minBody   = 3 * nonceSize
)

// appendBody makes the first bytes of a letter's body.
func appendBody(b []byte, nonce string, l letter) []byte {
	b = append(b, nonce...)
	b = appendHex(b, uint64(l.number))
	return appendHex(b, uint64(l.dueMs))
}

// appendHex writes 16 digits.
func appendHex(b []byte, v uint64) []byte {
	var raw [8]byte
	for i := range raw {
		raw[i] = byte(v >> (56 - 8*i))
	}
	return hex.AppendEncode(b, raw[:])
}

// errBody says that a message in the topic of a load is none of its letters.
var errBody = errors.New("bench: a message in the load's topic is none of the load's")

// parseBody reads a letter.
func parseBody(b []byte, nonce string) (letter, error) {
	if len(b) < minBody || string(b[:nonceSize]) != nonce {
		return letter{}, errBody
	}
	number, ok := parseHex(b[nonceSize : 2*nonceSize])
	due, ok2 := parseHex(b[2*nonceSize : minBody])
	if !ok || !ok2 || number >= maxNumbers {
		return letter{}, errBody
	}
	return letter{int(number), int64(due)}, nil
}

func parseHex(b []byte) (uint64, bool) {
	var raw [8]byte
	if _, err := hex.Decode(raw[:], b); err != nil {
		return 0, false
	}
	v := uint64(0)
	for _, c := range raw {
		v = v<<8 | uint64(c)
	}
	return v, true
}

package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/message"
)

// ErrIdempotencyMismatch is the kind of the error of a put whose idempotency key another message of the topic has, with
// another body, key, tag or properties. The time is not compared: whoever repeats a put may well ask for "in half an hour"
// again, and the receipt says when the message that is there is due.
var ErrIdempotencyMismatch = errors.New("broker: the idempotency key belongs to another message")

// keyTries is how often a key is looked for again because another put with it may have come meanwhile.
const keyTries = 16

// look answers the messages that were stored before, and returns the others.
func (p *batchPut) look(ctx context.Context, todo []int) (rest []int, err error) {
	rest = todo[:0]
	for _, i := range todo {
		if len(p.puts[i].IdempotencyKey) == 0 {
			rest = append(rest, i)
			continue
		}
		found, err := p.find(ctx, i)
		if err != nil {
			return nil, err
		}
		if !found {
			rest = append(rest, i)
		}
	}
	return rest, nil
}

// find looks for the message of a key and answers with it. A message whose key cannot be looked for is refused.
func (p *batchPut) find(ctx context.Context, i int) (found bool, err error) {
	b, m, put := p.b, &p.messages[i], &p.puts[i]
	if err := b.enter(); err != nil {
		return false, err
	}
	f, err := b.e.FindKey(put.Topic, put.IdempotencyKey)
	b.leave()
	if err != nil {
		p.receipts[i].Err = fmt.Errorf("broker: %w", err)
		return true, nil
	}
	put.KeySince = f.Position
	if !f.Found {
		return false, nil
	}
	if err := b.gate.wait(ctx, f.Position); err != nil { // it may have come just now
		return false, err
	}
	if !p.repeats(i, &f.Message) {
		p.receipts[i].Err = fmt.Errorf("%w: key %q of topic %q is that of message %s", ErrIdempotencyMismatch,
			m.IdempotencyKey, put.Topic, b.ID(f.Answer.Position))
		return true, nil
	}
	p.answered(i, f.Answer)
	p.receipts[i].Replayed = true
	return true, nil
}

// repeats says whether a message is what the producer's put has made: it may be that as it was put, or changed by a hook.
func (p *batchPut) repeats(i int, m *message.Message) bool {
	var own engine.Put
	if p.messages[i].put(&own) != nil {
		return false
	}
	if digest, changed := m.Properties.Lookup(PropPut); changed {
		return string(digest) == contentDigest(&own)
	}
	return sameContent(&own, m)
}

// sameContent says whether a put is a repetition.
func sameContent(p *engine.Put, m *message.Message) bool {
	return bytes.Equal(p.Body, m.Body) && bytes.Equal(p.Key, m.Key) && bytes.Equal(p.Tag, m.Tag) && bytes.Equal(p.Properties, m.Properties)
}

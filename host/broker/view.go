package broker

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidewheel/tidewheel/engine"
)

// View reads a message by its id (Receipt.ID) while its first record is in the log. The message is a copy and belongs to
// the caller; it has no Offset. engine.ErrPending: it waits, or was not durable yet. engine.ErrNoMessage: the id is none
// of this store, the message was taken back, or its record was deleted.
func (b *Broker) View(id string) (engine.Message, error) {
	if err := b.enter(); err != nil {
		return engine.Message{}, err
	}
	defer b.leave()
	pos, err := b.position(id)
	if err != nil {
		return engine.Message{}, err
	}
	m, err := b.e.View(pos, new(engine.Pulled))
	if errors.Is(err, engine.ErrCorrupt) || err == nil && m.First != pos {
		// Whoever makes up an id points anywhere: what is there looks like damage, and mostly is none.
		return engine.Message{}, fmt.Errorf("broker: %w: there is no message at %s: %v", engine.ErrNoMessage, id, err)
	}
	if err != nil {
		return engine.Message{}, fmt.Errorf("broker: message %s: %w", id, err)
	}
	return m, nil
}

// position is where an id says that the message is.
func (b *Broker) position(id string) (engine.Offset, error) {
	store, first, ok := strings.Cut(id, "-")
	pos, err := strconv.ParseInt(first, 16, 64)
	if !ok || err != nil || store != strconv.FormatUint(b.e.StoreID(), 16) || b.ID(engine.Offset(pos)) != id {
		return 0, fmt.Errorf("broker: %w: %q is no id of this store", engine.ErrNoMessage, id)
	}
	return engine.Offset(pos), nil
}

package broker

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tidewheel/tidewheel/engine"
)

// ErrDropped is the kind of the refusal of a message that a publish hook does not want. Its text names who decided, the code
// and the reason, and says whether the message lies among the dead letters of the plugin.
var ErrDropped = errors.New("broker: refused by a plugin")

// ErrPlugin is the kind of the refusal of a message about which a publish hook decides nothing at the moment: it is held
// back until it does. Nothing was stored; the same put may be tried again.
var ErrPlugin = errors.New("broker: the plugin that decides about the topic's messages is not available")

// Hooks decide about messages on their way: before they are stored, when they are due, and before a group gets them. The
// methods are called by the goroutines of callers and of the broker's workers, several at once, and never by the writer: a
// slow hook holds up the topic or the group that it decides about, and nothing else.
//
// The methods that decide answer for the messages in their order, and for as many from the first on as they can: a Decision
// with the zero Action, and what the answer is too short for, is undecided and asked again later, as all is after an error.
// They must return soon after their context has ended. Messages belong to the caller, are only read, and not kept after the
// return; what a Decision refers to must not change any more after it.
type Hooks interface {
	// Publishes says whether Publish decides about messages that are put into a topic.
	Publishes(topic string) bool
	// Publish decides about messages that are being put into a topic, before they are stored. The messages are as the
	// producer made them. What a put repeats by its idempotency key is not asked about.
	Publish(ctx context.Context, topic string, messages []*Message) ([]Decision, error)

	// Stages says whether Due decides about messages of a topic when they are due. It is asked by the writer too, when a
	// topic is made: it must answer at once.
	Stages(topic string) bool
	// Due decides about messages of a topic that are due and not visible yet. The decision that is in the log first counts,
	// for ever; a message whose decision a crash took is asked about again.
	Due(ctx context.Context, topic string, messages []engine.Message) ([]Decision, error)

	// Consumes says whether Consume decides about what a group is given of a topic.
	Consumes(group, topic string) bool
	// Consume decides about messages of a topic that a group is about to get.
	Consume(ctx context.Context, group, topic string, messages []engine.Message) ([]Decision, error)
}

// Action is what becomes of a message. The numbers are those of the verdicts of plugins, and stand in the log.
type Action uint8

// The actions.
const (
	Undecided        Action = 0 // nothing yet: ask again
	ActionKeep       Action = 1 // it goes on; of a Settlement: the message is done with
	ActionDrop       Action = 2 // it is forgotten
	ActionRetry      Action = 3 // after Decision.Delay it is asked about again
	ActionDeadLetter Action = 4 // it goes to the dead letters
	ActionRoute      Action = 5 // it goes to Decision.Topic instead
	ActionReplace    Action = 6 // it goes on with the content of Decision.Message
)

// actions are their words, which stand in events and metrics.
var actions = [...]string{"undecided", "keep", "drop", "retry", "dead_letter", "route", "replace"}

// String is the action's word: keep, drop, retry, dead_letter, route or replace.
func (a Action) String() string {
	if int(a) < len(actions) {
		return actions[a]
	}
	return fmt.Sprintf("action %d", uint8(a))
}

// Decision is what was decided about a message.
type Decision struct {
	Action Action
	Code   uint16     // why, as a number of the plugin's own
	Plugin string     // the name of who decided; its dead letters are those of the group plugin-NAME
	Digest [32]byte   // SHA-256 of its file
	Asked  [][32]byte // SHA-256 of the file of each that was asked, in order, Digest included; may be shared between decisions

	Delay   time.Duration // of ActionRetry: at least 1 ms, and at most the broker's MaxDelay counts
	Topic   string        // of ActionRoute
	Message *Content      // of ActionReplace; of ActionRoute, if it is to go there changed, else nil
	Reason  string        // for people, in dead letters and refusals; up to 512 bytes are kept
}

// Content is what a hook may change of a message.
type Content struct {
	Key, Tag   string            // at most 127 bytes each
	Properties map[string]string // all there are; names that the broker uses itself are passed over
	Body       []byte            // at most 4 MiB
}

// PluginGroup is the name of the group that the dead letters of a plugin belong to.
func PluginGroup(plugin string) string { return "plugin-" + plugin }

// dropped is the refusal that a decision makes.
func (d *Decision) dropped(where string) error {
	text := fmt.Sprintf("plugin %q, code %d", d.Plugin, d.Code)
	if d.Reason != "" {
		text += ": " + tidyReason(d.Reason)
	}
	if where != "" {
		text += " (it lies in " + where + ")"
	}
	return fmt.Errorf("%w: %s", ErrDropped, text)
}

// properties say in a dead letter who decided, and where.
func (d *Decision) properties(hook string) []property {
	return []property{
		{PropHook, hook}, {PropPlugin, d.Plugin}, {PropCode, strconv.Itoa(int(d.Code))}, {PropDigest, hex.EncodeToString(d.Digest[:])},
	}
}

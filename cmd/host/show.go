package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/client"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

func (a *app) show() *cobra.Command {
	var f timeFlags
	var key, topic string
	cmd := &cobra.Command{
		Use:   "show HANDLE | ID | --key KEY [--topic TOPIC]",
		Short: "Show a message: its state, when it is due, its properties and body",
		Long: `Show a delayed message: its state, when it is due, and while it waits its properties and body. A cancelled one has
its body as long as it is in the log; of one that was due it says what became of it, since a plugin may have decided otherwise, and
explain tells where it is. With --key it is the one that waits and has
this key; if there are several, it lists their handles. A message that is visible is shown by its ID, which put and consume tell
with -o json.`,
		Example: `  tidewheel show tw1.AQAAAAAB...
  tidewheel show --key order-42
  tidewheel show tw1.AQAAAAAB... -o json | jq -r .body`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == (key != "") || topic != "" && key == "" {
				return fmt.Errorf("%w: show needs a HANDLE, an ID, or --key", errUsage)
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.CloseIdle()
			if _, err := f.zone(); err != nil {
				return err
			}
			if key != "" {
				handle, err := a.byKey(cmd.Context(), c, topic, key)
				if err != nil {
					return err
				}
				args = []string{handle}
			}
			if !strings.Contains(args[0], ".") && strings.Contains(args[0], "-") { // handles have a dot
				m, err := c.Message(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.one(m, func(w io.Writer) { messageTable(w, &m, &f) })
			}
			t, err := c.Timer(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			newer, why := "", ""
			switch {
			case a.format != formatTable:
			case t.State == httpapi.StateSuperseded:
				newer, err = newest(cmd.Context(), c, args[0])
			case t.State == httpapi.StateDelivered:
				var x httpapi.Explanation
				x, err = c.Explain(cmd.Context(), args[0])
				why = x.Reason // a plugin may have decided otherwise
			}
			if err != nil {
				return err
			}
			return a.one(t, func(w io.Writer) {
				timerTable(w, &t, &f)
				if newer != "" {
					fmt.Fprintf(w, "new handle\t%s\n", newer)
				}
				if why != "" {
					fmt.Fprintf(w, "what became of it\t%s\n", why)
				}
			})
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "the one that waits and has this key")
	cmd.Flags().StringVar(&topic, "topic", "", "of --key: only in this topic")
	f.addZone(cmd)
	return a.reads(a.withURL(cmd))
}

// newestHops is how many moves of a message are followed.
const newestHops = 16

// newest follows a superseded handle to the one that counts now, as far as the log tells; "" if it does not.
func newest(ctx context.Context, c *client.Client, handle string) (newer string, err error) {
	for range newestHops {
		x, err := c.Explain(ctx, handle)
		if err != nil {
			return "", err
		}
		if x.NewHandle == "" {
			break
		}
		newer, handle = x.NewHandle, x.NewHandle
	}
	return newer, nil
}

// keyMost is how many handles of one key are listed.
const keyMost = 20

// byKey finds the one message that waits and has a key. A list compares hashes, so each is looked at.
func (a *app) byKey(ctx context.Context, c *client.Client, topic, key string) (string, error) {
	var found []string
	for w, err := range c.Timers(ctx, client.List{Topic: topic, Key: key}) {
		if err != nil {
			return "", err
		}
		t, err := c.Timer(ctx, w.Handle)
		if err != nil {
			return "", err
		}
		if t.Key == key && t.State == httpapi.StateScheduled {
			found = append(found, fmt.Sprintf("%s due %s", w.Handle, w.Due))
		}
		if len(found) == keyMost {
			break
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("%w: no message waits that has the key %q", errNotFound, key)
	case 1:
		handle, _, _ := strings.Cut(found[0], " ")
		return handle, nil
	}
	more := ""
	if len(found) == keyMost {
		more = " or more"
	}
	return "", fmt.Errorf("%d messages%s wait with the key %q:\n%s", len(found), more, key, strings.Join(found, "\n"))
}

func timerTable(w io.Writer, t *httpapi.Timer, f *timeFlags) {
	in := ""
	if t.DueIn != "" {
		in = ", in " + t.DueIn
	}
	fmt.Fprintf(w, "%s\tdue %s%s\n", t.State, f.due(t.DueMs), in)
	fmt.Fprintf(w, "topic\t%s\n", dash(t.Topic, 0))
	if t.Queue == nil {
		return // only the handle is known
	}
	fmt.Fprintf(w, "queue\t%d\n", *t.Queue)
	contentTable(w, f, t.Key, t.Tag, t.StoredMs, t.DelayLevel, t.Properties, t.Bytes())
}

// messageTable shows a message by its id.
func messageTable(w io.Writer, m *httpapi.StoredMessage, f *timeFlags) {
	fmt.Fprintf(w, "visible\tin %s, queue %d\n", dash(m.Topic, 0), m.Queue)
	if m.DueMs != 0 {
		fmt.Fprintf(w, "due\t%s\n", f.due(m.DueMs))
	}
	body := httpapi.Message{Body: m.Body, BodyBase64: m.BodyBase64}
	contentTable(w, f, m.Key, m.Tag, m.StoredMs, m.DelayLevel, m.Properties, body.Bytes())
}

// contentTable shows what a producer gave.
func contentTable(w io.Writer, f *timeFlags, key, tag string, storedMs int64, level int, properties map[string]string, body []byte) {
	fmt.Fprintf(w, "key\t%s\n", dash(key, 0))
	fmt.Fprintf(w, "tag\t%s\n", dash(tag, 0))
	fmt.Fprintf(w, "stored\t%s\n", f.due(storedMs))
	if level > 0 {
		fmt.Fprintf(w, "level\t%d\n", level)
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		fmt.Fprintf(w, "property\t%s=%s\n", cell(name, 80), cell(properties[name], 200))
	}
	if !utf8.Valid(body) {
		fmt.Fprintf(w, "body\t(%d bytes)\n", len(body))
		return
	}
	fmt.Fprintf(w, "body\t%s\n", cell(string(body), 1000))
}

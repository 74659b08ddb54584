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
		Use:   "show HANDLE | --key KEY [--topic TOPIC]",
		Short: "Show a delayed message: its state, when it is due, its properties and body",
		Long: `Show a delayed message: its state, when it is due, and while it waits its properties and body. A cancelled one has
its body as long as it is in the log; explain tells where a delivered one is. With --key it is the one that waits and has
this key; if there are several, it lists their handles.`,
		Example: `  tidewheel show tw1.AQAAAAAB...
  tidewheel show --key order-42
  tidewheel show tw1.AQAAAAAB... -o json | jq -r .body`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == (key != "") || topic != "" && key == "" {
				return fmt.Errorf("%w: show needs a HANDLE, or --key", errUsage)
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
			t, err := c.Timer(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.one(t, func(w io.Writer) { timerTable(w, &t, &f) })
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "the one that waits and has this key")
	cmd.Flags().StringVar(&topic, "topic", "", "of --key: only in this topic")
	f.addZone(cmd)
	return a.reads(a.withURL(cmd))
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
	fmt.Fprintf(w, "key\t%s\n", dash(t.Key, 0))
	fmt.Fprintf(w, "tag\t%s\n", dash(t.Tag, 0))
	fmt.Fprintf(w, "stored\t%s\n", f.due(t.StoredMs))
	if t.DelayLevel > 0 {
		fmt.Fprintf(w, "level\t%d\n", t.DelayLevel)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Properties)) {
		fmt.Fprintf(w, "property\t%s=%s\n", cell(name, 80), cell(t.Properties[name], 200))
	}
	body := t.Bytes()
	if !utf8.Valid(body) {
		fmt.Fprintf(w, "body\t(%d bytes)\n", len(body))
		return
	}
	fmt.Fprintf(w, "body\t%s\n", cell(string(body), 1000))
}

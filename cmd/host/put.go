package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/client"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

// putFlags are what put takes.
type putFlags struct {
	level, queue   int
	key, tag       string
	idempotency    string
	when           timeFlags
	timed          httpapi.Time // of when
	properties     []string
	lines          bool
	levelSet, pins bool
}

func (a *app) put() *cobra.Command {
	var f putFlags
	cmd := &cobra.Command{
		Use:   "put TOPIC BODY|-",
		Short: "Store a message",
		Long: `Store a message; a body of - is read from standard input. It is durable when the command returns.

With --ndjson each line of the input is a message of its own, in JSON:
  {"body":"...","delay":"30m","key":"order-42","tag":"unpaid","properties":{"a":"b"}}
with one of delay, deliver_at, deliver_at_ms, delay_level, or none. The topic of a line counts if it has one. Each
line gets its result, and the exit code is 1 if one was refused. Lines are sent as they are read, some thousands at once.

With --idempotency-key a put can be repeated: the second one with the same key and the same message stores nothing and is
answered with the first one's result; with another message it is refused. In a line it is idempotency_key.

` + timeHelp,
		Example: `  tidewheel put orders '{"id":42}' --in 30m --key order-42 --tag unpaid
  tidewheel put orders '{"id":42}' --at "tomorrow 09:00" --tz Europe/Berlin
  tidewheel put orders '{"id":42}' --level 3
  tidewheel put orders '{"id":42}' --in 30m --idempotency-key order-42-reminder
  tidewheel put orders - --property source=shop < body.bin
  tidewheel put orders - --ndjson -o ndjson < many.ndjson`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.levelSet, f.pins = cmd.Flags().Changed("level"), cmd.Flags().Changed("queue")
			var err error
			if f.timed, err = f.when.time(); err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.CloseIdle()
			var in io.Reader = strings.NewReader(args[1])
			if args[1] == "-" {
				in = a.stdin
			}
			if f.lines {
				return a.putLines(cmd, c, args[0], in, f)
			}
			body, err := io.ReadAll(in)
			if err != nil {
				return fmt.Errorf("read standard input: %w", err)
			}
			return a.putOne(cmd, c, args[0], body, f)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&f.level, "level", 0, "delay level: 1 is the first (1s by default), 18 the last (2h); 0 is none")
	f.when.add(cmd, "visible")
	flags.StringVar(&f.key, "key", "", "what the message is about, at most 127 bytes")
	flags.StringVar(&f.tag, "tag", "", "what consumers filter by, at most 127 bytes")
	flags.StringVar(&f.idempotency, "idempotency-key", "", "makes a repeated put harmless")
	flags.IntVar(&f.queue, "queue", 0, "the topic's queue; the server chooses if not given")
	flags.StringArrayVar(&f.properties, "property", nil, "name=value, as often as needed")
	flags.BoolVar(&f.lines, "ndjson", false, "each line of the body is a message in JSON")
	return a.withURL(cmd)
}

// header says the flags in the server's words, which judges them.
func (f *putFlags) header() http.Header {
	h := http.Header{}
	set := func(name, value string) {
		if value != "" {
			h.Set(name, value)
		}
	}
	set(httpapi.HeaderKey, f.key)
	set(httpapi.HeaderTag, f.tag)
	set(httpapi.HeaderIdempotency, f.idempotency)
	if f.timed.Delay != nil {
		h.Set(httpapi.HeaderDelay, *f.timed.Delay)
	}
	if f.timed.DeliverAtMs != nil {
		h.Set(httpapi.HeaderMs, strconv.FormatInt(*f.timed.DeliverAtMs, 10))
	}
	if f.levelSet {
		h.Set(httpapi.HeaderLevel, strconv.Itoa(f.level))
	}
	if f.pins {
		h.Set(httpapi.HeaderQueue, strconv.Itoa(f.queue))
	}
	for _, p := range f.properties {
		h.Add(httpapi.HeaderProperty, p)
	}
	return h
}

// inFlags says a refusal in the words of who typed the command: a flag for a header, and the time as it was given.
func (f *putFlags) inFlags(err error) error {
	var p *httpapi.Problem
	if !errors.As(err, &p) {
		return err
	}
	said := *p
	given := func(flag, text string) {
		if said.Field = flag; text != "" {
			said.Got = text
		}
	}
	switch p.Field {
	case httpapi.HeaderDelay:
		given("--in", f.when.in)
		if f.when.in == "" {
			given("--at", f.when.at)
		}
	case httpapi.HeaderMs:
		given("--at", f.when.at)
	case httpapi.HeaderLevel:
		given("--level", "")
	case httpapi.HeaderKey:
		given("--key", "")
	case httpapi.HeaderTag:
		given("--tag", "")
	case httpapi.HeaderQueue:
		given("--queue", "")
	case httpapi.HeaderProperty:
		given("--property", "")
	case httpapi.HeaderIdempotency:
		given("--idempotency-key", "")
	}
	return &said
}

func (a *app) putOne(cmd *cobra.Command, c *client.Client, topic string, body []byte, f putFlags) error {
	s, err := c.PutRaw(cmd.Context(), topic, f.header(), body)
	if err != nil {
		return f.inFlags(err)
	}
	if s.Replayed {
		fmt.Fprintln(a.stderr, "stored before, with this idempotency key: nothing was done")
	}
	return a.one(s, func(w io.Writer) {
		if s.State == httpapi.StateScheduled {
			fmt.Fprintf(w, "scheduled\tdue %s, in %s%s\n", f.when.due(s.DueMs), s.DueIn, clamped(s.Clamped, s.DelayLevel))
			fmt.Fprintf(w, "handle\t%s\n", s.Handle)
			return
		}
		past := ""
		if s.Past {
			past = " (the time has passed)"
		}
		fmt.Fprintf(w, "visible\tin %s, queue %d, offset %d%s\n", s.Topic, s.Queue, *s.Offset, past)
	})
}

// clamped says that another level was applied than was asked for.
func clamped(yes bool, level int) string {
	if !yes {
		return ""
	}
	return fmt.Sprintf(" (the last level is %d)", level)
}

// What is sent at once, about; the server takes 8 MiB and 10,000 lines.
const (
	batchBytes = 1 << 20
	batchLines = 5000
)

// putLines sends NDJSON in batches of lines.
func (a *app) putLines(cmd *cobra.Command, c *client.Client, topic string, in io.Reader, f putFlags) error {
	if len(f.header()) > 0 {
		return fmt.Errorf("%w: with --ndjson each line says its own time, key, tag, queue and properties", errUsage)
	}
	out := a.list("LINE", "STATE", "DUE", "HANDLE").named("HANDLE").cut("HANDLE", 0)
	m := a.meter("put")
	defer m.end()
	r := bufio.NewReaderSize(in, 1<<16)
	refused, sent, ended := 0, 0, false
	for !ended {
		var batch []byte
		count := 0
		for !ended && len(batch) < batchBytes && count < batchLines {
			line, err := r.ReadBytes('\n')
			ended = err == io.EOF
			if err != nil && !ended {
				return errors.Join(fmt.Errorf("read standard input: %w", err), out.close())
			}
			if !ended || len(line) > 0 {
				count++
				batch = append(append(batch, withTopic(bytes.TrimSuffix(line, []byte("\n")), topic)...), '\n')
			}
		}
		results, err := c.PutBatch(cmd.Context(), batch)
		if err != nil {
			return errors.Join(fmt.Errorf("lines %d to %d: %w", sent+1, sent+count, err), out.close())
		}
		for _, r := range results {
			r.Line += sent
			if r.Problem != nil {
				refused++
			}
			if err := out.add(r, lineRow(r)...); err != nil {
				return err
			}
		}
		sent += count
		m.at(int64(sent), 0)
		if err := out.flush(); err != nil {
			return err
		}
	}
	if err := out.close(); err != nil {
		return err
	}
	if refused > 0 {
		return fmt.Errorf("%d lines were refused", refused)
	}
	return nil
}

// withTopic gives a line the topic if it has none. What is no object stays as it is, for the server to refuse.
func withTopic(line []byte, topic string) []byte {
	trimmed := bytes.TrimSpace(line)
	if len(trimmed) == 0 || trimmed[0] != '{' || hasTopic(trimmed) {
		return line
	}
	rest := bytes.TrimSpace(trimmed[1:])
	named := fmt.Appendf(nil, `{"topic":%q`, topic)
	if len(rest) > 0 && rest[0] != '}' {
		named = append(named, ',')
	}
	return append(named, rest...)
}

func lineRow(r httpapi.BatchResult) []string {
	if r.Problem != nil {
		return []string{whole(r.Line), "refused", "", r.Problem.Error()}
	}
	return []string{whole(r.Line), r.State, r.Due, r.Handle}
}

// hasTopic says whether an object has a topic, without judging the rest.
func hasTopic(object []byte) bool {
	var o struct {
		Topic *string `json:"topic"`
	}
	return json.Unmarshal(object, &o) == nil && o.Topic != nil
}

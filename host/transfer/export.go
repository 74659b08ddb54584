package transfer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/overlay"
)

// ExportOptions say what is exported. The zero value is all.
type ExportOptions struct {
	Topics  []string // only these; nil: all
	Waiting bool     // only messages that wait, and no offsets of groups
	// Progress hears how many messages are written, and how many there are. It may be nil.
	Progress func(done, total int64)
	// Damaged hears of each message that cannot be read and is left out, and of each range of the log that is. It may be nil.
	Damaged func(err error)
	// Scratch makes an empty file system, when the log is damaged where a server could not start: what has to be changed so
	// that the rest can be read is changed there, and the store stays as it is. Nil: such damage ends an export.
	Scratch func() (vfs.FS, error)
}

// Exported counts what was exported.
type Exported struct {
	Topics  int   `json:"topics"`
	Visible int64 `json:"visible"`
	Waiting int64 `json:"waiting"`
	Groups  int   `json:"groups"`
	Damaged int64 `json:"damaged"` // messages that could not be read
	Lost    int   `json:"lost"`    // ranges of the log that could not be read, with all that was in them
	Orphans int64 `json:"orphans"` // messages that wait for a topic that was deleted: they are left out
}

// exporter writes an export.
type exporter struct {
	e       *engine.Engine
	opts    ExportOptions
	out     *bufio.Writer
	line    bytes.Buffer
	n       Exported
	total   int64
	offsets map[queueName]map[string]int64 // of groups, by queue
	lags    map[queueName]map[string]int64
}

// queueName names a queue.
type queueName struct {
	topic string
	queue int
}

// Export writes what the store in a directory holds. The store is opened, as by a server: what a crash left is put in
// order, and nothing is delivered. After an error the lines that were written are good.
func Export(env engine.Env, dir string, w io.Writer, opts ExportOptions) (n Exported, err error) {
	e, err := engine.Open(env, dir, engine.Options{})
	if errors.Is(err, engine.ErrCorrupt) && opts.Scratch != nil {
		e, n.Lost, err = salvage(env, dir, opts)
	}
	if err != nil {
		return n, fmt.Errorf("transfer: export: %w", err)
	}
	x := &exporter{
		n: n, e: e, opts: opts, out: bufio.NewWriterSize(w, 1<<16), offsets: map[queueName]map[string]int64{}, lags: map[queueName]map[string]int64{},
	}
	err = errors.Join(x.run(), x.out.Flush(), e.Close())
	if err != nil {
		err = fmt.Errorf("transfer: export: %w", err)
	}
	return x.n, err
}

// salvage opens what can be read of a store, which it leaves as it is.
func salvage(env engine.Env, dir string, opts ExportOptions) (e *engine.Engine, lost int, err error) {
	scratch, err := opts.Scratch()
	if err != nil {
		return nil, 0, err
	}
	env.FS = overlay.New(env.FS, scratch)
	ranges, err := engine.Repair(env, dir, engine.Options{})
	if err != nil {
		return nil, 0, err
	}
	for _, l := range ranges {
		if opts.Damaged != nil {
			opts.Damaged(fmt.Errorf("the log from %d to %d, in %s: %s", l.From, l.To, l.File, l.Reason))
		}
	}
	e, err = engine.Open(env, dir, engine.Options{})
	return e, len(ranges), err
}

func (x *exporter) wanted(topic string) bool {
	return x.opts.Topics == nil || slices.Contains(x.opts.Topics, topic)
}

func (x *exporter) write(l Line) error {
	x.line.Reset()
	if err := l.encode(&x.line); err != nil {
		return err
	}
	_, err := x.out.Write(x.line.Bytes())
	return err
}

func (x *exporter) run() error {
	if err := x.write(Line{Kind: KindExport, Version: Version}); err != nil {
		return err
	}
	all, _ := x.e.Topics()
	var topics []engine.TopicInfo
	for _, t := range all {
		if isStage(t.Name) || !x.wanted(t.Name) {
			continue
		}
		topics = append(topics, t)
		x.total += t.Pending + t.StageLag
		for _, q := range t.Queues {
			if !x.opts.Waiting {
				x.total += q.Visible - q.Min
			}
		}
	}
	for _, name := range x.opts.Topics {
		if !slices.ContainsFunc(topics, func(t engine.TopicInfo) bool { return t.Name == name }) {
			return fmt.Errorf("%w: %q", engine.ErrNoTopic, name)
		}
	}
	groups, _ := x.e.Groups()
	for _, g := range groups {
		for _, o := range g.Offsets {
			q := queueName{o.Topic, o.Queue}
			if x.offsets[q] == nil {
				x.offsets[q], x.lags[q] = map[string]int64{}, map[string]int64{}
			}
			x.offsets[q][g.Name] = o.Offset
		}
	}
	for i := range topics {
		if err := x.topic(&topics[i]); err != nil {
			return err
		}
	}
	if !x.opts.Waiting {
		for i := range topics {
			if err := x.visible(&topics[i]); err != nil {
				return err
			}
		}
	}
	for i := range topics {
		if err := x.staged(topics[i].Name); err != nil {
			return err
		}
	}
	if err := x.waiting(); err != nil {
		return err
	}
	return x.groups(groups)
}

func (x *exporter) topic(t *engine.TopicInfo) error {
	l := Line{Kind: KindTopic, Topic: t.Name, Queues: t.Count, Attrs: t.Attrs, Paused: t.Paused, Staged: t.Staged}
	if len(t.Queues) > t.Count {
		l.All = len(t.Queues)
	}
	x.n.Topics++
	return x.write(l)
}

// visible writes the messages of a topic's queues.
func (x *exporter) visible(t *engine.TopicInfo) error {
	var p engine.Pulled
	for queue, info := range t.Queues {
		q := queueName{t.Name, queue}
		for at := info.Min; at < info.Visible; at = p.Next {
			req := engine.PullRequest{Topic: t.Name, Queue: queue, Offset: at, MaxCount: 1024, MaxBytes: 4 << 20}
			if err := x.e.Pull(req, &p); err != nil {
				return err
			}
			if p.Next <= at {
				break
			}
			for i := range p.Messages {
				m := &p.Messages[i]
				if m.Err != nil {
					x.damaged(fmt.Errorf("topic %s, queue %d, offset %d: %w", t.Name, queue, m.Offset, m.Err))
					continue
				}
				for group, committed := range x.offsets[q] {
					if m.Offset >= committed {
						x.lags[q][group]++
					}
				}
				l := ofMessage(t.Name, &m.Message)
				l.Queue, l.Offset = &queue, &m.Offset
				if err := x.write(l); err != nil {
					return err
				}
				x.n.Visible++
				x.progress()
			}
		}
	}
	return nil
}

// isStage says whether a topic or a group belongs to the stages, whose messages are exported with their topics.
func isStage(name string) bool { return strings.HasPrefix(name, engine.StagePrefix) }

// staged writes the messages that are in the stage of a topic and not decided, as ones that wait and are due.
func (x *exporter) staged(topic string) error {
	stage, _, _ := x.e.Topic(engine.StagePrefix + topic) // no queue if there is none
	var p engine.Pulled
	for queue, info := range stage.Queues {
		at, _, _ := x.e.Committed(engine.StageGroup, stage.Name, queue)
		ranges, _ := x.e.Settled(engine.StageGroup, stage.Name, queue)
		settled := func(offset int64) bool {
			return slices.ContainsFunc(ranges, func(r engine.OffsetRange) bool { return r.From <= offset && offset < r.To })
		}
		for at = max(at, info.Min); at < info.Visible; at = p.Next {
			req := engine.PullRequest{Topic: stage.Name, Queue: queue, Offset: at, MaxCount: 1024, MaxBytes: 4 << 20}
			if err := x.e.Pull(req, &p); err != nil {
				return err
			}
			if p.Next <= at {
				break
			}
			for i := range p.Messages {
				m := &p.Messages[i]
				if settled(m.Offset) {
					continue
				}
				if m.Err != nil {
					x.damaged(fmt.Errorf("topic %s, queue %d, offset %d: %w", stage.Name, queue, m.Offset, m.Err))
					continue
				}
				if err := x.scheduled(topic, &m.Message); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// waiting writes the messages that wait, in the order of their due times.
func (x *exporter) waiting() error {
	for token := ""; ; {
		page, err := x.e.Pending(engine.Filter{}, token, 1000)
		if err != nil {
			return err
		}
		for _, w := range page.Messages {
			if w.Topic == "" && x.opts.Topics == nil {
				x.n.Orphans++
			}
			if w.Topic == "" || !x.wanted(w.Topic) {
				continue
			}
			record, err := x.e.ReadPending(w.Handle)
			if err == nil {
				var m message.Message
				if m, err = record.Message(); err == nil {
					err = x.scheduled(w.Topic, &m)
				}
			}
			if errors.Is(err, engine.ErrCorrupt) {
				x.damaged(fmt.Errorf("topic %s, due at %d ms: %w", w.Topic, w.DueMs, err))
			} else if err != nil {
				return err
			}
		}
		if token = page.Next; token == "" {
			return nil
		}
	}
}

func (x *exporter) scheduled(topic string, m *message.Message) error {
	l := ofMessage(topic, m)
	l.State = StateScheduled
	if err := x.write(l); err != nil {
		return err
	}
	x.n.Waiting++
	x.progress()
	return nil
}

// groups writes the groups and how far they have come.
func (x *exporter) groups(groups []engine.GroupInfo) error {
	for _, g := range groups {
		if isStage(g.Name) {
			continue // the engine's own
		}
		x.n.Groups++
		if err := x.write(Line{Kind: KindGroup, Group: g.Name, Attrs: g.Attrs}); err != nil {
			return err
		}
		if x.opts.Waiting {
			continue
		}
		for _, o := range g.Offsets {
			if !x.wanted(o.Topic) || isStage(o.Topic) {
				continue
			}
			lag := x.lags[queueName{o.Topic, o.Queue}][g.Name]
			if err := x.write(Line{Kind: KindOffset, Group: g.Name, Topic: o.Topic, Queue: &o.Queue, Offset: &o.Offset, Lag: &lag}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *exporter) damaged(err error) {
	x.n.Damaged++
	if x.opts.Damaged != nil {
		x.opts.Damaged(err)
	}
}

func (x *exporter) progress() {
	if x.opts.Progress != nil {
		x.opts.Progress(x.n.Visible+x.n.Waiting, x.total)
	}
}

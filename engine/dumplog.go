package engine

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/state"
	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/engine/record"
	"github.com/tidewheel/tidewheel/engine/vfs"
)

// commitlog prints segments, batches and records. A segment whose header is damaged is passed over; so is what lies in a
// segment behind damage.
func (d *dumper) commitlog() {
	e := d.e
	hidden := &hiding{FS: e.fs}
	var l *commitlog.Log
	for {
		var err error
		l, err = commitlog.Open(hidden, e.path(logDir), e.meta.LogID, commitlog.Options{ReadOnly: true})
		if err == nil {
			break
		}
		d.problem(err)
		var c *corrupt.Error
		if !errors.As(err, &c) || !hidden.hide(c.File) {
			return
		}
	}
	defer func() { _ = l.Close() }() // only read
	p := &logPrinter{d: d, segments: l.Segments(), hidden: hidden.names}
	next := 0
	if len(hidden.names) == 0 && len(p.segments) > 0 {
		// As a restart reads it: that knows a torn tail from damage.
		rec, err := l.Recover(commitlog.Start{From: l.First()}, p.batch)
		if err == nil {
			p.finish(len(p.segments))
			if rec.Cut > 0 {
				d.item(0, "torn").pos("pos", rec.CutAt).num("size", rec.Cut).text("reason", rec.Reason).end()
			}
			return
		}
		next = p.failed(err)
	}
	for next < len(p.segments) && !d.failed() {
		err := l.Scan(p.segments[next].Base, 0, false, p.batch)
		if err == nil {
			next = len(p.segments)
		} else {
			next = p.failed(err)
		}
	}
	p.finish(len(p.segments))
}

// hiding is a file system without some files.
type hiding struct {
	vfs.FS
	names []string
}

func (h *hiding) hide(name string) bool {
	if slices.Contains(h.names, name) {
		return false
	}
	h.names = append(h.names, name)
	return true
}

// ReadDir lists what is not hidden.
func (h *hiding) ReadDir(name string) ([]vfs.Info, error) {
	infos, err := h.FS.ReadDir(name)
	return slices.DeleteFunc(infos, func(i vfs.Info) bool { return slices.Contains(h.names, path.Join(name, i.Name)) }), err
}

// logPrinter prints the log batch by batch.
type logPrinter struct {
	d        *dumper
	segments []commitlog.SegmentInfo
	printed  int      // segments whose line was printed
	hidden   []string // segments that cannot be opened: that was told
}

// finish prints the lines of the segments before the nth.
func (p *logPrinter) finish(n int) {
	for ; p.printed < n; p.printed++ {
		g := p.segments[p.printed]
		p.d.item(0, "segment").pos("base", g.Base).num("bytes", g.Bytes).word("file", g.Name).end()
	}
}

// failed prints why reading stopped, and says with which segment it can go on.
func (p *logPrinter) failed(err error) (next int) {
	if errors.Is(err, errStop) {
		return len(p.segments)
	}
	var c *corrupt.Error
	isDamage := errors.As(err, &c)
	if !isDamage || !slices.Contains(p.hidden, c.File) {
		p.d.problem(err)
	}
	if !isDamage {
		return len(p.segments)
	}
	base, _ := strconv.ParseInt(path.Base(c.File), 10, 64)
	next = slices.IndexFunc(p.segments, func(g commitlog.SegmentInfo) bool { return g.Base > Offset(base) })
	if next < p.printed { // the damage is told of a place that was read
		next = p.printed
	}
	p.finish(next)
	return next
}

func (p *logPrinter) batch(b *commitlog.Batch) error {
	d := p.d
	for p.printed < len(p.segments) && p.segments[p.printed].Base <= b.Base {
		p.finish(p.printed + 1)
	}
	if d.failed() {
		return errStop
	}
	l := d.item(1, "batch").pos("pos", b.Base).num("size", b.Length).when("append", b.AppendMs).big("logMs", b.LogMs).
		num("records", int64(b.Count)).pos("durableUpTo", b.DurableUpTo).num("incarnation", int64(b.Incarnation))
	for _, f := range []struct {
		flag uint16
		name string
	}{
		{commitlog.FlagSeal, "seal"}, {commitlog.FlagMustUnderstand, "mustUnderstand"}, {commitlog.FlagState, "state"},
		{commitlog.FlagStateEnd, "stateEnd"}, {commitlog.FlagHole, "hole"},
	} {
		l.is(f.name, b.Has(f.flag))
	}
	l.end()
	records := b.Records()
	for {
		r, ok, err := records.Next()
		if err != nil {
			d.problem(err)
			return nil
		}
		if !ok {
			return nil
		}
		p.record(&r)
	}
}

// record prints one record, and adds how far its payload could be read.
func (p *logPrinter) record(r *commitlog.Record) {
	d := p.d
	l := d.item(2, "record").pos("pos", r.Pos).num("size", int64(r.Size)).field("kind", record.Name(r.Kind), kindWidth, true)
	rest, err := d.payload(l, r)
	if err != nil {
		l.is("damaged", true)
	}
	l.end()
	if err != nil {
		d.problem(p.at(r, err))
		return
	}
	if rest != nil {
		rest()
	}
}

// at gives damage of a payload its file and byte.
func (p *logPrinter) at(r *commitlog.Record, err error) error {
	var c *corrupt.Error
	if !errors.As(err, &c) {
		return fmt.Errorf("record at %d: %w", r.Pos, err)
	}
	g := p.segments[max(p.printed-1, 0)]
	return corrupt.Errorf(g.Name, int64(r.Pos-g.Base)+commitlog.RecordHeaderSize+c.Offset, "%s: %s", c.File, c.Reason)
}

// payload adds the fields of a record, and returns what prints the lines that belong to it, nil if there are none.
func (d *dumper) payload(l item, r *commitlog.Record) (rest func(), err error) {
	switch r.Kind {
	case message.KindMessage:
		var m message.Message
		if err = message.Decode(r.Payload, &m); err == nil {
			d.message(l, &m)
		}
	case record.KindDeliver:
		v := &record.Deliver{}
		if err = v.Decode(r.Payload); err == nil {
			l.num("lane", int64(v.Lane)).key("frontier", v.Frontier).num("queues", int64(len(v.Queues))).num("items", int64(len(v.Items)))
			rest = func() { d.delivered(v) }
		}
	case record.KindCancel:
		var v record.Cancel
		if err = v.Decode(r.Payload); err == nil {
			d.taken(l, &v)
		}
	case record.KindSupersede, record.KindUndo:
		var v record.Supersede
		if err = v.Decode(r.Payload); err == nil {
			d.taken(l, &v.Cancel).ubig("newID", v.NewID)
		}
	case record.KindState:
		var v record.State
		if err = v.Decode(r.Payload); err == nil {
			rest, err = d.statePart(l, &v)
		}
	case record.KindVerdict:
		v := &record.Verdict{}
		if err = v.Decode(r.Payload); err == nil {
			l.word("group", d.group(v.Group)).word("topic", d.topic(v.Topic)).num("queue", int64(v.Queue)).num("items", int64(len(v.Items)))
			rest = func() { d.decided(v) }
		}
	case record.KindTrim:
		v := &record.Trim{}
		if err = v.Decode(r.Payload); err == nil {
			l.pos("head", v.Head).num("queues", int64(len(v.Mins)))
			rest = func() { d.trimmed(v) }
		}
	default:
		err = d.definition(l, r)
	}
	return rest, err
}

// definition adds the fields of the small kinds.
func (d *dumper) definition(l item, r *commitlog.Record) (err error) {
	switch r.Kind {
	case record.KindTopic:
		var v record.Topic
		if err = v.Decode(r.Payload); err == nil {
			if v.Op == record.Define {
				d.topics[v.ID] = v.Name
			}
			l.word("op", opName(v.Op)).num("id", int64(v.ID)).word("topic", d.topic(v.ID)).num("queues", int64(v.Queues)).
				num("attrs", int64(v.Attrs&record.TopicHost)).is("paused", v.Attrs&record.TopicPaused != 0).is("staged", v.Attrs&record.TopicStaged != 0)
		}
	case record.KindGroup:
		var v record.Group
		if err = v.Decode(r.Payload); err == nil {
			if v.Op == record.Define {
				d.groups[v.ID] = v.Name
			}
			l.word("op", opName(v.Op)).num("id", int64(v.ID)).word("group", d.group(v.ID)).num("attrs", int64(v.Attrs))
		}
	case record.KindCommit:
		var v record.Commit
		if err = v.Decode(r.Payload); err == nil {
			l.word("group", d.group(v.Group)).word("topic", d.topic(v.Topic)).num("queue", int64(v.Queue)).big("offset", v.Offset).is("seek", v.Seek)
		}
	case record.KindRoll:
		var v record.Roll
		if err = v.Decode(r.Payload); err == nil {
			l.pos("to", v.To)
		}
	case record.KindHole:
		var v record.Hole
		if err = v.Decode(r.Payload); err == nil {
			l.pos("from", v.From).pos("to", v.To).text("reason", v.Reason)
		}
	default:
		l.num("payload", int64(len(r.Payload)))
	}
	return err
}

func opName(op record.Op) string {
	return [...]string{record.Define: "define", record.Change: "change", record.Delete: "delete"}[op]
}

func (d *dumper) message(l item, m *message.Message) {
	if m.ID == 0 {
		l.word("topic", d.topic(m.Topic)).num("queue", int64(m.Queue)).big("offset", m.QueueOffset)
	} else {
		l.ubig("id", m.ID).when("due", m.DueMs).real(d.topic(m.Topic), m.Queue, m.Level).num("lane", int64(m.Lane))
		if m.Level > 0 {
			l.num("DELAY", int64(m.Level)).big("delayMs", m.DelayMs)
		}
		l.is("late", m.Flags&message.Late != 0).is("copy", m.Flags&message.Copy != 0).is("moved", m.Flags&message.Moved != 0)
		if m.Flags&message.Copy != 0 {
			l.pos("first", m.First)
		}
	}
	l.when("stored", m.StoreMs).when("born", m.BornMs)
	if len(m.BornHost) > 0 {
		l.word("host", hostName(m.BornHost))
	}
	if len(m.Tag) > 0 {
		l.text("tag", string(m.Tag))
	}
	if len(m.Key) > 0 {
		l.text("key", string(m.Key))
	}
	if m.Attempts > 0 {
		l.num("attempts", int64(m.Attempts))
	}
	if m.UserFlag != 0 || m.SysFlag != 0 {
		l.num("userFlag", int64(m.UserFlag)).num("sysFlag", int64(m.SysFlag))
	}
	l.properties(m.Properties).body(m.Body)
}

// hostName is address and port as people write them.
func hostName(b []byte) string {
	port := strconv.Itoa(int(b[len(b)-2])<<8 | int(b[len(b)-1]))
	if b = b[:len(b)-2]; len(b) == 4 {
		return fmt.Sprintf("%d.%d.%d.%d:%s", b[0], b[1], b[2], b[3], port)
	}
	var groups []string
	for ; len(b) >= 2; b = b[2:] {
		groups = append(groups, strconv.FormatUint(uint64(b[0])<<8|uint64(b[1]), 16))
	}
	return "[" + strings.Join(groups, ":") + "]:" + port
}

// delivered prints the items of a deliver record.
func (d *dumper) delivered(v *record.Deliver) {
	for i := range v.Items {
		it := &v.Items[i]
		q := &v.Queues[it.Queue] // its base counts up with the items
		l := d.item(3, "item").ubig("id", it.ID).when("due", it.Due).pos("pos", it.Position).num("size", int64(it.Size)).
			word("topic", d.topic(q.Topic))
		if q.Base == record.Gone {
			l.is("dropped", true)
		} else {
			l.num("queue", int64(q.Queue)).big("offset", q.Base)
			q.Base++
		}
		l.num("tags", int64(it.Tags)).is("late", it.Late).end()
	}
}

// decided prints the items of a verdict record: offset is where the message was settled, REAL_TOPIC where it became visible.
func (d *dumper) decided(v *record.Verdict) {
	base := v.Base
	for i := range v.Items {
		it := &v.Items[i]
		l := d.item(3, "item").big("offset", it.Offset).word("action", ActionName(it.Action)).num("code", int64(it.Code)).
			ubig("id", it.ID).when("due", it.Due).pos("pos", it.Position).num("size", int64(it.Size))
		if it.Kept {
			l.word("REAL_TOPIC", d.topic(v.Origin)).num("REAL_QID", int64(v.To)).big("REAL_OFFSET", base)
			base++
		}
		if it.Plugin != record.Nobody {
			l.word("digest", fmt.Sprintf("%x", v.Digests[it.Plugin]))
		}
		l.end()
	}
}

// taken adds the fields of a message that was taken back.
func (d *dumper) taken(l item, c *record.Cancel) item {
	return l.ubig("id", c.ID).when("due", c.Due).word("REAL_TOPIC", d.topic(c.Topic)).num("lane", int64(c.Lane))
}

func (d *dumper) trimmed(v *record.Trim) {
	for _, m := range v.Mins {
		d.item(3, "min").word("topic", d.topic(m.Topic)).num("queue", int64(m.Queue)).big("offset", m.Min).end()
	}
}

// statePart adds the fields of a part of a state record; the last part has what the state says.
func (d *dumper) statePart(l item, v *record.State) (rest func(), err error) {
	l.num("part", int64(v.Part)).num("parts", int64(v.Parts)).word("digest", fmt.Sprintf("%x", v.Digest)).num("bytes", int64(len(v.Data)))
	if v.Part == 0 {
		d.parts = d.parts[:0]
	}
	if d.parts = append(d.parts, v.Data...); v.Part != v.Parts-1 {
		return nil, nil
	}
	st := state.New(0)
	if err := st.Decode(d.parts); err != nil {
		return nil, err
	}
	d.learn(st)
	l.num("topics", int64(len(st.Topics))).num("groups", int64(len(st.Groups))).big("pending", st.Pending).ubig("nextID", st.NextID)
	return func() { d.state(3, st) }, nil
}

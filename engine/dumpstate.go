package engine

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/tidewheel/tidewheel/engine/consumequeue"
	"github.com/tidewheel/tidewheel/engine/internal/checkpoint"
	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/segment"
	"github.com/tidewheel/tidewheel/engine/internal/state"
	"github.com/tidewheel/tidewheel/engine/record"
	"github.com/tidewheel/tidewheel/engine/statebits"
)

// sectionNames are for people.
var sectionNames = [sectionKinds]string{
	sectionState: "state", sectionLocal: "local", sectionQueues: "consumequeue", sectionSchedule: "schedule",
	sectionTimers: "timerlog", sectionWheels: "timerwheel", sectionBits: "statebits", sectionBitsRedo: "statebits redo",
	sectionSeen: "seenbits", sectionSeenRedo: "seenbits redo", sectionKeyed: "idempotency",
}

// checkpoint prints both copies with their sections, and what is in the sections of each checkpoint, once.
func (d *dumper) checkpoint() {
	e := d.e
	var last *checkpoint.File
	for _, name := range []string{checkpoint.CopyA, checkpoint.CopyB} {
		f, err := checkpoint.LoadCopy(e.fs, e.path(checkpointDir), name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			d.item(0, "copy").word("copy", name).text("none", "the file is missing").end()
			continue
		case errors.Is(err, checkpoint.ErrNewerFormat):
			d.problem(fmt.Errorf("%w: %w", ErrNewer, err))
			continue
		case err != nil:
			d.problem(err)
			continue
		}
		d.item(0, "copy").word("copy", name).ubig("seq", f.Seq).pos("x", f.X).hex("store", f.StoreID).hex("log", f.LogID).
			num("version", int64(f.Version)).num("sections", int64(len(f.Sections))).end()
		for i := range f.Sections {
			s := &f.Sections[i]
			what := "unknown"
			if int(s.Kind) < len(sectionNames) && sectionNames[s.Kind] != "" {
				what = sectionNames[s.Kind]
			}
			d.item(1, "section").num("kind", int64(s.Kind)).text("name", what).num("bytes", s.Size()).
				is("mustUnderstand", s.Flags&checkpoint.MustUnderstand != 0).end()
		}
		if f.StoreID != e.meta.StoreID || f.LogID != e.meta.LogID {
			d.problem(corrupt.Errorf(path.Join(e.path(checkpointDir), name), 0, "the checkpoint is of another store"))
			continue
		}
		if last == nil || last.Seq != f.Seq || last.X != f.X {
			d.sections(f)
		}
		last = f
	}
}

// sections prints what a checkpoint says.
func (d *dumper) sections(f *checkpoint.File) {
	at, l, err := d.e.loadState(f)
	if err != nil {
		d.problem(err)
		return
	}
	d.learn(d.e.st)
	d.state(1, d.e.st)
	local := d.item(1, "local").hex("prevCRC", uint64(l.prevCRC)).ubig("oldestID", l.oldest).is("lossy", l.lossy)
	local.end()
	d.holes("lost", 1, l.lost)
	for _, q := range at.queues.Arrays {
		k := consumequeue.KeyOf(q.Number)
		d.array(d.item(1, "queue").word("topic", d.topic(k.Topic)).num("queue", int64(k.Queue)), q.State)
	}
	for _, q := range at.schedule.Arrays {
		d.array(d.item(1, "delay").big("delayMs", int64(q.Number)), q.State)
	}
	for lane, st := range at.lanes {
		for kind, t := range st.Tables[:min(len(st.Tables), len(families))] {
			entries, groups := 0, 0
			for _, ref := range t.Spills {
				entries += ref.Count
			}
			for _, run := range t.Runs {
				groups += len(run)
			}
			d.item(1, "table").num("lane", int64(lane)).word("family", families[kind]).num("files", int64(len(t.Files.Files))).
				num("spills", int64(len(t.Spills))).num("spilled", int64(entries)).num("runs", int64(len(t.Runs))).num("groups", int64(groups)).end()
		}
	}
	for i, r := range at.rings {
		d.item(1, "ring").num("lane", int64(1+i/2)).word("ring", families[1+i%2]).num("slots", int64(r.slots)).
			num("pages", int64(len(r.table))).num("redo", int64(len(r.redo))).end()
	}
	for _, b := range []struct {
		name string
		at   statebits.Table
		redo []statebits.Page
	}{{"statebits", at.bits, at.bitsRedo}, {"seenbits", at.seen, at.seenRedo}} {
		pages := uint64(0)
		for _, r := range b.at.Ranges {
			pages += r.End - r.First
		}
		d.item(1, "bits").word("name", b.name).ubig("pages", pages).num("redo", int64(len(b.redo))).end()
	}
	d.item(1, "keys").pos("low", at.keyed.Low).pos("memory", at.keyed.Memory).num("runs", int64(len(at.keyed.Runs))).end()
	for _, r := range at.keyed.Runs {
		d.item(1, "run").pos("from", r.From).pos("to", r.To).big("entries", r.Count).big("lastLogMs", r.LastMs).end()
	}
}

// array adds how far the files of a queue go and ends the line.
func (d *dumper) array(l item, s segment.State) {
	l.big("first", s.First).big("flushed", s.Flushed).num("tailBytes", int64(len(s.Tail))).end()
}

// state prints a state in lines of a depth.
func (d *dumper) state(depth int, st *state.State) {
	d.item(depth, "state").pos("end", st.End).big("logMs", st.LogMs).when("wall", st.WallMs).pos("rolledTo", st.Rolled).
		ubig("nextID", st.NextID).num("nextTopic", int64(st.NextTopic)).num("nextGroup", int64(st.NextGroup)).
		big("pending", st.Pending).big("dropped", st.Dropped).big("live", st.Live).big("credit", st.Credit).end()
	for i, k := range st.Lanes {
		d.item(depth, "lane").num("lane", int64(i)).key("frontier", k).end()
	}
	for _, delay := range slices.Sorted(maps.Keys(st.Levels)) {
		d.item(depth, "level").big("delayMs", delay).when("tail", st.Levels[delay]).end()
	}
	for _, id := range slices.Sorted(maps.Keys(st.Topics)) {
		t := st.Topics[id]
		d.item(depth, "topic").num("id", int64(id)).word("topic", t.Name).num("queues", int64(t.Count)).num("attrs", int64(t.Attrs&record.TopicHost)).
			is("paused", t.Paused()).is("staged", t.Staged()).big("pending", t.Pending).end()
		for i, q := range t.Queues {
			d.item(depth+1, "queue").word("topic", t.Name).num("queue", int64(i)).big("min", q.Min).big("max", q.Next).end()
		}
	}
	for _, id := range slices.Sorted(maps.Keys(st.Groups)) {
		g := st.Groups[id]
		d.item(depth, "group").num("id", int64(id)).word("group", g.Name).num("attrs", int64(g.Attrs)).end()
	}
	d.offsets(depth, st)
	for _, g := range st.Segments {
		l := d.item(depth, "segment").pos("base", g.Base).pos("end", g.End).big("visibleLogMs", g.Visible).big("openedLogMs", g.Opened)
		if g.End > 0 {
			l.big("sealedLogMs", g.Sealed)
		}
		l.end()
	}
	closed := 0
	for _, c := range st.Chunks {
		if c.Closed {
			closed++
		}
	}
	d.item(depth, "chunks").num("open", int64(len(st.Chunks)-closed)).num("closed", int64(closed)).end()
	for _, s := range st.Steps {
		d.item(depth, "step").big("logMs", s.LogMs).when("wall", s.WallMs).end()
	}
	for _, hour := range slices.Sorted(maps.Keys(st.Hours)) {
		d.item(depth, "hour").when("from", hour*hourMs).big("pending", *st.Hours[hour]).end()
	}
	d.holes("hole", depth, st.Holes)
}

// offsets prints the committed offsets by group, topic and queue.
func (d *dumper) offsets(depth int, st *state.State) {
	offsets := maps.Collect(st.Offsets.All())
	for _, k := range slices.SortedFunc(maps.Keys(offsets), func(a, b state.OffsetKey) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Queue, b.Queue))
	}) {
		d.item(depth, "offset").word("group", d.group(k.Group)).word("topic", d.topic(k.Topic)).num("queue", int64(k.Queue)).
			big("offset", offsets[k]).end()
		for _, r := range st.Offsets.Settled(k) {
			d.item(depth+1, "settled").big("from", r.From).big("to", r.To).end()
		}
	}
}

func (d *dumper) holes(name string, depth int, holes []state.Hole) {
	for _, h := range holes {
		d.item(depth, name).pos("from", h.From).pos("to", h.To).end()
	}
}

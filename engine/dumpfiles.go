package engine

import (
	"slices"

	"github.com/tidewheel/tidewheel/engine/consumequeue"
	"github.com/tidewheel/tidewheel/engine/internal/idempotency"
	"github.com/tidewheel/tidewheel/engine/statebits"
	"github.com/tidewheel/tidewheel/engine/timer"
	"github.com/tidewheel/tidewheel/engine/timerlog"
	"github.com/tidewheel/tidewheel/engine/timerwheel"
)

// consumequeue prints what is visible, as a restart would have it.
func (d *dumper) consumequeue() {
	if !d.openStore() {
		return
	}
	var units [256]consumequeue.Unit
	for q := range d.e.queues.All() {
		q.Release(q.Len()) // what was folded of a log that could not be read to its end
		k := q.Key()
		d.item(0, "queue").word("topic", d.topic(k.Topic)).num("queue", int64(k.Queue)).num("topicID", int64(k.Topic)).
			big("min", int64(q.First())).big("max", int64(q.Len())).end()
		for at := q.First(); at < q.Len() && !d.failed(); {
			n, err := q.Units(at, units[:])
			for i, u := range units[:n] {
				d.unit(k, at+consumequeue.QueueOffset(i), u)
			}
			at += consumequeue.QueueOffset(n)
			if err != nil {
				d.problem(err)
				at++
			}
		}
	}
}

func (d *dumper) unit(k consumequeue.Key, at consumequeue.QueueOffset, u consumequeue.Unit) {
	d.item(1, "unit").word("topic", d.topic(k.Topic)).num("queue", int64(k.Queue)).big("offset", int64(at)).pos("pos", u.Position).
		num("size", int64(u.Size)).num("tags", int64(u.Tags)).big("logMs", u.LogMs).
		is("hole", u.Flags&consumequeue.FlagHole != 0).is("stub", u.Flags&consumequeue.FlagStub != 0).end()
}

// schedule prints the messages of delay levels, as a restart would have them.
func (d *dumper) schedule() {
	if !d.openStore() {
		return
	}
	for q := range d.e.schedule.All() {
		d.item(0, "delay").big("delayMs", q.DelayMs()).big("first", q.First()).big("next", q.Len()).end()
		c := q.Cursor(q.First())
		for !d.failed() {
			at := c.Index()
			en, ok, err := c.Next()
			if err != nil {
				d.problem(err)
				if c.MoveTo(at + 1); at >= q.Len() {
					break
				}
				continue
			}
			if !ok {
				break
			}
			d.entry(d.item(1, "entry").big("delayMs", q.DelayMs()).big("index", at), &en, true)
		}
	}
}

// entry adds a waiting message and ends the line. Whether it still waits is told if the fold can say.
func (d *dumper) entry(l item, en *timerlog.Entry, folded bool) {
	l.ubig("id", en.ID).when("due", en.Due).pos("pos", en.Position).num("size", int64(en.Size)).
		real(d.topic(en.Topic), en.Queue, en.Level()).num("tags", int64(en.Tags)).is("late", en.Late())
	if !folded {
		l.end()
		return
	}
	alive, err := d.e.st.Alive(en, en.Lane(), d.e.bits)
	if err == nil {
		l.is("waits", alive).is("dead", !alive)
	}
	l.end()
	if err != nil {
		d.problem(err)
	}
}

// tables calls fn for each part of the TimerLog that the checkpoint knows: for each lane loose, and seconds and hours if it
// has rings.
func (d *dumper) tables(fn func(lane int, kind uint8, at timer.TableState, log *timerlog.Log)) {
	f := d.loadCheckpoint()
	if f == nil {
		return
	}
	at, _, err := d.e.loadState(f)
	if err != nil {
		d.problem(err)
		return
	}
	d.learn(d.e.st)
	d.rings = at.rings
	for lane, st := range at.lanes {
		for kind, t := range st.Tables[:min(len(st.Tables), len(families))] {
			table, err := d.e.openTable(lane, uint8(kind), 0, st)
			if err != nil {
				d.problem(err)
				continue
			}
			fn(lane, uint8(kind), t, table.Log)
		}
	}
}

// timerlog prints the runs, groups and spills that the checkpoint refers to, with their entries.
func (d *dumper) timerlog() {
	d.tables(func(lane int, kind uint8, at timer.TableState, log *timerlog.Log) {
		for _, ref := range at.Spills {
			d.refs(lane, kind, "spill", -1, ref, log)
		}
		for i, run := range at.Runs {
			for _, ref := range run {
				d.refs(lane, kind, "run", i, ref, log)
			}
		}
		d.slots(lane, kind, func(w *timerwheel.Wheel, s timerwheel.Slot) {
			for place := s.Last; place != timerlog.NoPlace && !d.failed(); {
				ref, prev, err := log.Lookup(place)
				if err != nil {
					d.problem(err)
					return
				}
				d.refs(lane, kind, "group", -1, ref, log)
				if place == s.First {
					return
				}
				place = prev
			}
		})
	})
}

// refs prints a part of the TimerLog.
func (d *dumper) refs(lane int, kind uint8, what string, run int, ref timerlog.Ref, log *timerlog.Log) {
	l := d.item(0, what).num("lane", int64(lane)).word("family", families[kind]).big("file", ref.File).big("byte", ref.Offset).
		num("entries", int64(ref.Count)).key("min", ref.Min).key("max", ref.Max)
	if run >= 0 {
		l.num("run", int64(run))
	}
	if ref.Slot != timerlog.NoSlot {
		l.big("slot", ref.Slot)
	}
	l.end()
	err := log.Each(ref, func(en timerlog.Entry) error {
		if d.failed() {
			return errStop
		}
		d.entry(d.item(1, "entry"), &en, false)
		return nil
	})
	if err != nil && err != errStop {
		d.problem(err)
	}
}

// timerwheel prints the slots that are occupied.
func (d *dumper) timerwheel() {
	d.tables(func(lane int, kind uint8, _ timer.TableState, _ *timerlog.Log) {
		d.slots(lane, kind, func(w *timerwheel.Wheel, s timerwheel.Slot) {
			d.item(0, "slot").num("lane", int64(lane)).word("ring", families[kind]).big("slot", s.Time).when("begin", w.Begin(s.Time)).
				num("entries", int64(s.Count)).big("firstFile", s.First.File).big("firstByte", s.First.Offset).
				big("lastFile", s.Last.File).big("lastByte", s.Last.Offset).end()
		})
	})
}

// slots calls fn for each occupied slot of a ring, in order.
func (d *dumper) slots(lane int, kind uint8, fn func(w *timerwheel.Wheel, s timerwheel.Slot)) {
	i := 2*(lane-1) + int(kind) - 1
	if kind == timerlog.RingLoose || i < 0 || i >= len(d.rings) {
		return
	}
	w, err := d.e.openWheel(lane, kind, d.rings[i])
	if err != nil {
		d.problem(err)
		return
	}
	var slots []timerwheel.Slot
	_ = w.Each(func(s timerwheel.Slot) error {
		slots = append(slots, s)
		return nil
	})
	slices.SortFunc(slots, func(a, b timerwheel.Slot) int { return int(a.Time - b.Time) })
	for _, s := range slots {
		if d.failed() {
			return
		}
		fn(w, s)
	}
}

// idempotency prints the files of keys that the checkpoint refers to. They hold hashes; the keys stand in the messages.
func (d *dumper) idempotency() {
	f := d.loadCheckpoint()
	if f == nil {
		return
	}
	at, _, err := d.e.loadState(f)
	if err != nil {
		d.problem(err)
		return
	}
	index := idempotency.Open(d.e.fs, d.e.path(keyedDir), d.e.meta.LogID, at.keyed)
	defer func() { _ = index.Close() }() // only read
	d.item(0, "keys").pos("low", at.keyed.Low).pos("memory", at.keyed.Memory).num("runs", int64(len(at.keyed.Runs))).end()
	for _, r := range at.keyed.Runs {
		d.item(0, "run").pos("from", r.From).pos("to", r.To).big("entries", r.Count).big("lastLogMs", r.LastMs).
			word("file", index.File(r)).end()
		index.Each(r, func(e idempotency.Entry) bool {
			d.item(1, "key").hex("hash", e.Hash).pos("pos", e.Position).end()
			return !d.failed()
		}, d.problem)
	}
}

// statebits prints what became of ids of which more is known than that they were delivered or wait, as a restart would have
// it.
func (d *dumper) statebits() {
	if !d.openStore() {
		return
	}
	for i, c := range d.e.st.Chunks {
		l := d.item(0, "chunk").big("chunk", int64(i)).ubig("firstID", uint64(i)*statebits.ChunkIDs)
		if c.Closed {
			l.is("closed", true).end()
			continue
		}
		l.big("pending", c.Pending).pos("changed", c.Changed).big("changedLogMs", c.ChangedAt).end()
	}
	for _, r := range d.e.bits.Table().Ranges {
		for chunk := r.First; chunk < r.End && !d.failed(); chunk++ {
			page, err := d.e.bits.Page(chunk)
			if err != nil {
				d.problem(err)
				continue
			}
			d.bits(chunk, page)
		}
	}
}

func (d *dumper) bits(chunk uint64, page []byte) {
	for i, b := range page {
		for n := uint64(0); b != 0; n, b = n+1, b>>2 {
			if s := statebits.State(b & 3); s != statebits.Regular {
				d.item(1, "id").ubig("id", chunk*statebits.ChunkIDs+uint64(i)*4+n).text("state", s.String()).end()
			}
		}
	}
}

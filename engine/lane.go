package engine

import (
	"encoding/binary"
	"fmt"
	"path"
	"strconv"

	"github.com/tidewheel/tidewheel/engine/timer"
	"github.com/tidewheel/tidewheel/engine/timerlog"
	"github.com/tidewheel/tidewheel/engine/timerwheel"
)

// Widths and sizes of the rings.
const (
	secondMs  = 1000
	hourMs    = 3600 * secondMs
	hourSlots = 65536 // seven and a half years
)

// Families of a lane's part of the TimerLog, by ring.
var families = [...]string{timerlog.RingLoose: "loose", timerlog.RingSeconds: "seconds", timerlog.RingHours: "hours"}

// ringFiles is the TimerWheel of one ring of one lane.
type ringFiles struct {
	lane  int
	wheel *timerwheel.Wheel
}

// ringAt is what a checkpoint says of a ring.
type ringAt struct {
	slots int
	table []int
	redo  []timerwheel.DecodedPage
}

// ringFrozen is a ring at a checkpoint's boundary.
type ringFrozen struct {
	pages []timerwheel.Page
	table []int
}

// laneOf is the lane of a topic's messages with a time of their own.
func (e *Engine) laneOf(topic uint32) uint8 { return uint8(1 + topic%e.meta.Lanes) }

// openLanes makes the lanes, with their rings as a checkpoint knew them.
func (e *Engine) openLanes(at caches) error {
	for i := range 1 + int(e.meta.Lanes) {
		var known timer.State
		if at.lanes != nil {
			known = at.lanes[i]
		}
		lane := uint8(i)
		cfg := timer.Config{
			Runs: e.opts.LooseRuns, NearMs: e.opts.Near.Milliseconds(),
			Alive:    func(en *timerlog.Entry) (bool, error) { return e.st.Alive(en, lane, e.bits) },
			Frontier: func() timerlog.Key { return e.st.Lanes[lane] },
			Rolled:   func() Offset { return e.st.Rolled },
		}
		var err error
		if cfg.Loose, err = e.openTable(i, timerlog.RingLoose, e.opts.LooseEntries, known); err != nil {
			return err
		}
		if i == levelLane {
			cfg.Queues = e.schedule
		} else if cfg.Seconds, err = e.openRing(i, timerlog.RingSeconds, at); err != nil {
			return err
		} else if cfg.Hours, err = e.openRing(i, timerlog.RingHours, at); err != nil {
			return err
		}
		e.lanes = append(e.lanes, timer.New(cfg))
	}
	return nil
}

func (e *Engine) openTable(lane int, kind uint8, entries int, known timer.State) (timer.Table, error) {
	var files timerlog.State
	if int(kind) < len(known.Tables) {
		files = known.Tables[kind].Files
	}
	dir := path.Join(e.path(timerDir), strconv.Itoa(lane))
	l, err := timerlog.Open(e.fs, dir, families[kind], timerlog.Options{
		Ident: e.meta.StoreID, FileSize: e.opts.TimerFileSize, Handles: max(64/len(e.st.Lanes), 4),
	}, files)
	if err != nil {
		return timer.Table{}, err
	}
	e.families = append(e.families, l)
	return timer.Table{Entries: entries, Log: l}, nil
}

func (e *Engine) openRing(lane int, kind uint8, at caches) (*timer.Ring, error) {
	entries := e.opts.SecondsEntries
	if kind == timerlog.RingHours {
		entries = e.opts.HoursEntries
	}
	var known timer.State
	ring := ringAt{slots: e.opts.SecondsSlots}
	if at.rings != nil {
		known, ring = at.lanes[lane], at.rings[len(e.rings)]
	} else if kind == timerlog.RingHours {
		ring.slots = hourSlots
	}
	w, err := e.openWheel(lane, kind, ring)
	if err != nil {
		return nil, err
	}
	e.rings = append(e.rings, ringFiles{lane, w})
	t, err := e.openTable(lane, kind, entries, known)
	if err != nil {
		return nil, err
	}
	return &timer.Ring{Table: t, Wheel: w}, nil
}

// openWheel opens the TimerWheel of a ring as it is known.
func (e *Engine) openWheel(lane int, kind uint8, at ringAt) (*timerwheel.Wheel, error) {
	p := timerwheel.Params{Slots: at.slots, WidthMs: secondMs, Ident: e.meta.StoreID ^ uint64(lane)<<8 ^ uint64(kind)}
	if kind == timerlog.RingHours {
		p.WidthMs = hourMs
	}
	w, err := timerwheel.Open(e.fs, path.Join(e.path(wheelDir), strconv.Itoa(lane), families[kind]), p)
	if err != nil {
		return nil, err
	}
	return w, w.Load(at.table, at.redo)
}

// freezeRings takes the rings' changed pages for a checkpoint.
func (e *Engine) freezeRings() []ringFrozen {
	frozen := make([]ringFrozen, len(e.rings))
	for i, r := range e.rings {
		frozen[i] = ringFrozen{r.wheel.Freeze(), r.wheel.Table()}
	}
	return frozen
}

// appendRings encodes the rings for a checkpoint: for each its number of slots as uvarint, its table, the length of its
// changed pages as uvarint, and these.
func (e *Engine) appendRings(frozen []ringFrozen) (b []byte) {
	for i, r := range frozen {
		b = binary.AppendUvarint(b, uint64(e.rings[i].wheel.Slots()))
		b = timerwheel.AppendTable(b, r.table)
		pages := timerwheel.AppendPages(nil, r.pages)
		b = binary.AppendUvarint(b, uint64(len(pages)))
		b = append(b, pages...)
	}
	return b
}

func decodeRings(b []byte) (rings []ringAt, err error) {
	uvarint := func(most uint64) int {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > most {
			err = fmt.Errorf("engine: checkpoint: rings: number at byte %d from the end", len(b))
			return 0
		}
		b = b[n:]
		return int(v)
	}
	for len(b) > 0 && err == nil {
		r := ringAt{slots: uvarint(1 << 24)}
		if err != nil {
			break
		}
		if r.table, b, err = timerwheel.DecodeTable(b); err != nil {
			break
		}
		n := uvarint(uint64(len(b)))
		if err == nil {
			r.redo, err = timerwheel.DecodePages(b[:n:n])
			b = b[n:]
		}
		rings = append(rings, r)
	}
	return rings, err
}

// appendLanes encodes the lanes for a checkpoint.
func appendLanes(lanes []timer.State) (b []byte) {
	for _, s := range lanes {
		b = s.Append(b)
	}
	return b
}

func decodeLanes(b []byte) (lanes []timer.State, err error) {
	for len(b) > 0 {
		var s timer.State
		if s, b, err = timer.DecodeState(b); err != nil {
			return nil, err
		}
		lanes = append(lanes, s)
	}
	return lanes, nil
}

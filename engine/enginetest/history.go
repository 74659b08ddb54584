package enginetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidewheel/tidewheel/engine"
)

// Op is one step of a history: a kind of call and two numbers that choose its arguments. A step that is not possible when
// its turn comes does nothing, so any part of a history is a history.
type Op struct {
	Kind string // a key of the table in ops.go
	A, B int    // 0 to 255
}

// History is a list of steps and the options they run with.
type History struct {
	Seed uint64 // chooses options, level table and crash policies
	Ops  []Op
}

// RandomHistory returns the history of a seed, with n steps. Each seed has its own mixture of kinds, so that some are all
// cancels, some all crashes, and some have none.
func RandomHistory(seed uint64, n int) History {
	r := newRand(seed, 1)
	var bag []string
	for _, kind := range kinds() {
		times := [...]int{0, 1, 1, 2, 4}[r.IntN(5)]
		for range ops[kind].weight * times {
			bag = append(bag, kind)
		}
	}
	if len(bag) == 0 {
		bag = []string{"put"}
	}
	h := History{Seed: seed, Ops: make([]Op, n)}
	for i := range h.Ops {
		h.Ops[i] = Op{bag[r.IntN(len(bag))], r.IntN(256), r.IntN(256)}
	}
	return h
}

// FaultyHistory returns the history of a seed for a Sim whose disk fails and is full at times.
func FaultyHistory(seed uint64, n int) History {
	h := RandomHistory(seed, n)
	r := newRand(seed, 4)
	for i := range h.Ops {
		if r.IntN(12) == 0 {
			h.Ops[i] = Op{[]string{"fault", "fault", "full", "heal", "heal"}[r.IntN(5)], r.IntN(256), r.IntN(256)}
		}
	}
	h.Ops = append(h.Ops, Op{"heal", r.IntN(256), 0})
	return h
}

// StagedHistory returns the history of a seed for a store with stages: much of it is put, falls due and is decided about.
func StagedHistory(seed uint64, n int) History {
	h := RandomHistory(seed, n)
	r := newRand(seed, 5)
	for i := range h.Ops {
		if r.IntN(2) == 0 {
			kind := [...]string{"decide", "decide", "decide", "sane", "sane", "put", "delay", "level", "pass", "judge", "stage"}[r.IntN(11)]
			h.Ops[i] = Op{kind, r.IntN(256), r.IntN(256)}
		}
	}
	return h
}

// StagedConfig returns the options of a seed for a store in which most topics are staged when they are made.
func StagedConfig(seed uint64) SimConfig {
	c := SeedConfig(seed)
	c.Options.Stage = func(topic string) bool { return topic != topicName(int(seed)) }
	return c
}

// kinds lists the kinds of steps, sorted.
func kinds() []string { return slices.Sorted(maps.Keys(ops)) }

// ParseOps reads what History.String prints: steps "kind a b" with commas between them.
func ParseOps(text string) ([]Op, error) {
	var list []Op
	for _, step := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '\n' }) {
		if strings.TrimSpace(step) == "" {
			continue
		}
		var op Op
		if _, err := fmt.Sscan(step, &op.Kind, &op.A, &op.B); err != nil {
			return nil, fmt.Errorf("enginetest: step %q: %w", step, err)
		}
		if _, ok := ops[op.Kind]; !ok {
			return nil, fmt.Errorf("enginetest: step %q: the kinds are %v", step, kinds())
		}
		list = append(list, op)
	}
	return list, nil
}

// String prints the seed and the steps, as a row of a table of histories has them.
func (h History) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "{seed: %d, ops: \"", h.Seed)
	for i, op := range h.Ops {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %d %d", op.Kind, op.A, op.B)
	}
	b.WriteString("\"}")
	return b.String()
}

// levelTables are tables of delay levels: an ordinary one, one with twins and a level of days, and one that descends.
var levelTables = [...][]time.Duration{
	{time.Second, 5 * time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour},
	{500 * time.Millisecond, 2 * time.Second, 2 * time.Second, 30 * time.Second, 2 * time.Hour, 48 * time.Hour},
	{40 * 24 * time.Hour, time.Minute, time.Second},
}

// formatLevels prints a table for engine.Options.
func formatLevels(table []time.Duration) string {
	words := make([]string, len(table))
	for i, d := range table {
		words[i] = fmt.Sprintf("%dms", d.Milliseconds())
	}
	return strings.Join(words, " ")
}

// SeedConfig returns the options of a seed: small sizes, so that everything happens within a hundred steps.
func SeedConfig(seed uint64) SimConfig {
	r := newRand(seed, 2)
	o := SmallOptions()
	o.SegmentSize = pick(r.IntN, int64(8<<10), 16<<10, 16<<10, 64<<10)
	o.CheckpointEvery = pick(r.IntN, int64(4<<10), 8<<10, 8<<10, 64<<10)
	o.LooseEntries = pick(r.IntN, 2, 4, 6, 16)
	o.LooseRuns = pick(r.IntN, 1, 2, 3)
	o.TailBytes = pick(r.IntN, 4<<10, 16<<10, 64<<10)
	o.BitsBytes = pick(r.IntN, 1, 16<<10, 64<<10)
	o.FireChunk = pick(r.IntN, 1, 2, 5, 16)
	o.SecondsEntries = pick(r.IntN, 3, 4, 8, 64)
	o.HoursEntries = pick(r.IntN, 3, 4, 8, 64)
	o.SecondsSlots = pick(r.IntN, 64, 4096, 4096, 16384)
	o.TimerFileSize = pick(r.IntN, int64(256), 1<<10, 4<<10, 64<<10)
	o.Lanes = pick(r.IntN, 1, 1, 2, 4)
	o.Near = pick(r.IntN, 0, 0, time.Hour, 7*24*time.Hour)
	o.MaxDelay = pick(r.IntN, 7*24*time.Hour, 500*24*time.Hour, 100*365*24*time.Hour)
	o.Retention = pick(r.IntN, time.Second, 30*time.Second, 5*time.Minute, 72*time.Hour)
	c := SimConfig{Seed: seed, Table: r.IntN(len(levelTables)), Plain: r.IntN(4) == 0}
	o.RollAfter = pick(r.IntN, 90*time.Second, 4*time.Hour, 4*time.Hour, 72*time.Hour, 90*24*time.Hour) // levels that are longer are refused
	o.MaxDelay = 100 * 365 * 24 * time.Hour
	o.IdempotencyWindow = [...]time.Duration{time.Minute, time.Hour, 24 * time.Hour}[seed%3] // not drawn: old histories keep their options
	o.SealAfter = pick(r.IntN, 10*time.Second, 10*time.Minute, 24*time.Hour)
	o.Reserve = pick(r.IntN, -1, -1, 1)
	o.Queues = pick(r.IntN, 1, 2, 3)
	o.NoAutoTopics = r.IntN(30) == 0
	if seed%4 == 0 {
		o.Stage = func(topic string) bool { return topic == topicName(1) }
	}
	c.Options = o
	return c
}

func pick[T any](intN func(int) int, from ...T) T { return from[intN(len(from))] }

// tune returns o with other sizes of what is local to a machine: they must not show.
func tune(o engine.Options, a int) engine.Options {
	o.LooseEntries = [...]int{4, 5, 9, 64}[a%4]
	o.LooseRuns = [...]int{2, 3, 16}[a%3]
	o.SecondsEntries = [...]int{5, 8, 64}[a%3]
	o.HoursEntries = [...]int{4, 64}[a%2]
	o.Near = [...]time.Duration{0, time.Hour, 7 * 24 * time.Hour}[a/5%3]
	o.CheckpointEvery = [...]int64{4 << 10, 8 << 10, 32 << 10, 1 << 20}[a/4%4]
	o.TailBytes = [...]int{4 << 10, 64 << 10}[a%2]
	o.BitsBytes = [...]int{1, 64 << 10}[a/2%2]
	o.FireChunk = [...]int{1, 3, 16}[a/3%3]
	return o
}

package enginetest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/handle"
	"github.com/tidewheel/tidewheel/engine/record"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// action is what a step does. A step that is not possible does nothing.
type action struct {
	weight int // in random histories, times 0 to 4 by seed
	do     func(s *Sim, a, b int)
}

// ops are the kinds of steps. It never changes.
var ops = map[string]action{
	"put":    {6, func(s *Sim, a, b int) { s.call(s.put(a, b, 0)) }},
	"level":  {14, func(s *Sim, a, b int) { s.call(s.put(a, b, s.level(a))) }},
	"delay":  {10, func(s *Sim, a, b int) { s.call(s.timed(a, b)) }},
	"batch":  {4, opBatch},
	"fill":   {3, opFill},
	"bad":    {2, opBad},
	"cancel": {6, opCancel},
	"forge":  {1, opForge},
	"move":   {4, opMove},
	"moves":  {3, opMoves},
	"undo":   {3, opUndo},
	"list":   {3, opList},
	"count":  {1, opCount},
	"pull":   {3, opPull},
	"view":   {2, opView},
	"once":   {4, opOnce},
	"offset": {3, opOffset},
	"define": {1, opDefine},
	"delete": {1, opDelete},
	"pause":  {1, opPause},
	"group":  {1, opGroup},
	"gone":   {1, opGone},
	"then":   {2, opThen},
	"stage":  {1, opStage},
	"decide": {8, opDecide},
	"judge":  {2, opJudge},
	"cast":   {3, opCast},

	"pass":    {8, opPass},
	"step":    {2, opStep},
	"tick":    {10, func(s *Sim, _, _ int) { s.tick() }},
	"commit":  {8, func(s *Sim, _, _ int) { s.commit() }},
	"sync":    {8, func(s *Sim, _, _ int) { s.sync() }},
	"release": {6, func(s *Sim, a, _ int) { s.release(a % 3) }},
	"sane":    {4, opSane},
	"run":     {8, opRun},
	"install": {10, opInstall},
	"jobs":    {3, func(s *Sim, _, _ int) { s.doJobs() }},
	"settle":  {2, func(s *Sim, _, _ int) { s.Settle() }},
	"verify":  {1, func(s *Sim, _, _ int) { s.Verify() }},

	"reopen": {1, func(s *Sim, a, _ int) { s.Reopen(downtime(a)) }},
	"kill":   {1, func(s *Sim, a, _ int) { s.Kill(downtime(a)) }},
	"crash":  {3, func(s *Sim, a, b int) { s.Crash(policy(b), downtime(a)) }},
	"tune":   {1, opTune},
	"levels": {1, opLevels},

	// Of a Sim with SimConfig.Faulty only.
	"fault": {0, opFault},
	"full":  {0, opFull},
	"heal":  {0, opHeal},
}

const topicNames, groupNames = 3, 2

func topicName(a int) string { return fmt.Sprintf("topic-%d", a%topicNames) }
func groupName(a int) string { return fmt.Sprintf("group-%d", a%groupNames) }

// size of a body: mostly small, at times as large as a segment.
func bodySize(b int) int {
	switch {
	case b == 255:
		return 20 << 10
	case b > 240:
		return 2000
	case b%8 == 0:
		return 0
	}
	return b * 2
}

// put makes a Put at a level.
func (s *Sim) put(a, b, level int) Call {
	p := &engine.Put{Topic: topicName(a / 4), Queue: engine.AnyQueue, Level: level}
	if b%3 == 0 {
		p.Queue = b / 3 % 2
	}
	n := s.Model.New(bodySize(b))
	fillPut(p, n, bodySize(b))
	return Call{Command: p, New: n, Target: -1}
}

// delays are what timed messages wait; -1 and 0 are due at once, the longest may be refused.
var delays = [...]time.Duration{
	-time.Hour, 0, time.Millisecond, 700 * time.Millisecond, time.Second, 3 * time.Second, 40 * time.Second, 5 * time.Minute,
	59 * time.Minute, 61 * time.Minute, 3 * time.Hour, 25 * time.Hour, 8 * 24 * time.Hour, 40 * 24 * time.Hour,
	400 * 24 * time.Hour, 9 * 365 * 24 * time.Hour, 100 * 365 * 24 * time.Hour,
}

// due is a time of its own for a message: a delay from now, at times moved to a border of a slot.
func (s *Sim) due(b int) int64 {
	due := s.Clock.Wall() + delays[b%len(delays)].Milliseconds()
	width := [...]int64{1, 1000, 3600_000, 24 * 3600_000, 64_000}[b/len(delays)%5]
	return due/width*width + int64(b%3-1)*(width%2^1)
}

// timed makes a Put with a due time, or with a delay.
func (s *Sim) timed(a, b int) Call {
	c := s.put(a, a+b, 0)
	p := c.Command.(*engine.Put)
	if p.DueMs = s.due(b); a%3 == 0 {
		p.DueMs, p.DelayMs = 0, max(p.DueMs-s.Clock.Wall(), 0)
	}
	return c
}

// level is mostly one of the table, at times one above the last.
func (s *Sim) level(a int) int {
	n := len(levelTables[s.table])
	if a%32 == 31 {
		return n + 1 + a
	}
	if b := a / 3 % n; a%3 > 0 && levelTables[s.table][b].Milliseconds() < s.Model.levelLimit() {
		return 1 + b // mostly one that is not refused
	}
	return 1 + a%n
}

// opBatch gives several commands to one call of Append.
func opBatch(s *Sim, a, b int) {
	var calls []Call
	for i := range 2 + a%6 {
		switch {
		case (a+i)%5 == 0:
			calls = append(calls, s.put(a+i, b+i, 0))
		case (a+i)%5 == 1:
			calls = append(calls, s.timed(a+i, b+i))
		case (a+i)%7 == 3:
			if c, ok := s.cancel(a+i, b); ok {
				calls = append(calls, c, c) // the second one is too late
			}
		default:
			calls = append(calls, s.put(a+i, b+i, s.level(a+3*i)))
		}
	}
	s.call(calls...)
}

// opFill puts more than a call of Append takes, so that segments fill and checkpoints come.
func opFill(s *Sim, a, b int) {
	for i := range 2 + a%3 {
		p := s.put(a+i, 1, []int{0, s.level(b)}[(a+b+i)%2])
		fillPut(p.Command.(*engine.Put), p.New, 3000)
		s.Model.msgs[p.New].size = 3000
		s.call(p)
	}
}

// opBad gives commands that must be refused, each with a good one behind it in the same call.
func opBad(s *Sim, a, b int) {
	c := s.put(a, b, 1)
	p := c.Command.(*engine.Put)
	switch a % 12 {
	case 8:
		p.Level, p.DelayMs = 0, -1-int64(b)
	case 9:
		p.DueMs = s.Clock.Wall() + 1000
	case 10:
		p.Level, p.DueMs = 0, -int64(b)-1
	case 11:
		p.Level, p.DelayMs = 0, math.MaxInt64-int64(b)
	case 0:
		p.Level = -1 - b
	case 1:
		p.Queue = 1000 + b
	case 2:
		p.Topic = []string{"", "a.b", "a/b", "..", "a b", "日本"}[b%6]
	case 3:
		p.Queue = -2 - b
	case 4:
		p.Properties = []byte{0, 1}
	case 5:
		p.Key = make([]byte, 128)
	case 6:
		p.Tag = make([]byte, 128)
	case 7:
		p.Body = make([]byte, 4<<20+1)
	}
	s.call(c, s.put(a, b, 0))
}

// known picks a message that ever waited, the newest first.
func (s *Sim) known(a int) (int, bool) {
	return s.knownOf(a, waiting, visible, cancelled, superseded, orphaned, staged, kept, decided)
}

// knownOf picks a message of one of these states that ever waited, the newest first.
func (s *Sim) knownOf(a int, of ...status) (int, bool) {
	var ids []int
	for i := len(s.Model.msgs) - 1; i >= 0 && len(ids) < 40; i-- {
		if x := &s.Model.msgs[i]; x.id != 0 && !x.nowhere && slices.Contains(of, x.status) {
			ids = append(ids, i)
		}
	}
	if len(ids) == 0 {
		return 0, false
	}
	return ids[a%len(ids)], true
}

// open carries a handle through its text, as a client does.
func (s *Sim) openHandle(h handle.Handle) handle.Handle {
	got, err := s.e.OpenHandle(s.e.SealHandle(h))
	got.KeyID = h.KeyID
	if err != nil || got != h {
		s.failed("open a handle", fmt.Errorf("%v came back as %v: %w", h, got, err))
	}
	return got
}

func (s *Sim) cancel(a, _ int) (Call, bool) {
	n, ok := s.known(a)
	if !ok {
		return Call{}, false
	}
	return Call{Command: &engine.Cancel{Handle: s.openHandle(s.Model.msgs[n].handle)}, New: -1, Target: n}, true
}

func opCancel(s *Sim, a, b int) {
	if c, ok := s.cancel(a, b); ok {
		s.call(c)
	}
}

// opForge cancels what never was, and tries to open a handle that nobody sealed.
func opForge(s *Sim, a, b int) {
	h := handle.Handle{Topic: 1, ID: s.Model.nextID + uint64(len(s.Model.journal)) + 1000 + uint64(a), Due: s.Clock.Wall() + int64(b)}
	s.call(Call{Command: &engine.Cancel{Handle: h}, New: -1, Target: -1})
	if s.stuck() {
		return
	}
	text := []byte(s.e.SealHandle(h))
	text[a%len(text)] ^= byte(1 + b%7)
	if got, err := s.e.OpenHandle(string(text)); err == nil {
		s.failed("open a forged handle", fmt.Errorf("%q was opened as %+v", text, got))
	}
}

func opMove(s *Sim, a, b int) {
	n, ok := s.known(a)
	if !ok {
		return
	}
	h := s.openHandle(s.Model.msgs[n].handle)
	pending, err := s.e.ReadPending(h)
	if err != nil {
		if got, _, _ := s.e.Verdict(h); got == engine.Scheduled {
			s.failed("read a waiting message", fmt.Errorf("m%d: %w", n, err))
		}
		return
	}
	c := &engine.Move{Handle: h, DueMs: s.due(b), Record: pending}
	s.call(Call{Command: c, New: s.Model.New(0), Target: n})
}

// opUndo takes a cancel back. What is not cancelled is answered as it is.
func opUndo(s *Sim, a, _ int) {
	n, ok := s.knownOf(a, cancelled)
	if !ok {
		if n, ok = s.known(a); !ok {
			return
		}
	}
	h := s.openHandle(s.Model.msgs[n].handle)
	record, err := s.e.ReadCancelled(h)
	if err != nil && !errors.Is(err, engine.ErrNoMessage) && !s.Failing {
		s.failed("read a cancelled message", fmt.Errorf("m%d: %w", n, err))
	}
	if got, _, _ := s.e.Verdict(h); err != nil && got == engine.AlreadyCancelled {
		return // its body is gone
	}
	s.call(Call{Command: &engine.Undo{Handle: h, Record: record}, New: s.Model.New(0), Target: n})
}

// opMoves moves several messages, so that loose memtables fill.
func opMoves(s *Sim, a, b int) {
	for i := range 2 + a%5 {
		opMove(s, a+3*i, b+i)
	}
}

// opPull reads a piece of a queue as a consumer does, with limits and tags.
func opPull(s *Sim, a, b int) { s.Model.pullPiece(s.e, topicName(a), b%3, a, b) }

// opView reads a message by the position of its copy.
func opView(s *Sim, a, _ int) {
	n, ok := s.known(a)
	if !ok {
		return
	}
	x := &s.Model.msgs[n]
	if x.status != waiting || len(s.Model.journal) > 0 {
		return
	}
	var p engine.Pulled
	if got, err := s.e.View(x.handle.Position, &p); !errors.Is(err, engine.ErrPending) && !errors.Is(err, engine.ErrTrimmed) &&
		!errors.Is(err, engine.ErrNoMessage) {
		s.failed("view", fmt.Errorf("m%d, due %d at %d, was shown: %q, %w", n, x.due, s.Clock.Wall(), got.Key, err))
	}
}

// opOnce puts a message with an idempotency key, unless one is there.
func opOnce(s *Sim, a, b int) {
	c := s.timed(a, b)
	if a%3 == 0 {
		c = s.put(b, a, 0)
	}
	p := c.Command.(*engine.Put)
	key := fmt.Sprint("key ", a%16)
	f, err := s.e.FindKey(p.Topic, []byte(key))
	switch {
	case err != nil:
		if !s.Failing && s.sick == nil {
			s.failed("find a key", err)
		}
		return
	case f.Found:
		s.cover["key found"]++
		s.Model.keyFound(p.Topic, key, &f)
		return
	}
	s.Model.keyMissing(p.Topic, key, s.Clock.Wall())
	p.IdempotencyKey, p.KeySince = []byte(key), f.Position
	s.Model.msgs[c.New].once = key
	s.call(c)
}

func opOffset(s *Sim, a, b int) {
	c := &engine.CommitOffset{Group: groupName(b), Topic: topicName(a), Queue: b % 2, Offset: int64(a / 8), Seek: b%5 == 0}
	t := s.Model.topics[c.Topic]
	if t == nil {
		s.call(Call{Command: c, New: -1, Target: -1})
		return
	}
	c.Queue = b % t.queues
	if q := s.Model.queues[engine.QueueRef{Topic: t.id, Queue: uint32(c.Queue)}]; q != nil {
		c.Offset = q.min + int64(a)%(int64(len(q.units))-q.min+1)
	} else {
		c.Offset = 0
	}
	s.call(Call{Command: c, New: -1, Target: -1})
}

func opDefine(s *Sim, a, b int) {
	s.call(Call{Command: &engine.DefineTopic{Topic: topicName(a), Queues: 1 + b%4, Attrs: uint32(b)}, New: -1, Target: -1})
}

func opDelete(s *Sim, a, _ int) {
	s.call(Call{Command: &engine.DeleteTopic{Topic: topicName(a)}, New: -1, Target: -1})
}

// opPause pauses a topic, or lets it be read again; one that is paused and defined anew stays so.
func opPause(s *Sim, a, b int) {
	s.call(Call{Command: &engine.PauseTopic{Topic: topicName(a), Paused: b%3 > 0}, New: -1, Target: -1})
}

func opGroup(s *Sim, a, _ int) {
	s.call(Call{Command: &engine.DefineGroup{Group: groupName(a)}, New: -1, Target: -1})
}

func opGone(s *Sim, a, _ int) {
	s.call(Call{Command: &engine.DeleteGroup{Group: groupName(a)}, New: -1, Target: -1})
}

// opThen puts a message that commits an offset along, at times one behind what is committed, or of a topic that is gone by
// then.
func opThen(s *Sim, a, b int) {
	c := &engine.CommitOffset{Group: groupName(b), Topic: topicName(a), Seek: b%5 == 0}
	t := s.Model.topics[c.Topic]
	if t == nil {
		return
	}
	c.TopicID, c.Queue = t.id, b%t.queues
	if q := s.Model.queues[engine.QueueRef{Topic: t.id, Queue: uint32(c.Queue)}]; q != nil {
		c.Offset = q.min + int64(a)%(int64(len(q.units))-q.min+1)
	}
	p := s.put(b, a, []int{0, 1, -1}[a%3]) // the last one is refused
	p.Command.(*engine.Put).Then = c
	if b%7 == 0 {
		s.call(Call{Command: &engine.DeleteTopic{Topic: c.Topic}, New: -1, Target: -1}, p)
		return
	}
	s.call(p)
}

// opCast lets a broadcast group and messages with a delay meet in a topic of their own.
func opCast(s *Sim, a, b int) {
	const group, topic = "all", "cast"
	var calls []Call
	for i := range 1 + a%4 {
		c := Call{New: -1, Target: -1}
		switch (a/4 + b + 3*i) % 8 {
		case 0, 1:
			c = s.timed(a+i, b+i)
			c.Command.(*engine.Put).Topic = topic
		case 2:
			c = s.put(a+i, b+i, []int{0, s.level(a)}[i%2])
			c.Command.(*engine.Put).Topic = topic
		case 3:
			c.Command = &engine.DefineGroup{Group: group, Attrs: uint32(b % 2 * 2)} // of the host
		case 4:
			c.Command = &engine.DefineGroup{Group: group, Attrs: record.GroupBroadcast}
		case 5, 6:
			c.Command = &engine.CommitOffset{Group: group, Topic: topic, Queue: b % 2, Seek: true}
		case 7:
			c.Command = &engine.DeleteGroup{Group: group}
		}
		calls = append(calls, c)
	}
	s.call(calls...)
}

// opPass lets time pass. What became visible is looked at before it can be deleted, so all is released first when the
// time is long.
func opPass(s *Sim, a, b int) {
	d := time.Duration(1+a) * []time.Duration{time.Millisecond, 20 * time.Millisecond, 300 * time.Millisecond,
		5 * time.Second, 5 * time.Minute, 7 * time.Hour}[b%6]
	if d >= s.opts.Retention/4 || len(s.Model.journal) > 200 {
		opSane(s, 0, 0)
	}
	if !s.stuck() {
		s.Clock.Pass(d)
	}
}

// opStep sets the wall clock.
func opStep(s *Sim, a, _ int) {
	s.Clock.Step([]time.Duration{-time.Second, time.Second, -300 * time.Millisecond, -time.Hour, time.Hour,
		-30 * 24 * time.Hour, 30 * 24 * time.Hour, -900 * time.Millisecond}[a%8])
}

// opSane is what a host does all the time.
func opSane(s *Sim, _, _ int) {
	s.tick()
	s.commit()
	s.sync()
	s.release(0)
}

// opRun runs a job, not always the oldest.
func opRun(s *Sim, a, _ int) {
	var open []int
	for i, j := range s.jobs {
		if !j.ran {
			open = append(open, i)
		}
	}
	if len(open) > 0 {
		s.runJob(open[a%len(open)])
	}
}

// opInstall links a slice of a job that was run, not always the oldest.
func opInstall(s *Sim, a, _ int) {
	var ran []int
	for i, j := range s.jobs {
		if j.ran {
			ran = append(ran, i)
		}
	}
	if len(ran) > 0 {
		s.installJob(ran[a%len(ran)])
	}
}

// downtime of a stop.
func downtime(a int) time.Duration {
	return []time.Duration{0, 0, 0, time.Second, time.Hour, 9 * 24 * time.Hour, 30 * 24 * time.Hour, 400 * 24 * time.Hour,
		3650 * 24 * time.Hour, -time.Hour, time.Millisecond}[a%11]
}

func policy(b int) crashfs.Policy {
	all := crashfs.Policies()
	return all[b%len(all)]
}

// opTune opens the store again with other sizes of what is local.
func opTune(s *Sim, a, _ int) {
	s.opts = tune(s.opts, a)
	s.Reopen(0)
}

// opLevels opens the store again with another table of levels.
func opLevels(s *Sim, a, _ int) {
	s.table = a % len(levelTables)
	s.opts.Levels = formatLevels(levelTables[s.table])
	s.Reopen(0)
}

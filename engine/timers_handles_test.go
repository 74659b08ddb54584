package engine_test

import (
	"crypto/rand"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/engine/handle"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// A handle's text comes back as the handle, from the life that made it and from every later one, also after its key was
// replaced.
func TestTimerHandleText(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: timers()})
	a := stored(t, s, later("a", time.Hour))
	text := s.SealHandle(a.Handle())
	for i := range 3 {
		h, err := s.OpenHandle(text)
		if h.KeyID = 0; err != nil || h != a.Handle() {
			t.Fatalf("%+v came back as %+v: %v", a.Handle(), h, err)
		}
		if i == 0 {
			if err := s.RotateKeys(); err != nil {
				t.Fatal(err)
			}
		}
		if i == 1 {
			s.Kill(true)
		}
	}
	h, err := s.OpenHandle(text)
	if err != nil {
		t.Fatal(err)
	}
	answerOf(t, s, &engine.Cancel{Handle: h}, engine.Cancelled)
}

// No bit of a handle may be changed, and no handle of another store or in another spelling is taken.
func TestTimerForgedHandle(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: timers()})
	a := stored(t, s, later("a", time.Hour))
	text := s.SealHandle(a.Handle())
	forged := map[string]string{
		"nothing": "", "a word": "cancel", "cut": text[:len(text)-1], "longer": text + "A", "line end": text + "\n",
		"other case": strings.ToUpper(text),
	}
	for i := range len(text) {
		b := []byte(text)
		if b[i]++; b[i] > 'z' {
			b[i] = 'A'
		}
		forged["changed at "+name(i)] = string(b)
	}
	env := engine.Env{FS: crashfs.New(crashfs.Options{}), Wall: s.Clock.Wall, Mono: s.Clock.Mono, Rand: rand.Reader}
	other, err := engine.OpenSolo(env, ".", timers())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	answers, err := other.Do(later("a", time.Hour))
	if err != nil || answers[0].Handle() != a.Handle() {
		t.Fatalf("the other store gives %+v, want the same handle without its seal: %v", answers, err)
	}
	forged["of another store"] = other.SealHandle(answers[0].Handle())
	for what, text := range forged {
		if h, err := s.OpenHandle(text); !errors.Is(err, handle.ErrForged) || h != (handle.Handle{}) {
			t.Errorf("%s: %+v: %v", what, h, err)
		}
	}
	wantFate(t, s, a, engine.Scheduled)
}

// A handle that no store of this version gave, though signed: not found, whatever is asked.
func TestTimerUnknownHandle(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: timers()})
	a := stored(t, s, later("a", time.Hour))
	record := recordOf(t, s, a)
	pending := s.Stats().Pending
	for what, h := range map[string]handle.Handle{
		"zero":            {},
		"id 0":            {Lane: a.Lane, Topic: a.Topic, Due: a.DueMs},
		"the next id":     {Lane: a.Lane, Topic: a.Topic, ID: a.ID + 1, Due: a.DueMs},
		"a far id":        {Lane: a.Lane, Topic: a.Topic, ID: 1 << 40, Due: a.DueMs},
		"the last id":     {Lane: a.Lane, Topic: a.Topic, ID: math.MaxUint64, Due: a.DueMs},
		"another lane":    {Lane: 7, Topic: a.Topic, ID: a.ID, Due: a.DueMs},
		"the last lane":   {Lane: 255, Topic: a.Topic, ID: a.ID, Due: a.DueMs},
		"visible at once": do(s, &engine.Put{Topic: "t", Queue: 0}).Handle(),
	} {
		t.Run(what, func(t *testing.T) {
			refusals(t, s, h, record, engine.NotFound)
			if x, err := s.Explain(h, 0); err != nil || x.Outcome != engine.NotFound || x.Reason == "" {
				t.Errorf("explain: %+v: %v", x, err)
			}
		})
	}
	for range 3 { // RocketMQ counts one off for each
		answerOf(t, s, &engine.Cancel{Handle: handle.Handle{Lane: 1, ID: 99}}, engine.NotFound)
	}
	if got := s.Stats().Pending; got != pending {
		t.Errorf("%d messages wait, want %d", got, pending)
	}
	wantFate(t, s, a, engine.Scheduled)
}

// The messages of a topic that was deleted wait on, in no topic, and are dropped when due; a topic of the same name gets
// none of them. Their handles go on to be answered.
func TestTimerHandleOfDeletedTopic(t *testing.T) {
	for _, how := range []string{"stays up", "reopened", "rebuilt"} {
		t.Run(how, func(t *testing.T) {
			s := enginetest.Open(t, enginetest.Config{Options: timers()})
			var a []engine.Answer
			for i := range 5 {
				a = append(a, stored(t, s, later(name(i), time.Hour)))
			}
			record := recordOf(t, s, a[1])
			answerOf(t, s, &engine.Cancel{Handle: a[4].Handle()}, engine.Cancelled)
			cancelled, err := s.ReadCancelled(a[4].Handle())
			if err != nil {
				t.Fatal(err)
			}
			answerOf(t, s, &engine.DeleteTopic{Topic: "t"}, engine.Done)
			switch how {
			case "reopened":
				s.Reopen(0)
			case "rebuilt":
				rebuildStore(t, s)
			}
			if got := s.Stats().Pending; got != 4 {
				t.Fatalf("%d messages wait, want 4", got)
			}
			if _, err := s.Pending(engine.Filter{Topic: "t"}, "", 0); !errors.Is(err, engine.ErrNoTopic) {
				t.Errorf("waiting messages of a topic that is gone: %v", err)
			}
			for _, w := range listAll(t, s, engine.Filter{}, 2) {
				if w.Topic != "" || w.DueMs != a[0].DueMs {
					t.Errorf("listed as %+v", w)
				}
			}
			answerOf(t, s, &engine.Cancel{Handle: a[0].Handle()}, engine.Cancelled)
			moved := answerOf(t, s, &engine.Move{Handle: a[1].Handle(), DueMs: a[1].DueMs + 1, Record: record}, engine.Moved)
			answerOf(t, s, &engine.Undo{Handle: a[4].Handle(), Record: cancelled}, engine.Restored)
			answerOf(t, s, &engine.DefineTopic{Topic: "t", Queues: 1}, engine.Done)
			info, _, _ := s.Topic("t")
			if info.Pending != 0 {
				t.Errorf("the new topic has %d waiting messages", info.Pending)
			}
			b := stored(t, s, later("new", time.Hour))
			s.Pass(2 * time.Hour)
			wantRead(t, s, "new")
			if st := s.Stats(); st.Pending != 0 || st.Dropped != 4 {
				t.Errorf("%d wait and %d were dropped, want 0 and 4", st.Pending, st.Dropped)
			}
			wantFate(t, s, a[0], engine.AlreadyCancelled)
			wantFate(t, s, a[1], engine.Superseded)
			wantFate(t, s, moved, engine.Delivered) // it is over, as Explain says
			wantFate(t, s, b, engine.Delivered)
			x, err := s.Explain(moved.Handle(), 0)
			if err != nil || len(x.Events) != 2 || x.Events[1].Kind != "dropped" || x.Events[1].Offset != -1 {
				t.Errorf("explain: %+v: %v", x, err)
			}
		})
	}
}

// chunkIDs is how many ids share a chunk of state bits.
const chunkIDs = 65536

// useIDs stores messages that are due in a second until the next id is this one, and lets them fire.
func useIDs(t *testing.T, s *enginetest.Store, next uint64) {
	t.Helper()
	cmds := make([]engine.Command, 1024)
	for i := range cmds {
		cmds[i] = &engine.Put{Topic: "many", Queue: 0, DelayMs: 1000}
	}
	for at := s.Stats().NextID; at < next; at = s.Stats().NextID {
		s.Do(cmds[:min(uint64(len(cmds)), next-at)]...)
		s.Pass(time.Second)
	}
}

// large are options with a chunk's worth of timers, whose log goes soon.
func large() engine.Options {
	o := roomy()
	o.SegmentSize, o.CheckpointEvery = 1<<20, 1<<20
	o.RollAfter, o.SecondsEntries, o.HoursEntries, o.LooseEntries, o.BitsBytes = time.Minute, 4096, 64, 64, 1
	return o
}

// When a chunk of ids is closed its handles are not found, and stay so; until then they are answered.
func TestTimerHandleOfClosedChunk(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: large()})
	fired, cancelled, moved := stored(t, s, later("fired", time.Second)), stored(t, s, later("x", day)), stored(t, s, later("moved", day))
	record := recordOf(t, s, moved)
	again := answerOf(t, s, &engine.Move{Handle: moved.Handle(), DueMs: s.Clock.Wall() + 2000, Record: record}, engine.Moved)
	answerOf(t, s, &engine.Cancel{Handle: cancelled.Handle()}, engine.Cancelled)
	useIDs(t, s, chunkIDs)
	want := map[*engine.Answer]engine.Outcome{
		&fired: engine.Delivered, &cancelled: engine.AlreadyCancelled, &moved: engine.Superseded, &again: engine.Delivered,
	}
	closed := func() bool {
		n := 0
		for a, outcome := range want {
			got, _, err := s.Verdict(a.Handle())
			if err != nil || got != outcome && got != engine.NotFound {
				t.Fatalf("message %d: %v: %v", a.ID, got, err)
			}
			if got == engine.NotFound {
				n++
			}
		}
		if n > 0 && n < len(want) {
			t.Fatalf("%d of %d handles of one chunk are not found", n, len(want))
		}
		return n > 0
	}
	for i := 0; !closed(); i++ {
		if i == 300 {
			t.Fatal("the chunk never closed")
		}
		s.Do(traffic(100)...)
		s.Pass(10 * time.Second)
	}
	for range 2 {
		for a := range want {
			refusals(t, s, a.Handle(), record, engine.NotFound)
		}
		s.Kill(true)
	}
	rebuildStore(t, s)
	for a := range want {
		refusals(t, s, a.Handle(), record, engine.NotFound)
	}
	if got := listAll(t, s, engine.Filter{}, 100); len(got) != 0 {
		t.Errorf("%d messages wait", len(got))
	}
}

// F3: a chunk is not closed while an entry of it may lie in a source above R, though nothing in it waits and the retention
// is over: its cancelled message would be alive again.
func TestTimerChunkStaysUntilRolled(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: large()})
	// The message of the chunk that fires last lies in the log's head, and its delivery is the last word about the chunk.
	// Others before it keep the head readable, so that it is not rolled earlier.
	var last engine.Answer
	for d := 5 * time.Second; d <= 10*time.Minute; d += 5 * time.Second {
		last = stored(t, s, later("head", d))
	}
	useIDs(t, s, chunkIDs-1000)
	goTo(t, s, last.DueMs-5000)
	for n := len(segments(t, s.FS)); len(segments(t, s.FS)) == n; { // the rest goes to a new segment, which stays
		s.Do(traffic(1)...)
		s.Step()
	}
	victim := stored(t, s, later("victim", 30*day))
	fillers(t, s, 130, 30*day) // its entry goes to a group on disk
	for _, w := range listAll(t, s, engine.Filter{Topic: "other"}, 500) {
		answerOf(t, s, &engine.Cancel{Handle: w.Handle}, engine.Cancelled)
	}
	answerOf(t, s, &engine.Cancel{Handle: victim.Handle()}, engine.Cancelled)
	useIDs(t, s, chunkIDs+10)
	goTo(t, s, last.DueMs)
	wantFate(t, s, last, engine.Delivered)
	s.Pass(11 * time.Second)
	if st := s.Stats(); st.Head == 0 || st.Rolled > victim.Position {
		t.Fatalf("the head of the log was to be deleted, the message was to stay: %+v", st)
	}
	wantFate(t, s, victim, engine.AlreadyCancelled)
	s.Pass(31 * day)
	for _, key := range keysOf(t, s, "t", 0) {
		if key == "victim" {
			t.Error("a cancelled message was delivered")
		}
	}
}

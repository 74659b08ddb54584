package engine_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// stagesDir holds the log of a store with stages as the first version that had them wrote it: state records of version 2,
// verdicts, a topic that is staged no more. All else is made from it. It stays as it is.
const stagesDir = "testdata/format-1-stages"

func stagesOptions() engine.Options {
	return engine.Options{Queues: 2, Stage: func(topic string) bool { return topic != "plain" }}
}

// writeStages makes the store.
func writeStages(t *testing.T, disk *crashfs.FS) {
	s := enginetest.Open(t, enginetest.Config{FS: disk, Options: stagesOptions()})
	for i := range 6 {
		s.Do(&engine.Put{Topic: "orders", Queue: 0, DelayMs: int64(i), Tag: []byte("tag"), Body: fmt.Appendf(nil, "order %d", i)})
	}
	s.Pass(time.Second)
	items := undecided(t, s, "orders", 0)
	c := settle("orders", 0, keep, items[0], items[2])
	c.Puts = []*engine.Put{{Topic: "orders", Queue: 1, Unstaged: true, Body: []byte("instead")}, {Topic: "copies", Queue: 0, DelayMs: 5000, Body: []byte("copy")}}
	s.Do(c)
	d := settle("orders", 0, drop, items[4])
	d.Items[0].Plugin, d.Items[0].Code = engine.Nobody, 42
	s.Do(d)
	s.Do(&engine.Put{Topic: "plain", Queue: 0}, &engine.Put{Topic: "plain", Queue: 0})
	s.Do(&engine.Settle{Group: "g", Topic: "plain", Items: []engine.Settled{{Offset: 1, Plugin: engine.Nobody}}})
	s.Do(&engine.Put{Topic: "plain", Queue: 0, Body: bytes.Repeat([]byte("fill "), 3600)}) // over a segment
	s.Pass(6 * time.Second)
	s.Do(&engine.StageTopic{Topic: "copies"})
}

// TestGoldenStages opens the log and finds what was decided, and what was not.
func TestGoldenStages(t *testing.T) {
	if *updateFormat {
		disk := crashfs.New(crashfs.Options{})
		writeStages(t, disk)
		saveFormat(t, disk, stagesDir, func(name string) bool {
			return name == "meta" || name == "keys" || strings.HasPrefix(name, "commitlog/") && !strings.HasSuffix(name, "/next")
		})
	}
	clock := enginetest.NewClock(enginetest.Epoch)
	s := enginetest.Open(t, enginetest.Config{FS: loadFormat(t, stagesDir), Options: stagesOptions(), Clock: clock})
	want(t, "orders/0", bodies(t, s, "orders", 0, 0), "[order 0 order 2]")
	want(t, "orders/1", bodies(t, s, "orders", 1, 0), "[instead]")
	want(t, "the stage", bodies(t, s, "%STAGE%orders", 0, 0), "[order 0 order 1 order 2 order 3 order 4 order 5]")
	at, _, _ := s.Committed(engine.StageGroup, "%STAGE%orders", 0)
	ranges, _ := s.Settled(engine.StageGroup, "%STAGE%orders", 0)
	want(t, "settled", fmt.Sprint(at, ranges), "1 [{2 3} {4 5}]")
	at, _, _ = s.Committed("g", "plain", 0)
	ranges, _ = s.Settled("g", "plain", 0)
	want(t, "settled for a group", fmt.Sprint(at, ranges), "0 [{1 2}]")
	copies, _, _ := s.Topic("copies")
	orders, _, _ := s.Topic("orders")
	if copies.Staged || copies.StageLag != 1 || !orders.Staged || orders.StageLag != 3 {
		t.Errorf("topics: %+v, %+v", orders, copies)
	}
	s.Do(settle("orders", 0, keep, undecided(t, s, "orders", 0)...))
	want(t, "orders/0", bodies(t, s, "orders", 0, 0), "[order 0 order 2 order 1 order 3 order 5]")
}

package engine_test

import (
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// A dump says which topics are staged, what was decided by whom, and what is settled; and that who does not know of it must not
// go on.
func TestDumpStages(t *testing.T) {
	disk := crashfs.New(crashfs.Options{})
	o := engine.Options{Queues: 1, Stage: func(topic string) bool { return topic == "t" }}
	s := enginetest.Open(t, enginetest.Config{FS: disk, Options: o, Damaged: true})
	inStage(t, s, "t", "a", "b", "c")
	items := undecided(t, s, "t", 0)
	c := settle("t", 0, keep, items[1], items[2])
	c.Items[1].Action, c.Items[1].Keep, c.Items[1].Plugin, c.Items[1].Code = drop, false, engine.Nobody, 77
	s.Do(c)
	for range 8 { // a checkpoint
		s.Do(traffic(1)...)
		s.Step()
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, dump := range []struct {
		kind string
		json bool
		want []string
	}{
		{"commitlog", false, []string{
			"topic    op=define  id=1    topic=t       queues=1    attrs=0    staged\n",
			"topic    op=define  id=2    topic=%STAGE%t queues=1    attrs=0\n",
			"verdict  group=%STAGE% topic=%STAGE%t queue=0    items=2\n",
			"item     offset=1     action=keep    code=0    id=2     due=2026-01-01T00:00:00.000Z pos=",
			"REAL_TOPIC=t       REAL_QID=0    REAL_OFFSET=0     digest=0102030000000000000000000000000000000000000000000000000000000000\n",
			"item     offset=2     action=drop    code=77   id=3     due=",
		}},
		{"commitlog", true, []string{
			`"kind":"verdict","group":"%STAGE%","topic":"%STAGE%t","queue":0,"items":2}`,
			`{"item":"item","offset":"2","action":"drop","code":77,"id":"3","dueMs":"1767225600000",`,
		}},
		{"checkpoint", false, []string{"topic=t       queues=1    attrs=0    staged pending=0", "settled  from=1     to=3"}},
	} {
		text, err := dumpText(t, disk.Clone(), dump.kind, dump.json)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range dump.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s, JSON %v: %q is missing in\n%.4000s", dump.kind, dump.json, want, text)
			}
		}
		if dump.kind != "commitlog" || dump.json {
			continue
		}
		batch := ""
		for line := range strings.Lines(text) {
			if strings.Contains(line, " batch ") || strings.HasPrefix(strings.TrimSpace(line), "batch ") {
				batch = line
			}
			mustKnow := strings.Contains(line, "verdict ") || strings.Contains(line, " staged")
			if mustKnow && !strings.Contains(batch, "mustUnderstand") {
				t.Errorf("the batch may be skipped: %s%s", batch, line)
			}
			if strings.Contains(line, "message ") && strings.Contains(line, "traffic") && strings.Contains(batch, "mustUnderstand") {
				t.Errorf("the batch must be understood: %s", batch)
			}
		}
	}
}

package engine_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// TestRepairWithoutTheLastTrim damages the batch of the last trim: the segment table behind the hole names segments that
// are gone for good, and no state record says so. The directory opens after a repair, and goes on.
func TestRepairWithoutTheLastTrim(t *testing.T) {
	disk := crashfs.New(crashfs.Options{})
	opts := fast()
	opts.RollAfter = 10 * time.Second
	s := enginetest.Open(t, enginetest.Config{FS: disk, Damaged: true, Options: opts})
	repaired := 0
	for round := 0; round < 160 && repaired < 3; round++ {
		s.Do(traffic(1)...)
		s.Pass(1500 * time.Millisecond)
		segment, trim := lastTrim(t, disk.Clone())
		if round < 40 || trim < 0 {
			continue
		}
		d := disk.Clone()
		if err := d.Rot(fmt.Sprintf("commitlog/%020d", segment), (trim-segment+120)*8); err != nil {
			t.Fatal(err)
		}
		env := dumpEnv(d)
		lost, err := engine.Repair(env, ".", opts)
		if err != nil || len(lost) != 1 {
			t.Fatalf("round %d: repair: %v, %v", round, lost, err)
		}
		if _, err := engine.Check(env, ".", opts); err != nil {
			t.Fatalf("round %d: check after the repair: %v", round, err)
		}
		again, err := engine.OpenSolo(env, ".", opts)
		if err != nil {
			t.Fatalf("round %d: open after the repair: %v", round, err)
		}
		for range 200 { // over the next segment, whose state record is made from what is known now
			if _, err := again.Do(&engine.Put{Topic: "after", Queue: 0, Body: make([]byte, 200)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := engine.Check(env, ".", opts); err != nil {
			t.Fatalf("round %d: check later: %v", round, err)
		}
		repaired++
	}
	if repaired == 0 {
		t.Fatal("no round had a trim with batches behind it in the last segment")
	}
}

// lastTrim finds the last trim in the last segment, with at least two batches behind it; -1 if there is none.
func lastTrim(t *testing.T, disk *crashfs.FS) (segment, trim int64) {
	t.Helper()
	out, err := dumpText(t, disk, "commitlog", true)
	if err != nil {
		t.Fatal(err)
	}
	var batch int64
	behind := 0
	trim = -1
	for line := range strings.Lines(out) {
		var o map[string]any
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatal(err)
		}
		number := func(key string) int64 {
			text, _ := o[key].(string)
			n, _ := strconv.ParseInt(text, 10, 64)
			return n
		}
		switch {
		case o["item"] == "segment" && o["file"] != nil:
			segment, trim = number("base"), -1
		case o["item"] == "batch":
			batch = number("pos")
			behind++
		case o["item"] == "record" && o["kind"] == "trim":
			trim, behind = batch, 0
		}
	}
	if behind < 2 {
		trim = -1
	}
	return segment, trim
}

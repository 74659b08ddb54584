package powercut

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// images is how many power cuts there are on each file system.
func images() int {
	switch os.Getenv("TIDEWHEEL_VOLUME") {
	case "ci":
		return 150
	case "campaign":
		return 5000
	}
	if testing.Short() {
		return 15
	}
	return 60
}

func seed(t *testing.T) uint64 {
	t.Helper()
	n := uint64(1)
	if s := os.Getenv("TIDEWHEEL_SEED"); s != "" {
		var err error
		if n, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("TIDEWHEEL_SEED: %v", err)
		}
	}
	t.Logf("TIDEWHEEL_SEED=%d", n)
	return n
}

func TestPowerCut(t *testing.T) {
	if what := missing(); what != "" {
		t.Skipf("no power cut on a real file system: this machine lacks %s", what)
	}
	seed := seed(t)
	for _, f := range fileSystems {
		t.Run(f.name, func(t *testing.T) {
			if what := f.missing(); what != "" {
				t.Skipf("no power cut on %s: this machine lacks %s", f.name, what)
			}
			run := recordRun(t, f, seed, false)
			if run.did.Segments < 5 || run.did.Delivered < 50 || run.did.Cancelled < 5 || run.did.Moved < 5 {
				t.Errorf("the writer did too little to be worth a power cut: %+v", run.did)
			}
			for n := range images() {
				v, where := run.image(t, n)
				for _, problem := range v.Problems {
					t.Errorf("image %d (%s): %s", n, where, problem)
				}
			}
		})
		t.Run(f.name+"-control", func(t *testing.T) {
			if what := f.missing(); what != "" {
				t.Skipf("no power cut on %s: this machine lacks %s", f.name, what)
			}
			run := recordRun(t, f, seed, true)
			promised, lost := 0, 0
			for n := range max(10, images()/6) {
				v, _ := run.image(t, n)
				if v.Promised > 0 {
					promised++
					if len(v.Problems) > 0 {
						lost++
					}
				}
			}
			t.Logf("without fsync %d of %d images lost what was promised", lost, promised)
			if promised == 0 || lost*2 < promised {
				t.Errorf("without fsync only %d of %d images lost anything: this test cannot see a loss", lost, promised)
			}
		})
	}
}

// recording is a run of the writer.
type recording struct {
	stage  *stage
	fs     fileSystem
	seed   uint64
	start  *memory
	events []event
	did    progress
}

// recordRun runs a writer on a fresh disk.
func recordRun(t *testing.T, f fileSystem, seed uint64, nosync bool) *recording {
	t.Helper()
	run := &recording{stage: newStage(t), fs: f, seed: seed}
	d := newDisk(newMemory(f.size))
	path := run.stage.put(d)
	defer run.stage.take(path)
	done := false
	err := runChild("writer", job{FS: f.name, Disk: path, Dir: t.TempDir(), Seed: seed, NoSync: nosync}, func(line []byte) error {
		var n note
		if err := json.Unmarshal(line, &n); err != nil {
			return fmt.Errorf("%w: %s", err, line)
		}
		switch {
		case n.Ready:
			run.start = d.start()
		case n.Done:
			run.events, run.did, done = d.stop(), *n.Stats, true
		default:
			d.promise(n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !done {
		t.Fatal("the writer ended without a word")
	}
	count := map[byte]int{}
	for _, e := range run.events {
		count[e.kind]++
	}
	t.Logf("%s: %d writes, %d flushes, %d notes; %+v", f.name, count['w'], count['f'], count['p'], run.did)
	return run
}

// image cuts the power once and judges what is left.
func (run *recording) image(t *testing.T, n int) (v verdict, where string) {
	t.Helper()
	r := rand.New(rand.NewPCG(run.seed, uint64(n)+100))
	at := cutPlace(run.events, r)
	keep := []int{0, 10, 50, 50, 90, 100}[r.IntN(6)]
	where = fmt.Sprintf("seed %d, cut after event %d of %d, %d %% of the sectors kept", run.seed, at, len(run.events), keep)

	j := job{FS: run.fs.name, Dir: t.TempDir()}
	for _, e := range run.events[:at] {
		if e.kind == 'p' {
			j.Notes = append(j.Notes, e.note)
		}
	}
	j.Disk = run.stage.put(newDisk(cut(run.start, run.events, at, r, keep)))
	defer run.stage.take(j.Disk)
	if err := runChild("judge", j, func(line []byte) error { return json.Unmarshal(line, &v) }); err != nil {
		t.Fatalf("image %d (%s): %v", n, where, err)
	}
	return v, where
}

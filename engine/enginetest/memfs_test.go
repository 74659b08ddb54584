package enginetest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/spf13/afero"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/fsadapter"
)

// TestOpenOnMemMapFs runs a store on afero's file system in memory, as a user's tests do: it cannot preallocate, sync or
// lock, and the store asks for none of that.
func TestOpenOnMemMapFs(t *testing.T) {
	fsys := fsadapter.New(afero.NewMemMapFs())
	for _, dir := range []string{".", "a/store"} {
		t.Run(dir, func(t *testing.T) {
			s := enginetest.Open(t, enginetest.Config{FS: fsys, Dir: dir, Options: engine.Options{Retention: time.Minute}})
			for i := range 60 {
				got := s.Do(
					&engine.Put{Topic: "now", Queue: 0, Body: make([]byte, 1000)},
					&engine.Put{Topic: "level", Queue: 0, Level: 1 + i%3, Body: []byte(fmt.Sprint(i))},
					&engine.Put{Topic: "timed", Queue: 0, DelayMs: 1 + int64(i)*90_000, Body: []byte(fmt.Sprint(i))},
				)
				if i%5 == 0 {
					s.Do(&engine.Cancel{Handle: got[2].Handle()})
				}
				s.Pass(time.Second)
			}
			s.Reopen(time.Hour)
			s.Pass(time.Hour)
			for topic, want := range map[string]int64{"level": 60, "timed": 48} {
				info, ok, _ := s.Topic(topic)
				if !ok || info.Queues[0].Next != want || info.Pending != 0 {
					t.Errorf("topic %s: %+v, want %d messages", topic, info, want)
				}
			}
		})
	}
}

// ExampleClock shows a year that passes at once.
func ExampleClock() {
	clock := enginetest.NewClock(enginetest.Epoch)
	clock.Pass(365 * 24 * time.Hour)
	fmt.Println(time.UnixMilli(clock.Wall()).UTC().Format(time.DateOnly))
	// Output: 2027-01-01
}

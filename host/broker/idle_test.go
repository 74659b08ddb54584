package broker_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/host/broker"
)

// With nothing due the writer wakes up once a second at most, whatever waits; and a step of the clock, of which nobody tells
// it, delays what it made due by no more than that second.
func TestIdleAndClockStepsInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var step atomic.Int64 // ms
		wall := func() int64 { return time.Now().UnixMilli() + step.Load() }
		b, err := broker.Open(broker.Env{FS: crashfs.New(crashfs.Options{}), Wall: wall}, ".", broker.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}()
		for range 1000 {
			mustPut(t, b, broker.Message{Topic: "t", At: broker.In(48 * time.Hour)})
		}
		time.Sleep(time.Minute) // jobs end
		synctest.Wait()
		const seconds = 600
		before := b.Measures().Turns
		time.Sleep(seconds * time.Second)
		synctest.Wait()
		turns := b.Measures().Turns - before
		t.Logf("%d turns in %d idle seconds", turns, seconds)
		if turns == 0 || turns > seconds+1 {
			t.Errorf("%d turns in %d idle seconds", turns, seconds)
		}
		for _, hours := range []int64{-5, 60} { // back, and beyond the due time
			step.Add(hours * time.Hour.Milliseconds())
			time.Sleep(time.Second + time.Millisecond)
			synctest.Wait()
			info, err := b.Topic(t.Context(), "t")
			if err != nil {
				t.Fatal(err)
			}
			if want := map[int64]int64{-5: 1000, 60: 0}[hours]; info.Pending != want {
				t.Errorf("a second after a step by %d h %d messages wait, want %d", hours, info.Pending, want)
			}
		}
	})
}

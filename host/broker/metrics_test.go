package broker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/host/broker"
)

func sum(counts []int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}

// What is answered is counted by its outcome, what is delivered by how late it was, and each fsync and batch once.
func TestMeasures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := broker.Open(broker.Env{FS: crashfs.New(crashfs.Options{})}, ".", broker.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		put := func(at broker.When) broker.Receipt {
			t.Helper()
			r, err := b.Put(ctx, broker.Message{Topic: "t", Body: []byte("x"), At: at})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		put(broker.When{})
		moved, err := b.Move(ctx, put(broker.In(time.Hour)).Handle, b.NowMs()+1000)
		if err != nil {
			t.Fatal(err)
		}
		cancelled := put(broker.Level(3)).Handle
		for range 2 {
			if _, err := b.Cancel(ctx, cancelled); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.Undo(ctx, cancelled); err != nil {
			t.Fatal(err)
		}
		put(broker.In(2 * time.Second))
		if _, err := b.Put(ctx, broker.Message{Topic: "not allowed", At: broker.Level(1)}); err == nil {
			t.Fatal("a topic with a space was taken")
		}
		time.Sleep(5 * time.Second)
		if _, err := b.Cancel(ctx, moved.Handle); err != nil {
			t.Fatal(err)
		}
		m := b.Measures()
		want := broker.Counts{Visible: 1, Scheduled: 3, Cancelled: 1, Moved: 1, Restored: 1, TooLate: 1, Refused: 1}
		if m.Counts != want || m.Delivered != 2 {
			t.Errorf("%+v, %d delivered, want %+v and 2", m.Counts, m.Delivered, want)
		}
		// In a bubble nothing takes time: both came in the millisecond in which they were due.
		if m.Lateness.Counts[0] != 2 || m.Lateness.Sum > .002 {
			t.Errorf("lateness %+v", m.Lateness)
		}
		if syncs, batches := sum(m.Syncs.Counts), sum(m.Batches.Counts); syncs < 8 || batches < 8 || m.Batches.Sum < 8 {
			t.Errorf("%d syncs, %d batches of %v requests", syncs, batches, m.Batches.Sum)
		}
		usage, err := b.DiskUsage()
		if err != nil || usage["commitlog"] == 0 || usage["other"] == 0 {
			t.Errorf("%v, %v", usage, err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

package schedule_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/schedule"
	"github.com/tidewheel/tidewheel/engine/timerlog"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

func TestSetIsSorted(t *testing.T) {
	s := open(t, crashfs.New(crashfs.Options{}), schedule.States{})
	for _, delayMs := range []int64{7_200_000, 1000, 5000, 1, 1000, schedule.MaxDelayMs} {
		if q := ensure(t, s, delayMs); q.DelayMs() != delayMs || s.Queue(delayMs) != q {
			t.Errorf("%d: got %d", delayMs, q.DelayMs())
		}
	}
	var got []int64
	for q := range s.All() {
		got = append(got, q.DelayMs())
	}
	if want := []int64{1, 1000, 5000, 7_200_000, schedule.MaxDelayMs}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for range s.All() {
		break // an iteration may end early
	}
	if s.Queue(2) != nil {
		t.Error("a queue that nobody made")
	}
	for _, delayMs := range []int64{0, -1, schedule.MaxDelayMs + 1} {
		_, err := s.Ensure(delayMs)
		if !errors.Is(err, schedule.ErrDelay) || !strings.HasPrefix(err.Error(), fmt.Sprintf("schedule: delay %d ms: ", delayMs)) {
			t.Errorf("delay %d: %v", delayMs, err)
		}
	}
}

func TestSetStart(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	s := open(t, fsys, schedule.States{})
	q, err := s.Start(1000, 5000)
	if err != nil {
		t.Fatal(err)
	}
	if q.First() != 5000 || q.Len() != 5000 {
		t.Errorf("bounds [%d, %d)", q.First(), q.Len())
	}
	_, err = s.Start(1000, 0)
	if !errors.Is(err, schedule.ErrExists) || !strings.HasPrefix(err.Error(), "schedule: delay 1000 ms: ") {
		t.Errorf("again: %v", err)
	}
	appendTo(t, q, 5020)
	q = open(t, fsys, checkpoint(t, s, 0)).Queue(1000)
	if q.DelayMs() != 1000 || q.First() != 5000 || q.Len() != 5020 {
		t.Errorf("came back as delay %d, [%d, %d)", q.DelayMs(), q.First(), q.Len())
	}
	checkEntries(t, q)
}

func ExampleSet() {
	set, err := schedule.Open(crashfs.New(crashfs.Options{}), "schedule", schedule.Options{}, schedule.States{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fiveSeconds, err := set.Ensure(5000)
	if err != nil {
		fmt.Println(err)
		return
	}
	for id := range uint64(3) {
		due := 10_000 + int64(id)*100
		if err := fiveSeconds.Append(timerlog.Entry{Key: timerlog.Key{Due: due, ID: id}}); err != nil {
			fmt.Println(err)
		}
	}
	// The frontier is (10000, 0): what is above it waits.
	from, err := fiveSeconds.Search(timerlog.Key{Due: 10_000})
	if err != nil {
		fmt.Println(err)
	}
	head := fiveSeconds.Cursor(from)
	for e, ok, err := head.Next(); ok; e, ok, err = head.Next() {
		fmt.Println(e.Due, e.ID, err)
	}
	fiveSeconds.Trim(from)
	fmt.Println(set.Close())
	// Output:
	// 10100 1 <nil>
	// 10200 2 <nil>
	// <nil>
}

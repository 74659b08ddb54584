package engine_test

import (
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
)

// A level says what waits, when its head is due, and what came and went in the last minute.
func TestLevels(t *testing.T) {
	o := roomy()
	o.Levels = "1s 10s 1h 10s"
	s := enginetest.Open(t, enginetest.Config{Options: o})
	level := func(n int) *engine.Put { return &engine.Put{Topic: "t", Level: n, Body: []byte("x")} }
	look := func(when string, want ...engine.LevelInfo) {
		t.Helper()
		got, err := s.Levels()
		if err != nil || len(got) != len(want) {
			t.Fatalf("%s: %+v, %v", when, got, err)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: level %d is %+v, want %+v", when, i+1, got[i], want[i])
			}
		}
	}
	look("empty", engine.LevelInfo{Level: 1, DelayMs: 1000}, engine.LevelInfo{Level: 2, DelayMs: 10_000},
		engine.LevelInfo{Level: 3, DelayMs: 3600_000}, engine.LevelInfo{Level: 4, DelayMs: 10_000})
	began := s.Clock.Wall()
	s.Do(level(1), level(2), level(2), level(3))
	s.Pass(5 * time.Second)
	s.Do(level(4))
	tens := func(l int) engine.LevelInfo {
		return engine.LevelInfo{Level: l, DelayMs: 10_000, Waiting: 3, Came: 3, HeadDueMs: began + 10_000}
	}
	look("5 s later", engine.LevelInfo{Level: 1, DelayMs: 1000, Came: 1, Due: 1}, tens(2),
		engine.LevelInfo{Level: 3, DelayMs: 3600_000, Waiting: 1, Came: 1, HeadDueMs: began + 3600_000}, tens(4))
	s.Pass(2 * time.Minute)
	look("2 min later", engine.LevelInfo{Level: 1, DelayMs: 1000}, engine.LevelInfo{Level: 2, DelayMs: 10_000},
		engine.LevelInfo{Level: 3, DelayMs: 3600_000, Waiting: 1, HeadDueMs: began + 3600_000}, engine.LevelInfo{Level: 4, DelayMs: 10_000})
}

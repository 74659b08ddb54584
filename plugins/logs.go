package plugins

import (
	"context"
	"log/slog"
	"sync"

	"github.com/tidewheel/tidewheel/plugins/abi"
)

// LogLine is a line that a plugin wrote.
type LogLine struct {
	TimeMs int64 // of the batch that was being decided
	Level  slog.Level
	Text   string // one line of valid UTF-8, at most abi.MaxLog bytes
}

const keepLines = 100

// logs take the lines of all instances of a module: to the host's logger and to a ring of the last ones. What a guest writes
// beyond its rate is counted and forgotten; the rate is by the times of the batches, which is all the time there is here.
// Safe for concurrent use.
type logs struct {
	log   *slog.Logger
	name  string
	level slog.Level
	rate  int // lines per second

	mu      sync.Mutex
	second  int64
	written int
	dropped int64
	ring    []LogLine
	next    int
}

func newLogs(log *slog.Logger, name string, rate int) *logs {
	level := slog.LevelError + 4
	for _, l := range []slog.Level{slog.LevelError, slog.LevelWarn, slog.LevelInfo, slog.LevelDebug} {
		if log.Enabled(context.Background(), l) {
			level = l
		}
	}
	return &logs{log: log, name: name, level: min(level, slog.LevelInfo), rate: rate}
}

func (l *logs) add(nowMs int64, level slog.Level, text string) {
	said := LogLine{TimeMs: nowMs, Level: level, Text: line(text, abi.MaxLog)}
	if !l.keep(said) {
		return
	}
	l.log.Log(context.Background(), level, "plugin says", "plugin", l.name, "line", said.Text)
}

// keep puts the line into the ring; false when there were too many.
func (l *logs) keep(line LogLine) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := line.TimeMs / 1000; s != l.second {
		l.second, l.written = s, 0
	}
	if l.written >= l.rate {
		l.dropped++
		return false
	}
	l.written++
	if len(l.ring) < keepLines {
		l.ring = append(l.ring, line)
	} else {
		l.ring[l.next] = line
		l.next = (l.next + 1) % keepLines
	}
	return true
}

// lines are the last lines, oldest first, and how many were dropped.
func (l *logs) lines() ([]LogLine, int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append(append([]LogLine(nil), l.ring[l.next:]...), l.ring[:l.next]...), l.dropped
}

// Package timerlog is the TimerLog: the append-only files in which pending messages wait on disk, sorted by the time
// they fall due.
package timerlog

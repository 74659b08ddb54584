// Command guest is the engine as a program of its own, on the files of package osfs: it stores messages that are due in a
// moment of its own clock, fires them, and prints how many it did in a second of the host's. It is built for wasip1 and
// natively, and so measures what a guest costs.
//
//	guest DIR COUNT
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/vfs/osfs"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: guest DIR COUNT")
	}
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	files, err := osfs.New(args[0])
	if err != nil {
		return err
	}
	start, now := time.Now(), time.Now().UnixMilli()
	env := engine.Env{FS: files, Wall: func() int64 { return now }, Mono: func() int64 { return int64(time.Since(start)) }}
	s, err := engine.OpenSolo(env, ".", engine.Options{Profile: engine.ProfileEdge, Reserve: -1, NoLock: true})
	if err != nil {
		return err
	}
	began := time.Now()
	if err := put(s, count, now); err != nil {
		return err
	}
	puts := time.Since(began)
	now += 3_600_000
	began = time.Now()
	if _, err := s.Step(); err != nil {
		return err
	}
	fires := time.Since(began)
	if st := s.Stats(); st.Pending != 0 || st.Fired != int64(count) {
		return fmt.Errorf("%d fired and %d wait, of %d", st.Fired, st.Pending, count)
	}
	fmt.Printf("put %.0f/s fire %.0f/s\n", float64(count)/puts.Seconds(), float64(count)/fires.Seconds())
	return s.Close()
}

// put stores messages in batches of 100, each durable before the next.
func put(s *engine.Solo, count int, now int64) error {
	cmds := make([]engine.Command, 0, 100)
	for i := 0; i < count; {
		for cmds = cmds[:0]; len(cmds) < 100 && i < count; i++ {
			due := now + 1000 + int64(i)*7919%3_000_000
			cmds = append(cmds, &engine.Put{Topic: "t", Queue: engine.AnyQueue, DueMs: due, Body: make([]byte, 200)})
		}
		answers, err := s.Do(cmds...)
		if err != nil {
			return err
		}
		for _, a := range answers {
			if a.Err != nil {
				return a.Err
			}
		}
	}
	return nil
}

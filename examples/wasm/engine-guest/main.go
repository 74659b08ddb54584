// Command engine-guest is Tidewheel's engine as a WASM guest: a store of delayed messages in a sandbox that has nothing of the
// world but one directory. Package host, beside it, is what lends it that directory. Each run opens the store, does one
// thing and ends, by itself or because it is killed:
//
//	engine-guest DIR NOW put FIRST COUNT   stores messages FIRST to FIRST+COUNT-1, ten at a time, due 1 to 60 seconds after NOW;
//	                                       prints "stored N" when all below N are durable
//	engine-guest DIR NOW fire              fires what is due at NOW; prints "fired N"
//	engine-guest DIR NOW list              prints "visible OFFSET KEY DUE" for each message of the topic, and "waiting N"
//
// NOW is the time of day in ms since 1970: a guest has no other clock. What is printed is promised: after a crash it still
// holds.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/vfs/osfs"
)

const topic = "reminders"

func main() { os.Exit(status(run(os.Args[1:], os.Stdout))) }

func status(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "engine-guest:", err)
	return 1
}

func run(args []string, out io.Writer) error {
	if len(args) < 3 {
		return errors.New("usage: engine-guest DIR NOW put FIRST COUNT | fire | list")
	}
	now, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	s, err := open(args[0], now)
	if err != nil {
		return err
	}
	switch verb := args[2]; {
	case verb == "put" && len(args) == 5:
		err = put(s, now, args[3], args[4], out)
	case verb == "fire":
		_, err = s.Step()
		fmt.Fprintln(out, "fired", s.Stats().Fired)
	case verb == "list":
		err = list(s, out)
	default:
		err = fmt.Errorf("no verb %q of %d arguments", verb, len(args)-3)
	}
	return errors.Join(err, s.Close())
}

// open opens the store. The profile is for small machines, and a guest has no file locks: the host sees to it that a
// directory is lent to one guest at a time.
func open(dir string, now int64) (*engine.Solo, error) {
	files, err := osfs.New(dir)
	if err != nil {
		return nil, err
	}
	clock := engine.Env{FS: files, Wall: func() int64 { return now }, Mono: func() int64 { return now * 1_000_000 }}
	return engine.OpenSolo(clock, ".", engine.Options{Profile: engine.ProfileEdge, Reserve: -1, NoLock: true})
}

func put(s *engine.Solo, now int64, firstText, countText string, out io.Writer) error {
	first, err := strconv.Atoi(firstText)
	if err != nil {
		return err
	}
	count, err := strconv.Atoi(countText)
	if err != nil {
		return err
	}
	for i := first; i < first+count; {
		var batch []engine.Command
		for ; len(batch) < 10 && i < first+count; i++ {
			batch = append(batch, &engine.Put{Topic: topic, DueMs: now + 1000*int64(1+i*7%60), Key: fmt.Appendf(nil, "k%06d", i), Body: []byte("remember")})
		}
		answers, err := s.Do(batch...)
		if err != nil {
			return err
		}
		for _, a := range answers {
			if a.Err != nil {
				return a.Err
			}
		}
		fmt.Fprintln(out, "stored", i)
	}
	return nil
}

func list(s *engine.Solo, out io.Writer) error {
	var p engine.Pulled
	for offset := int64(0); ; offset = p.Next {
		err := s.Pull(engine.PullRequest{Topic: topic, Offset: offset, MaxCount: 1000}, &p)
		if errors.Is(err, engine.ErrNoTopic) {
			break
		}
		if err != nil {
			return err
		}
		for _, m := range p.Messages {
			if m.Err != nil {
				return m.Err
			}
			fmt.Fprintln(out, "visible", m.Offset, string(m.Key), m.DueMs)
		}
		if p.Next >= p.Max {
			break
		}
	}
	fmt.Fprintln(out, "waiting", s.Stats().Pending)
	return nil
}

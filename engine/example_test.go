package engine_test

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/afero"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/fsadapter"
)

// A message with a delay level, in a directory of the disk. Level 3 of the default table is 10 s. The clock is the test's, so
// that the example does not wait; a server hands in time.Now.
func Example() {
	dir, err := os.MkdirTemp("", "tidewheel")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	root, err := fsadapter.OpenRoot(dir)
	if err != nil {
		panic(err)
	}
	clock := enginetest.NewClock(enginetest.Epoch)
	s, err := engine.OpenSolo(engine.Env{FS: fsadapter.New(root), Wall: clock.Wall, Mono: clock.Mono}, ".", engine.Options{})
	if err != nil {
		panic(err)
	}
	defer s.Close()

	answers, err := s.Do(&engine.Put{Topic: "orders", Queue: 0, Level: 3, Body: []byte("order 4711 is not paid")})
	if err != nil {
		panic(err)
	}
	fmt.Println(answers[0].Outcome == engine.Scheduled, "due after", answers[0].DueMs-clock.Wall(), "ms")

	read := func() {
		var p engine.Pulled
		if err := s.Pull(engine.PullRequest{Topic: "orders", Queue: 0}, &p); err != nil {
			panic(err)
		}
		fmt.Println(len(p.Messages), "visible")
		for _, m := range p.Messages {
			fmt.Printf("offset %d: %s\n", m.Offset, m.Body)
		}
	}
	read()
	clock.Pass(10 * time.Second)
	if _, err := s.Step(); err != nil { // delivers what is due
		panic(err)
	}
	read()
	// Output:
	// true due after 10000 ms
	// 0 visible
	// 1 visible
	// offset 0: order 4711 is not paid
}

// The engine on a file system in memory: any afero.Fs will do.
func ExampleOpenSolo() {
	clock := enginetest.NewClock(enginetest.Epoch)
	env := engine.Env{FS: fsadapter.New(afero.NewMemMapFs()), Wall: clock.Wall, Mono: clock.Mono}
	s, err := engine.OpenSolo(env, "data", engine.Options{Levels: "1s 1m 1h"})
	if err != nil {
		panic(err)
	}
	// A level, a time of its own, and no delay at all.
	answers, err := s.Do(
		&engine.Put{Topic: "mail", Queue: 0, Level: 2, Body: []byte("in a minute")},
		&engine.Put{Topic: "mail", Queue: 0, DelayMs: 1500, Body: []byte("in a second and a half")},
		&engine.Put{Topic: "mail", Queue: 0, Body: []byte("now")},
	)
	if err != nil {
		panic(err)
	}
	for _, a := range answers {
		fmt.Println(a.Outcome == engine.Stored, a.DueMs, a.Err)
	}
	if err := s.Close(); err != nil {
		panic(err)
	}

	// What was acknowledged is there when it is opened again, and what fell due meanwhile is delivered.
	clock.Restart(time.Minute)
	if s, err = engine.OpenSolo(env, "data", engine.Options{Levels: "1s 1m 1h"}); err != nil {
		panic(err)
	}
	defer s.Close()
	if _, err := s.Step(); err != nil {
		panic(err)
	}
	var p engine.Pulled
	if err := s.Pull(engine.PullRequest{Topic: "mail", Queue: 0}, &p); err != nil {
		panic(err)
	}
	for _, m := range p.Messages {
		fmt.Println(string(m.Body))
	}
	// Output:
	// false 1767225660000 <nil>
	// false 1767225601500 <nil>
	// true 0 <nil>
	// now
	// in a second and a half
	// in a minute
}

// A handle takes a message back as long as it waits. It is signed, so that it can go to the producer and come back.
func ExampleCancel() {
	clock := enginetest.NewClock(enginetest.Epoch)
	env := engine.Env{FS: fsadapter.New(afero.NewMemMapFs()), Wall: clock.Wall, Mono: clock.Mono}
	s, err := engine.OpenSolo(env, ".", engine.Options{})
	if err != nil {
		panic(err)
	}
	defer s.Close()
	answers, err := s.Do(&engine.Put{Topic: "orders", Queue: 0, Level: 16, Body: []byte("close the order")})
	if err != nil {
		panic(err)
	}
	text := s.SealHandle(answers[0].Handle()) // to the producer

	for range 2 {
		h, err := s.OpenHandle(text)
		if err != nil {
			panic(err)
		}
		if answers, err = s.Do(&engine.Cancel{Handle: h}); err != nil {
			panic(err)
		}
		switch answers[0].Outcome {
		case engine.Cancelled:
			fmt.Println("cancelled")
		case engine.AlreadyCancelled:
			fmt.Println("was cancelled before")
		}
	}
	if _, err := s.OpenHandle(text[:len(text)-1] + "x"); err != nil {
		fmt.Println("a forged handle is refused")
	}
	// Output:
	// cancelled
	// was cancelled before
	// a forged handle is refused
}

// Check proves a directory that nobody has open: every invariant across its files.
func ExampleCheck() {
	clock := enginetest.NewClock(enginetest.Epoch)
	env := engine.Env{FS: fsadapter.New(afero.NewMemMapFs()), Wall: clock.Wall, Mono: clock.Mono}
	s, err := engine.OpenSolo(env, "data", engine.Options{})
	if err != nil {
		panic(err)
	}
	if _, err := s.Do(
		&engine.Put{Topic: "orders", Queue: 0, Body: []byte("visible")},
		&engine.Put{Topic: "orders", Queue: 0, Level: 18, Body: []byte("in two hours")},
	); err != nil {
		panic(err)
	}
	if err := s.Close(); err != nil {
		panic(err)
	}
	report, err := engine.Check(env, "data", engine.Options{})
	fmt.Println(report.Units, "visible,", report.Pending, "waiting,", err)
	// Output:
	// 1 visible, 1 waiting, <nil>
}

// Dump prints what files hold.
func ExampleDump() {
	clock := enginetest.NewClock(enginetest.Epoch)
	env := engine.Env{FS: fsadapter.New(afero.NewMemMapFs()), Wall: clock.Wall, Mono: clock.Mono}
	s, err := engine.OpenSolo(env, "data", engine.Options{})
	if err != nil {
		panic(err)
	}
	if _, err := s.Do(&engine.Put{Topic: "orders", Queue: 0, Body: []byte("one")}, &engine.Put{Topic: "orders", Queue: 0, Body: []byte("two")}); err != nil {
		panic(err)
	}
	if err := s.Close(); err != nil {
		panic(err)
	}
	var out strings.Builder
	if err := engine.Dump(env, "data", "consumequeue", &out, false); err != nil {
		panic(err)
	}
	for line := range strings.Lines(out.String()) {
		line, _, _ = strings.Cut(line, " pos=") // and more
		fmt.Println(strings.TrimSpace(line))
	}
	// Output:
	// queue    topic=orders  queue=0    topicID=1    min=0     max=2
	// unit     topic=orders  queue=0    offset=0
	// unit     topic=orders  queue=0    offset=1
}

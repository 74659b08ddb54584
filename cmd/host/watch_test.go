package main

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/host/broker"
)

// TestWatchGoesOn: a connection that is lost is made again, and each event is shown once.
func TestWatchGoesOn(t *testing.T) {
	b, s := inProcess(t)
	put := func(key string) {
		t.Helper()
		if _, err := b.Put(t.Context(), broker.Message{Topic: "orders", Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	put("before")
	r, w := io.Pipe()
	ended := make(chan int)
	var talk strings.Builder
	go func() {
		code := run([]string{"watch", "--kind", "stored", "--from", "first", "-o", "csv", "--columns", "key", "--max", "4"}, nil, w, &talk)
		w.Close()
		ended <- code
	}()
	lines := bufio.NewScanner(r)
	next := func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("%q, want %q", lines.Text(), want)
		}
	}
	next("key")
	next("before")
	s.CloseClientConnections()
	put("while it was away")
	next("while it was away")
	put("there again")
	next("there again")
	s.CloseClientConnections()
	s.CloseClientConnections()
	put("last")
	next("last")
	if lines.Scan() {
		t.Errorf("%q came after the last", lines.Text())
	}
	if code := <-ended; code != exitOK || !strings.Contains(talk.String(), "the connection was lost") {
		t.Errorf("exit %d: %s", code, &talk)
	}
}

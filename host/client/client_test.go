package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/client"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

// serve runs a server on a file system in memory.
func serve(tb testing.TB) *client.Client {
	tb.Helper()
	b, err := broker.Open(broker.Env{FS: crashfs.New(crashfs.Options{})}, ".", broker.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	s := httptest.NewServer(httpapi.Handler(b, httpapi.Options{}))
	c, err := client.New(s.URL + "/")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		c.CloseIdle()
		s.Close()
		if err := b.Close(); err != nil {
			tb.Error(err)
		}
	})
	return c
}

func TestClient(t *testing.T) {
	c, ctx := serve(t), t.Context()
	if err := c.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	if topic, err := c.DefineTopic(ctx, "t%20x", 2); err != nil || len(topic.Queues) != 2 || topic.Name != "t%20x" {
		t.Fatalf("%+v, %v", topic, err)
	}
	body := "hello"
	if s, err := c.Put(ctx, "t%20x", httpapi.Envelope{Topic: "not used", Body: &body, Key: "k"}); err != nil || s.State != httpapi.StateVisible {
		t.Fatalf("%+v, %v", s, err)
	}
	s, err := c.PutRaw(ctx, "t%20x", http.Header{httpapi.HeaderLevel: {"18"}}, []byte("later"))
	if err != nil || s.State != httpapi.StateScheduled {
		t.Fatalf("%+v, %v", s, err)
	}
	if timer, err := c.Timer(ctx, s.Handle); err != nil || timer.State != httpapi.StateScheduled {
		t.Errorf("%+v, %v", timer, err)
	}
	if out, err := c.Cancel(ctx, s.Handle); err != nil || out.Outcome != httpapi.OutcomeCancelled {
		t.Errorf("%+v, %v", out, err)
	}
	results, err := c.PutBatch(ctx, []byte(`{"topic":"u","body":"1"}`+"\n"+`{"topic":"u","delay_level":-1}`))
	if err != nil || len(results) != 2 || results[0].Stored == nil || results[1].Problem == nil {
		t.Fatalf("%+v, %v", results, err)
	}
	got, err := c.Pull(ctx, client.Pull{Topic: "t%20x", Group: "g", Tags: []string{""}, Max: 7, Wait: time.Second})
	if err != nil || len(got.Messages) != 1 || string(got.Messages[0].Bytes()) != body {
		t.Fatalf("%+v, %v", got, err)
	}
	ack := httpapi.Ack{Group: "g", Offsets: []httpapi.QueueOffset{{Queue: got.Messages[0].Queue, Offset: 1}}}
	if err := c.Ack(ctx, "t%20x", ack); err != nil {
		t.Error(err)
	}
	from := []httpapi.QueueOffset{{Queue: got.Messages[0].Queue, Offset: -1}}
	if got, err := c.Pull(ctx, client.Pull{Topic: "t%20x", Group: "g", From: from}); err != nil || len(got.Messages) != 0 || got.Next[0].Offset != 1 {
		t.Errorf("after the ack: %+v, %v", got, err)
	}
	if list, err := c.Topics(ctx); err != nil || len(list.Topics) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	if status, err := c.Status(ctx); err != nil || status.State != httpapi.ServerReady {
		t.Errorf("%+v, %v", status, err)
	}
}

func TestClientTimers(t *testing.T) {
	c, ctx := serve(t), t.Context()
	body, delay, by := "x", "1h", "+30m"
	var handles []string
	for range 5 {
		s, err := c.Put(ctx, "t", httpapi.Envelope{Body: &body, Tag: "a", Key: "k", Time: httpapi.Time{Delay: &delay}})
		if err != nil || s.State != httpapi.StateScheduled {
			t.Fatalf("%+v, %v", s, err)
		}
		handles = append(handles, s.Handle)
	}
	moved, err := c.Move(ctx, handles[0], httpapi.Reschedule{By: &by})
	if err != nil || moved.Outcome != httpapi.OutcomeMoved {
		t.Errorf("%+v, %v", moved, err)
	}
	n, last := 0, int64(0)
	for w, err := range c.Timers(ctx, client.List{Topic: "t", Tags: []string{"a", "b"}, Key: "k", From: "+30m", To: "+1d", Limit: 2}) {
		if err != nil || w.DueMs < last {
			t.Fatalf("%+v, %v", w, err)
		}
		n, last = n+1, w.DueMs
	}
	if n != 5 || last != moved.DueMs {
		t.Errorf("listed %d, the last due %d", n, last)
	}
	if h, err := c.Horizon(ctx, client.Horizon{Topic: "t", From: "@0", To: "+1d", Step: "1y"}); err != nil || h.Total != 5 {
		t.Errorf("%+v, %v", h, err)
	}
	if x, err := c.Explain(ctx, moved.Handle); err != nil || x.State != httpapi.StateScheduled || len(x.Events) != 1 {
		t.Errorf("%+v, %v", x, err)
	}
	if fired, err := c.Fire(ctx, handles[1]); err != nil || fired.Outcome != httpapi.OutcomeFired {
		t.Errorf("%+v, %v", fired, err)
	}
	if _, err := c.Cancel(ctx, handles[2]); err != nil {
		t.Error(err)
	}
	if back, err := c.Undo(ctx, handles[2]); err != nil || back.Outcome != httpapi.OutcomeRestored {
		t.Errorf("%+v, %v", back, err)
	}
	var p *httpapi.Problem
	for _, err := range c.Timers(ctx, client.List{Topic: "nosuch"}) {
		if !errors.As(err, &p) || p.Status != 404 {
			t.Errorf("no such topic: %v", err)
		}
	}
	if _, err := c.Undo(ctx, handles[1]); !errors.As(err, &p) || p.Code != "superseded" {
		t.Errorf("undo by an old handle: %v", err)
	}
}

func TestErrors(t *testing.T) {
	c, ctx := serve(t), t.Context()
	var p *httpapi.Problem
	if _, err := c.Pull(ctx, client.Pull{Topic: "none"}); !errors.As(err, &p) || p.Code != "unknown_topic" || p.Status != 404 {
		t.Errorf("no such topic: %v", err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := c.Ready(ended); !errors.Is(err, client.ErrUnreachable) || !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: %v", err)
	}
	nobody, err := client.New("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := nobody.Ready(ctx); !errors.Is(err, client.ErrUnreachable) || !errors.Is(err, client.ErrNotSent) {
		t.Errorf("nobody there: %v", err)
	}
	for _, url := range []string{"", "localhost:7070", "ftp://x", "http://", "http://[::1", "://"} {
		if _, err := client.New(url); err == nil {
			t.Errorf("%q was taken", url)
		}
	}
}

// A server that is none of ours, or that breaks off, is told apart from one that refuses.
func TestForeignServer(t *testing.T) {
	handlers := map[string]http.HandlerFunc{
		"text":     func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") },
		"cut":      func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"error":    func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadGateway) },
		"redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
	}
	want := map[string]bool{"text": true, "cut": true} // unreachable; else a problem
	for name, h := range handlers {
		s := httptest.NewServer(h)
		c, err := client.New(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.PutRaw(t.Context(), "t", nil, nil)
		var p *httpapi.Problem
		if errors.Is(err, client.ErrUnreachable) != want[name] || errors.As(err, &p) == want[name] || errors.Is(err, client.ErrNotSent) {
			t.Errorf("%s: %v", name, err)
		}
		if p != nil && p.Code != "foreign_answer" {
			t.Errorf("%s: %+v", name, p)
		}
		s.Close()
	}
}

package client_test

import (
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/client"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

// must fails the test when a call did.
func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// isProblem says whether an error is a problem with a code.
func isProblem(err error, code string) bool {
	var p *httpapi.Problem
	return errors.As(err, &p) && p.Code == code
}

func put(t *testing.T, c *client.Client, topic, body string, delay ...string) httpapi.Stored {
	t.Helper()
	e := httpapi.Envelope{Body: &body, Tag: "x"}
	if len(delay) > 0 {
		e.Delay = &delay[0]
	}
	return must[httpapi.Stored](t)(c.Put(t.Context(), topic, e))
}

func TestGroups(t *testing.T) {
	c, ctx := serve(t), t.Context()
	for _, body := range []string{"a", "b", "c"} {
		put(t, c, "t", body)
	}
	got := must[httpapi.Messages](t)(c.Pull(ctx, client.Pull{Topic: "t", Group: "g", AckTimeout: time.Minute}))
	if len(got.Messages) != 3 || got.Messages[0].Receipt == "" || got.Messages[0].Attempt != 1 {
		t.Fatalf("%+v", got)
	}
	if again := must[httpapi.Messages](t)(c.Pull(ctx, client.Pull{Topic: "t", Group: "g"})); len(again.Messages) != 0 {
		t.Errorf("leased twice: %+v", again)
	}
	if err := c.Extend(ctx, "t", got.Messages[0].Receipt, 2*time.Minute); err != nil {
		t.Error(err)
	}
	acked := must[[]httpapi.AckResult](t)(c.AckReceipts(ctx, "t", got.Messages[0].Receipt, "forged"))
	if len(acked) != 2 || acked[0].Outcome != httpapi.OutcomeAcked || acked[1].Outcome != httpapi.OutcomeNotFound {
		t.Errorf("%+v", acked)
	}
	delay := "1h"
	if r := must[httpapi.Retried](t)(c.Retry(ctx, "t", httpapi.Retry{Receipt: got.Messages[1].Receipt, Delay: &delay})); r.DeadLetter || r.DueMs == 0 {
		t.Errorf("%+v", r)
	}
	if r := must[httpapi.Retried](t)(c.Retry(ctx, "t", httpapi.Retry{Receipt: got.Messages[2].Receipt, Reject: true, Reason: "why not"})); !r.DeadLetter {
		t.Errorf("%+v", r)
	}
	if _, err := c.Retry(ctx, "t", httpapi.Retry{Receipt: got.Messages[2].Receipt}); !isProblem(err, "lease_expired") {
		t.Errorf("twice: %v", err)
	}
	if g := must[httpapi.Group](t)(c.Group(ctx, "g")); g.Lag != 0 || g.Retrying != 1 || g.DeadLetters != 1 {
		t.Errorf("%+v", g)
	}
	if list := must[httpapi.Groups](t)(c.Groups(ctx)); len(list.Groups) != 1 {
		t.Errorf("%+v", list)
	}
	testDeadLetters(t, c)
	if s := must[httpapi.Sought](t)(c.Seek(ctx, "g", httpapi.Seek{Topic: "t", Time: "@0"})); len(s.Offsets) != 4 {
		t.Errorf("%+v", s)
	}
	if back := must[httpapi.Messages](t)(c.Pull(ctx, client.Pull{Topic: "t", Group: "g"})); len(back.Messages) < 3 {
		t.Errorf("after the seek: %+v", back)
	}
	must[httpapi.Group](t)(c.DefineGroup(ctx, "other", "clustering"))
	if err := c.DeleteGroup(ctx, "other"); err != nil {
		t.Error(err)
	}
	if _, err := c.Group(ctx, "other"); !isProblem(err, "unknown_group") {
		t.Errorf("after its end: %v", err)
	}
}

func testDeadLetters(t *testing.T, c *client.Client) {
	t.Helper()
	ctx := t.Context()
	if d := must[httpapi.DeadGroups](t)(c.DeadGroups(ctx)); len(d.Groups) != 1 || d.Groups[0].DeadLetters != 1 {
		t.Errorf("%+v", d)
	}
	var letters []httpapi.DeadLetter
	for l, err := range c.DeadLetters(ctx, "g", client.Dead{Reason: "WHY", Limit: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		letters = append(letters, l)
	}
	if len(letters) != 1 || letters[0].Topic != "t" || letters[0].Reason != "why not" {
		t.Fatalf("%+v", letters)
	}
	if l := must[httpapi.DeadLetter](t)(c.DeadLetter(ctx, "g", int64(letters[0].Offset))); *l.Body != *letters[0].Body {
		t.Errorf("%+v", l)
	}
	if n := must[httpapi.DeadDone](t)(c.DropDeadLetters(ctx, "g", httpapi.DeadSelection{DryRun: true})); n.Matched != 1 {
		t.Errorf("%+v", n)
	}
	if _, err := c.DropDeadLetters(ctx, "g", httpapi.DeadSelection{}); !isProblem(err, "bad_field") {
		t.Errorf("all, unsaid: %v", err)
	}
	if n := must[httpapi.DeadDone](t)(c.RetryDeadLetters(ctx, "g", httpapi.DeadSelection{Offsets: []httpapi.Int64{letters[0].Offset}})); n.Matched != 1 {
		t.Errorf("%+v", n)
	}
}

func TestAdmin(t *testing.T) {
	c, ctx := serve(t), t.Context()
	s := put(t, c, "t", "now")
	for range 5 {
		put(t, c, "t", "later", "1h")
	}
	if m := must[httpapi.StoredMessage](t)(c.Message(ctx, s.ID)); *m.Body != "now" || m.Topic != "t" {
		t.Errorf("%+v", m)
	}
	if topic := must[httpapi.Topic](t)(c.PauseTopic(ctx, "t", true)); !topic.Paused || topic.Pending != 5 {
		t.Errorf("%+v", topic)
	}
	must[httpapi.Topic](t)(c.PauseTopic(ctx, "t", false))
	if topic := must[httpapi.Topic](t)(c.Topic(ctx, "t")); topic.Paused {
		t.Errorf("%+v", topic)
	}
	if l := must[httpapi.Levels](t)(c.Levels(ctx)); len(l.Levels) != 18 || l.Levels[2].Delay != "10s" {
		t.Errorf("%+v", l)
	}
	must[httpapi.Limits](t)(c.Limits(ctx))
	must[httpapi.Configuration](t)(c.Config(ctx))
	if now := must[httpapi.ServerTime](t)(c.Time(ctx)); now.NowMs == 0 {
		t.Errorf("%+v", now)
	}
	if _, err := c.AdvanceClock(ctx, time.Hour); !isProblem(err, "clock_is_real") {
		t.Errorf("a real clock was moved: %v", err)
	}
	p := must[httpapi.Bulk](t)(c.PreviewBulk(ctx, httpapi.BulkRequest{Action: "cancel", Filter: httpapi.BulkFilter{Topic: "t"}}))
	if p.Matched != 5 {
		t.Errorf("%+v", p)
	}
	j := must[httpapi.Bulk](t)(c.StartBulk(ctx, p.Confirm))
	for j.State == "running" {
		j = must[httpapi.Bulk](t)(c.Bulk(ctx, j.ID))
		runtime.Gosched()
	}
	if j.State != "done" || j.Changed != 5 {
		t.Errorf("%+v", j)
	}
	must[httpapi.Bulk](t)(c.StopBulk(ctx, j.ID))
	if list := must[httpapi.Bulks](t)(c.Bulks(ctx)); len(list.Bulk) != 1 {
		t.Errorf("%+v", list)
	}
	if err := c.DeleteTopic(ctx, "t"); err != nil {
		t.Error(err)
	}
}

func TestEvents(t *testing.T) {
	c, ctx := serve(t), t.Context()
	for _, body := range []string{"a", "b", "c"} {
		put(t, c, "t", body)
	}
	var seen []httpapi.LogEvent
	for ev, err := range c.Events(ctx, client.Events{From: "first", Topic: "t"}) {
		if err != nil {
			t.Fatal(err)
		}
		if seen = append(seen, ev); len(seen) == 3 {
			break
		}
	}
	if seen[0].Kind != "topic" || seen[1].Kind != "stored" || seen[2].Kind != "stored" {
		t.Fatalf("%+v", seen)
	}
	// It goes on right behind the last one, and waits for what comes.
	got := make(chan httpapi.LogEvent)
	go func() {
		defer close(got)
		for ev, err := range c.Events(ctx, client.Events{After: int64(seen[2].Position)}) {
			if err != nil {
				return
			}
			got <- ev
		}
	}()
	if ev := <-got; ev.Kind != "stored" || ev.Position <= seen[2].Position {
		t.Errorf("%+v", ev)
	}
	s := put(t, c, "t", "d")
	if ev := <-got; ev.MessageID != s.ID {
		t.Errorf("%+v, want message %s", ev, s.ID)
	}
	for _, err := range c.Events(ctx, client.Events{From: "soon"}) {
		if !isProblem(err, "bad_field") {
			t.Errorf("%v", err)
		}
	}
}

// tlsOf is how a test server's own client trusts it.
func tlsOf(rt http.RoundTripper) *tls.Config { return rt.(*http.Transport).TLSClientConfig }

// A token goes with each request, and not to another machine in plain.
func TestToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, fmt.Appendf(nil, "%x read ana\n", sha256.Sum256([]byte("secret"))), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens := must[*httpapi.Tokens](t)(httpapi.OpenTokens(file))
	b := must[*broker.Broker](t)(broker.Open(broker.Env{FS: crashfs.New(crashfs.Options{})}, ".", broker.Options{}))
	defer b.Close()
	s := httptest.NewTLSServer(httpapi.Handler(b, httpapi.Options{Tokens: tokens}))
	defer s.Close()
	trust := s.Client().Transport
	for token, code := range map[string]string{"": "unauthorized", "wrong": "unauthorized", "secret": ""} {
		c := must[*client.Client](t)(client.NewWith(s.URL, client.Options{Token: token, TLS: tlsOf(trust)}))
		_, err := c.Topics(t.Context())
		if code == "" && err != nil || code != "" && !isProblem(err, code) {
			t.Errorf("token %q: %v", token, err)
		}
		c.CloseIdle()
	}
	if _, err := client.NewWith("http://tidewheel.example:7070", client.Options{Token: "secret"}); err == nil {
		t.Error("a token would go to another machine in plain")
	}
	must[*client.Client](t)(client.NewWith("http://localhost:7070", client.Options{Token: "secret"}))
}

package main

import (
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

// TestDeadLetters: they are listed, shown, counted, tried again and dropped, and only what was counted is.
func TestDeadLetters(t *testing.T) {
	b, _ := inProcess(t)
	ctx := t.Context()
	for _, key := range []string{"k0", "k1", "k2", "k3"} {
		if _, err := b.Put(ctx, broker.Message{Topic: "orders", Key: key, Tag: "unpaid", Body: []byte("body of " + key)}); err != nil {
			t.Fatal(err)
		}
	}
	var p broker.Pulled
	if err := b.Pull(ctx, broker.PullRequest{Topic: "orders", Group: "billing"}, &p); err != nil || p.Count() != 4 {
		t.Fatalf("%d messages, %v", p.Count(), err)
	}
	for d := range p.Deliveries() {
		reason := "no such customer"
		if string(d.Key) == "k3" {
			reason = "Timeout after 3 s"
		}
		if _, err := b.Reject(ctx, d.Receipt, reason); err != nil {
			t.Fatal(err)
		}
	}

	wantCLI(t, "dlq ls", "GROUP", "billing  4")
	wantCLI(t, "dlq ls billing", "OFFSET", "no such customer", "Timeout after 3 s")
	if got := wantCLI(t, "dlq ls billing --reason timeout --from -1h -o csv --columns key,reason,body"); got != "key,reason,body\nk3,Timeout after 3 s,body of k3\n" {
		t.Errorf("%q", got)
	}
	if got := wantCLI(t, "dlq ls billing --to -1h -o name"); got != "" {
		t.Errorf("%q", got)
	}
	last := strings.TrimSpace(wantCLI(t, "dlq ls billing --key k3 -o name"))
	wantCLI(t, "dlq show billing "+last, "after 1 delivery", "Timeout after 3 s", "topic         orders", "body of k3")
	if _, stderr, code := cli(t, "dlq", "show", "billing", "99"); code != exitNotFound {
		t.Errorf("exit %d: %s", code, stderr)
	}

	if _, stderr, code := cli(t, "dlq", "ls", "nosuch"); code != exitNotFound || !strings.Contains(stderr, "no such group") {
		t.Errorf("dead letters of a group that is not there: exit %d: %s", code, stderr)
	}
	if _, stderr, code := cli(t, "dlq", "drop", "nosuch", "--all", "--dry-run"); code != exitNotFound {
		t.Errorf("exit %d: %s", code, stderr)
	}
	for _, args := range []string{"dlq drop billing", "dlq retry billing --all --key k1", "dlq drop billing x", "dlq show billing x"} {
		if _, stderr, code := cli(t, strings.Fields(args)...); code != exitUsage {
			t.Errorf("%s: exit %d: %s", args, code, stderr)
		}
	}
	if _, stderr, code := cli(t, "dlq", "drop", "billing", "--all"); code != exitUsage || !strings.Contains(stderr, "Remove 4 dead letters of billing?") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	wantCLI(t, "dlq drop billing --all --dry-run", "matched  4")
	wantCLI(t, "dlq drop billing --reason TIMEOUT --yes", "removed  1")
	wantCLI(t, "dlq retry billing --key k1 --yes --to-group", "delivered  1")
	wantCLI(t, "consume orders --group billing --ack --wait 0s", "body of k1")
	wantCLI(t, "dlq retry billing --all --yes -o json", `"matched": 2`)
	if got := wantCLI(t, "consume orders --group billing --ack --wait 0s -o csv --columns key"); len(strings.Fields(got)) != 3 {
		t.Errorf("%q", got)
	}
	if got := wantCLI(t, "dlq ls -o csv"); got != "group,dead\n" {
		t.Errorf("%q", got)
	}
	wantCLI(t, "group ls -o ndjson", `"dead_letters":0`)
}

// TestLetterReason: a verdict of a plugin has a number and no words, and its dead letter says so.
func TestLetterReason(t *testing.T) {
	for want, l := range map[string]httpapi.DeadLetter{
		"no such customer":        {Reason: "no such customer"},
		"fuel: out of fuel":       {Reason: "fuel: out of fuel", Plugin: "spam", Code: 3},
		"verdict of spam, code 3": {Plugin: "spam", Code: 3},
		"":                        {},
	} {
		if got := letterReason(&l); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

package pluginhost_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/pluginhost"
	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
)

// verdictLog is a log of verdicts about one message after another.
type verdictLog struct {
	verdicts []engine.EventVerdict
	bodies   []string
	read     func() // when verdicts are read
	at       engine.Offset
}

func (l *verdictLog) At() engine.Offset { return l.at }

// Read tells one verdict, at its number + 1.
func (l *verdictLog) Read(_ context.Context, into []engine.Event) ([]engine.Event, error) {
	i := int(l.at)
	if i == len(l.verdicts) {
		return into, nil
	}
	if l.read != nil {
		l.read()
	}
	l.at++
	l.verdicts[i].Offset = int64(i)
	return append(into, engine.Event{
		Position: engine.Offset(i), TopicName: engine.StagePrefix + "orders", GroupName: engine.StageGroup, Verdict: &l.verdicts[i],
	}), nil
}

func (l *verdictLog) Pull(req engine.PullRequest, into *engine.Pulled) error {
	into.Messages = messages(l.bodies[req.Offset])
	return nil
}

// logOf is a log of what a plugin decided.
func logOf(digest plugins.Digest, bodies string, verdicts ...int64) *verdictLog {
	l := &verdictLog{bodies: strings.Fields(bodies)}
	for _, v := range verdicts {
		x := abi.Verdict(v)
		l.verdicts = append(l.verdicts, engine.EventVerdict{Action: uint8(x.Action()), Code: x.Code(), Asked: true, Digest: digest})
	}
	return l
}

var most = pluginhost.Verification{Limit: 1000, Until: 1000, Time: time.Minute}

// TestVerify: what a chain makes of a plugin's answers is what is compared: no opinion and a route to the topic itself are a keep,
// and a message that the plugin dies on is what its policy says.
func TestVerify(t *testing.T) {
	d := newDesk(t)
	d.write("f.wasm", byFirst(verdict(abi.Defer, 0, 0), map[byte]int64{
		'd': verdict(abi.Drop, 7, 0), 'k': verdict(abi.Keep, 3, 0), 'o': verdict(abi.Route, 0, 0), 'e': verdict(abi.Route, 0, 1), 'r': verdict(abi.Retry, 0, 50),
	}))
	d.open(table("f", `targets = ["orders", "eu"]`))
	v, err := d.Plugin("f")
	if err != nil {
		t.Fatal(err)
	}
	keep, dead := verdict(abi.Keep, 0, 0), verdict(abi.DeadLetter, 0, 0)
	l := logOf(v.Stats.Digest, "a d k o e r ! d a",
		keep, verdict(abi.Drop, 7, 0), verdict(abi.Keep, 3, 0), keep, verdict(abi.Route, 0, 0), verdict(abi.Retry, 0, 0), dead, verdict(abi.Drop, 8, 0), dead)
	_, got, err := d.Verify(ctx, "f", l, most)
	if err != nil || got.Compared != 9 || got.Differ != 2 || got.Next != -1 {
		t.Fatalf("%+v, %v", got, err)
	}
	if values, _ := d.gather(); values["tidewheel_plugin_nondeterminism_total f"] != 2 {
		t.Errorf("metrics %v", values)
	}
	if x := got.Differences; x[0].Logged != "drop 8" || x[0].Again != "drop 7" || x[1].Logged != "dead_letter" || x[1].Again != "keep" {
		t.Errorf("%+v", x)
	}
}

// TestVerifyReconfigure: a change of the configuration does not wait for a verification, which says how far it came, and what it
// adds has the memory that is its own.
func TestVerifyReconfigure(t *testing.T) {
	d := newDesk(t)
	d.write("f.wasm", byFirst(verdict(abi.Keep, 0, 0), nil))
	d.write("g.wasm", byFirst(verdict(abi.Keep, 1, 0), nil))
	full := table("f", "instances = 2") + table("g", "instances = 2")
	d.open(table("f", "instances = 2"))
	v, err := d.Plugin("f")
	if err != nil {
		t.Fatal(err)
	}
	keep := verdict(abi.Keep, 0, 0)
	l := logOf(v.Stats.Digest, "a a a a", keep, keep, keep, keep)
	changed := make(chan error, 1)
	l.read = func() {
		if l.at == 1 {
			go func() { changed <- d.Reconfigure(ctx, d.config(full)) }()
		}
		if l.at >= 1 {
			until(t, "the change has begun", d.Changing)
		}
	}
	_, got, err := d.Verify(ctx, "f", l, most)
	if err != nil || got.Compared != 1 || got.Next != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if err := <-changed; err != nil {
		t.Error(err)
	}
	if _, _, err := d.Verify(ctx, "f", l, most); !errors.Is(err, plugins.ErrBudget) {
		t.Errorf("all memory is given away: %v", err)
	}
}

package author_test

import (
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/host/author"
	"github.com/tidewheel/tidewheel/host/pluginhost"
	"github.com/tidewheel/tidewheel/plugins/abi"
	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

// TestVerifyLog: verdicts of the plugin's file are asked again, whatever they were and wherever they were given, and those of
// others are not; one that the plugin does not give again is found.
func TestVerifyLog(t *testing.T) {
	s := open(t, plugintest.Scripted())
	e := enginetest.Open(t, enginetest.Config{})
	e.Do(&engine.DefineTopic{Topic: "orders", Queues: 1}, &engine.StageTopic{Topic: "orders", Staged: true}, &engine.DefineTopic{Topic: "plain", Queues: 1})
	for _, body := range []string{"a", "d", "d", "!", "a", "a"} {
		e.Do(&engine.Put{Topic: "orders", Body: []byte(body), Key: []byte("key-" + body)}, &engine.Put{Topic: "plain", Body: []byte(body)})
	}
	e.Step()

	digest := [32]byte(s.Module().Digest())
	settle := func(group, topic string, verdicts ...abi.Verdict) {
		t.Helper()
		var p engine.Pulled
		if err := e.Solo.Pull(engine.PullRequest{Topic: topic, MaxCount: 100}, &p); err != nil {
			t.Fatal(err)
		}
		c := &engine.Settle{Group: group, Topic: topic, Digests: [][32]byte{{1}, digest}}
		for i, v := range verdicts {
			it := p.Messages[i].Settled()
			it.Action, it.Code, it.Plugin = uint8(v.Action()), v.Code(), 1
			it.Keep = group == engine.StageGroup && v.Action() == abi.Keep
			if i == 5 {
				it.Plugin = 0 // somebody else's
			}
			c.Items = append(c.Items, it)
		}
		if got := e.Do(c); got[0].Err != nil {
			t.Fatal(got[0].Err)
		}
	}
	keep, drop, dead := abi.NewVerdict(abi.Keep, 0, 0), abi.NewVerdict(abi.Drop, 7, 0), abi.NewVerdict(abi.DeadLetter, 0, 0)
	settle(engine.StageGroup, engine.StagePrefix+"orders", keep, drop, keep, dead, drop, drop) // the third and the fifth are wrong
	settle("billing", "plain", keep, drop)

	v, err := author.VerifyLog(ctx, e.Engine, s)
	if err != nil || v.Verdicts != 7 || v.Compared != 7 || v.Gone != 0 || v.Other != 0 || len(v.Differences) != 2 {
		t.Fatalf("%+v, %v", v, err)
	}
	for i, want := range []pluginhost.LoggedDifference{
		{Topic: "orders", Offset: 2, Key: "key-d", Logged: "keep", Again: "drop 7"}, {Topic: "orders", Offset: 4, Key: "key-a", Logged: "drop 7", Again: "keep"},
	} {
		if v.Differences[i] != want {
			t.Errorf("got %+v, want %+v", v.Differences[i], want)
		}
	}

	other := open(t, asking(`{"name":"`+strings.Repeat("x", 10)+`"}`))
	if v, err := author.VerifyLog(ctx, e.Engine, other); err != nil || v.Verdicts != 0 {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestVerifyLogOther: a delivery's verdicts depend on responses, and are only counted.
func TestVerifyLogOther(t *testing.T) {
	m := plugintest.Guest()
	m.Hook("tw_prepare", "i64.const 2")
	m.Hook("tw_result", "i64.const 1")
	s := open(t, m.Bytes())
	e := enginetest.Open(t, enginetest.Config{})
	e.Do(&engine.DefineTopic{Topic: "orders", Queues: 1}, &engine.Put{Topic: "orders", Body: []byte("a")})
	var p engine.Pulled
	if err := e.Solo.Pull(engine.PullRequest{Topic: "orders", MaxCount: 1}, &p); err != nil {
		t.Fatal(err)
	}
	it := p.Messages[0].Settled()
	it.Action, it.Plugin = uint8(abi.Keep), 0
	if got := e.Do(&engine.Settle{Group: "plugin-p", Topic: "orders", Digests: [][32]byte{s.Module().Digest()}, Items: []engine.Settled{it}}); got[0].Err != nil {
		t.Fatal(got[0].Err)
	}
	if v, err := author.VerifyLog(ctx, e.Engine, s); err != nil || v.Verdicts != 1 || v.Other != 1 || v.Compared != 0 {
		t.Errorf("%+v, %v", v, err)
	}
}

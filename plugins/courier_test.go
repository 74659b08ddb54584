package plugins_test

import (
	"fmt"
	"testing"

	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

// TestDeliveryHooks: prepare gives requests and other verdicts, result judges responses, in both engines.
func TestDeliveryHooks(t *testing.T) {
	engines(t, func(t *testing.T, r *plugins.Runtime) {
		p := load(t, r, plugintest.Courier(), spec())
		var a plugins.Answer
		var records []abi.Record
		for _, body := range []string{"https://a.test/1", "d", "x", "https://a.test/2", "r", "e", "!", "https://a.test/3"} {
			records = append(records, abi.Record{Topic: []byte("orders"), Key: []byte("k"), Headers: abi.Headers(nil).Append([]byte("h"), []byte("v")), Body: []byte(body)})
		}
		if err := p.Decide(ctx, plugins.Call{Hook: abi.Prepare, NowMs: 1}, records, &a); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, d := range a.Decisions {
			got += fmt.Sprintf("%v/%d/%d ", d.Verdict.Action(), d.Verdict.Code(), d.Verdict.Arg())
			if d.Verdict.Action() == abi.Replace {
				got += fmt.Sprintf("%s%s%s%s ", d.Output.Topic, d.Output.Key, d.Output.Headers, d.Output.Body)
			}
			if d.Failure != nil {
				got += d.Failure.Class.String() + " "
			}
		}
		if want := "replace/0/0 https://a.test/1https://a.test/1 drop/7/0 dead_letter/8/0 replace/0/3 https://a.test/2https://a.test/2 " +
			"retry/9/1000 dead_letter/5/0 error dead_letter/0/0 trap replace/0/0 https://a.test/3https://a.test/3 "; got != want {
			t.Errorf("prepare:\n%s\nwant\n%s", got, want)
		}
		records = records[:0]
		for _, flags := range []uint32{200 << 16, 204 << 16, 410 << 16, 400 << 16, 503 << 16, 302 << 16, abi.FlagNoResponse, 200<<16 | abi.FlagCut, 418 << 16} {
			records = append(records, abi.Record{Flags: flags})
		}
		if err := p.Decide(ctx, plugins.Call{Hook: abi.Result, NowMs: 1}, records, &a); err != nil {
			t.Fatal(err)
		}
		got = ""
		for _, d := range a.Decisions {
			got += fmt.Sprintf("%v/%d/%d ", d.Verdict.Action(), d.Verdict.Code(), d.Verdict.Arg())
		}
		if want := "keep/0/0 keep/0/0 dead_letter/410/0 dead_letter/400/0 retry/503/0 retry/302/20 retry/1/21 keep/0/0 dead_letter/0/0 "; got != want {
			t.Errorf("result:\n%s\nwant\n%s", got, want)
		}
	})
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/host/client"
	"github.com/tidewheel/tidewheel/host/demo"
	"github.com/tidewheel/tidewheel/host/httpapi"
	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

const chaosConfig = `[plugins]
dir = "."
[[plugin]]
name = "chaos"
file = "chaos.wasm"
hooks = ["filter"]
match = ["chaos"]
on_error = "dead_letter"
quarantine_after = 20
[plugin.limits]
memory_max = "2MiB"
fuel_per_record = 20000
`

// chaosPlugin is a filter without a mind: by the batch's seed and the record's place in it, it traps, spins, exhausts its memory,
// drops, or keeps. Asked about a message again, it would answer otherwise.
func chaosPlugin() []byte {
	m := plugintest.Guest()
	m.Hook("tw_filter", `
		local.get $b i64.load offset=56 local.get $i i64.extend_i32_u i64.const 0x9e3779b97f4a7c15 i64.mul i64.xor
		i64.const 0xbf58476d1ce4e5b9 i64.mul i64.const 59 i64.shr_u i32.wrap_i64 local.set $x
		local.get $x i32.const 1 i32.le_u if unreachable end
		local.get $x i32.const 2 i32.eq if loop $spin br $spin end end
		local.get $x i32.const 3 i32.eq if loop $grow i32.const 1 memory.grow i32.const -1 i32.ne br_if $grow end unreachable end
		i64.const 0x70002 i64.const 1 local.get $x i32.const 12 i32.lt_u select`)
	return m.Bytes()
}

// TestChaos kills a real server under load, whose plugin traps, spins and exhausts its memory at random: each message of its
// topic is decided exactly once, by a verdict in the log, and what became of it is what the verdict says. TIDEWHEEL_SEED repeats
// the load of a run, as far as processes can be repeated.
func TestChaos(t *testing.T) {
	d := &chaosDriver{t: t, seed: killSeed(t), sent: map[string]bool{}}
	dir := t.TempDir()
	d.data, d.conf = filepath.Join(dir, "data"), filepath.Join(dir, "tidewheel.toml")
	for file, content := range map[string][]byte{d.conf: []byte(chaosConfig), filepath.Join(dir, "chaos.wasm"): chaosPlugin()} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := rand.New(rand.NewPCG(d.seed, 0))
	rounds := 8
	if testing.Short() {
		rounds = 3
	}
	for round := range rounds {
		d.load(round, time.Duration(100+r.IntN(250))*time.Millisecond)
	}
	d.judge()
}

// chaosDriver puts and judges.
type chaosDriver struct {
	t          *testing.T
	seed       uint64
	data, conf string

	mu   sync.Mutex
	sent map[string]bool // by key: whether it was acknowledged
}

func (d *chaosDriver) launch() (*demo.Process, *client.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	p, err := demo.Launch(ctx, program(), d.data, "-c", d.conf)
	if err != nil {
		d.t.Fatalf("seed %d: %v", d.seed, err)
	}
	c, err := client.New(p.URL)
	if err != nil {
		d.t.Fatal(err)
	}
	return p, c
}

// load runs a server under load and kills it.
func (d *chaosDriver) load(round int, lasts time.Duration) {
	p, c := d.launch()
	defer c.CloseIdle()
	var wg sync.WaitGroup
	for n := range 8 {
		r := rand.New(rand.NewPCG(d.seed, uint64(1+round)<<8|uint64(n)))
		wg.Go(func() { d.produce(c, r, fmt.Sprintf("%d-%d", round, n)) })
	}
	select {
	case <-time.After(lasts):
	case <-p.Ended():
		d.t.Errorf("seed %d: %v", d.seed, p.Failure())
	}
	p.Kill()
	wg.Wait()
}

// produce puts messages, at once and with short delays, until the server is gone.
func (d *chaosDriver) produce(c *client.Client, r *rand.Rand, name string) {
	for i := 0; ; i++ {
		key := fmt.Sprintf("%s-%d", name, i)
		d.mu.Lock()
		d.sent[key] = false
		d.mu.Unlock()
		e := httpapi.Envelope{Body: &key, Key: key}
		if r.IntN(3) > 0 {
			delay := fmt.Sprintf("%dms", 1+r.IntN(400))
			e.Delay = &delay
		}
		if _, err := c.Put(context.Background(), "chaos", e); err != nil {
			var p *httpapi.Problem
			if errors.As(err, &p) && p.Code != "closing" && p.Code != "unknown_outcome" {
				d.t.Errorf("seed %d: refused: %v", d.seed, err)
			}
			return
		}
		d.mu.Lock()
		d.sent[key] = true
		d.mu.Unlock()
	}
}

// chaosEnd is the body of the last message, which is put when all is decided and about which nothing is judged.
const chaosEnd = "the end"

// chaosFate is what the log says of a message, and where it was found.
type chaosFate struct {
	key      string
	verdicts []string
	visible  int
	dead     int
}

// judge waits until all is decided, and holds verdicts and effects against each other.
func (d *chaosDriver) judge() {
	p, c := d.launch()
	defer c.CloseIdle()
	d.settled(c)
	fates := d.verdicts(c)
	d.visible(c, fates)
	for letter, err := range c.DeadLetters(context.Background(), "plugin-chaos", client.Dead{}) {
		if err != nil {
			d.t.Fatal(err)
		}
		if f := fates[letter.ID]; f != nil {
			f.dead++
		} else if letter.Body == nil || *letter.Body != chaosEnd {
			d.t.Errorf("seed %d: dead letter of %s, which was not put", d.seed, letter.ID)
		}
	}
	found, counts := map[string]int{}, map[string]int{}
	for id, f := range fates {
		found[f.key]++
		said := strings.Join(f.verdicts, ", ")
		counts[said]++
		want := map[string][2]int{"keep": {1, 0}, "drop": {0, 0}, "dead_letter": {0, 1}}
		if effect, ok := want[said]; !ok || effect != [2]int{f.visible, f.dead} {
			d.t.Errorf("seed %d: %s (%s): verdicts %q, visible %d times, dead letters %d", d.seed, f.key, id, said, f.visible, f.dead)
		}
	}
	for key, acked := range d.sent {
		if n := found[key]; n > 1 || n == 0 && acked {
			d.t.Errorf("seed %d: %s is in the log %d times, acknowledged: %v", d.seed, key, n, acked)
		}
	}
	d.t.Logf("%d sent, %d stored: %v", len(d.sent), len(fates), counts)
	for _, verdict := range []string{"keep", "drop", "dead_letter"} {
		if counts[verdict] == 0 {
			d.t.Errorf("seed %d: nothing was decided %q: the test tests too little", d.seed, verdict)
		}
	}
	if err := p.Stop(5 * time.Second); err != nil {
		d.t.Errorf("seed %d: %v", d.seed, err)
	}
	if code := run([]string{"data", "check", d.data}, strings.NewReader(""), io.Discard, os.Stderr); code != exitOK {
		d.t.Errorf("seed %d: data check exits with %d", d.seed, code)
	}
}

// settled waits until nothing waits any more, neither for its time nor for a verdict.
func (d *chaosDriver) settled(c *client.Client) {
	for range 300 {
		topic, err := c.Topic(context.Background(), "chaos")
		if err != nil {
			d.t.Fatal(err)
		}
		if topic.Pending == 0 && topic.StageLag == 0 {
			return
		}
		<-time.After(100 * time.Millisecond)
	}
	d.t.Fatalf("seed %d: not everything is decided after 30 s", d.seed)
}

// verdicts reads the log from its first event: by message id, what was put and what was decided about it. A last message says
// where the log ends.
func (d *chaosDriver) verdicts(c *client.Client) map[string]*chaosFate {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	body, fates := chaosEnd, map[string]*chaosFate{}
	end, err := c.Put(ctx, "chaos", httpapi.Envelope{Body: &body})
	if err != nil {
		d.t.Fatal(err)
	}
	for ev, err := range c.Events(ctx, client.Events{Topic: "chaos", From: "first"}) {
		if err != nil {
			d.t.Fatalf("seed %d: %v", d.seed, err)
		}
		if ev.MessageID == end.ID {
			return fates
		}
		switch f := fates[ev.MessageID]; ev.Kind {
		case "scheduled":
			fates[ev.MessageID] = &chaosFate{key: ev.Key}
		case "delivered", "decided":
			if f == nil {
				d.t.Fatalf("seed %d: %s of %s, which was not put", d.seed, ev.Kind, ev.MessageID)
			}
			f.verdicts = append(f.verdicts, ev.Action)
		}
	}
	d.t.Fatalf("seed %d: the events have no end", d.seed)
	return nil
}

// visible counts where the messages stand in their topic.
func (d *chaosDriver) visible(c *client.Client, fates map[string]*chaosFate) {
	topic, err := c.Topic(context.Background(), "chaos")
	if err != nil {
		d.t.Fatal(err)
	}
	for _, q := range topic.Queues {
		for at := q.Min; at < q.Max; {
			got, err := c.Pull(context.Background(), client.Pull{
				Topic: "chaos", From: []httpapi.QueueOffset{{Queue: q.Queue, Offset: at}}, Max: 1000,
			})
			if err != nil {
				d.t.Fatal(err)
			}
			for i := range got.Messages {
				m := &got.Messages[i]
				f := fates[m.ID]
				if f == nil && string(m.Bytes()) == chaosEnd {
					continue
				}
				if f == nil || m.Problem != nil || string(m.Bytes()) != f.key {
					d.t.Fatalf("seed %d: %s stands at %d in queue %d: %+v", d.seed, m.ID, m.Offset, q.Queue, m)
				}
				f.visible++
			}
			at = got.Next[0].Offset
		}
	}
}

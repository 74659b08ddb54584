package broker_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/broker/brokertest"
)

// Dead letters of plugins are those of the group plugin-NAME: listed, dropped, and tried again through the hook that gave them up.
func TestPluginDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mended atomic.Bool
		decide := func(body string) broker.Decision {
			if mended.Load() && body != "dead_letter still" {
				return byBody("replace " + body)
			}
			return byBody(body)
		}
		hooks := &brokertest.Hooks{
			OnPublish: func(topic string, m *broker.Message) broker.Decision {
				if topic == "staged" {
					return verdict(broker.ActionKeep)
				}
				return decide(string(m.Body))
			},
			OnDue: func(topic string, m *engine.Message) broker.Decision {
				if topic == "orders" {
					return verdict(broker.ActionKeep)
				}
				return decide(string(m.Body))
			},
		}
		b := brokertest.Open(t, broker.Options{Hooks: hooks, Engine: engine.Options{Queues: 1}})
		for _, body := range []string{"dead_letter 1", "dead_letter still", "dead_letter drop"} {
			m := broker.Message{Topic: "orders", Body: []byte(body), Properties: map[string]string{"own": "p"}}
			if _, err := b.Put(t.Context(), m); !errors.Is(err, broker.ErrDropped) {
				t.Errorf("put: %v", err)
			}
		}
		b.MustPut("staged", "dead_letter 2", 0)
		b.MustPut("staged", "dead_letter 3", time.Second)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		list := func() (all []string) {
			for d, err := range b.DeadLetters(t.Context(), "plugin-p", broker.DeadFilter{}) {
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, fmt.Sprintf("%s %s %s %s", d.Hook, d.Topic, d.Body, d.Properties["own"]))
			}
			slices.Sort(all)
			return all
		}
		if got, want := fmt.Sprintf("%q", list()), `["due staged dead_letter 2 " "due staged dead_letter 3 " "publish orders dead_letter 1 p" "publish orders dead_letter drop p" "publish orders dead_letter still p"]`; got != want {
			t.Errorf("dead letters are %s, want %s", got, want)
		}
		group, err := b.Group(t.Context(), "plugin-p")
		if err != nil && !errors.Is(err, engine.ErrNoGroup) || err == nil && group.DeadLetters != 5 {
			t.Errorf("group: %+v, %v", group, err)
		}
		if n, err := b.DropDeadLetters(t.Context(), "plugin-p", broker.DeadFilter{Offsets: []int64{2}}); n != 1 || err != nil {
			t.Errorf("dropped %d, %v", n, err)
		}
		if n, err := b.RetryDeadLetters(t.Context(), "plugin-p", broker.DeadFilter{Topic: "staged"}, broker.ToGroup); n != 2 || err != nil {
			t.Errorf("tried again %d, %v", n, err)
		}
		synctest.Wait()
		if got := list(); len(got) != 4 { // they were given up again
			t.Errorf("dead letters are %q", got)
		}
		mended.Store(true)
		if n, err := b.RetryDeadLetters(t.Context(), "plugin-p", broker.DeadFilter{}, broker.ToGroup); n != 3 || !errors.Is(err, broker.ErrDropped) {
			t.Errorf("tried again %d, %v", n, err)
		}
		synctest.Wait()
		brokertest.WantDelivered(t, b, "orders", "replaced dead_letter 1")
		brokertest.WantDelivered(t, b, "staged", "replaced dead_letter 2", "replaced dead_letter 3")
		if got := fmt.Sprintf("%q", list()); got != `["publish orders dead_letter still p"]` {
			t.Errorf("dead letters are %s", got)
		}
	})
}

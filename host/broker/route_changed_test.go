package broker_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/broker/brokertest"
)

// routing sends messages of the topic t to another one, with a content that a hook before has made, at one place.
type routing struct {
	brokertest.Hooks
	place string
}

func (h *routing) Publishes(topic string) bool   { return h.place == "publish" && topic == "t" }
func (h *routing) Stages(topic string) bool      { return h.place == "due" && topic == "t" }
func (h *routing) Consumes(_, topic string) bool { return h.place == "consume" && topic == "t" }

func (h *routing) decide(n int) (list []broker.Decision, err error) {
	for range n {
		d := byBody("route other")
		d.Message = &broker.Content{Key: "k", Tag: "new", Body: []byte("without the card's number")}
		list = append(list, d)
	}
	return list, nil
}

func (h *routing) Publish(_ context.Context, _ string, all []*broker.Message) ([]broker.Decision, error) {
	return h.decide(len(all))
}

func (h *routing) Due(_ context.Context, _ string, all []engine.Message) ([]broker.Decision, error) {
	return h.decide(len(all))
}

func (h *routing) Consume(_ context.Context, _, _ string, all []engine.Message) ([]broker.Decision, error) {
	return h.decide(len(all))
}

// What one plugin changes and the next one routes arrives changed, wherever they are asked.
func TestRouteChanged(t *testing.T) {
	for _, place := range []string{"publish", "due", "consume"} {
		synctest.Test(t, func(t *testing.T) {
			b := brokertest.Open(t, broker.Options{Hooks: &routing{place: place}, Engine: engine.Options{Queues: 1}})
			if place != "publish" {
				b.MustPut("t", "with the card's number", 0)
			} else if _, err := b.Put(t.Context(), broker.Message{Topic: "t", Body: []byte("with it"), IdempotencyKey: "i"}); err != nil {
				t.Fatal(err)
			}
			if place == "consume" {
				wantSaid(t, "the group gets", lease(t, b.Broker, broker.PullRequest{}), "[]")
			}
			synctest.Wait()
			got := messagesOf(t, b, "other")
			if len(got) != 1 || fmt.Sprintf("%s %s %s", got[0].Key, got[0].Tag, got[0].Body) != "k new without the card's number" {
				t.Errorf("%s: %+v", place, got)
			}
		})
	}
}

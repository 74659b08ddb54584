package broker_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/afero"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/fsadapter"
	"github.com/tidewheel/tidewheel/host/broker"
)

// opened is a broker in memory with short delay levels.
func opened() (*broker.Broker, func()) {
	fs := fsadapter.New(afero.NewMemMapFs())
	b, err := broker.Open(broker.Env{FS: fs}, ".", broker.Options{Engine: engine.Options{Levels: "100ms"}})
	if err != nil {
		panic(err)
	}
	return b, func() {
		if err := b.Close(); err != nil {
			panic(err)
		}
	}
}

// A handler gets each message; what fails comes again, what is hopeless becomes a dead letter.
func ExampleBroker_Consume() {
	b, closeIt := opened()
	defer closeIt()
	ctx, stop := context.WithCancel(context.Background())
	for _, body := range []string{"good", "flaky", "bad"} {
		if _, err := b.Put(ctx, broker.Message{Topic: "orders", Body: []byte(body), Pin: true}); err != nil {
			fmt.Println(err)
		}
	}
	err := b.Consume(ctx, "orders", "billing", func(_ context.Context, d *broker.Delivery) error {
		fmt.Printf("%s, attempt %d\n", d.Body, d.Attempt)
		switch {
		case string(d.Body) == "bad":
			return broker.Reject(errors.New("no such customer"))
		case d.Retried:
			stop() // this was the last one
		case string(d.Body) == "flaky":
			return errors.New("the bank is closed")
		}
		return nil
	}, broker.ConsumeOptions{})
	fmt.Println(err)
	for d, err := range b.DeadLetters(context.Background(), "billing", broker.DeadFilter{}) {
		fmt.Printf("dead: %s from %s, %s, %v\n", d.Body, d.Topic, d.Reason, err)
	}
	// Output:
	// good, attempt 1
	// flaky, attempt 1
	// bad, attempt 1
	// flaky, attempt 2
	// context canceled
	// dead: bad from orders, no such customer, <nil>
}

// The same by hand: pull, and say what became of each message.
func ExampleBroker_Ack() {
	b, closeIt := opened()
	defer closeIt()
	ctx := context.Background()
	for _, body := range []string{"one", "two"} {
		if _, err := b.Put(ctx, broker.Message{Topic: "orders", Body: []byte(body), Pin: true}); err != nil {
			fmt.Println(err)
		}
	}
	var pulled broker.Pulled
	req := broker.PullRequest{Topic: "orders", Group: "billing", AckTimeout: time.Minute}
	if err := b.Pull(ctx, req, &pulled); err != nil {
		fmt.Println(err)
	}
	for d := range pulled.Deliveries() {
		if string(d.Body) == "two" {
			r, err := b.Retry(ctx, d.Receipt, broker.RetryOptions{Delay: time.Hour, Reason: "too early"})
			fmt.Println("two comes again:", r.DueMs > 0, err)
			continue
		}
		outcomes, err := b.Ack(ctx, d.Receipt)
		fmt.Println("one is", outcomes[0], err)
	}
	info, err := b.Group(ctx, "billing")
	fmt.Println("lag", info.Lag(), "retrying", info.Retrying, err)
	// Output:
	// one is acked <nil>
	// two comes again: true <nil>
	// lag 0 retrying 1 <nil>
}

package broker_test

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/afero"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/fsadapter"
	"github.com/tidewheel/tidewheel/host/broker"
)

// A message waits for its time; another one is taken back meanwhile.
func Example() {
	fs := fsadapter.New(afero.NewMemMapFs()) // fsadapter.OpenRoot(dir) for real files
	b, err := broker.Open(broker.Env{FS: fs}, ".", broker.Options{
		Engine: engine.Options{Levels: "20ms 1h"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	ctx := context.Background()

	reminder := broker.Message{Topic: "reminders", Body: []byte("tea is ready"), At: broker.Level(1)}
	if _, err := b.Put(ctx, reminder); err != nil {
		fmt.Println(err)
	}
	order, err := b.Put(ctx, broker.Message{Topic: "orders", Body: []byte("close order 42"), At: broker.Level(2)})
	if err != nil {
		fmt.Println(err)
	}
	outcome, err := b.Cancel(ctx, order.Handle)
	fmt.Println("cancelled:", outcome == engine.Cancelled, err)

	var pulled broker.Pulled
	req := broker.PullRequest{Topic: "reminders", Group: "kitchen", Wait: 10 * time.Second}
	if err := b.Pull(ctx, req, &pulled); err != nil {
		fmt.Println(err)
	}
	for d := range pulled.Deliveries() {
		fmt.Printf("%s\n", d.Body)
		if _, err := b.Ack(ctx, d.Receipt); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// cancelled: true <nil>
	// tea is ready
}

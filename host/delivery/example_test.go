package delivery_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"

	"github.com/spf13/afero"

	"github.com/tidewheel/tidewheel/fsadapter"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/delivery"
	"github.com/tidewheel/tidewheel/host/egress"
	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

// A plugin of package plugintest posts each message to the URL that is its body.
func ExampleStart() {
	ctx := context.Background()
	came := make(chan string, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { came <- r.URL.Path }))
	defer receiver.Close()

	b, err := broker.Open(broker.Env{FS: fsadapter.New(afero.NewMemMapFs())}, ".", broker.Options{})
	if err != nil {
		panic(err)
	}
	defer b.Close()
	runtime, _ := plugins.NewRuntime(plugins.Options{})
	defer runtime.Close()
	policy := plugins.Policy{OnError: plugins.OnErrorDeadLetter}
	module, err := runtime.Load(ctx, plugintest.Courier(), plugins.Spec{Name: "courier", Policy: policy})
	if err != nil {
		panic(err)
	}
	courier, err := runtime.NewPlugin(module)
	if err != nil {
		panic(err)
	}
	defer courier.Close()
	host, _ := egress.ParseRule(receiver.URL)
	client := egress.New(egress.Options{Allow: []egress.Rule{host}, Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	defer client.Close()

	w := delivery.Start(delivery.Config{
		Name: "courier", Broker: b, Plugin: courier, Client: client, Policy: policy,
		Match: func(topic string) bool { return strings.HasPrefix(topic, "orders") },
		Record: func(d *broker.Delivery, r *abi.Record) {
			*r = abi.Record{ID: uint64(d.First), Topic: []byte(d.Topic), Key: d.Key, Body: d.Body, Attempt: uint32(d.Attempt)}
		},
	})
	if _, err := b.Put(ctx, broker.Message{Topic: "orders", Body: []byte(receiver.URL + "/42")}); err != nil {
		panic(err)
	}
	fmt.Println(<-came)
	w.Close(ctx) // it waits for what is on its way
	fmt.Println(w.Stats().Messages["acked"])
	// Output:
	// /42
	// 1
}

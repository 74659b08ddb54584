package httpapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/afero"

	"github.com/tidewheel/tidewheel/fsadapter"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

// The API is an http.Handler over a broker; an unknown header is refused, not ignored.
func Example() {
	b, err := broker.Open(broker.Env{FS: fsadapter.New(afero.NewMemMapFs())}, ".", broker.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	server := httptest.NewServer(httpapi.Handler(b, httpapi.Options{}))
	defer server.Close()

	for _, header := range []string{"Tidewheel-Delay-Level", "Tidewheel-Delay-Levle"} {
		req, _ := http.NewRequest("POST", server.URL+"/v1/topics/orders/messages", strings.NewReader(`{"id":42}`))
		req.Header.Set(header, "3")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			fmt.Println(err)
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		fmt.Println(resp.StatusCode, strings.HasPrefix(resp.Header.Get("Location"), "/v1/timers/tw1."))
	}
	// Output:
	// 201 true
	// 422 false
}

// Within another program the API has a prefix, that program's authentication, and its registry of metrics.
func ExampleHandler_embedded() {
	b, err := broker.Open(broker.Env{FS: fsadapter.New(afero.NewMemMapFs())}, ".", broker.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	api := httpapi.Handler(b, httpapi.Options{Prefix: "/tidewheel", ReadOnly: true, AnyHost: true})
	defer api.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(httpapi.Collector(b))
	mux := http.NewServeMux()
	mux.Handle("/tidewheel/", api)
	server := httptest.NewServer(mux)
	defer server.Close()

	for _, method := range []string{"GET", "PUT"} {
		req, _ := http.NewRequest(method, server.URL+"/tidewheel/v1/topics/orders", strings.NewReader(`{"queues":1}`))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			fmt.Println(err)
			return
		}
		var p httpapi.Problem
		_ = json.NewDecoder(resp.Body).Decode(&p)
		resp.Body.Close()
		fmt.Println(resp.StatusCode, p.Code)
	}
	// Output:
	// 404 unknown_topic
	// 403 read_only
}

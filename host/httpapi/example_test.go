package httpapi_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

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

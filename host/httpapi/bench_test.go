package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/host/broker"
)

// BenchmarkPut is a put through the handler without a network: what HTTP costs beside the broker's own.
func BenchmarkPut(b *testing.B) {
	br, err := broker.Open(broker.Env{FS: crashfs.New(crashfs.Options{})}, ".", broker.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer br.Close()
	a := Handler(br, Options{})
	defer a.Close()
	body := strings.Repeat("x", 200)
	b.ReportAllocs()
	b.SetParallelism(256)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r := httptest.NewRequest("POST", "/v1/topics/t/messages", strings.NewReader(body))
			r.Host = "127.0.0.1:7070"
			r.Header.Set(HeaderDelay, "30m")
			w := httptest.NewRecorder()
			a.ServeHTTP(w, r)
			if w.Code != http.StatusCreated {
				b.Errorf("%d %s", w.Code, w.Body)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkHealth is the way to a handler and back.
func BenchmarkHealth(b *testing.B) {
	br, err := broker.Open(broker.Env{FS: crashfs.New(crashfs.Options{})}, ".", broker.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer br.Close()
	a := Handler(br, Options{})
	defer a.Close()
	r := httptest.NewRequest("GET", "/healthz", nil)
	r.Host = "127.0.0.1:7070"
	b.ReportAllocs()
	for b.Loop() {
		a.ServeHTTP(httptest.NewRecorder(), r)
	}
}

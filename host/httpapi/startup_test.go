package httpapi_test

import (
	"encoding/json"
	"net/http/httptest"
	"testing"

	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

func TestStartup(t *testing.T) {
	s := httpapi.NewStartup(httpapi.Options{})
	ask := func(method, path string) *httptest.ResponseRecorder {
		r, w := httptest.NewRequest(method, path, nil), httptest.NewRecorder()
		r.Host = "localhost"
		s.ServeHTTP(w, r)
		return w
	}
	starting := func(path string) httpapi.Problem {
		t.Helper()
		w := ask("GET", path)
		var p httpapi.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		if w.Code != 503 || p.Code != "recovering" || w.Header().Get("Retry-After") != "1" ||
			w.Header().Get("Content-Type") != httpapi.ProblemType {
			t.Errorf("%s: %d %v %s", path, w.Code, w.Header(), w.Body)
		}
		return p
	}
	starting("/readyz")
	starting("/v1/status")
	s.Progress(3, 10)
	if p := starting("/readyz"); p.DoneBytes != 3 || p.AllBytes != 10 || p.Detail != "it has read 3 of 10 bytes of its log" {
		t.Errorf("%+v", p)
	}
	if w := ask("GET", "/healthz"); w.Code != 200 {
		t.Errorf("healthz: %d", w.Code)
	}

	b, err := broker.Open(broker.Env{FS: crashfs.New(crashfs.Options{})}, ".", broker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s.Ready(httpapi.Handler(b, httpapi.Options{}))
	for _, path := range []string{"/readyz", "/healthz", "/v1/status"} {
		if w := ask("GET", path); w.Code != 200 {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	s.Drain()
	if w := ask("GET", "/readyz"); w.Code != 503 {
		t.Errorf("drained: %d", w.Code)
	}
}

// A server that is told to end while it recovers ends also when the recovery is quicker.
func TestStartupDrainedBefore(t *testing.T) {
	s := httpapi.NewStartup(httpapi.Options{Prefix: "/x"})
	s.Drain()
	b, err := broker.Open(broker.Env{FS: crashfs.New(crashfs.Options{})}, ".", broker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s.Ready(httpapi.Handler(b, httpapi.Options{Prefix: "/x"}))
	r, w := httptest.NewRequest("GET", "/x/readyz", nil), httptest.NewRecorder()
	r.Host = "localhost"
	s.ServeHTTP(w, r)
	if w.Code != 503 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

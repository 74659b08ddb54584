package demo

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"time"
)

// keyHeader is what the plugin says an event's id with.
const keyHeader = "Tidewheel-Key"

// busyOneIn is how many reminders there are for each that finds the receiver busy the first time.
const busyOneIn = 50

// receiver is who the webhook calls: a server of somebody else, which outlives the one that is killed.
type receiver struct {
	ledger *ledger
	server *http.Server
	addr   string
	ended  chan struct{}
}

// startReceiver listens on any free port of 127.0.0.1.
func startReceiver(l *ledger) (*receiver, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("demo: the webhook's receiver: %w", err)
	}
	r := &receiver{ledger: l, addr: listener.Addr().String(), ended: make(chan struct{})}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(r.ended)
		_ = r.server.Serve(listener) // it ends by stop
	}()
	return r, nil
}

// ServeHTTP takes a reminder. A few find it busy, and have to come again after a second.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, req.Body, 1<<20)); err != nil {
		return // it was cut off: not taken
	}
	id := req.Header.Get(keyHeader)
	if r.ledger.called(id, time.Now().UnixMilli(), busyAtFirst(id)) {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
}

// busyAtFirst says whether an event's first call is answered 503.
func busyAtFirst(id string) bool {
	h := fnv.New32a()
	_, _ = io.WriteString(h, id)
	return h.Sum32()%busyOneIn == 0
}

// stop ends it and waits.
func (r *receiver) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if r.server.Shutdown(ctx) != nil {
		_ = r.server.Close()
	}
	<-r.ended
}

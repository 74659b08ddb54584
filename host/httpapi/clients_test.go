package httpapi_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

// pipes is a listener within a bubble: a connection is a net.Pipe, whose deadlines go by the bubble's clock.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// dial connects to the server.
func (p *pipes) dial() net.Conn {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return ours
}

// bubbleServer is a server of its own in a bubble, where 30 s of waiting take no time. It ends with the test.
func bubbleServer(t *testing.T) (*pipes, *broker.Broker) {
	t.Helper()
	b, err := broker.Open(broker.Env{FS: crashfs.New(crashfs.Options{})}, ".", broker.Options{
		Engine: engine.Options{SegmentSize: 1 << 20, Queues: 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	a := httpapi.Handler(b, httpapi.Options{})
	s := httpapi.NewServer(a, nil)
	p := &pipes{make(chan net.Conn), make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- s.Serve(p) }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		<-served
		a.Close()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return p, b
}

// answerOf reads an answer; 0 when the connection ends without one.
func answerOf(t *testing.T, c net.Conn) (status int, body string) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// A peer that sends its headers a byte a second is let go after 5 s, one that stops within its body after 30 s; neither
// leaves anything behind.
func TestSlowClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b := bubbleServer(t)
		began := time.Now()
		c := p.dial()
		go func() { _, _ = io.Copy(io.Discard, c) }() // it takes what it is told, at least
		header := "GET /v1/topics HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
		sent := 0
		for ; sent < len(header); sent++ {
			if _, err := c.Write([]byte{header[sent]}); err != nil {
				break
			}
			time.Sleep(time.Second)
		}
		if took := time.Since(began); took > 7*time.Second || sent == len(header) {
			t.Errorf("a slow header was read for %v", took)
		}
		c.Close()

		began = time.Now()
		c = p.dial()
		fmt.Fprintf(c, "POST /v1/topics/t/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf of it")
		status, body := answerOf(t, c)
		if took := time.Since(began); status != 408 || !strings.Contains(body, "body_timeout") || took < 29*time.Second || took > 32*time.Second {
			t.Errorf("a body that does not come: %d %s after %v", status, body, took)
		}
		c.Close()
		if topics, err := b.Topics(t.Context()); err != nil || len(topics) != 0 {
			t.Errorf("%v, %v", topics, err)
		}
	})
}

// A peer that does not take its answer is let go.
func TestStuckClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b := bubbleServer(t)
		for range 4 {
			if _, err := b.Put(t.Context(), broker.Message{Topic: "t", Body: make([]byte, 200_000)}); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		c := p.dial()
		defer c.Close()
		fmt.Fprintf(c, "GET /v1/topics/t/messages HTTP/1.1\r\nHost: localhost\r\n\r\n")
		time.Sleep(40 * time.Second)
		if _, err := io.Copy(io.Discard, c); err == nil && time.Since(began) > 41*time.Second {
			t.Error("it went on after the deadline")
		}
		if _, err := c.Write([]byte("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")); err == nil {
			t.Error("the connection is still there")
		}
	})
}

// A reader that goes away while it waits is not waited for, nor is one of the stream of events.
func TestVanishedClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b := bubbleServer(t)
		if err := b.DefineTopic(t.Context(), "t", 1); err != nil {
			t.Fatal(err)
		}
		waiting := func() int {
			synctest.Wait()
			s, err := b.Stats()
			if err != nil {
				t.Fatal(err)
			}
			return s.WaitingReaders
		}
		reader, stream := p.dial(), p.dial()
		fmt.Fprintf(reader, "GET /v1/topics/t/messages?wait=60s HTTP/1.1\r\nHost: localhost\r\n\r\n")
		fmt.Fprintf(stream, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if n := waiting(); n != 1 {
			t.Errorf("%d readers wait", n)
		}
		reader.Close()
		stream.Close()
		if n := waiting(); n != 0 {
			t.Errorf("%d readers wait for nobody", n)
		}
	})
}

// A body that ends in the middle stores nothing, also not the lines that came.
func TestCutOffBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b := bubbleServer(t)
		c := p.dial()
		line := `{"topic":"t","body":"x"}` + "\n"
		fmt.Fprintf(c, "POST /v1/messages/batch HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s{\"topic\":", 2*len(line), line)
		c.Close()
		synctest.Wait()
		c = p.dial()
		fmt.Fprintf(c, "POST /v1/messages/batch HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"+
			"%x\r\n%s\r\nnonsense\r\n", len(line), line)
		if status, body := answerOf(t, c); status != 400 || !strings.Contains(body, "body_unreadable") {
			t.Errorf("%d %s", status, body)
		}
		c.Close()
		if topics, err := b.Topics(t.Context()); err != nil || len(topics) != 0 {
			t.Errorf("%v, %v", topics, err)
		}
	})
}

func zipped(t *testing.T, body []byte) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestGzip(t *testing.T) {
	a := httpapi.Handler(newBroker(t), httpapi.Options{})
	send := func(body, encoding string) (int, string) {
		w := do(t, a, "POST", "/v1/topics/t/messages", body, "Content-Encoding", encoding, "Tidewheel-Queue", "0")
		return w.Code, w.Body.String()
	}
	body := zipped(t, []byte("hello"))
	for _, c := range []struct {
		name, body, encoding string
		status               int
		code                 string
	}{
		{"whole", body, "gzip", 201, ""},
		{"plain", "hello", "identity", 201, ""},
		{"cut off", body[:len(body)-4], "gzip", 400, "body_unreadable"},
		{"damaged", body[:15] + "x" + body[16:], "gzip", 400, "body_unreadable"},
		{"not gzip", "hello", "gzip", 400, "body_unreadable"},
		{"unknown", body, "br", 415, "unsupported_encoding"},
		{"twice", zipped(t, []byte(body)), "gzip, gzip", 415, "unsupported_encoding"},
	} {
		if status, answer := send(c.body, c.encoding); status != c.status || !strings.Contains(answer, c.code) {
			t.Errorf("%s: %d %s", c.name, status, answer)
		}
	}
	got := read[httpapi.Messages](t, do(t, a, "GET", "/v1/topics/t/messages", ""), 200)
	if len(got.Messages) != 2 || *got.Messages[0].Body != "hello" || *got.Messages[1].Body != "hello" {
		t.Errorf("%+v", got)
	}
	// A few bytes that become very many cost no more than the limit.
	bomb := zipped(t, make([]byte, 64<<20))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	status, answer := send(bomb, "gzip")
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; status != 413 || grown > 40<<20 {
		t.Errorf("%d bytes: %d %s, %d bytes were allocated", len(bomb), status, answer, grown)
	}
}

// Nonsense of all kinds is refused with a problem, quickly.
func TestNonsense(t *testing.T) {
	a := httpapi.Handler(newBroker(t), httpapi.Options{})
	deep := strings.Repeat("[", 100_000)
	for name, body := range map[string]string{
		"deep": deep, "deep in a property": `{"properties":` + deep, "deep object": strings.Repeat(`{"properties":`, 100_000),
		"not a number": `{"born_ms":NaN}`, "half": `{"body":"x`, "surrogate": `{"body":"\ud800"`,
		"null": `null null`, "array": `[]`, "text": `"x"`,
	} {
		w := do(t, a, "POST", "/v1/topics/t/messages", body, "Content-Type", httpapi.EnvelopeType)
		if p := read[httpapi.Problem](t, w, 400); p.Code != "bad_json" || len(p.Detail) > 300 {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

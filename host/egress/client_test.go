package egress

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// loopback lets requests reach the tests' servers.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// client is one that may call the server at url, plain HTTP.
func client(t testing.TB, url string, change func(*Options)) *Client {
	t.Helper()
	o := Options{Allow: parseRules(t, strings.TrimSuffix(url, "/")), Private: loopback, Timeout: 5 * time.Second}
	if change != nil {
		change(&o)
	}
	c := New(o)
	t.Cleanup(c.Close)
	return c
}

func serve(t testing.TB, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// raw is a server that reads a request's headers and answers with bytes.
func raw(t testing.TB, answer func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	t.Cleanup(func() { l.Close(); conns.Wait() })
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer c.Close()
				buf := make([]byte, 64<<10)
				if _, err := c.Read(buf); err == nil {
					answer(c)
				}
			})
		}
	})
	return "http://" + l.Addr().String()
}

func TestDo(t *testing.T) {
	var got *http.Request
	var body []byte
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.Header().Add("X-B", "2")
		w.Header().Add("X-A", "1")
		w.Header().Add("X-B", "1")
		w.Header()["Date"] = nil
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprint(w, "short and stout")
	})
	c := client(t, s.URL, func(o *Options) { o.UserAgent = "tidewheel" })
	answer, err := c.Do(t.Context(), &Request{
		URL: s.URL + "/a%2fb?c=d", Headers: []Header{{"content-type", "application/json"}, {"X-Two", "1"}, {"x-two", "2"}}, Body: []byte(vectorBody),
		ID: vectorID, NowMs: vectorSeconds*1000 + 999, Secrets: secrets(t, vectorSecret, otherSecret),
	})
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%d %v %s %v", answer.Status, answer.Headers, answer.Body, answer.Cut); text !=
		"418 [{content-length 15} {content-type text/plain; charset=utf-8} {x-a 1} {x-b 2} {x-b 1}] short and stout false" {
		t.Errorf("answer %s", text)
	}
	if _, sent := got.Header["Idempotency-Key"]; sent {
		t.Error("a header is sent that nobody set")
	}
	if got.Method != "POST" || got.RequestURI != "/a%2fb?c=d" || string(body) != vectorBody || got.Host != s.Listener.Addr().String() {
		t.Errorf("request %s %s with host %s and body %q", got.Method, got.RequestURI, got.Host, body)
	}
	signature, _, _ := strings.Cut(got.Header.Get("webhook-signature"), " ")
	for name, want := range map[string]string{
		"webhook-id": vectorID, "webhook-timestamp": fmt.Sprint(vectorSeconds), "Content-Type": "application/json", "User-Agent": "tidewheel", "X-Two": "1",
	} {
		if got.Header.Get(name) != want {
			t.Errorf("header %s is %q, want %q", name, got.Header.Get(name), want)
		}
	}
	if signature != vectorSignature || len(got.Header.Values("X-Two")) != 2 {
		t.Errorf("signature %s, headers %v", signature, got.Header)
	}
}

// TestDoRefuses: what may not be sent is not sent.
func TestDoRefuses(t *testing.T) {
	var calls atomic.Int32
	s := serve(t, func(http.ResponseWriter, *http.Request) { calls.Add(1) })
	c := client(t, s.URL, func(o *Options) { o.MaxRequest = 10 })
	with := func(name, value string) Request {
		return Request{URL: s.URL, Headers: []Header{{"X-Fine", "1"}, {name, value}}}
	}
	many := Request{URL: s.URL, Headers: make([]Header, maxHeaders+1)}
	for name, r := range map[string]Request{
		"another host":      {URL: "http://127.0.0.2/"},
		"another port":      {URL: "http://127.0.0.1:1/"},
		"https there":       {URL: strings.Replace(s.URL, "http:", "https:", 1)},
		"method":            {URL: s.URL, Method: "CONNECT"},
		"method TRACE":      {URL: s.URL, Method: "TRACE"},
		"method small":      {URL: s.URL, Method: "post"},
		"method of lines":   {URL: s.URL, Method: "GET / HTTP/1.1\r\nX: "},
		"body":              {URL: s.URL, Body: make([]byte, 11)},
		"too many headers":  many,
		"large headers":     with("X-A", strings.Repeat("a", maxHeaderBytes)),
		"host":              with("Host", "evil.test"),
		"host small":        with("host", "evil.test"),
		"length":            with("Content-Length", "1"),
		"encoding":          with("transfer-encoding", "chunked"),
		"connection":        with("Connection", "X-Fine"),
		"keep-alive":        with("Keep-Alive", "1"),
		"upgrade":           with("Upgrade", "websocket"),
		"te":                with("TE", "trailers"),
		"trailer":           with("Trailer", "X"),
		"expect":            with("Expect", "100-continue"),
		"proxy":             with("Proxy-Authorization", "x"),
		"webhook-id":        with("webhook-id", "x"),
		"webhook-timestamp": with("Webhook-Timestamp", "1"),
		"webhook-signature": with("WEBHOOK-SIGNATURE", "x"),
		"by underscore":     with("webhook_signature", "x"),
		"by underscore 2":   with("Transfer_Encoding", "chunked"),
		"crlf":              with("X-A", "a\r\nHost: evil.test"),
		"lf":                with("X-A", "a\nX-B: c"),
		"nul":               with("X-A", "a\x00b"),
		"no name":           with("", "a"),
		"name with space":   with("X A", "a"),
		"name with colon":   with("X-A:", "a"),
		"name with lines":   with("X-A\r\nX-B", "a"),
		"name not ASCII":    with("X-Ä", "a"),
	} {
		if answer, err := c.Do(t.Context(), &r); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v, %v", name, answer, err)
		}
	}
	if calls.Load() != 0 {
		t.Errorf("the server was called %d times", calls.Load())
	}
}

// TestDoUglyServers: whatever a server does, there is a whole answer or an error with a fixed reason, in time.
func TestDoUglyServers(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	say := func(text string) func(net.Conn) {
		return func(c net.Conn) { _, _ = io.WriteString(c, text) }
	}
	hang := func(text string) func(net.Conn) {
		return func(c net.Conn) {
			_, _ = io.WriteString(c, text)
			_, _ = io.Copy(io.Discard, c) // until the client has gone
		}
	}
	forever := func(begin, more string) func(net.Conn) {
		return func(c net.Conn) {
			for _, err := io.WriteString(c, begin); err == nil; _, err = io.WriteString(c, more) {
			}
		}
	}
	reset := func(text string) func(net.Conn) {
		return func(c net.Conn) {
			_, _ = io.WriteString(c, text)
			_ = c.(*net.TCPConn).SetLinger(0)
		}
	}
	const ok = "HTTP/1.1 200 OK\r\n"
	for _, x := range []struct {
		name   string
		answer func(net.Conn)
		want   string // status, or the kind of the error
	}{
		{"good", say(ok + "Content-Length: 2\r\n\r\nhi"), "200"},
		{"until the end", say(ok + "\r\nhi"), "200"},
		{"no headers", hang(""), "timeout"},
		{"slow headers", hang(ok + "X: y\r\n"), "timeout"},
		{"slow body", hang(ok + "Content-Length: 9\r\n\r\nhi"), "timeout"},
		{"slow chunks", hang(ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n"), "timeout"},
		{"endless body", forever(ok+"\r\n", strings.Repeat("x", 4096)), "200 cut"},
		{"endless chunks", forever(ok+"Transfer-Encoding: chunked\r\n\r\n", "5\r\nhello\r\n"), "200 cut"},
		{"huge length", forever(ok+"Content-Length: 9223372036854775807\r\n\r\n", strings.Repeat("x", 4096)), "200 cut"},
		{"endless headers", forever(ok, "X: "+strings.Repeat("y", 1000)+"\r\n"), "broken"},
		{"endless 100s", forever("", "HTTP/1.1 100 Continue\r\n\r\n"), "broken"},
		{"hangs up", say(""), "broken"},
		{"hangs up in the headers", say(ok + "Content-Le"), "broken"},
		{"hangs up in the body", say(ok + "Content-Length: 9\r\n\r\nhi"), "broken"},
		{"hangs up in a chunk", say(ok + "Transfer-Encoding: chunked\r\n\r\n9\r\nhi"), "broken"},
		{"reset", reset(""), "broken"},
		{"reset in the body", reset(ok + "Content-Length: 9\r\n\r\nhi"), "broken"},
		{"garbage", say("\x00\x01\x02 garbage\r\n\r\n"), "broken"},
		{"another protocol", say("220 mail.example ESMTP\r\n"), "broken"},
		{"bad status", say("HTTP/1.1 9999999 OK\r\n\r\n"), "broken"},
		{"negative length", say(ok + "Content-Length: -1\r\n\r\n"), "broken"},
		{"two lengths", say(ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nhi"), "broken"},
		{"switches protocols", hang("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"), "broken"},
		{"redirects", say("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"), "302"},
		{"says gzip", say(ok + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\nhi"), "200"},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			url := raw(t, x.answer)
			c := client(t, url, func(o *Options) { o.Timeout, o.MaxResponse = 300*time.Millisecond, 64<<10 })
			if got := outcome(t, c, url); got != x.want {
				t.Errorf("outcome %s, want %s", got, x.want)
			}
		})
	}
	gone := "http://" + closed.Addr().String()
	if got := outcome(t, client(t, gone, nil), gone); got != "connect" {
		t.Errorf("nobody listens: %s", got)
	}
}

// TestKeptConnectionIsClosed: servers close connections that are kept, mostly in the moment in which the next request is on its
// way. That is no failure of a message.
func TestKeptConnectionIsClosed(t *testing.T) {
	var requests atomic.Int32
	url := raw(t, func(c net.Conn) { // the first request of the connection has been read
		requests.Add(1)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
		buf := make([]byte, 64<<10)
		_, _ = c.Read(buf) // the second one is dropped
	})
	c := client(t, url, nil)
	for range 3 {
		answer, err := c.Do(t.Context(), &Request{URL: url, Body: []byte("x"), ID: "a", NowMs: 1})
		if err != nil || answer.Status != 200 {
			t.Fatalf("%+v, %v", answer, err)
		}
	}
	if requests.Load() != 3 {
		t.Errorf("%d requests were answered", requests.Load())
	}
}

// TestNoBody: nothing of a response's body is wanted, or there is none.
func TestNoBody(t *testing.T) {
	for body, want := range map[string]string{"hi": "200 cut", "": "200"} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })
		if got := outcome(t, client(t, s.URL, func(o *Options) { o.MaxResponse = NoBody }), s.URL); got != want {
			t.Errorf("body %q: %s", body, got)
		}
	}
}

// outcome is the status of an answer, or the kind of an error.
func outcome(t *testing.T, c *Client, url string) string {
	t.Helper()
	answer, err := c.Do(t.Context(), &Request{URL: url})
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Kind.String()
	case err != nil:
		return err.Error()
	case answer.Cut:
		if len(answer.Body) != c.o.MaxResponse {
			t.Errorf("a body of %d bytes that was cut off", len(answer.Body))
		}
		return fmt.Sprint(answer.Status, " cut")
	}
	return fmt.Sprint(answer.Status)
}

// TestNoRedirects: a redirect to this machine is an answer, and nothing is asked there.
func TestNoRedirects(t *testing.T) {
	var calls atomic.Int32
	secret := serve(t, func(http.ResponseWriter, *http.Request) { calls.Add(1) })
	for _, code := range []int{301, 302, 303, 307, 308} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, secret.URL, code) })
		answer, err := client(t, s.URL, nil).Do(t.Context(), &Request{URL: s.URL, Method: "GET"})
		if err != nil || answer.Status != code {
			t.Errorf("%d: %+v, %v", code, answer, err)
		}
	}
	if calls.Load() != 0 {
		t.Errorf("%d redirects were followed", calls.Load())
	}
}

// TestNoProxy: the environment's proxy would connect in our place, past the gate.
func TestNoProxy(t *testing.T) {
	var calls atomic.Int32
	proxy := serve(t, func(http.ResponseWriter, *http.Request) { calls.Add(1) })
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	c := New(Options{Allow: parseRules(t, "http://a.invalid"), Resolver: names(t, func(string) netip.Addr { return netip.MustParseAddr("10.0.0.1") })})
	if got := outcome(t, c, "http://a.invalid/"); got != "address" || calls.Load() != 0 {
		t.Errorf("outcome %s, proxy called %d times", got, calls.Load())
	}
}

// TestTLSIsVerified: a certificate of nobody is refused, one of a given file is taken, for its names only.
func TestTLSIsVerified(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "secret") }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	url := "https://" + s.Listener.Addr().String()
	if got := outcome(t, client(t, url, nil), url); got != "tls" {
		t.Errorf("without the file: %s", got)
	}
	file := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	pool, err := Roots(file)
	if err != nil {
		t.Fatal(err)
	}
	trusting := func(o *Options) { o.Roots = pool }
	if got := outcome(t, client(t, url, trusting), url); got != "200" {
		t.Errorf("with the file: %s", got)
	}
	// The certificate is for example.com and 127.0.0.1.
	port := url[strings.LastIndexByte(url, ':'):]
	c := client(t, "https://evil.test"+port, func(o *Options) {
		o.Roots, o.Resolver = pool, names(t, func(string) netip.Addr { return netip.MustParseAddr("127.0.0.1") })
	})
	if got := outcome(t, c, "https://evil.test"+port); got != "tls" {
		t.Errorf("for another name: %s", got)
	}
	plain := raw(t, func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.0 400 Bad Request\r\n\r\n") })
	there := strings.Replace(plain, "http:", "https:", 1)
	if got := outcome(t, client(t, there, nil), there); got != "tls" {
		t.Errorf("of a server without TLS: %s", got)
	}
	if _, err := Roots([]byte("nothing")); err == nil {
		t.Error("a file without certificates is taken")
	}
}

// names is a resolver whose every answer is what f says at that moment.
func names(t testing.TB, f func(name string) netip.Addr) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		t.Cleanup(func() { there.Close() })
		go func() { // ends when either end is closed
			defer there.Close()
			for {
				var size [2]byte
				if _, err := io.ReadFull(there, size[:]); err != nil {
					return
				}
				query := make([]byte, binary.BigEndian.Uint16(size[:]))
				if _, err := io.ReadFull(there, query); err != nil {
					return
				}
				answer := resolve(query, f)
				if _, err := there.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
					return
				}
			}
		}()
		return here, nil
	}}
}

// resolve answers a question of DNS with one address, or with none of the other version.
func resolve(query []byte, f func(name string) netip.Addr) []byte {
	end, name := 12, ""
	for ; query[end] != 0; end += 1 + int(query[end]) {
		name += string(query[end+1:end+1+int(query[end])]) + "."
	}
	question := query[12 : end+5]
	kind := binary.BigEndian.Uint16(query[end+1:])
	answer := append(bytes.Clone(query[:2]), 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0)
	answer = append(answer, question...)
	addr := f(name)
	if kind == 1 && addr.Is4() || kind == 28 && addr.Is6() {
		answer[7] = 1
		answer = append(answer, 0xc0, 12)
		answer = binary.BigEndian.AppendUint16(answer, kind)
		answer = append(answer, 0, 1, 0, 0, 0, 0)
		answer = binary.BigEndian.AppendUint16(answer, uint16(len(addr.AsSlice())))
		answer = append(answer, addr.AsSlice()...)
	}
	return answer
}

// TestNamesOfPrivateAddresses: a name is as good as the address that a connection is made to.
func TestNamesOfPrivateAddresses(t *testing.T) {
	var calls atomic.Int32
	s := serve(t, func(http.ResponseWriter, *http.Request) { calls.Add(1) })
	port := s.URL[strings.LastIndexByte(s.URL, ':'):]
	for _, text := range []string{"127.0.0.1", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "169.254.169.254", "10.0.0.1", "0.0.0.0", "::", "fd00:ec2::254"} {
		c := New(Options{
			Allow: parseRules(t, "http://evil.test"+port), Timeout: 2 * time.Second,
			Resolver: names(t, func(string) netip.Addr { return netip.MustParseAddr(text) }),
		})
		if got := outcome(t, c, "http://evil.test"+port); got != "address" {
			t.Errorf("%s: %s", text, got)
		}
	}
	if calls.Load() != 0 {
		t.Errorf("the server on this machine was called %d times", calls.Load())
	}
}

// TestRebinding: a name that has a good address whenever somebody checks and another one right after that. There is no moment
// between check and connection: no request ever comes to the address that is not allowed.
func TestRebinding(t *testing.T) {
	var bad atomic.Int32
	target := serve(t, func(http.ResponseWriter, *http.Request) { bad.Add(1) }) // 127.0.0.1
	port := target.URL[strings.LastIndexByte(target.URL, ':'):]
	var looked atomic.Int32
	c := New(Options{
		Allow: parseRules(t, "http://evil.test"+port), Timeout: 2 * time.Second,
		Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.9/32")}, // stands for a public address
		Resolver: names(t, func(string) netip.Addr {
			if looked.Add(1)%2 == 1 {
				return netip.MustParseAddr("127.0.0.9")
			}
			return netip.MustParseAddr("127.0.0.1")
		}),
	})
	kinds := map[string]int{}
	for range 20 {
		kinds[outcome(t, c, "http://evil.test"+port)]++
	}
	if bad.Load() != 0 || kinds["200"] != 0 || kinds["address"] == 0 {
		t.Errorf("outcomes %v; the address that is not allowed was reached %d times", kinds, bad.Load())
	}
	if looked.Load() < 20 {
		t.Errorf("the name was looked up %d times", looked.Load())
	}
}

func TestNameNotFound(t *testing.T) {
	c := New(Options{Allow: parseRules(t, "a.test"), Resolver: names(t, func(string) netip.Addr { return netip.Addr{} })})
	if got := outcome(t, c, "https://a.test/"); got != "dns" {
		t.Errorf("outcome %s", got)
	}
}

// TestStopped: a request ends with its caller.
func TestStopped(t *testing.T) {
	begun := make(chan struct{})
	url := raw(t, func(c net.Conn) {
		close(begun)
		_, _ = io.Copy(io.Discard, c)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	_, err := client(t, url, nil).Do(ctx, &Request{URL: url})
	var e *Error
	if !errors.As(err, &e) || e.Kind != Stopped || !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// TestReasonsNameNothing: what a plugin learns of a failure has no address in it.
func TestReasonsNameNothing(t *testing.T) {
	for k := range kinds {
		if reason := Kind(k).Reason(); strings.ContainsAny(reason, ":0123456789[") || reason == "" {
			t.Errorf("kind %d: %q", k, reason)
		}
	}
	if Kind(99).String() != "unknown" || Kind(0).Reason() != "unknown" {
		t.Error("kinds that do not exist have names")
	}
}

// FuzzHeader: what passes is one line each when it is sent, with the name and the value that were given.
func FuzzHeader(f *testing.F) {
	for _, seed := range [][2]string{{"X-A", "b"}, {"X-A", "a\r\nHost: x"}, {"Host", "x"}, {"X A", "b"}, {"X-A", "\x00"}, {"te", "x"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		all, err := header([]Header{{name, value}})
		if err != nil {
			if !errors.Is(err, ErrRefused) {
				t.Fatalf("%q: an error of another kind: %v", name, err)
			}
			return
		}
		var sent bytes.Buffer
		if err := all.Write(&sent); err != nil {
			t.Fatal(err)
		}
		want := http.CanonicalHeaderKey(name) + ": " + strings.Trim(value, " \t") + "\r\n"
		if sent.String() != want || strings.Count(want, "\n") != 1 || slices.Contains(hosts, http.CanonicalHeaderKey(name)) {
			t.Fatalf("%q: %q is sent as %q", name, value, sent.String())
		}
	})
}

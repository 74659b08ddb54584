package server_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/client"
	"github.com/tidewheel/tidewheel/host/config"
	"github.com/tidewheel/tidewheel/host/httpapi"
	"github.com/tidewheel/tidewheel/host/server"
)

// TestMain puts back what a server changes in its process.
func TestMain(m *testing.M) {
	limit := debug.SetMemoryLimit(-1)
	code := m.Run()
	debug.SetMemoryLimit(limit)
	if err := goleak.Find(); code == 0 && err != nil {
		println(err.Error())
		code = 1
	}
	os.Exit(code)
}

// parse is a configuration on a directory and any port, with more lines behind.
func parse(t *testing.T, dir, doc string) *config.Config {
	t.Helper()
	cfg, err := config.Parse(config.Source{
		File:  "t.toml",
		Flags: []config.Flag{{Name: "--data", Key: "data_dir", Value: dir}, {Name: "--http", Key: "listen.http", Value: "127.0.0.1:0"}},
	}, []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// running is a server that serves until the test ends, or until stop, which returns what Serve returned.
type running struct {
	*server.Server
	c    *client.Client
	stop func() error
}

func start(t *testing.T, opts server.Options) *running {
	t.Helper()
	s, err := server.Listen(opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(errors.Join(err, s.Close()))
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	c, err := client.New(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceValue(func() error {
		cancel()
		c.CloseIdle()
		return <-ended
	})
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return &running{s, c, stop}
}

func put(t *testing.T, c *client.Client, topic string, delay string) httpapi.Stored {
	t.Helper()
	body := "x"
	st, err := c.Put(t.Context(), topic, httpapi.Envelope{Body: &body, Time: httpapi.Time{Delay: &delay}})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// logTo is a log whose lines a test reads.
func logTo(b *lockedBuffer) *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestServerLife: listening and not ready, ready, ended, and what was put is there the next time.
func TestServerLife(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s, err := server.Listen(server.Options{Config: parse(t, dir, "")})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get(s.URL() + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	var p httpapi.Problem
	err = json.NewDecoder(resp.Body).Decode(&p)
	if resp.Body.Close(); err != nil || resp.StatusCode != 503 || p.Code != "recovering" {
		t.Errorf("before Open: %d %+v %v", resp.StatusCode, p, err)
	}
	http.DefaultClient.CloseIdleConnections()
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Listen made the directory: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	r := start(t, server.Options{Config: parse(t, dir, "[[topic]]\nname = \"orders\"\nqueues = 2")})
	if err := r.c.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(t, r.c, "orders", "1h")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if err := r.c.Ready(t.Context()); !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("it answers after it has ended: %v", err)
	}
	r = start(t, server.Options{Config: parse(t, dir, "")})
	if st, err := r.Broker().Stats(); err != nil || st.Pending != 1 {
		t.Errorf("%d wait, %v", st.Pending, err)
	}
	if info, err := r.Broker().Topic(t.Context(), "orders"); err != nil || len(info.Queues) != 2 {
		t.Errorf("%+v, %v", info, err)
	}
}

// TestServerDrains: a waiting reader is sent away when the server ends, and nobody waits for an idle connection.
func TestServerDrains(t *testing.T) {
	r := start(t, server.Options{Config: parse(t, t.TempDir(), "")})
	put(t, r.c, "orders", "1h")
	read := make(chan httpapi.Messages, 1)
	go func() {
		got, err := r.c.Pull(context.Background(), client.Pull{Topic: "orders", Group: "g", Wait: time.Minute})
		if err != nil {
			t.Logf("the reader got: %v", err)
		}
		read <- got
	}()
	for waiting := 0; waiting == 0; {
		st, err := r.Broker().Stats()
		if err != nil {
			t.Fatal(err)
		}
		waiting = st.WaitingReaders
		select {
		case got := <-read:
			t.Fatalf("the reader did not wait: %+v", got)
		default:
		}
	}
	began := time.Now()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > server.StopTime {
		t.Errorf("it took %v", took)
	}
	if got := <-read; len(got.Messages) > 0 {
		t.Errorf("the reader has %+v", got)
	}
}

// TestServerEndsWhileStarting: the context ends before the store is open; the directory is good afterwards.
func TestServerEndsWhileStarting(t *testing.T) {
	dir := t.TempDir()
	s, err := server.Listen(server.Options{Config: parse(t, dir, "")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Open(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("open: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for {
		next, err := server.Listen(server.Options{Config: parse(t, dir, "")})
		if err != nil {
			t.Fatal(err)
		}
		err = next.Open(t.Context())
		if err := next.Close(); err != nil {
			t.Fatal(err)
		}
		if err == nil {
			return
		}
		if !errors.Is(err, engine.ErrLocked) { // the first one is still giving it up
			t.Fatal(err)
		}
	}
}

func TestReload(t *testing.T) {
	var said lockedBuffer
	level := new(slog.LevelVar)
	dir := t.TempDir()
	first := parse(t, dir, "[[topic]]\nname = \"a\"")
	r := start(t, server.Options{Config: first, Log: logTo(&said), Level: level})
	next := parse(t, dir, "memory_limit = \"300MiB\"\n[timer]\nlanes = 2\n[logging]\nlevel = \"error\"\n[[topic]]\nname = \"a\"\nqueues = 7\n[[topic]]\nname = \"b\"")
	for _, want := range []server.Reloaded{
		{Applied: []string{"memory_limit", "logging.level", "topic.a.queues", "topic.b.queues"}, Restart: []string{"timer.lanes"}},
		{Restart: []string{"timer.lanes"}}, // said again, since it is not in force yet
	} {
		got, err := r.Reload(t.Context(), next)
		if err != nil || !slices.Equal(got.Applied, want.Applied) || !slices.Equal(got.Restart, want.Restart) {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
	if level.Level() != slog.LevelError || debug.SetMemoryLimit(-1) != 300<<20 {
		t.Errorf("level %v, memory limit %d", level.Level(), debug.SetMemoryLimit(-1))
	}
	for name, queues := range map[string]int{"a": 7, "b": 4} {
		if info, err := r.Broker().Topic(t.Context(), name); err != nil || len(info.Queues) != queues {
			t.Errorf("topic %s: %+v, %v", name, info, err)
		}
	}
	// A topic that cannot be made is an error, and is tried again.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	more := parse(t, dir, "[[topic]]\nname = \"c\"")
	if _, err := r.Reload(ctx, more); err == nil {
		t.Skip("the broker was quicker than the context")
	}
	if _, err := r.Reload(t.Context(), more); err != nil {
		t.Error(err)
	}
	if _, err := r.Broker().Topic(t.Context(), "c"); err != nil {
		t.Error(err)
	}
}

// TestReloadFiles: tokens and certificates are read again; after a mistake those of before count.
func TestReloadFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	token := func(text string) string { return fmt.Sprintf("%x produce me\n", sha256.Sum256([]byte(text))) }
	certPEM, keyPEM := certificate(t)
	doc := fmt.Sprintf("[auth]\ntokens_file = %q\n[listen]\ntls_cert = %q\ntls_key = %q",
		write("tokens", token("one")), write("cert", certPEM), write("key", keyPEM))
	cfg := parse(t, filepath.Join(dir, "data"), doc)
	r := start(t, server.Options{Config: cfg})
	if !strings.HasPrefix(r.URL(), "https://") || r.Tokens() != 1 {
		t.Errorf("%s, %d tokens", r.URL(), r.Tokens())
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(certPEM))
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
	ask := func(token string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "GET", r.URL()+"/v1/status", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	reload := func(want ...string) error {
		t.Helper()
		got, err := r.Reload(t.Context(), cfg)
		if !slices.Equal(got.Read, want) {
			t.Errorf("read %q, want %q", got.Read, want)
		}
		return err
	}
	if one, two := ask("one"), ask("two"); one != 200 || two != 401 {
		t.Errorf("at the start: %d, %d", one, two)
	}
	write("tokens", token("two"))
	if err := reload("auth.tokens_file", "listen.tls_cert"); err != nil {
		t.Error(err)
	}
	if one, two := ask("one"), ask("two"); one != 401 || two != 200 {
		t.Errorf("another token: %d, %d", one, two)
	}
	write("tokens", "garbage")
	write("key", "garbage")
	if err := reload(); !errors.Is(err, httpapi.ErrTokens) || !errors.Is(err, httpapi.ErrCertificate) {
		t.Errorf("garbage: %v", err)
	}
	if two := ask("two"); two != 200 {
		t.Errorf("after garbage: %d", two)
	}
	if _, err := server.Listen(server.Options{Config: cfg}); !errors.Is(err, httpapi.ErrTokens) {
		t.Errorf("a start with garbage: %v", err)
	}
}

// certificate makes one of 127.0.0.1, and its key, in PEM.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", secret)
}

// TestNotify: a service manager hears that the server is ready, reloading and stopping.
func TestNotify(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Skipf("no datagram sockets here: %v", err)
	}
	defer l.Close()
	cfg := parse(t, t.TempDir(), "")
	r := start(t, server.Options{Config: cfg, NotifySocket: socket})
	hear := func(want string) {
		t.Helper()
		b := make([]byte, 4096)
		_ = l.SetReadDeadline(time.Now().Add(5 * time.Second))
		n, err := l.Read(b)
		if got := string(b[:n]); err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("heard %q, %v; want %q", got, err, want)
		}
	}
	hear("READY=1\nSTATUS=Serving http://127.0.0.1:")
	if _, err := r.Reload(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	hear("STATUS=Reading")
	hear("STATUS=Serving")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	hear("STOPPING=1")
}

// A manager that cannot be told stops nothing.
func TestNotifyNobody(t *testing.T) {
	var said lockedBuffer
	r := start(t, server.Options{Config: parse(t, t.TempDir(), ""), NotifySocket: filepath.Join(t.TempDir(), "none"), Log: logTo(&said)})
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said.String(), "the service manager cannot be told") {
		t.Errorf("the log has %s", said.String())
	}
}

// TestManualClock: two days pass at once.
func TestManualClock(t *testing.T) {
	clock := broker.NewManualClock(1_796_036_523_123)
	r := start(t, server.Options{Config: parse(t, t.TempDir(), ""), Clock: clock})
	st := put(t, r.c, "orders", "48h")
	if want := clock.Wall() + 48*3_600_000; st.DueMs != want {
		t.Errorf("due at %d, want %d", st.DueMs, want)
	}
	if _, err := clock.Advance(48 * time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := r.Broker().CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := r.c.Pull(t.Context(), client.Pull{Topic: "orders", Group: "g"})
	if err != nil || len(got.Messages) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

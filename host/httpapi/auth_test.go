package httpapi_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/host/httpapi"
)

// tokenLine is a line of a tokens file.
func tokenLine(token, role, name string) string {
	return fmt.Sprintf("%x  %s  %s\n", sha256.Sum256([]byte(token)), role, name)
}

func writeFile(t testing.TB, name, text string) string {
	t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(t.TempDir(), name)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// threeTokens are tokens named by their roles.
func threeTokens(t testing.TB) *httpapi.Tokens {
	t.Helper()
	tokens, err := httpapi.OpenTokens(writeFile(t, "tokens", "# who may do what\n\n"+tokenLine("read", "read", "ana")+
		tokenLine("produce", "produce", "shop")+tokenLine("operate", "operate", "ops # a comment")))
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// Every operation, with every token: what the table says of its role holds.
func TestRoles(t *testing.T) {
	a := httpapi.Handler(newBroker(t), httpapi.Options{Tokens: threeTokens(t)})
	s := httptest.NewServer(a)
	defer s.Close()
	doc := readDocument(t, s.URL)
	rank := map[string]int{"none": 0, "read": 1, "produce": 2, "operate": 3}
	for id, op := range doc.ops {
		needs := rank[op.node["x-role"].(string)]
		for _, token := range []string{"", "wrong", "read", "produce", "operate"} {
			var header []string
			if token != "" {
				header = []string{"Authorization", "Bearer " + token}
			}
			path := strings.NewReplacer("{topic}", "nosuch", "{handle}", "tw1.x", "{", "", "}", "").Replace(op.path)
			ctx := t.Context()
			if op.node["x-waits"] == true { // nobody waits for the answer
				gone, cancel := context.WithCancel(ctx)
				cancel()
				ctx = gone
			}
			w := doWith(ctx, t, a, op.method, path, "", header...)
			switch {
			case needs > 0 && rank[token] == 0:
				if p := read[httpapi.Problem](t, w, 401); p.Code != "unauthorized" || w.Header().Get("WWW-Authenticate") == "" {
					t.Errorf("%s with token %q: %+v", id, token, p)
				}
			case rank[token] < needs:
				if p := read[httpapi.Problem](t, w, 403); p.Code != "forbidden" || p.Limit != op.node["x-role"] {
					t.Errorf("%s with token %q: %+v", id, token, p)
				}
			case w.Code == 401 || w.Code == 403 && strings.Contains(w.Body.String(), `"forbidden"`):
				t.Errorf("%s with token %q: %d %s", id, token, w.Code, w.Body)
			}
		}
	}
}

// With tokens the name by which a server is asked for does not matter.
func TestTokensTakeAnyHost(t *testing.T) {
	for name, opts := range map[string]httpapi.Options{"tokens": {Tokens: threeTokens(t)}, "any host": {AnyHost: true}} {
		r := httptest.NewRequest("GET", "/v1/topics", nil)
		r.Host = "tidewheel.example"
		r.Header.Set("Authorization", "bearer  read")
		w := httptest.NewRecorder()
		httpapi.Handler(newBroker(t), opts).ServeHTTP(w, r)
		if w.Code != 200 {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

func TestTokensReload(t *testing.T) {
	file := writeFile(t, "tokens", tokenLine("old", "read", "ana"))
	tokens, err := httpapi.OpenTokens(file)
	if err != nil {
		t.Fatal(err)
	}
	a := httpapi.Handler(newBroker(t), httpapi.Options{Tokens: tokens})
	status := func(token string) int {
		return do(t, a, "GET", "/v1/topics", "", "Authorization", "Bearer "+token).Code
	}
	writeFile(t, file, tokenLine("new", "read", "ana")+"nonsense\n")
	if err := tokens.Reload(); !errors.Is(err, httpapi.ErrTokens) || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a damaged file: %v", err)
	}
	if got := status("old"); got != 200 {
		t.Errorf("the old token after a failed reload: %d", got)
	}
	writeFile(t, file, tokenLine("new", "read", "ana"))
	if err := tokens.Reload(); err != nil || tokens.Count() != 1 {
		t.Fatal(err)
	}
	if status("old") != 401 || status("new") != 200 {
		t.Errorf("after the reload: old %d, new %d", status("old"), status("new"))
	}
}

func TestTokensFile(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"empty":       {"# nobody\n", "no token"},
		"two words":   {"abc read\n", "line 1: it has 2 words"},
		"in plain":    {"\nhunter2 read ana\n", "line 2: the first word is not the SHA-256"},
		"short hash":  {"9f86 read ana\n", "64 digits"},
		"role":        {strings.Replace(tokenLine("x", "read", "ana"), "read", "admin", 1), `role "admin"`},
		"none":        {tokenLine("x", "none", "ana"), `role "none"`},
		"twice":       {tokenLine("x", "read", "a") + tokenLine("x", "operate", "b"), "line 2: the same token as in line 1"},
		"empty token": {tokenLine("", "read", "a"), "empty token"},
		"two faults":  {"a\nb\n", "line 2"},
		"large":       {strings.Repeat("#\n", 1<<20), "more than"},
	} {
		_, err := httpapi.OpenTokens(writeFile(t, "tokens", c.text))
		if !errors.Is(err, httpapi.ErrTokens) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := httpapi.OpenTokens(filepath.Join(t.TempDir(), "nosuch")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// A stranger's body is neither read nor waited for, however large it is said to be.
func TestStrangerIsNotRead(t *testing.T) {
	l, err := httpapi.Options{}.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := httpapi.NewServer(httpapi.Handler(newBroker(t), httpapi.Options{Tokens: threeTokens(t)}), nil)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const strangers = 20
	for range strangers {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "POST /v1/messages/batch HTTP/1.1\r\nHost: x\r\nContent-Length: 8000000\r\n\r\nnothing follows")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != 401 || !resp.Close {
			t.Errorf("%d, close %v", resp.StatusCode, resp.Close)
		}
		resp.Body.Close()
		c.Close()
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / strangers; each > 64<<10 {
		t.Errorf("%d bytes were allocated for each stranger", each)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	<-served
}

// Headers that are too long are refused before anything is looked at.
func TestLongHeaders(t *testing.T) {
	l, err := httpapi.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := httpapi.NewServer(httpapi.Handler(newBroker(t), httpapi.Options{}), nil)
	go func() { _ = s.Serve(l) }()
	defer s.Close()
	for size, want := range map[int]int{33 << 10: 200, 60 << 10: 431} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+l.Addr().String()+"/v1/topics", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Long", strings.Repeat("x", size))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%d bytes of headers: %d, want %d", size, resp.StatusCode, want)
		}
	}
}

// certificate makes a key and a certificate for 127.0.0.1, in two files.
func certificate(t *testing.T, dir, name string) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile = writeFile(t, filepath.Join(dir, "cert.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})))
	return certFile, writeFile(t, filepath.Join(dir, "key.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
}

// TLS from files, which are read again while the server runs; HTTP/2 works, old versions do not.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	cert, err := httpapi.OpenCertificate(certificate(t, dir, "first"))
	if err != nil {
		t.Fatal(err)
	}
	opts := httpapi.Options{Tokens: threeTokens(t), Certificate: cert}
	l, err := opts.Listen("0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	s := httpapi.NewServer(httpapi.Handler(newBroker(t), opts), nil)
	go func() { _ = s.Serve(l) }()
	defer s.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	get := func(version uint16) (*http.Response, error) {
		// The test looks at who the server says it is; that it is trusted is package tls's business.
		client := &http.Client{Transport: &http.Transport{
			ForceAttemptHTTP2: true, DisableKeepAlives: true,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: version},
		}}
		req, err := http.NewRequestWithContext(t.Context(), "GET", "https://127.0.0.1:"+port+"/v1/topics", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer read")
		resp, err := client.Do(req)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		return resp, err
	}
	resp, err := get(0)
	if err != nil {
		t.Fatal(err)
	}
	if name := resp.TLS.PeerCertificates[0].Subject.CommonName; resp.StatusCode != 200 || resp.ProtoMajor != 2 || name != "first" {
		t.Errorf("%d %s, %s", resp.StatusCode, resp.Proto, name)
	}
	if resp, err := get(tls.VersionTLS11); err == nil {
		t.Errorf("TLS 1.1: %d", resp.StatusCode)
	}
	certFile, _ := certificate(t, dir, "second")
	if err := cert.Reload(); err != nil {
		t.Fatal(err)
	}
	writeFile(t, certFile, "nonsense")
	if err := cert.Reload(); !errors.Is(err, httpapi.ErrCertificate) {
		t.Errorf("a damaged certificate: %v", err)
	}
	if resp, err = get(0); err != nil {
		t.Fatal(err)
	}
	if name := resp.TLS.PeerCertificates[0].Subject.CommonName; name != "second" {
		t.Errorf("after the reload it is %s", name)
	}
}

// Other machines are let in only with tokens and TLS, and the error says what to set.
func TestListenBeyondLoopback(t *testing.T) {
	cert, err := httpapi.OpenCertificate(certificate(t, t.TempDir(), "x"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		opts httpapi.Options
		want string
	}{
		{httpapi.Options{}, "[auth] tokens_file as well as [listen] tls_cert and tls_key are not set"},
		{httpapi.Options{Certificate: cert}, "[auth] tokens_file is not set"},
		{httpapi.Options{Tokens: threeTokens(t)}, "[listen] tls_cert and tls_key are not set"},
		{httpapi.Options{Tokens: threeTokens(t), Certificate: cert}, ""},
	} {
		l, err := c.opts.Listen("0.0.0.0:0")
		if err == nil {
			_ = l.Close()
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

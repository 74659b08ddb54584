package main

import (
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

// TestCAFile: a server whose certificate this machine does not trust is trusted by the file that says so, and no other.
func TestCAFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	tokens, err := httpapi.OpenTokens(write("tokens", fmt.Appendf(nil, "%x produce me\n", sha256.Sum256([]byte("secret")))))
	if err != nil {
		t.Fatal(err)
	}
	b, err := broker.Open(broker.Env{FS: crashfs.New(crashfs.Options{})}, ".", broker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(httpapi.Handler(b, httpapi.Options{Tokens: tokens}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of a handshake that the client gave up
	s.StartTLS()
	defer func() {
		s.Close()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	t.Setenv("TIDEWHEEL_URL", s.URL)
	token := write("token", []byte("secret\n"))
	ca := write("ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	wantCLI(t, "put orders x --in 1h --ca-file "+ca+" --token-file "+token, "scheduled")
	wantCLI(t, "ls --ca-file "+ca+" --token-file "+token, "orders")
	for args, want := range map[string]int{
		"":                                      exitUnreachable,
		"--ca-file " + token:                    exitUsage,
		"--ca-file " + filepath.Join(dir, "no"): exitError,
	} {
		if _, stderr, code := cli(t, strings.Fields("ls --token-file "+token+" "+args)...); code != want {
			t.Errorf("ls %s: exit %d, want %d: %s", args, code, want, stderr)
		}
	}
}

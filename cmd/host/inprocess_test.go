package main

import (
	"bytes"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

// inProcess runs a server in this process, on a file system in memory, for what a script cannot do to one.
func inProcess(t *testing.T) (*broker.Broker, *httptest.Server) {
	t.Helper()
	b, err := broker.Open(broker.Env{FS: crashfs.New(crashfs.Options{})}, ".", broker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(httpapi.Handler(b, httpapi.Options{}))
	t.Cleanup(func() {
		s.Close()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("TIDEWHEEL_URL", s.URL)
	return b, s
}

// cli runs a command line.
func cli(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(args, strings.NewReader(""), &out, &errs)
	return out.String(), errs.String(), code
}

// wantCLI runs a command line that must succeed and print texts.
func wantCLI(t *testing.T, args string, want ...string) string {
	t.Helper()
	stdout, stderr, code := cli(t, strings.Fields(args)...)
	if code != exitOK {
		t.Errorf("%s: exit %d: %s", args, code, stderr)
	}
	for _, text := range want {
		if !strings.Contains(stdout, text) {
			t.Errorf("%s: %q is missing in:\n%s", args, text, stdout)
		}
	}
	return stdout
}

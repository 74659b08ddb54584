package delivery

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/host/broker/brokertest"
	"github.com/tidewheel/tidewheel/host/config"
	"github.com/tidewheel/tidewheel/host/pluginhost"
	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

// hosted is a plugin host with the courier in its directory, and a fleet.
type hosted struct {
	t    *testing.T
	dir  string
	host *pluginhost.Host
	f    *Fleet
}

func hosting(t *testing.T, b *brokertest.Broker) *hosted {
	h := &hosted{t: t, dir: t.TempDir()}
	h.write("plugins/courier.wasm", plugintest.Courier())
	opened, err := pluginhost.Open(t.Context(), pluginhost.Options{Config: h.parse("")})
	if err != nil {
		t.Fatal(err)
	}
	h.host, h.f = opened, NewFleet(b, nil)
	t.Cleanup(func() {
		h.f.Close(context.Background())
		if err := h.host.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func (h *hosted) write(name string, data []byte) {
	name = filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h *hosted) parse(doc string) *config.Config {
	h.t.Helper()
	cfg, err := config.Parse(config.Source{File: filepath.Join(h.dir, "t.toml")}, []byte("data_dir = \""+h.dir+"/data\"\n"+doc))
	if err != nil {
		h.t.Fatal(err)
	}
	return cfg
}

// configure makes the plugins those of a document.
func (h *hosted) configure(doc string) error {
	h.t.Helper()
	next := h.parse(doc)
	ctx, cancel := context.WithTimeout(h.t.Context(), 10*time.Second)
	defer cancel()
	h.f.Keep(ctx, next)
	if err := h.host.Reconfigure(h.t.Context(), next); err != nil {
		h.t.Fatal(err)
	}
	return h.f.Configure(h.host.Deliveries())
}

// table is one plugin that may call url.
func table(name, match, url, delivery string) string {
	return fmt.Sprintf(`
[[plugin]]
name = %q
file = "courier.wasm"
hooks = ["deliver"]
match = [%q]
on_error = "dead_letter"
instances = 1
[plugin.limits]
memory_max = "4MiB"
[plugin.capabilities]
egress = [%q]
private_addresses = ["127.0.0.0/8"]
[plugin.delivery]
%s
`, name, match, url, delivery)
}

// TestFleetFollowsConfiguration: plugins come, change and go while messages are put, and each message is delivered once.
func TestFleetFollowsConfiguration(t *testing.T) {
	b := brokertest.Open(t)
	h := hosting(t, b)
	r := receive(t, func(_ *receiver, w http.ResponseWriter, req *http.Request) {})
	if err := h.configure(""); err != nil || len(h.f.Stats()) != 0 {
		t.Fatalf("without plugins: %v, %+v", err, h.f.Stats())
	}
	first := put(b, "orders", r.URL+"/1")[0]
	if err := h.configure(table("a", "orders", r.URL, "")); err != nil {
		t.Fatal(err)
	}
	until(t, "the first message", func() bool { return r.times(first) == 1 && lag(t, b, "plugin-a") == 0 })
	before := h.f.ships["a"]
	if err := h.configure(table("a", "orders", r.URL, "")); err != nil || h.f.ships["a"] != before {
		t.Errorf("a plugin that is unchanged has another worker: %v", err)
	}
	if err := h.configure(table("a", "orders", r.URL, "concurrency = 3") + table("b", "bills", r.URL, "group = \"b\"")); err != nil || h.f.ships["a"] == before {
		t.Errorf("a plugin that has changed has the same worker: %v", err)
	}
	second, third := put(b, "orders", r.URL+"/2")[0], put(b, "bills", r.URL+"/3")[0]
	until(t, "messages of both", func() bool { return r.times(second) == 1 && r.times(third) == 1 && lag(t, b, "b") == 0 })
	if s := h.f.Stats(); len(s) != 2 || s[0].Plugin != "a" || s[1].Group != "b" {
		t.Errorf("stats %+v", s)
	}
	if err := h.configure(table("b", "bills", r.URL, "group = \"b\"")); err != nil {
		t.Fatal(err)
	}
	h.f.ending.Wait()
	fourth, fifth := put(b, "orders", r.URL+"/4")[0], put(b, "bills", r.URL+"/5")[0]
	until(t, "the one that is left", func() bool { return r.times(fifth) == 1 })
	if r.times(fourth) != 0 || lag(t, b, "plugin-a") != 1 {
		t.Errorf("a plugin that is gone delivers")
	}
	for _, id := range []string{first, second, third, fifth} {
		if n := r.times(id); n != 1 {
			t.Errorf("message %s came %d times", id, n)
		}
	}
	h.f.Close(t.Context())
	if err := h.f.Configure(nil); err == nil || len(h.f.Stats()) != 0 {
		t.Error("a closed fleet is configured")
	}
}

// TestFleetFiles: certificates and secrets come from files; one that cannot be used changes nothing and is named.
func TestFleetFiles(t *testing.T) {
	b := brokertest.Open(t)
	h := hosting(t, b)
	signatures := make(chan string, 10)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		signatures <- req.Header.Get("webhook-signature")
	}))
	t.Cleanup(s.Close)
	h.write("ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	h.write("secrets", []byte("# old, new\nwhsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\nwhsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD\n"))
	address := strings.TrimPrefix(s.URL, "https://")
	good := table("a", "orders", address, "ca_file = \"ca.pem\"\nsigning_secrets_file = \"secrets\"")
	if err := h.configure(good); err != nil {
		t.Fatal(err)
	}
	put(b, "orders", s.URL+"/1")
	select {
	case got := <-signatures:
		if strings.Count(got, "v1,") != 2 {
			t.Errorf("signature %q", got)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("nothing came: %+v", h.f.Stats())
	}
	running := h.f.ships["a"]
	h.write("ca.pem", []byte("nothing"))
	if err := h.configure(good); err == nil || !strings.Contains(err.Error(), "plugin a: ca_file: egress: there is no certificate") || h.f.ships["a"] != running {
		t.Errorf("with a file of certificates without any: %v", err)
	}
	if err := h.configure(table("a", "orders", address, "ca_file = \"none.pem\"")); err == nil || !strings.Contains(err.Error(), "ca_file: open ") || h.f.ships["a"] != running {
		t.Errorf("without the file of certificates: %v", err)
	}
}

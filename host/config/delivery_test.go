package config_test

import (
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/host/config"
)

// TestDeliveryPlugin: what a plugin that delivers needs, and the forms of what it may reach.
func TestDeliveryPlugin(t *testing.T) {
	const head = "[[plugin]]\nname = \"a\"\nfile = \"a.wasm\"\nhooks = [\"deliver\"]\nmatch = [\"*\"]\non_error = \"block\"\n"
	const hosts = "[plugin.capabilities]\negress = [\"api.example.com\"]\n"
	for _, x := range []struct{ name, doc, want string }{
		{"plain", head + hosts, ""},
		{"all there is", head + "[plugin.capabilities]\negress = [\"*\", \"*.a.example:8443\", \"http://localhost:9000\", \"[::1]:9000\"]\nprivate_addresses = [\"10.1.0.0/16\", \"127.0.0.1\"]\n" +
			"[plugin.delivery]\ngroup = \"g\"\nconcurrency = 2\ntimeout = \"1s\"\nmax_request = \"1KiB\"\nmax_response = \"0\"\nmax_attempts = 100\nca_file = \"ca.pem\"\n", ""},
		{"nowhere to go", head, "capabilities.egress is missing"},
		{"open", strings.Replace(head, "on_error", "fail = \"open\"\non_error", 1) + hosts, `can only be "closed"`},
		{"all entries wrong", head + "[plugin.capabilities]\negress = [\"0x7f.1\"]\n", "is a number"},
		{"capitals", head + "[plugin.capabilities]\negress = [\"API.example.com\"]\n", "has capital letters"},
		{"number", head + "[plugin.capabilities]\negress = [\"0177.1\"]\n", "is a number"},
		{"user", head + "[plugin.capabilities]\negress = [\"https://a@b.example\"]\n", "without path or user"},
		{"network", head + "[plugin.capabilities]\negress = [\"a.example\"]\nprivate_addresses = [\"10.1.2.3/16\"]\n", "the block is 10.1.0.0/16"},
		{"response", head + hosts + "[plugin.limits]\nrecord_bytes = \"1KiB\"\n", "more than limits.record_bytes"},
	} {
		cfg, err := config.Parse(config.Source{File: "etc/t.toml"}, []byte(x.doc))
		switch {
		case x.want == "" && err != nil:
			t.Errorf("%s: %v", x.name, err)
		case x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)):
			t.Errorf("%s: %v, want %q", x.name, err, x.want)
		case x.name == "all entries wrong" && strings.Contains(err.Error(), "missing"):
			t.Errorf("%s: %v", x.name, err)
		case x.name == "all there is" && cfg.Plugins[0].Delivery.CAFile != "etc/ca.pem":
			t.Errorf("ca_file is %q", cfg.Plugins[0].Delivery.CAFile)
		}
	}
}

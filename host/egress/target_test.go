package egress

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestTargetAttacks(t *testing.T) {
	rules := []string{"api.example.com", "*.customers.example", "http://plain.example:8080", "192.0.2.7", "[2001:db8::1]:8443", "xn--bcher-kva.example"}
	c := New(Options{Allow: parseRules(t, rules...)})
	for _, x := range []struct{ url, want string }{ // want: part of the refusal; empty: passes
		{"https://api.example.com", ""},
		{"https://api.example.com/", ""},
		{"https://api.example.com:443/a/b?c=d&e=%20", ""},
		{"https://a.customers.example/x", ""},
		{"https://a.b.customers.example/x", ""},
		{"http://plain.example:8080/", ""},
		{"https://192.0.2.7/", ""},
		{"https://[2001:db8::1]:8443/", ""},
		{"https://xn--bcher-kva.example/", ""},

		{"", "does not begin"},
		{"api.example.com", "does not begin"},
		{"//api.example.com/", "does not begin"},
		{"https:/api.example.com/", "does not begin"},
		{"https:api.example.com", "does not begin"},
		{"https:///api.example.com", "no host"},
		{"HTTPS://api.example.com/", "does not begin"},
		{"ftp://api.example.com/", "does not begin"},
		{"file:///etc/passwd", "does not begin"},
		{"gopher://api.example.com/", "does not begin"},
		{"unix:///var/run/docker.sock", "does not begin"},

		{"http://api.example.com/", "not in the list"},
		{"https://api.example.com:8443/", "not in the list"},
		{"https://customers.example/", "not in the list"},
		{"https://evilcustomers.example/", "not in the list"},
		{"https://.customers.example/", "not a host's name"},
		{"https://api.example.com.evil.test/", "not in the list"},
		{"https://evil.test/api.example.com", "not in the list"},
		{"https://evil.test?api.example.com", "not in the list"},
		{"https://evil.test/?x=.customers.example", "not in the list"},

		{"https://user@api.example.com/", "names a user"},
		{"https://user:pw@api.example.com/", "names a user"},
		{"https://api.example.com@evil.test/", "names a user"},
		{"https://evil.test#@api.example.com/", "fragment"},
		{"https://@api.example.com/", "names a user"},
		{"https://evil.test\\@api.example.com/", "must be escaped"},
		{"https://api.example.com\\.evil.test/", "must be escaped"},
		{"https:\\\\api.example.com/", "must be escaped"},
		{"https://evil.test%2f@api.example.com/", "names a user"},
		{"https://api.example.com%2f.evil.test/", "no URL"},
		{"https://api%2eexample.com/", "no URL"},
		{"https://api.example.com%00.evil.test/", "no URL"},
		{"https://%61pi.example.com/", "no URL"},
		{"https://api.example.com#frag", "fragment"},
		{"https://api.example.com/#", "fragment"},

		{"https://api.example.com./", "ends with a dot"},
		{"https://api.example.com.:443/", "ends with a dot"},
		{"https://API.example.com/", "capital letters"},
		{"https://api..example.com/", "not a host's name"},
		{"https://-api.example.com/", "not a host's name"},
		{"https://b\u00fccher.example/", "must be escaped"},
		{"https://\uff41pi.example.com/", "must be escaped"}, // a full-width letter that folds to a
		{"https://api\u3002example.com/", "must be escaped"}, // a dot of another alphabet
		{"https://" + strings.Repeat("a", 64) + ".customers.example/", "not a host's name"},
		{"https://" + strings.Repeat("a.", 130) + "customers.example/", "at most 253"},

		{"https://api.example.com:/", "not a port"},
		{"https://api.example.com:0/", "not a port"},
		{"https://api.example.com:0443/", "not a port"},
		{"https://api.example.com:65536/", "not a port"},
		{"https://api.example.com:65979/", "not a port"}, // 443 + 65536
		{"https://api.example.com:+443/", "no URL"},
		{"https://api.example.com:443:443/", "no URL"},
		{"https://api.example.com:443@evil.test/", "names a user"},

		{"https://127.0.0.1/", "not in the list"},
		{"https://2130706433/", "is a number"},
		{"https://0x7f000001/", "is a number"},
		{"https://017700000001/", "is a number"},
		{"https://0177.0.0.1/", "is a number"},
		{"https://0x7f.0.0.1/", "is a number"},
		{"https://127.1/", "is a number"},
		{"https://127.0.1/", "is a number"},
		{"https://192.0.2.07/", "is a number"},
		{"https://192.0.2.263/", "is a number"},
		{"https://192.0.2.7.1/", "is a number"},
		{"https://192.0.2.0x7/", "is a number"},
		{"https://1.customers.example/", ""},
		{"https://[::1]/", "not in the list"},
		{"https://[::ffff:192.0.2.7]/", "canonical form"},
		{"https://[::ffff:c000:207]/", "canonical form"},
		{"https://[2001:db8:0:0::1]:8443/", "canonical form"},
		{"https://[2001:DB8::1]:8443/", "canonical form"},
		{"https://[2001:db8::1%25eth0]:8443/", "escape"},
		{"https://[2001:db8::1%eth0]:8443/", "no URL"},
		{"https://[192.0.2.7]/", "no URL"},
		{"https://[2001:db8::1/", "no URL"},
		{"https://2001:db8::1/", "no URL"},

		{"https://api.example.com/\r\nHost: evil.test", "must be escaped"},
		{"https://api.example.com/\tx", "must be escaped"},
		{" https://api.example.com/", "must be escaped"},
		{"https://api.example.com/ ", "must be escaped"},
		{"https://api.example.com/\x00", "must be escaped"},
		{"https://api.example.com/%zz", "no URL"},
		{"https://api.example.com/" + strings.Repeat("a", maxURL), "at most"},
	} {
		got, err := c.Target(x.url)
		switch {
		case x.want == "" && err != nil:
			t.Errorf("%q is refused: %v", x.url, err)
		case x.want != "" && err == nil:
			t.Errorf("%q passes as %s, want a refusal: %s", x.url, got.URL, x.want)
		case x.want != "" && (!errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), x.want)):
			t.Errorf("%q: %v, want a refusal with %q", x.url, err, x.want)
		}
	}
}

func parseRules(t testing.TB, list ...string) []Rule {
	t.Helper()
	var all []Rule
	for _, text := range list {
		r, err := ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

func TestParseRule(t *testing.T) {
	for _, x := range []struct{ text, want, fault string }{
		{"a.example", "a.example:443", ""},
		{"https://a.example", "a.example:443", ""},
		{"a.example:8443", "a.example:8443", ""},
		{"http://a.example", "http://a.example:80", ""},
		{"http://localhost:9000", "http://localhost:9000", ""},
		{"*.a.example:444", "*.a.example:444", ""},
		{"*", "*:443", ""},
		{"10.0.0.1:80", "10.0.0.1:80", ""},
		{"[::1]", "[::1]:443", ""},
		{"[::1]:9000", "[::1]:9000", ""},
		{"", "", "no host"},
		{"*.", "", "no host"},
		{"a.*.example", "", "character"},
		{"*a.example", "", "character"},
		{"*.10.0.0.1", "", "no names below"},
		{"*.[::1]", "", "no names below"},
		{"A.example", "", "capital"},
		{"a.example.", "", "dot"},
		{"ftp://a.example", "", "scheme"},
		{"a.example/path", "", "without path"},
		{"u@a.example", "", "without path or user"},
		{"a.example:x", "", "not a port"},
		{"a.example:0", "", "not a port"},
		{"bücher.example", "", "xn--"},
		{"::1", "", "character"},
	} {
		r, err := ParseRule(x.text)
		if x.fault == "" && (err != nil || r.String() != x.want) {
			t.Errorf("%q is %q, %v; want %q", x.text, r, err, x.want)
		}
		if x.fault != "" && (err == nil || !strings.Contains(err.Error(), x.fault)) {
			t.Errorf("%q: %v, want %q", x.text, err, x.fault)
		}
		if err == nil {
			if again, err := ParseRule(r.String()); err != nil || again != r {
				t.Errorf("%q as text is %q, which is read as %q, %v", x.text, r, again, err)
			}
		}
	}
}

// TestAnyHostIsNoAddress: a rule for every name does not name addresses.
func TestAnyHostIsNoAddress(t *testing.T) {
	c := New(Options{Allow: parseRules(t, "*")})
	for url, want := range map[string]bool{
		"https://anything.test/": true, "https://8.8.8.8/": false, "https://[2001:4860:4860::8888]/": false, "http://anything.test/": false,
	} {
		if _, err := c.Target(url); (err == nil) != want {
			t.Errorf("%s: %v", url, err)
		}
	}
	if _, err := New(Options{}).Target("https://a.example/"); err == nil {
		t.Error("without a list something is allowed")
	}
	if target, err := ParseTarget("https://anything.test/"); err != nil || (Rule{}).allows(target) {
		t.Errorf("the zero rule allows something, or %v", err)
	}
}

func TestPublic(t *testing.T) {
	for text, want := range map[string]bool{
		"8.8.8.8": true, "1.1.1.1": true, "172.15.0.1": true, "172.32.0.1": true, "100.63.0.1": true, "100.128.0.1": true, "192.0.1.1": true,
		"0.0.0.0": false, "0.1.2.3": false, "10.0.0.1": false, "100.64.0.1": false, "100.100.100.200": false, "127.0.0.1": false, "127.255.255.254": false,
		"169.254.169.254": false, "172.16.0.1": false, "172.31.255.255": false, "192.0.0.192": false, "192.0.2.1": false, "192.88.99.1": false,
		"192.168.1.1": false, "198.18.0.1": false, "198.51.100.1": false, "203.0.113.1": false, "224.0.0.1": false, "239.1.2.3": false,
		"240.0.0.1": false, "255.255.255.255": false, "168.63.129.16": false,
		"2001:4860:4860::8888": true, "2606:4700::1111": true,
		"::": false, "::1": false, "::8.8.8.8": false, "fe80::1": false, "fe80::1%eth0": false, "fec0::1": false, "fc00::1": false, "fd00:ec2::254": false, "ff02::1": false,
		"::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "::ffff:169.254.169.254": false, "::ffff:8.8.8.8": true, "::ffff:0:8.8.8.8": false,
		"64:ff9b::8.8.8.8": true, "64:ff9b::7f00:1": false, "64:ff9b::10.0.0.1": false, "64:ff9b::a9fe:a9fe": false, "64:ff9b:1::1": false,
		"2002:7f00:1::": false, "2001::1": false, "2001:10::1": false, "2001:db8::1": false, "3fff::1": false, "4000::1": false, "100::1": false,
	} {
		if got := Public(netip.MustParseAddr(text)); got != want {
			t.Errorf("Public(%s) is %v", text, got)
		}
	}
	if Public(netip.Addr{}) {
		t.Error("no address is public")
	}
}

func TestPrivateAddresses(t *testing.T) {
	private := []netip.Prefix{}
	for _, text := range []string{"10.1.0.0/16", "127.0.0.1", "fd00::/8"} {
		p, err := ParsePrivate(text)
		if err != nil {
			t.Fatal(err)
		}
		private = append(private, p)
	}
	for text, want := range map[string]bool{
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "64:ff9b::10.1.2.3": true, "10.2.0.1": false, "127.0.0.1": true, "127.0.0.2": false, "::1": false,
		"fd12::1": true, "fe80::1%eth0": false, "169.254.169.254": false, "8.8.8.8": true,
	} {
		if got := reaches(netip.MustParseAddr(text), private); got != want {
			t.Errorf("reaches(%s) is %v", text, got)
		}
	}
	for _, text := range []string{"", "10.1.0.0/33", "10.1.2.3/16", "::ffff:10.0.0.0/104", "fe80::1%eth0", "localhost"} {
		if p, err := ParsePrivate(text); err == nil {
			t.Errorf("%q is read as %v", text, p)
		}
	}
}

// FuzzTarget: what passes means the same to who reads it again, and its host is in its one form.
func FuzzTarget(f *testing.F) {
	for _, seed := range []string{"https://api.example.com/a?b#c", "http://[::1]:80/", "https://0177.1/", "https://a@b:1/", "https://x.%41/", "https://ü/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseTarget(text)
		if err != nil {
			if !errors.Is(err, ErrRefused) {
				t.Fatalf("%q: an error of another kind: %v", text, err)
			}
			return
		}
		if got.URL.User != nil || got.URL.Fragment != "" || got.URL.Opaque != "" || got.Port == 0 {
			t.Fatalf("%q passes as %+v", text, got.URL)
		}
		again, err := ParseTarget(got.URL.String())
		if err != nil || again.Host != got.Host || again.Port != got.Port || again.literal != got.literal {
			t.Fatalf("%q is %s, which is read as %+v, %v", text, got.URL, again, err)
		}
		addr, err := netip.ParseAddr(strings.Trim(got.Host, "[]"))
		if got.literal != (err == nil) {
			t.Fatalf("%q: host %q is an address: %v, but literal is %v", text, got.Host, err, got.literal)
		}
		if err == nil && addr.Is4In6() || strings.ToLower(got.Host) != got.Host || strings.HasSuffix(got.Host, ".") {
			t.Fatalf("%q: host %q", text, got.Host)
		}
	})
}

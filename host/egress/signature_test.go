package egress

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// Of the specification of Standard Webhooks.
const (
	vectorSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	vectorID        = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	vectorSeconds   = 1614265330
	vectorBody      = `{"test": 2432232314}`
	vectorSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

	otherSecret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
)

func secrets(t testing.TB, text ...string) []Secret {
	t.Helper()
	all, err := ParseSecrets(strings.Join(text, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestSignatureVector(t *testing.T) {
	got := Signature(secrets(t, vectorSecret), vectorID, vectorSeconds, []byte(vectorBody))
	if got != vectorSignature {
		t.Errorf("signature %s, want %s", got, vectorSignature)
	}
}

// TestSecretRotation: while a secret is being changed both sign, and a receiver with either one is content.
func TestSecretRotation(t *testing.T) {
	both := secrets(t, vectorSecret, "", "# the new one", otherSecret)
	header := Signature(both, vectorID, vectorSeconds, []byte(vectorBody))
	if first, _, ok := strings.Cut(header, " "); !ok || first != vectorSignature {
		t.Errorf("header %q", header)
	}
	third := secrets(t, "whsec_"+strings.Repeat("A", 32))[0]
	for _, x := range []struct {
		name    string
		secret  Secret
		id      string
		seconds int64
		body    string
		header  string
		want    bool
	}{
		{"the old one", both[0], vectorID, vectorSeconds, vectorBody, header, true},
		{"the new one", both[1], vectorID, vectorSeconds, vectorBody, header, true},
		{"of another version beside it", both[1], vectorID, vectorSeconds, vectorBody, "v1a,abc v2,x " + header, true},
		{"somebody else's", third, vectorID, vectorSeconds, vectorBody, header, false},
		{"another id", both[0], vectorID + "x", vectorSeconds, vectorBody, header, false},
		{"another time", both[0], vectorID, vectorSeconds + 1, vectorBody, header, false},
		{"another body", both[0], vectorID, vectorSeconds, vectorBody + " ", header, false},
		{"no signature", both[0], vectorID, vectorSeconds, vectorBody, "", false},
		{"cut off", both[0], vectorID, vectorSeconds, vectorBody, header[:20], false},
		{"no base64", both[0], vectorID, vectorSeconds, vectorBody, "v1,§§§", false},
	} {
		if got := Verify(x.secret, x.id, x.seconds, []byte(x.body), x.header); got != x.want {
			t.Errorf("%s: verified is %v", x.name, got)
		}
	}
}

func TestParseSecrets(t *testing.T) {
	for _, x := range []struct{ text, want string }{
		{"", "no signing secret"},
		{"# only a word\n\n", "no signing secret"},
		{vectorSecret[6:], "line 1: egress: a signing secret begins with whsec_"},
		{"\nwhsec_***", "line 2: egress: a signing secret is whsec_ and base64"},
		{"whsec_c2hvcnQ=", "24 to 64 bytes, this one 5"},
		{"whsec_" + strings.Repeat("A", 88), "24 to 64 bytes, this one 66"},
		{strings.Repeat(vectorSecret+"\n", MaxSecrets+1), "more than 8"},
	} {
		_, err := ParseSecrets(x.text)
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%q: %v, want %q", x.text, err, x.want)
		}
		if err != nil && len(x.text) > 20 && strings.Contains(err.Error(), x.text[8:20]) {
			t.Errorf("the error quotes the secret: %v", err)
		}
	}
	if _, err := ParseSecret("whsec_" + strings.TrimRight("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==", "=")); err != nil {
		t.Errorf("base64 without its end: %v", err)
	}
}

func TestSecretIsNotPrinted(t *testing.T) {
	s := secrets(t, vectorSecret)
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", s[0], "all", s)
	text := fmt.Sprintf("%v %+v %#v %s %q %x %d", s, s[0], s, s[0], s[0], s[0], s) + log.String()
	for _, part := range []string{"MfKQ", "31 f2", "49 242", "31f290"} {
		if strings.Contains(text, part) {
			t.Errorf("the secret is printed: %s", text)
		}
	}
}

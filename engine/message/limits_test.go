package message_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/message"
)

func TestCheckLimits(t *testing.T) {
	bytesOf := func(n int) []byte { return make([]byte, n) }
	pairs := func(size int) message.Properties {
		return message.AppendProperty(nil, "n", strings.Repeat("v", size-4))
	}
	for _, c := range []struct {
		name string
		m    message.Message
		want error
	}{
		{"nothing", message.Message{}, nil},
		{"tag at the limit", message.Message{Tag: bytesOf(127)}, nil},
		{"tag beyond", message.Message{Tag: bytesOf(128)}, message.ErrTooLarge},
		{"tag far beyond, where a length byte wraps", message.Message{Tag: bytesOf(256)}, message.ErrTooLarge},
		{"key at the limit", message.Message{Key: bytesOf(127)}, nil},
		{"key beyond", message.Message{Key: bytesOf(128)}, message.ErrTooLarge},
		{"properties at the limit", message.Message{Properties: pairs(32 << 10)}, nil},
		{"properties beyond", message.Message{Properties: pairs(32<<10 + 1)}, message.ErrTooLarge},
		{"properties malformed", message.Message{Properties: []byte{1}}, message.ErrProperties},
		{"body at the limit", message.Message{Body: bytesOf(4 << 20)}, nil},
		{"body beyond", message.Message{Body: bytesOf(4<<20 + 1)}, message.ErrTooLarge},
		{"host of IPv4", message.Message{BornHost: bytesOf(6)}, nil},
		{"host of IPv6", message.Message{BornHost: bytesOf(18)}, nil},
		{"host without a port", message.Message{BornHost: bytesOf(4)}, message.ErrBornHost},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.m.Check()
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if err != nil && !strings.HasPrefix(err.Error(), "message: ") {
				t.Errorf("the error does not say where it is from: %v", err)
			}
		})
	}
}

// TestValidTopic has the names by which others were attacked: no name may mean something to a file system, end a
// string early, or look like another.
func TestValidTopic(t *testing.T) {
	for _, c := range []struct {
		name string
		ok   bool
	}{
		{"orders", true},
		{"A-Z_09", true},
		{"%RETRY%group-1", true},
		{"SCHEDULE_TOPIC_XXXX", true},
		{"-", true},
		{"CON", true}, // files are named by number, never by topic
		{strings.Repeat("t", 127), true},
		{strings.Repeat("t", 128), false},
		{strings.Repeat("t", 300), false},
		{"", false},
		{".", false},
		{"..", false},
		{"../orders", false},
		{"orders/../../etc/passwd", false},
		{`orders\..`, false},
		{"orders.new", false},
		{"/orders", false},
		{"orders ", false},
		{" orders", false},
		{"or\x00ders", false},
		{"orders\x00", false},
		{"or\nders", false},
		{"or\rders", false},
		{"or\x01ders", false},
		{"orders\x7f", false},
		{"orders:80", false},
		{"orders*", false},
		{"orders|pay", false},
		{"$orders", false},
		{"оrders", false}, // a Cyrillic o
		{"orders\u202e", false},
		{"注文", false},
		{"orders\xff", false},
		{"or\u0131ders", false},
	} {
		err := message.ValidTopic(c.name)
		if (err == nil) != c.ok {
			t.Errorf("%q: %v, want ok %v", c.name, err, c.ok)
		}
		if err != nil && (!errors.Is(err, message.ErrName) || !strings.Contains(err.Error(), "allowed are")) {
			t.Errorf("%q: the error does not name what is allowed: %v", c.name, err)
		}
	}
}

func TestValidTopicNamesTheFault(t *testing.T) {
	err := message.ValidTopic("or\x00ders")
	const want = `message: topic name "or\x00ders" is not allowed: byte 2; allowed are A-Z a-z 0-9 _ % -`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// TestValidGroup: the topic of a group's retries must be a topic.
func TestValidGroup(t *testing.T) {
	longest := strings.Repeat("g", message.MaxGroup)
	if err := message.ValidGroup(longest); err != nil {
		t.Error(err)
	}
	for _, prefix := range []string{"%RETRY%", "%DLQ%"} {
		if err := message.ValidTopic(prefix + longest); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", longest + "g", "a.b", "a b"} {
		if err := message.ValidGroup(name); !errors.Is(err, message.ErrName) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func FuzzValidTopic(f *testing.F) {
	for _, seed := range []string{"orders", "../x", "CON", "a\x00", strings.Repeat("x", 300), "注文"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_%-"
		want := len(name) >= 1 && len(name) <= 127 && strings.Trim(name, allowed) == ""
		for _, r := range name {
			want = want && strings.ContainsRune(allowed, r)
		}
		if got := message.ValidTopic(name) == nil; got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	})
}

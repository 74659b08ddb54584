package broker_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/host/broker"
)

func TestView(t *testing.T) {
	b, err := broker.Open(broker.Env{FS: crashfs.New(crashfs.Options{})}, ".", broker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	put := func(body string, at broker.When) broker.Receipt {
		t.Helper()
		r, err := b.Put(t.Context(), broker.Message{Topic: "t", Key: "k", Body: []byte(body), At: at})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	now, later := put("now", broker.When{}), put("later", broker.In(time.Hour))
	if m, err := b.View(now.ID); err != nil || string(m.Body) != "now" || string(m.Key) != "k" || m.Position != now.Position {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := b.View(later.ID); !errors.Is(err, engine.ErrPending) {
		t.Errorf("what waits: %v", err)
	}
	if _, err := b.Cancel(t.Context(), later.Handle); err != nil {
		t.Fatal(err)
	}
	store, position, _ := strings.Cut(now.ID, "-")
	for _, id := range []string{
		later.ID, "", "-", store, store + "-", "1-" + position, store + "-0" + position, store + "-" + position + "0", store + "--1",
		store + "-1", strings.ToUpper(store) + "x-" + position, store + "-7fffffffffffffff", store + "-ffffffffffffffffff",
	} {
		if m, err := b.View(id); !errors.Is(err, engine.ErrNoMessage) {
			t.Errorf("%q: %+v, %v", id, m, err)
		}
	}
}

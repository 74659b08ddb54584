package guest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/plugins/abi"
	"github.com/tidewheel/tidewheel/plugins/guest"
)

func records(bodies ...string) []abi.Record {
	var all []abi.Record
	for i, b := range bodies {
		all = append(all, abi.Record{ID: uint64(i), Topic: []byte("orders"), Key: []byte("k"), Body: []byte(b),
			Headers: guest.Headers(nil).Append([]byte("tenant"), []byte("acme"))})
	}
	return all
}

// TestRun: a plugin's code runs natively and answers as it would in the host.
func TestRun(t *testing.T) {
	guest.Filter(func(r *guest.Record) guest.Verdict {
		switch string(r.Body) {
		case "panic":
			return guest.Drop(uint16(r.Body[len(r.Body)]))
		case "replace":
			return guest.Replace(guest.Replacement{Body: []byte("x")}) // not in a filter
		case "zero":
			return guest.Verdict{}
		case "fail":
			return guest.Fail(3, "because")
		case "retry":
			return guest.RetryAfter(1500, 2)
		case "dead":
			return guest.DeadLetter(4)
		case "route":
			return guest.Route(2)
		case "defer":
			return guest.Defer()
		}
		if tenant, ok := r.Header("tenant"); !ok || string(tenant) != "acme" || r.NowMs() != 42 {
			return guest.Drop(9)
		}
		if v, ok := r.JSON("/a/0"); ok && string(v) == "1" {
			return guest.Drop(1)
		}
		return guest.Keep()
	})
	var got []string
	for _, v := range guest.Run(abi.Filter, 42, records("", "panic", "replace", "zero", "fail", "retry", "dead", "route", "defer", `{"a":[1]}`)) {
		got = append(got, fmt.Sprintf("%v %d %d %s", v.Action(), v.Code(), v.Arg(), v.Text()))
	}
	want := []string{"keep 0 0 ", "error 65535 0 panic: runtime error: index out of range [5] with length 5", "error 0 0 verdict replace is not allowed in filter",
		"error 0 0 verdict unset is not allowed in filter", "error 3 0 because", "retry 2 1500 ", "dead_letter 4 0 ", "route 0 2 ", "defer 0 0 ", "drop 1 0 "}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestRunDelivery: the two halves of a delivery, and hooks without a function.
func TestRunDelivery(t *testing.T) {
	for _, h := range []abi.Hook{abi.Prepare, abi.Publish} {
		if v := guest.Run(h, 0, records("a"))[0]; v.Action() != abi.Error || !strings.Contains(v.Text(), "no function for "+h.String()) {
			t.Errorf("%v without a function: %v %s", h, v.Action(), v.Text())
		}
	}
	guest.Prepare(func(r *guest.Record) guest.Verdict {
		return guest.Send(guest.Request{URL: "https://example.com/", Method: "PUT", Body: r.Body})
	})
	guest.Result(func(r *guest.Record) guest.Verdict {
		if s := r.Status(); s == 0 || s >= 500 {
			return guest.RetryAfter(100, uint16(s))
		}
		return guest.Keep()
	})
	v := guest.Run(abi.Prepare, 0, records("a"))[0]
	if o, ok := v.Output(); !ok || string(o.Topic) != "https://example.com/" || string(o.Key) != "PUT" || string(o.Body) != "a" {
		t.Errorf("request %+v", o)
	}
	responses := records("ok", "no", "lost")
	responses[0].Flags, responses[1].Flags, responses[2].Flags = 200<<16, 503<<16, abi.FlagNoResponse
	var got []string
	for _, v := range guest.Run(abi.Result, 0, responses) {
		got = append(got, fmt.Sprintf("%v:%d", v.Action(), v.Code()))
	}
	if s := strings.Join(got, " "); s != "keep:0 retry:503 retry:0" {
		t.Error(s)
	}
}

// TestConfigured: the configuration arrives, and its error is the plugin's.
func TestConfigured(t *testing.T) {
	if err := guest.Configured([]byte("{}")); err != nil {
		t.Errorf("without a function: %v", err)
	}
	bad := errors.New("bad")
	guest.Configure(func(config []byte) error {
		if string(config) != "{}" {
			return bad
		}
		return nil
	})
	if err := guest.Configured([]byte("{}")); err != nil {
		t.Error(err)
	}
	if err := guest.Configured([]byte("[]")); !errors.Is(err, bad) {
		t.Errorf("got %v", err)
	}
}

func ExampleRun() {
	guest.Filter(func(r *guest.Record) guest.Verdict {
		if paid, ok := r.JSON("/paid"); ok && string(paid) == "true" {
			return guest.Drop(1)
		}
		return guest.Keep()
	})
	orders := []abi.Record{{Body: []byte(`{"paid":true}`)}, {Body: []byte(`{"paid":false}`)}}
	for _, v := range guest.Run(abi.Filter, 1700000000000, orders) {
		fmt.Println(v.Action())
	}
	// Output:
	// drop
	// keep
}

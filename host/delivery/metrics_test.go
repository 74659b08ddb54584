package delivery

import (
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidewheel/tidewheel/host/broker/brokertest"
)

// TestMetrics: each metric is there, and moves by what it says.
func TestMetrics(t *testing.T) {
	b := brokertest.Open(t)
	h := hosting(t, b)
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(Collector(h.f))
	scrape := func() map[string]float64 {
		found, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]float64{}
		for _, family := range found {
			for _, m := range family.Metric {
				name := family.GetName()
				for _, l := range m.Label {
					name += " " + l.GetValue()
				}
				all[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
		return all
	}
	hold := make(chan struct{})
	s := receive(t, func(_ *receiver, w http.ResponseWriter, req *http.Request) {
		if strings.HasSuffix(req.URL.Path, "/410") {
			w.WriteHeader(http.StatusGone)
			return
		}
		<-hold
	})
	if err := h.configure(table("a", "orders", s.URL, "")); err != nil {
		t.Fatal(err)
	}
	put(b, "orders", s.URL+"/200", s.URL+"/410", "d")
	until(t, "one hangs", func() bool {
		return len(s.got) == 2 && scrape()["tidewheel_delivery_messages_total a dead_letter"] == 1
	})
	got := scrape()
	for name, want := range map[string]float64{
		"tidewheel_delivery_in_flight a": 1, "tidewheel_delivery_leased_messages a": 1, "tidewheel_delivery_hosts_down a": 0, "tidewheel_delivery_seconds a": 1,
		"tidewheel_delivery_requests_total a 4xx": 1, "tidewheel_delivery_messages_total a dead_letter": 1,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	close(hold)
	until(t, "it ends", func() bool { return scrape()["tidewheel_delivery_messages_total a acked"] == 1 })
	s.Close()
	put(b, "orders", s.URL+"/1", s.URL+"/2", s.URL+"/3", s.URL+"/4", s.URL+"/5", s.URL+"/6")
	until(t, "the host is down", func() bool { return scrape()["tidewheel_delivery_hosts_down a"] == 1 })
	until(t, "all is said", func() bool {
		got = scrape()
		return got["tidewheel_delivery_requests_total a down"] > 0 && got["tidewheel_delivery_requests_total a connect"] > 0 &&
			got["tidewheel_delivery_messages_total a retried"] > 0 && got["tidewheel_delivery_messages_total a dropped"] == 1
	})
	for _, m := range Metrics() {
		ok := false
		for name := range got {
			ok = ok || strings.HasPrefix(name, m.Name+" a")
		}
		if !ok {
			t.Errorf("%s is not there", m.Name)
		}
	}
}

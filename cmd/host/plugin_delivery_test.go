package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/host/httpapi"
)

func TestPluginDeliveryRows(t *testing.T) {
	var b strings.Builder
	row := func(word, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%s: %s\n", word, text)
		}
	}
	when := func(ms int64) string { return fmt.Sprint(ms) }
	pluginDelivery(row, nil, when)
	pluginDelivery(row, &httpapi.PluginDelivery{Group: "g"}, when)
	pluginDelivery(row, &httpapi.PluginDelivery{
		Group: "plugin-a", Topics: []string{"orders"}, InFlight: 2, Leased: 1200, HostsDown: 1,
		Requests: map[string]int64{"2xx": 1500, "timeout": 2}, Messages: map[string]int64{"acked": 1500}, Trouble: "no\nroom", TroubleMs: 7,
	}, when)
	want := `delivers: group g of 0 topics: 0 on the way, 0 in hand
delivers: group plugin-a of 1 topic: 2 on the way, 1200 in hand
requests: 2xx 1,500, timeout 2
became: acked 1,500
hosts: 1 does not answer and is tried now and then
trouble: 7, no room
`
	if b.String() != want {
		t.Errorf("%s\nwant\n%s", b.String(), want)
	}
}

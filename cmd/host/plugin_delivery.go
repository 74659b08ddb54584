package main

import (
	"fmt"

	"github.com/tidewheel/tidewheel/host/httpapi"
)

// pluginDelivery prints how a plugin's requests stand; nil prints nothing.
func pluginDelivery(row func(word, text string), d *httpapi.PluginDelivery, when func(ms int64) string) {
	if d == nil {
		return
	}
	row("delivers", fmt.Sprintf("group %s of %s: %d on the way, %d in hand",
		d.Group, count(int64(len(d.Topics)), "topic", "topics"), d.InFlight, d.Leased))
	row("requests", wordCounts(d.Requests))
	row("became", wordCounts(d.Messages))
	if d.HostsDown > 0 {
		row("hosts", count(int64(d.HostsDown), "does not answer and is", "do not answer and are")+" tried now and then")
	}
	if d.Trouble != "" {
		row("trouble", when(d.TroubleMs)+", "+cell(d.Trouble, 400))
	}
}

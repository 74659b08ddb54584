package httpapi

import "github.com/tidewheel/tidewheel/host/delivery"

// PluginDelivery is how a plugin's requests stand.
type PluginDelivery struct {
	Group     string           `json:"group" doc:"the consumer group that its messages are read with; GET /v1/groups/{group} has its lag"`
	Topics    []string         `json:"topics" doc:"that are read"`
	InFlight  int              `json:"in_flight" doc:"requests on their way"`
	Leased    int              `json:"leased" doc:"messages in hand, with those that wait for a request to end, or for the plugin"`
	HostsDown int              `json:"hosts_down" doc:"hosts that have not answered several times in a row and are tried now and then"`
	Requests  map[string]int64 `json:"requests" doc:"by what came of them, as tidewheel_delivery_requests_total has it"`
	Messages  map[string]int64 `json:"messages" doc:"that were settled: acked, retried, dead_letter, dropped, expired"`
	Trouble   string           `json:"last_trouble,omitempty" doc:"the last thing that went wrong beside what receivers answered"`
	TroubleMs int64            `json:"last_trouble_ms,omitempty"`
}

// delivering fills in what is told of plugins that deliver.
func (a *API) delivering(p *Plugin) {
	if a.opts.Deliveries == nil {
		return
	}
	for _, s := range a.opts.Deliveries.Stats() {
		if s.Plugin == p.Name {
			p.Delivery = wireDelivery(&s)
		}
	}
}

func wireDelivery(s *delivery.Stats) *PluginDelivery {
	return &PluginDelivery{
		Group: s.Group, Topics: append([]string{}, s.Topics...), InFlight: s.InFlight, Leased: s.Leased, HostsDown: s.HostsDown,
		Requests: s.Requests, Messages: s.Messages, Trouble: s.LastTrouble, TroubleMs: s.LastTroubleMs,
	}
}

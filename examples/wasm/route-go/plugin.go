// Command route-go is a plugin of Tidewheel that sends the messages of each tenant to that tenant's topic.
package main

import (
	"encoding/json"
	"errors"

	"github.com/tidewheel/tidewheel/plugins/guest"
)

// codeNobody is the code of a message whose tenant is not in the configuration.
const codeNobody = 1

// settings are what stands in [plugin.config]. The topics themselves stand in targets, where the server can check them.
type settings struct {
	Tenants map[string]uint32 `json:"tenants"` // tenant to index in targets
	Others  string            `json:"others"`  // what to do with other tenants: keep (default) or dead_letter
}

var config settings

func init() {
	guest.Configure(configure)
	guest.Filter(route)
	guest.Publish(route)
}

func configure(b []byte) error {
	var c settings
	if err := json.Unmarshal(b, &c); err != nil {
		return err
	}
	if len(c.Tenants) == 0 {
		return errors.New("tenants is empty")
	}
	if c.Others != "" && c.Others != "keep" && c.Others != "dead_letter" {
		return errors.New("others is neither keep nor dead_letter")
	}
	config = c
	return nil
}

// route goes by the property tenant. A message without one stays where it is.
func route(r *guest.Record) guest.Verdict {
	tenant, ok := r.Header("tenant")
	if !ok {
		return guest.Keep()
	}
	if target, ok := config.Tenants[string(tenant)]; ok { // the compiler makes no copy of tenant here
		return guest.Route(target)
	}
	if config.Others == "dead_letter" {
		return guest.DeadLetter(codeNobody)
	}
	return guest.Keep()
}

func main() {}

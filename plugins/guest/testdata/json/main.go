// Command json is the filter of the benchmarks: it reads its records with encoding/json.
package main

import (
	"encoding/json"

	"github.com/tidewheel/tidewheel/plugins/guest"
)

func init() {
	guest.Filter(func(r *guest.Record) guest.Verdict {
		var order struct {
			Tenant string `json:"tenant"`
			Amount int    `json:"amount"`
			Paid   bool   `json:"paid"`
		}
		if err := json.Unmarshal(r.Body, &order); err != nil {
			return guest.Fail(1, err.Error())
		}
		if order.Paid {
			return guest.Drop(1)
		}
		return guest.Keep()
	})
}

func main() {}

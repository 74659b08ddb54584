package delivery

import "github.com/tidewheel/tidewheel/host/broker"

// Settlement stands in for the broker's until it has one.
type Settlement struct {
	Receipt string
	broker.Decision
}

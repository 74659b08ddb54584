package delivery

import (
	"context"

	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/broker/brokertest"
)

type interim struct{ *brokertest.Broker }

func (b interim) Settle(ctx context.Context, all []Settlement) []error {
	out := make([]error, len(all))
	for i, s := range all {
		var err error
		switch s.Action {
		case broker.ActionRetry:
			_, err = b.Retry(ctx, s.Receipt, broker.RetryOptions{Delay: s.Delay, Reason: s.Reason})
		case broker.ActionDeadLetter:
			_, err = b.Reject(ctx, s.Receipt, s.Reason)
		default:
			var o []broker.AckOutcome
			if o, err = b.Ack(ctx, s.Receipt); err == nil {
				err = o[0].Err()
			}
		}
		out[i] = err
	}
	return out
}

package brokertest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tidewheel/tidewheel/host/broker/brokertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestReminderOfTwoDays is what a user writes.
func TestReminderOfTwoDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t)
		b.MustPut("orders", "x", 48*time.Hour)
		time.Sleep(48*time.Hour - time.Millisecond)
		brokertest.WantDelivered(t, b, "orders")
		time.Sleep(time.Millisecond)
		brokertest.WantDelivered(t, b, "orders", "x")
	})
}

// A message that was answered outlives a kill and a power cut, and so does its time.
func TestCrash(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) *brokertest.Broker{
		"kill":      func(t *testing.T) *brokertest.Broker { return brokertest.Open(t) },
		"power cut": func(t *testing.T) *brokertest.Broker { return brokertest.OpenCrash(t, 7) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := open(t)
				b.MustPut("orders", "now", 0)
				b.MustPut("orders", "later", time.Hour)
				brokertest.Crash(b)
				brokertest.WantDelivered(t, b, "orders", "now")
				time.Sleep(time.Hour)
				brokertest.Crash(b)
				brokertest.WantDelivered(t, b, "orders", "now", "later")
			})
		})
	}
}

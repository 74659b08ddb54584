// Package brokertest opens brokers for tests: on a file system in memory, closed and checked when the test ends, killed or
// cut from power when the test wants to know what a restart finds.
//
//	func TestReminder(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			b := brokertest.Open(t)
//			b.MustPut("orders", "x", 48*time.Hour)
//			time.Sleep(48 * time.Hour) // microseconds of real time
//			brokertest.WantDelivered(t, b, "orders", "x")
//		})
//	}
//
// In a bubble of testing/synctest the clock is the bubble's, so days pass in no time; outside of one everything works in
// real time. No goroutine is left when the test has ended.
package brokertest

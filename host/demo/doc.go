// Package demo is the main job in one run: events go in with delays, some are cancelled and some moved, one plugin drops what
// is not needed any more, another one calls a webhook, the server is killed with SIGKILL in the middle of it, and in the end
// every event is accounted for. It is what `tidewheel demo` runs,
// and it judges the server from outside, over HTTP, as a client would.
//
// # What is counted
//
// An event is sent until it is acknowledged. A send that was cut off by the kill is sent again, and nobody can know
// whether the first one was stored: therefore each has an idempotency key, and an event must stand in its topic as often
// as it was acknowledged, less what was cancelled.
//
//	lost      stands there less often than it was acknowledged and not cancelled; or, of what the filter has to drop, there are
//	          less verdicts than that; or the webhook was not called
//	twice     stands there more often than that; or was dropped more often; or the webhook was called again after its receiver
//	          had taken the event, and no kill explains it
//	early     was handed to a consumer before its due time, or had a due time before the delay was over
//	off time  was moved, and does not stand there with the due time it was moved to
//	replaced  another message stood at the same queue and offset before
//
// The place of a message, topic, queue and offset, is what is counted. A consumer that dies before it has acknowledged
// reads the same place again; that is not twice. At the end every queue is read again from its first offset, so the
// count doesn't depend on the consumers of the run.
//
// # What is shown
//
// A run tells its caller how it goes (Config.Progress, Config.Killed), and View draws that on a terminal, in place, with
// nothing but carriage returns, cursor up, erase and colours.
package demo

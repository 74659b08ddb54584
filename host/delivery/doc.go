// Package delivery takes messages out of topics to where they are wanted, over HTTP: a delivery plugin says what to send and
// judges the answer, and a Worker does everything in between.
//
//	group ──Pull──► prepare ──request──► egress ──answer──► result ──Settle──► group
//	         lease      └──── drop, retry, dead letter ────────────────────►
//
// A delivery plugin is a consumer group of the topics that it matches. A worker pulls what the group has to get, leases each
// message for as long as it is at work on it, asks the plugin's hook prepare for a request, makes it, gives the answer to the
// hook result, and settles the message: acked, put off, dropped, or among the group's dead letters. Each message is settled by
// itself, durably, as soon as that is known, also above one that is still on its way. So a restart sends again what was on its
// way, and nothing that was acked.
//
// The plugin is never held while the network is waited for. While it is quarantined, or blocks, messages stay leased and are
// asked about again; the rest of the group waits in its topics.
//
// Requests of all topics share Config.Concurrency slots, first come, first served. A host that has not answered several times in
// a row is left alone for a while: its messages are told at once that there is no answer, so that they do not occupy slots
// until they time out.
//
// A worker has one goroutine for each topic that it reads, one for each request, one that extends leases and one that looks
// for topics. Close waits for all of them.
package delivery

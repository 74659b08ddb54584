package engine_test

import (
	"testing"
)

// Reports about other brokers, queues and schedulers with timers.
var peerReports = []source{
	{"N1 nats 8423: timers below the last one that fired vanish", "TestTimerDelaysTogether TestTimerAnswersDelivered", ""},
	{"N2 nats 8594: entries of removed messages stay for ever", "TestTimerCancelledLeaveNothing", ""},
	{"N4 nats 8308: 1500 ms become whole seconds", "", "nothing recurs; TestTimerBorders has the milliseconds"},
	{"N7 nats 8055: a removed schedule stays in flight", "TestTimerLinearizable", ""},
	{"N9 nats 8056: a producer sets internal headers", "TestPropertiesOfDelivered", ""},
	{"N10 nats 8135: a purge of something else deletes data", "TestTimerAnswersDelivered TestTimerUnknownHandle", ""},
	{"N12 nats 7593: schedules of purged blocks are counted", "TestTimerCountsAreTheTruth", ""},
	{"N13 nats 8269: a malformed snapshot is decoded wrongly", "TestCorruption FuzzDecodeTable FuzzDecodePages", ""},
	{"N14 nats 8052: a schedule without a message is removed", "", "a timer is its message"},
	{"N15 nats 7385: schedules written without a sync", "TestCrashSweep TestReviewB9AnswersWaitForTheLog", ""},
	{"N16 nats 7319: wrong bytes after a header is taken out", "TestPropertiesOfDelivered", ""},
	{"N17 nats: timers fire before the store is ready", "TestTimerDelaysTogether TestCrashSweep", ""},
	{"N18 nestjs-jetstream 178: the second of a key replaces the first", "TestTimerMillionInOneMillisecond", ""},

	{"R1 rocketmq 7991: a cancel fails after an odd number of rolls", "TestTimerCancelAfterRolls", ""},
	{"R2 rocketmq 7979: a count below zero", "TestTimerUnknownHandle TestTimerCountsAreTheTruth", ""},
	{"R3 rocketmq 7381: counts of what is due at once", "TestTimerDueAtOnce TestTimerCountsAreTheTruth", ""},
	{"R4 rocketmq 8203: rolled messages pile up in one slot", "", "a roll does not change the due time, nor the slot"},
	{"R5 rocketmq 11156: rolled again and again, and after a restart", "TestTimerYearAlone TestRollMeetsFiring TestCrashSweep", ""},
	{"R7 rocketmq 6984: one failed put repeats the batch", "TestFailedDelivery TestFaultSweep", ""},
	{"R8 rocketmq 9654: the largest message blocks all", "TestLargestMessage", ""},
	{"R10 rocketmq 10421: a cancelled timer comes back by a roll", "TestTimerCancelDuringRoll", ""},
	{"R11 rocketmq 9945, 8974: a cancel of another topic's key, without an answer", "TestTimerUnknownHandle TestTimerAnswersCancelled", ""},
	{"R14 rocketmq 8022: delivery is off, and nothing says so", "", "it cannot be switched off"},
	{"R15 rocketmq-rust 9154: early on a tick, cancels missed", "TestTimerBorders TestTimerLinearizable TestCrashSweep", ""},
	{"R16 rocketmq 412: a delay across a stop", "TestTimerDelays", ""},

	{"B1 delayed exchange 71: beyond 2^32 ms at once", "TestTimerDelays TestTimerRefusals", ""},
	{"B2 delayed exchange 227: no limit", "TestTimerRefusals TestTimerExactlyMaxDelay", ""},
	{"B3 lavinmq 1781: a large delay becomes 0", "TestTimerRefusals TestPutTimes", ""},
	{"B4 delayed exchange 72: late as the table grows", "", "a benchmark: BenchmarkLateness in host/broker"},
	{"B8 delayed exchange 154: a boot that takes minutes, files that stay", "TestTimerIdleWithTenMillion TestTimerYearOfTraffic TestTimerCancelledLeaveNothing", ""},
	{"B9 delayed exchange 228: a count that reads everything", "TestTimerHorizonFromCounters TestTimerCountsAreTheTruth", ""},
	{"B10 delayed exchange 190: counts are gone when the topic changes", "TestReviewS12Topics", ""},
	{"B12 delayed exchange 16, 89: no cancel", "TestTimerAnswersCancelled TestTimerAnswersMoved", ""},
	{"B13 delayed exchange 92: messages of a deleted topic arrive", "TestTimerHandleOfDeletedTopic", ""},
	{"B16 delayed exchange 64: the delay is changed on the way", "TestPropertiesOfDelivered", ""},

	{"P1 pulsar 25996: nothing fires until the next publish", "TestTimerNextWakeUp TestTimerCountsAreTheTruth", ""},
	{"P3 pulsar 26080: the next due time of what is not loaded", "TestTimerNextWakeUp TestTimerDelays", ""},
	{"P6 pulsar 20099: twice or at once after restarts", "TestTimerKilledInABurst TestCrashSweep", ""},
	{"P7 pulsar 10169: a few ms early", "TestTimerBorders TestDeliveredToTheMillisecond TestModel", ""},
	{"P9 pulsar 24603: races", "TestReviewHammer TestTimerLinearizable TestBrokerHammer", ""},
	{"P10 pulsar 8689: the index outlives the messages", "TestTimerHandleOfDeletedTopic TestReviewS12Topics", ""},
	{"P11 pulsar 11180: cancel, and change of the countdown", "TestTimerAnswersCancelled TestTimerAnswersMoved", ""},
	{"P12 pulsar 23912: storage is read again and again", "TestTimerIdleIsFree", ""},

	{"J1 bullmq 2466: the wake-up gets lost after days", "TestTimerNextWakeUp TestModel", ""},
	{"J3 bullmq 1627: asleep for a later one", "TestTimerNextWakeUp TestTimersInABubble", ""},
	{"J6 bull 762: several workers", "TestTimerLinearizable TestBrokerHammer", ""},
	{"J7 bullmq 168: a quick restart", "TestTimerDelays", ""},
	{"J9 asynq 842: a fixed id never runs again", "", "there are no keys, and nothing recurs"},
	{"J10 asynq 306: cron", "", "nothing recurs"},
	{"J11 asynq 371: two schedulers", "TestReviewM12SecondProcess", ""},
	{"J12 asynq 908: many at one instant are late or lost", "TestTimerKilledInABurst TestTimerMillionInOneMillisecond", ""},
	{"J13 asynq: up to a second early", "TestTimerBorders TestDeliveredToTheMillisecond", ""},
	{"J14 sidekiq 843: popped before pushed", "TestCrashSweep TestTimerKilledInABurst", ""},
	{"J16 sidekiq 2187: a second takes a minute", "TestTimerNextWakeUp", ""},
	{"J17 celery 2599: a lease shorter than the delay", "", "there are no leases"},
	{"J18 river 791: never, when restarts are more frequent", "TestTimerDelays TestTimerEqualDeliveries", ""},
	{"J19 river 1035: thousands of runs after two weeks", "", "nothing recurs; what fell due while it was down comes once"},
	{"J21 river 785: slow with many finished rows", "TestTimerYearOfTraffic", ""},
	{"J22 node-resque 145: equal jobs are one", "TestTimerMillionInOneMillisecond", ""},
	{"J24 bullmq 2754: the next run after a change", "", "nothing recurs"},

	{"D1 nsq 1107: a restart delivers all", "TestTimerDelays TestModel", ""},
	{"D2 nsq 1375: no memory, no delay", "TestTimerDelays TestTimerSmallRings", ""},
	{"D4 nsq 848: what waits cannot be seen", "TestTimerPendingFilters TestTimerExplainLives", ""},
	{"D6 beanstalkd 62: the length of the replay is added", "TestTimerDelays", ""},
	{"D7 beanstalkd 622: moves grow the log without bound", "TestTimerMovedAgainAndAgain", ""},
	{"D8 beanstalkd 359: one old job keeps everything", "TestTimerYearOfTraffic TestReviewTimerFilesGo", ""},
	{"D9 activemq 728: a walk from the root for each batch", "TestTimerMillionInOneMillisecond TestTimerDrainKeepsFewSources", ""},
	{"D10 artemis 4929: the time is lost at a restart", "TestTimerDelays TestPropertiesOfDelivered", ""},
	{"D11 puppetdb 1887: journals pile up", "TestReviewFailedCheckpointSpillsOnce TestReviewCleaningFails", ""},
	{"D13 dapr 1.15.8: changed while it fires, never again", "TestTimerLinearizable TestTimerAnswersFired", ""},
	{"D15 dapr 8194: deleted since nobody took it", "", "what is due goes to its topic, whoever reads it"},
	{"D16 temporal 11869: the timer without its row", "TestModel TestTimerCountsAreTheTruth", ""},
	{"D17 temporal 7030: dropped when the clock goes back", "TestReviewB4Late TestTimerPutAtTheFrontier", ""},
	{"D18 cadence 970: put below the cursor", "TestTimerPutAtTheFrontier", ""},
	{"D19 zeebe 767: a pause, and one tick after it", "TestTimerDelaysTogether TestTimerSmallRings", ""},
	{"D21 netty 1115: the wrong round", "TestTimerSmallRings TestTimerExactlyALapAhead", ""},
	{"D25 quartz 48: one bad entry blocks all", "TestReviewDamagedLaneDelaysNoOther TestRebuildHeals", ""},
	{"D26 quartz 652: many at one time are skipped", "TestTimerMillionInOneMillisecond TestTimerTenMillionInOneSecond", ""},
	{"D27 quartz 239: missed runs fire", "", "there is one policy: what was due comes"},
	{"D28 littlehorse 1742: tombstones block the start", "TestTimerCancelledLeaveNothing", ""},
	{"D29 db-scheduler 127: all that is due is loaded", "TestTimerMillionInOneMillisecond TestTimerTenMillionInOneSecond", ""},
	{"D30 dubbo 6820: cancelled ones are held until due", "TestTimerCancelledLeaveNothing", ""},
	{"D32 rocketmq-apis 83: the client's clock", "TestTimerDelays TestTimerDueAtOnce", ""},
	{"D33 emqx 2826: 49.7 days", "TestTimerDelays TestTimerRefusals", ""},
	{"D35 nats 8223: a delivery that cannot be told from another", "TestModel TestTimerExplainLives", ""},
}

// What the comparison of designs asks of ours (its sections 7.2 to 7.4).
var peerDesign = []source{
	{"7.2 the worst slot, and what a dequeue reads", "TestTimerMillionInOneMillisecond", ""},
	{"7.3.1 times are absolute when they are stored", "TestTimerDelays", ""},
	{"7.3.2 memory is bounded", "TestReviewFullMemtables TestTimerLogCannotGrow", ""},
	{"7.3.3 sorted runs, each slot together", "TestRunOfGroups TestTimerBlockBorders", ""},
	{"7.3.4 written again at most once a level", "TestTimerYearAlone TestTimerYearOfTraffic", ""},
	{"7.3.5 hot slots are streamed, lanes are fair", "TestTimerMillionInOneMillisecond TestTimerBurstDelaysNoOtherLane", ""},
	{"7.3.6 a cancel and a delivery are decided in one place", "TestTimerLinearizable", ""},
	{"7.3.7 what was delivered is known after a crash", "TestTimerKilledInABurst", ""},
	{"7.3.8 recurrence", "", "nothing recurs"},
	{"7.3.9 counts and a histogram", "TestTimerCountsAreTheTruth TestTimerHorizonFromCounters", ""},
	{"7.3.10 a restart does not depend on what waits", "TestTimerIdleWithTenMillion", ""},
	{"7.3.11 never early, also when the clock steps", "TestModel TestReviewB4Late", ""},
	{"7.3.12 the wake-up is found out again", "TestTimerNextWakeUp TestTimerIdleIsFree", ""},
	{"7.4 a due time that is smeared, time zones, policies", "", "of the host, if ever"},
}

// RocketMQ's rules for times (its sheet, 3.2), each with what is so here.
var acceptance = []source{
	{"not writeable", "TestTimerFullDisk TestDiskFull", ""},
	{"topic, body or properties too long", "TestLargestMessage TestPropertiesOfDelivered", ""},
	{"page cache busy", "", "Append says ErrBusy to the host, not to the producer"},
	{"timers switched off", "", "they cannot be"},
	{"a number that cannot be parsed", "TestPutTimes", ""},
	{"beyond the longest delay", "TestTimerRefusals TestTimerExactlyMaxDelay", ""},
	{"congestion of a slot", "", "a slot has no limit"},
	{"a cancel of what is due", "TestTimerAnswersDelivered TestTimerLinearizable", ""},
	{"due now or before", "TestTimerDueAtOnce", ""},
	{"an overflow of a relative delay", "TestTimerRefusals", ""},
	{"the clock is read three times in one call", "TestTimerPutAtTheFrontier", ""},
	{"3.3 rounding", "TestTimerBorders TestDeliveredToTheMillisecond", ""},
	{"3.5 the size of the wheel", "TestLiteralSize", ""},
	{"3.8 the roll window", "TestTimerYearAlone TestTimerYearOfTraffic", ""},
	{"3.13 the histogram", "TestTimerHorizonFromCounters", ""},
}

// What RocketMQ guarantees, or not (3.14), and recall (4.1).
var guarantees = []source{
	{"kill -9 delivers twice", "TestKillNine TestTimerKilledInABurst TestCrashSweep", ""},
	{"a power cut loses what was delivered", "TestCrashSweep", ""},
	{"three failed puts lose a message", "TestFailedDelivery", ""},
	{"an unreadable body is dropped silently", "TestReviewM7UnreadableBody", ""},
	{"down for more than 7 days", "TestTimerDelays TestReviewB5FarAway", ""},
	{"disk above 85 %", "TestTimerFullDisk TestTimerFullDiskHeals", ""},
	{"the clock steps back", "TestReviewB4Late TestTimerEqualDeliveries", ""},
	{"the clock steps forward", "TestTimerEqualDeliveries TestModel", ""},
	{"the role changes, the master is down", "", "there is one node"},
	{"recall: a handle can be forged", "TestTimerForgedHandle", ""},
	{"recall: success is not cancelled", "TestTimerAnswersCancelled TestTimerLinearizable", ""},
	{"recall: refused in the last second", "TestTimerAnswersDelivered TestTimerBorders", ""},
	{"recall: none for levels", "TestTimerAnswersCancelled", ""},
	{"recall: counts drift", "TestTimerCountsAreTheTruth", ""},
	{"recall: no change of the time", "TestTimerAnswersMoved", ""},
	{"pop: receipts are timers", "", "there is no pop"},
}

// RocketMQ's reports about the wheel that sources_test.go leaves out.
var moreTimerReports = []source{
	{"T19 the master is down", "", "there is one node"},
	{"T20 a follower cannot copy the checkpoint", "", "there is one node"},
	{"T21 and T22 timers switched off", "", "they cannot be"},
	{"T30 a transaction with a time", "", "there are no transactions"},
	{"T32 an option without a setter", "TestReviewAbsurdOptions", ""},
	{"T33 a figure in the wrong unit", "", "units stand in the names"},
	{"T35 many at the same time", "TestTimerMillionInOneMillisecond", ""},
	{"T37 recall is off by default", "", "it is on"},
	{"T39 and T40 a change of role", "", "there is one node"},
	{"T43 keys of the configuration", "TestReviewAbsurdOptions", ""},
}

// What users of RocketMQ ask for (6), and what comes of it.
var askedFor = []source{
	{"1 any time", "TestTimerDelays", ""},
	{"2 beyond a week", "TestTimerDelays TestTimerExactlyMaxDelay", ""},
	{"3 cancel", "TestTimerAnswersCancelled", ""},
	{"4 another time", "TestTimerAnswersMoved TestTimerAnswersFired", ""},
	{"5 list and delete what waits", "TestTimerPendingFilters TestTimerPendingWalk", ""},
	{"6 order", "TestTimerEqualDeliveries TestTimerBlockBorders", ""},
	{"7 relative to the server's clock", "TestTimerDelays", ""},
	{"8 beyond the retention", "TestDelayLongerThanRetention TestTimerYearOfTraffic", ""},
	{"9 lateness by topic", "", "of the host"},
	{"10 until it succeeds", "TestFailedDelivery", ""},
	{"11 in batches", "TestTimerAnswersWithinABatch", ""},
	{"12 with transactions", "", "there are none"},
	{"13 fast with a slow disk", "", "a benchmark"},
	{"14 back-off, levels that change", "TestLevelTableChanges", ""},
	{"15 finer than a second, no stall in a hot one", "TestTimerBorders TestTimerBurstDelaysNoOtherLane", ""},
}

// TestTimerSources keeps these tables true, as TestSources does its own.
func TestTimerSources(t *testing.T) {
	checkSources(t, peerReports, peerDesign, acceptance, guarantees, moreTimerReports, askedFor)
	if len(peerReports) != 85 {
		t.Errorf("%d reports about others, the list has 85", len(peerReports))
	}
}

package engine_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// source is a public report or a review scenario, and the tests that keep it from happening here, or why it cannot.
type source struct {
	id    string
	tests string // names with spaces between them
	why   string // without tests: why it does not apply
}

// Reports about RocketMQ's delay levels.
var levelReports = []source{
	{"L1 a persisted offset beyond the queue", "TestForeignCheckpoint TestCheckpointCopies", ""},
	{"L2 a correction that does not last", "TestForeignCheckpoint", ""},
	{"L3 a copied directory with other offsets", "TestForeignCheckpoint TestSetSeesFilesOfOthers", ""},
	{"L4 a graceful stop delivers again", "TestGracefulStop", ""},
	{"L6 offsets of a follower", "", "there is one node"},
	{"L7 one failed put loses the message", "TestFailedDelivery TestFaultSweep", ""},
	{"L8 a kill after one delivery doubles it", "TestKillAfterOneDelivery", ""},
	{"L10 a demoted node burns a core", "", "there is one node"},
	{"L12 a schedule behind the end of its executor", "", "the engine has no goroutine"},
	{"L13 a progress file that is empty or garbage", "TestCheckpointCopies TestCorruption", ""},
	{"L14 a delivered message is delayed again", "TestPropertiesOfDelivered", ""},
	{"L15 internal properties reach the consumer", "TestPropertiesOfDelivered", ""},
	{"L16 a garbled destination wedges the level", "TestReviewS12Topics TestReviewM7UnreadableBody", ""},
	{"L17 a step of the clock puts a level out of order", "TestHistoryF11ClockStepsBack", ""},
	{"L18 early after a step back", "TestReviewB4Late TestModel", ""},
	{"L19 an unknown level is clamped silently", "TestLevelsClampAndRefuse", ""},
	{"L20 a second index shows what is not due", "TestReviewM8PendingIsHidden", ""},
	{"L22 throughput while each put waits", "", "answers wait for a group commit; benchmarks measure it"},
	{"L23 store times out of order", "TestSearchTime", ""},
	{"L24 the clock jumps at the start", "TestClockJumpsAtStart", ""},
	{"L25 transaction and delay together", "", "there are no transactions"},
	{"L26 an offset on the border of a file", "TestModel TestQueueReadsInPieces", ""},
	{"L27 two clocks", "TestTimerDelays", ""},
	{"L28 a table of levels loses its words", "TestParseLevelsRoundTrip TestParseLevelsRefuses", ""},
	{"L29 the table changes under messages in flight", "TestLevelTableChanges TestModel", ""},
}

// Reports about RocketMQ's wheel that concern the store, or answers.
var timerReports = []source{
	{"T3 a batch is repeated whole", "TestFailedDelivery TestFaultSweep", ""},
	{"T5 idle for longer than the retention", "TestDelayLongerThanRetention", ""},
	{"T6 the index points at what was overwritten", "TestCrashSweep TestRecoverRefusesResurrectedBatch", ""},
	{"T7 a poison record wedges the timer", "TestReviewM7UnreadableBody TestReviewDamagedLaneDelaysNoOther", ""},
	{"T8 the largest message blocks the others", "TestLargestMessage", ""},
	{"T10 a cancel of nothing makes a count negative", "TestCountsAfterCancels", ""},
	{"T11 counts are wrong after rolls and restarts", "TestModel TestCrashSweep", ""},
	{"T12 counts of deleted topics stay", "TestReviewS12Topics TestModel", ""},
	{"T13 a rename over an existing file fails", "TestReplaceIsAtomic", ""},
	{"T14 a thread survives the end", "", "the engine has no goroutine"},
	{"T15 the wheel is not what the log says after a crash", "TestCrashSweep TestReviewB1CheckpointIsRedo", ""},
	{"T17 a retry without its destination", "TestFailedDelivery", ""},
	{"T18 dropped after three failures", "TestFailedDelivery TestDiskFull", ""},
	{"T23 delay properties left behind", "TestPropertiesOfDelivered", ""},
	{"T24 a wrong clock at the client", "TestTimerDelays", ""},
	{"T26 early or late by rounding", "TestDeliveredToTheMillisecond TestTimerBorders", ""},
	{"T28 a delay beyond the retention", "TestDelayLongerThanRetention", ""},
	{"T36 waiting messages cannot be listed", "TestModel TestTimerPendingWalk", ""},
	{"T41 a cancelled message comes back", "TestModel TestHistoryF1CancelOutlivesItsSegment", ""},
	{"T42 rolls overlap, or leave gaps", "TestRollMeetsFiring TestModel TestReviewB6RolledMessage", ""},
	{"T44 early, checkpoint first, late tombstones, forged properties", "TestModel TestCrashSweep TestPropertiesOfDelivered", ""},
	{"T45 the whole wheel is written at every tick", "TestIdleWritesNothing TestTimerLiteralLayout", ""},
	{"T46 recovery and a clock that goes back", "TestReviewB4Late TestClockJumpsAtStart", ""},
	{"T47 two limits for one delay", "TestTimerRefusals TestTimerExactlyMaxDelay", ""},
	{"T48 longer than the wheel", "TestReviewB5FarAway TestTimerDelays", ""},
	{"D1 a full disk deletes what lives", "TestDiskFull TestModel", ""},
	{"D2 a slow delete holds up the check of the disk", "", "deleting is a job, refusing is the writer's"},
	{"D3 a full disk is never cleaned", "TestDiskFull TestFaultSweep", ""},
	{"D6 all deletes at once", "TestModel", ""},
	{"D8 no way to delete what waits", "TestModel TestTimerAnswersCancelled", ""},
	{"D9 a lost checkpoint makes a restart read everything", "TestCheckpointCopies", ""},
	{"D11 a master that comes back", "", "there is one node"},
	{"D12 and D13 pop receipts", "", "there is no pop; a retry is a delayed message of its own"},
}

// Scenarios of the reviews of the design and of its model.
var reviewScenarios = []source{
	{"B1 derived files ahead of the checkpoint", "TestReviewB1CheckpointIsRedo TestCrashSweep", ""},
	{"B2 the head of the log knew the topics", "TestReviewB2SuffixIsComplete", ""},
	{"B3 delivered from a segment that is old", "TestReviewB3RetentionCountsFromVisible", ""},
	{"B4 stored behind the frontier", "TestReviewB4Late", ""},
	{"B5 two laps of a ring", "TestReviewB5FarAway TestModel", ""},
	{"B6 cancel after a roll or a move", "TestReviewB6RolledMessage", ""},
	{"B7 a flush at every checkpoint", "TestHistoryF5SpillsDoNotGrow", ""},
	{"B8 plugins in the writer", "", "there are no plugins yet"},
	{"B9 answers from a state that is not durable", "TestReviewB9AnswersWaitForTheLog TestModel", ""},
	{"B10 the writer does slow work", "TestReviewB10WriterNeverSyncs", ""},
	{"B11 local things in the replicated part", "TestTimerSameLogOtherSizes TestCrashSweep", ""},
	{"S1 far messages wait for copies of bodies", "TestTimerAnswersFired TestModel", ""},
	{"S2 reads of scattered bodies", "", "a benchmark, not a promise"},
	{"S3 a retry by pointer", "", "the host copies the body; TestPropertiesOfDelivered shows the put"},
	{"S4 rolling without end", "TestReviewS4DiskIsBounded", ""},
	{"S5 a level blocked by a step of the clock", "TestHistoryF11ClockStepsBack", ""},
	{"S6 one CRC over a hot second", "TestCraftedGroups", ""},
	{"S7 a sync for each queue", "TestReviewS7ManyQueues", ""},
	{"S8 a tail that is only in the page cache", "TestReviewS8TailIsSyncedBeforeItIsShown", ""},
	{"S9 the wall clock as age", "TestReviewS9WallClockDeletesNothing", ""},
	{"S10 the writer reads bodies", "TestReviewB10WriterNeverSyncs", ""},
	{"S11 one topic delays another", "TestTimerBurstDelaysNoOtherLane", ""},
	{"S12 topics that come again or shrink", "TestReviewS12Topics", ""},
	{"S13 counts that are not exact", "TestModel TestTimerCountsAreTheTruth", ""},
	{"S14 preallocation in memory", "TestReviewS14NoPreallocation TestOpenOnMemMapFs", ""},
	{"S15 recall handles", "TestTimerForgedHandle TestTimerHandleText", ""},
	{"S16 the floor of lateness", "", "a benchmark, not a promise"},
	{"S17 transaction halves and receipts", "", "there are none"},
	{"M1 checkpoints that fail", "TestReviewM1CheckpointsFail", ""},
	{"M2 the last batch has no witness", "TestReviewM2LastBatchHasAWitness", ""},
	{"M3 what a delivered record lacks", "TestGolden", ""},
	{"M4 finding the next slot", "TestWheelIsLikeAMap", ""},
	{"M5 prev into files that are gone", "TestLookupFollowsPrev", ""},
	{"M6 files that are missing", "TestReviewM6MissingFiles", ""},
	{"M7 an unreadable body", "TestReviewM7UnreadableBody", ""},
	{"M8 a look at what waits", "TestReviewM8PendingIsHidden", ""},
	{"M9 the same offset again and again", "TestReviewM9SameOffsetWritesNothing", ""},
	{"M10 a producer repeats a put", "", "there are no idempotency keys yet"},
	{"M11 keys of handles", "TestKeysAreNobodyElses TestEveryBitFlipIsRefused", ""},
	{"M12 a second process", "TestReviewM12SecondProcess", ""},
	{"M13 the engine as a guest", "TestEngineAsGuest", ""},
	{"M14 the memory of plugins", "", "there are no plugins yet"},
	{"M15 empty segments and large batches", "TestReviewM15SegmentSizes", ""},
	{"M16 what a full disk still has to do", "TestDiskFull", ""},
	{"F1 a hole in the log", "TestHistoryF1CancelOutlivesItsSegment", ""},
	{"F2 a flush behind the frontier", "TestTimerInstallBehindTheFrontier TestModel", ""},
	{"F3 state bits that go too early", "TestHistoryF3ClosedChunk", ""},
	{"F4 a damaged checkpoint", "TestCheckpointCopies TestReviewB1CheckpointIsRedo", ""},
	{"F5 spills that grow", "TestHistoryF5SpillsDoNotGrow", ""},
	{"F6 two jobs write one ring", "TestModel TestCrashSweep", ""},
	{"F7 prev below first", "TestLookupFollowsPrev", ""},
	{"F8 installs in slices", "TestHistoryF8Compaction TestTimerFlushLinkedInSlices", ""},
	{"F9 a checkpoint deletes what a job reads", "TestHistoryF8Compaction TestScanOfHalfReadRun", ""},
	{"F10 the frontier stands still", "TestTimerFrontierStandsStill", ""},
	{"F11 a level and a clock that goes back", "TestHistoryF11ClockStepsBack", ""},
	{"F12 a trim above the checkpoint", "TestHistoryF12NoTrimAboveTheCheckpoint", ""},
}

// Reports about other brokers and stores.
var storeReports = []source{
	{"nats 7564, beanstalkd 546, etcd 14370: acknowledged before it is durable", "TestCrashSweep TestReviewB9AnswersWaitForTheLog", ""},
	{"nats 7549, pebble 453, rocketmq 358: a flipped bit loses what follows", "TestCorruption TestRecoverDamageWithWitness", ""},
	{"nats 7556: a damaged snapshot deletes the stream", "TestCheckpointCopies TestCorruption", ""},
	{"nats 6888: kills while a topic is made", "TestCrashSweep", ""},
	{"nats 5412: a consumer's offset beyond the end", "TestCrashSweep TestModel", ""},
	{"nats 5876: a cache is gone", "TestReviewM6MissingFiles TestRebuildHeals", ""},
	{"nats 5382, rocketmq 331, beanstalkd 1, nsq 938: a full disk", "TestDiskFull TestFaultSweep", ""},
	{"nats 3734: files of length 0", "TestCorruption TestCheckpointCopies", ""},
	{"nats 3272: deduplication is forgotten", "", "there are no idempotency keys yet"},
	{"rocketmq 10668: stale entries after the log was cut", "TestCrashSweep", ""},
	{"rocketmq 678: the checkpoint is ahead of the data", "TestCrashSweep TestReviewB1CheckpointIsRedo", ""},
	{"rocketmq 7927, 9248, 3966: a failed delivery", "TestFailedDelivery", ""},
	{"rocketmq 467, badger 434, bbolt 562: a kill", "TestCrashSweep TestKillNine", ""},
	{"rocketmq 1434, badger 153: around the border of two segments", "TestCrashSweep TestRotateCrash", ""},
	{"rocketmq 495: two crashes", "TestCrashSweep TestCrashInRecoveryTwice", ""},
	{"rocketmq 3401, 9328: a torn file of offsets", "TestCrashSweep TestReplaceIsAtomic", ""},
	{"rocketmq 2140, beanstalkd 98: a segment is missing", "TestCorruption TestRecoverMissingSegment", ""},
	{"rocketmq 3473, pulsar 22716, nsq 674: a restart delivers twice, or early", "TestModel TestCrashSweep TestGracefulStop", ""},
	{"rocketmq 1869: a wrong hint of progress", "TestForeignCheckpoint", ""},
	{"rocketmq TIMER_WHEEL_TTL: a long stop", "TestReviewB5FarAway TestModel", ""},
	{"rabbitmq 167: the clock changes", "TestModel TestClockJumpsAtStart", ""},
	{"pulsar 26251: a merge loses entries", "TestHistoryF8Compaction TestModel", ""},
	{"pulsar 26230: the index says one thing, the queue another", "TestCrashSweep TestModel", ""},
	{"nsq 1375: a setting in which nothing waits", "TestModel", ""},
	{"nsq 1033: files without end", "TestReviewCleaningFails TestReviewFailedFlushLeavesNothing", ""},
	{"nsq 471: lengths that are believed", "FuzzRecover FuzzParseRecord", ""},
	{"beanstalkd 43 and others: the log never shrinks", "TestReviewS4DiskIsBounded", ""},
	{"badger 524: recovery itself fails", "TestFaultSweep TestCrashSweep", ""},
	{"pebble 3865: records over the border of a buffer", "TestLogReadsAcrossTailAndFile", ""},
	{"bbolt 105: the check panics on damage", "TestCorruption", ""},
	{"bbolt 568: the harness was wrong", "TestModelSees TestTableFits", ""},
	{"wazero, servers, networks", "", "not of the engine"},
}

// TestSources keeps the tables true: each row has a test that exists, or a reason.
func TestSources(t *testing.T) {
	checkSources(t, levelReports, timerReports, reviewScenarios, storeReports)
}

// checkSources checks the rows of tables.
func checkSources(t *testing.T, tables ...[]source) {
	t.Helper()
	if _, err := os.Stat("../go.mod"); err != nil {
		t.Skip("the sources are not here")
	}
	exists := testNames(t)
	for _, table := range tables {
		seen := map[string]bool{}
		for _, row := range table {
			if seen[row.id] || (row.tests == "") == (row.why == "") {
				t.Errorf("%s: a row needs an id of its own, and tests or a reason", row.id)
			}
			seen[row.id] = true
			for name := range strings.FieldsSeq(row.tests) {
				if !exists[name] {
					t.Errorf("%s: there is no test %s", row.id, name)
				}
			}
		}
	}
}

// testNames lists the tests and fuzz targets of the repository.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range function.FindAllSubmatch(text, -1) {
			names[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

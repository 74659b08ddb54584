package config

import (
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/broker"
)

// Config is what a server is told. It is made by Default, Load and Parse; then it is only read, and so it is safe for
// concurrent use. A zero field means "auto" where the tags say so, and nothing elsewhere: start from Default.
type Config struct {
	DataDir    string `toml:"data_dir" default:"data" unit:"path" doc:"The directory of the messages. It is made if it is missing. A relative path in a file starts at the directory of that file, elsewhere at the working directory."`
	Durability string `toml:"durability" default:"always" oneof:"always" doc:"When a producer is answered. \"always\": after fsync of the CommitLog, many producers sharing one."`
	Profile    string `toml:"profile" default:"default" oneof:"default edge" doc:"The memory budgets. \"edge\" divides those that are \"auto\" by 8, for a machine with 64 MB."`
	NoLock     bool   `toml:"no_lock" default:"false" doc:"Open the data directory without a lock file, on a file system that cannot lock. Two servers on one directory destroy it: then nothing but you prevents that."`

	Timer  TimerTable  `toml:"timer" doc:"Messages that wait for their time."`
	Log    LogTable    `toml:"log" doc:"The CommitLog: what is kept, for how long, and in which pieces."`
	Listen ListenTable `toml:"listen" doc:"Where the server listens."`
	Limits LimitsTable `toml:"limits" doc:"What may wait in memory. A request beyond a limit waits; none is lost."`
	// BrokerTable is not called Broker, which is the method.
	BrokerTable BrokerTable  `toml:"broker" doc:"Topics and the work behind them."`
	Topics      []TopicTable `toml:"topic" doc:"A topic that the server makes when it starts, if it is missing; one table for each. A topic that is no longer in the file stays, with its messages."`

	origins map[string]string // by key: where the value comes from; a key that is not there has its default
}

// TimerTable is [timer].
type TimerTable struct {
	MaxDelay       Duration `toml:"max_delay" default:"7d" min:"1ms" max:"100y" unit:"duration" doc:"How far ahead a message may be due; beyond it is refused."`
	Levels         string   `toml:"levels" default:"1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h" unit:"delay levels" doc:"The table of delay levels: the nth word is level n, with one of the units ms s m h d, up to 64 of them. A message that waits keeps its time when the table changes."`
	Near           Duration `toml:"near" default:"0" min:"0" max:"7d" unit:"duration" doc:"How far ahead a message may be due to go to the ring of seconds; what is due before the end of the next full hour goes there anyway. \"7d\" gives one TimerWheel with a slot for each second of a week."`
	Lanes          int      `toml:"lanes" default:"1" min:"1" max:"63" unit:"lanes" doc:"Over how many lanes topics are spread for messages with a time of their own: a burst in one lane delays no topic of another. An existing store keeps the number it was made with."`
	FireChunk      int      `toml:"fire_chunk" default:"1024" min:"1" max:"1024" unit:"messages" doc:"How many due messages are delivered at once, before other requests get their turn."`
	SecondsEntries int      `toml:"seconds_entries" default:"auto" auto:"524,288 divided by lanes" min:"1" max:"16777216" unit:"entries of 56 bytes" doc:"Capacity of a lane's memtable for the ring of seconds."`
	HoursEntries   int      `toml:"hours_entries" default:"auto" auto:"262,144 divided by lanes" min:"1" max:"16777216" unit:"entries of 56 bytes" doc:"Capacity of a lane's memtable for the ring of hours."`
	LooseEntries   int      `toml:"loose_entries" default:"auto" auto:"65,536 divided by lanes" min:"1" max:"16777216" unit:"entries of 56 bytes" doc:"Capacity of a lane's memtable for what fits no ring."`
	SecondsSlots   int      `toml:"seconds_slots" default:"auto" auto:"1,209,600, two weeks; 16,384 where the file system can't reserve space or segment_size is set, unless near is above 1h" min:"2" max:"16777216" unit:"slots of 32 bytes" doc:"Size of the ring of seconds; a ring that is there keeps its own."`
	LooseRuns      int      `toml:"loose_runs" default:"64" min:"1" max:"1024" unit:"runs" doc:"How many loose runs there may be before they are compacted into one."`
	BitsCache      Size     `toml:"bits_cache" default:"auto" auto:"8MiB" min:"64KiB" max:"64GiB" unit:"size" doc:"Cache of the state bits, which say what became of a message that waited."`
	EntriesPerFile int      `toml:"entries_per_file" default:"65536" min:"1" max:"16777216" unit:"entries" doc:"Length of the files of a level's queue."`
	FileSize       Size     `toml:"file_size" default:"64MiB" min:"256B" max:"2GiB" unit:"size" doc:"Length of the files of the TimerLog. A smaller one gives space back earlier."`
}

// LogTable is [log].
type LogTable struct {
	Retention       Duration `toml:"retention" default:"3d" min:"1ms" max:"100y" unit:"duration" doc:"How long a message stays readable after it became visible. Time in which the server is down does not count."`
	RollAfter       Duration `toml:"roll_after" default:"3d" min:"1ms" max:"100y" unit:"duration" doc:"How much of the newest log, in running time, is never rolled: what waits in an older part may be copied to the end, so that the part can be deleted."`
	SealAfter       Duration `toml:"seal_after" default:"1d" min:"1ms" max:"100y" unit:"duration" doc:"A segment that is not empty is closed after this running time, full or not."`
	SegmentSize     Size     `toml:"segment_size" default:"auto" auto:"128MiB; 4MiB where the file system can't reserve space" min:"4KiB" max:"4GiB" unit:"size" doc:"At which size a segment of the CommitLog is closed."`
	CheckpointEvery Size     `toml:"checkpoint_every" default:"64MiB" min:"4KiB" max:"1TiB" unit:"size" doc:"How much log lies between two checkpoints. It bounds what a restart reads."`
	HighWater       Size     `toml:"high_water" default:"0" min:"0" unit:"size" doc:"At which size of the log on disk new messages are refused; delivering, cancelling and deleting go on. 0: when the disk is full."`
	Reserve         int      `toml:"reserve" default:"3" min:"0" max:"1024" unit:"segments" doc:"How many spare segments are kept for a full disk, where the file system can reserve space. 0: none."`
	Tail            Size     `toml:"tail" default:"auto" auto:"32MiB" min:"4KiB" max:"64GiB" unit:"size" doc:"How much of the log's end is kept in memory for readers."`
	UnitsPerFile    int      `toml:"units_per_file" default:"262144" min:"1" max:"16777216" unit:"units of 32 bytes" doc:"Length of the files of a ConsumeQueue."`
}

// ListenTable is [listen].
type ListenTable struct {
	HTTP string `toml:"http" default:"127.0.0.1:7070" unit:"address" doc:"Where HTTP is served: a loopback address and a port; port 0 takes any free one."`
}

// LimitsTable is [limits].
type LimitsTable struct {
	Queued   Size `toml:"queued" default:"32MiB" min:"1B" max:"64GiB" unit:"size" doc:"Messages that wait for the writer."`
	Unsynced Size `toml:"unsynced" default:"16MiB" min:"1B" max:"64GiB" unit:"size" doc:"Log that is written and not yet durable."`
}

// BrokerTable is [broker].
type BrokerTable struct {
	Workers         int  `toml:"workers" default:"2" min:"1" max:"64" unit:"goroutines" doc:"How many background jobs run at once: flushes, compactions, checkpoints."`
	Queues          int  `toml:"queues" default:"4" min:"1" max:"65536" unit:"queues" doc:"Queues of a topic whose number is not given."`
	KnownTopicsOnly bool `toml:"known_topics_only" default:"false" doc:"Refuse messages to a topic that nobody made. Otherwise the first message makes it."`
}

// TopicTable is one [[topic]].
type TopicTable struct {
	Name   string `toml:"name" required:"true" unit:"name" live:"true" doc:"The name: 1 to 127 of A-Z a-z 0-9 _ % -."`
	Queues int    `toml:"queues" default:"auto" auto:"as queues of [broker]" min:"1" max:"65536" unit:"queues" live:"true" doc:"Queues of the topic. A topic that has another number gets this one."`
}

// Engine is the configuration of the engine. Progress is the caller's to set.
func (c *Config) Engine() engine.Options {
	t, l := &c.Timer, &c.Log
	profile := engine.ProfileDefault
	if c.Profile == "edge" {
		profile = engine.ProfileEdge
	}
	reserve := l.Reserve
	if reserve == 0 {
		reserve = -1 // to the engine, 0 is its default
	}
	return engine.Options{
		Levels: t.Levels, MaxDelay: time.Duration(t.MaxDelay), Near: time.Duration(t.Near),
		Lanes: t.Lanes, FireChunk: t.FireChunk,
		SecondsEntries: t.SecondsEntries, HoursEntries: t.HoursEntries, LooseEntries: t.LooseEntries,
		SecondsSlots: t.SecondsSlots, LooseRuns: t.LooseRuns,
		BitsBytes: int(t.BitsCache), EntriesPerFile: t.EntriesPerFile, TimerFileSize: int64(t.FileSize),

		Retention: time.Duration(l.Retention), RollAfter: time.Duration(l.RollAfter), SealAfter: time.Duration(l.SealAfter),
		SegmentSize: int64(l.SegmentSize), CheckpointEvery: int64(l.CheckpointEvery),
		HighWater: int64(l.HighWater), Reserve: reserve,
		TailBytes: int(l.Tail), UnitsPerFile: l.UnitsPerFile,

		Queues: c.BrokerTable.Queues, NoAutoTopics: c.BrokerTable.KnownTopicsOnly,
		Profile: profile, NoLock: c.NoLock,
	}
}

// Broker is the configuration of the broker, with that of the engine in it.
func (c *Config) Broker() broker.Options {
	return broker.Options{
		Engine:        c.Engine(),
		Workers:       c.BrokerTable.Workers,
		QueueBytes:    int(c.Limits.Queued),
		UnsyncedBytes: int64(c.Limits.Unsynced),
	}
}

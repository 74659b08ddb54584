package config

import (
	"log/slog"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/broker"
)

// Config is what a server is told. It is made by Default, Load and Parse; then it is only read, and so it is safe for
// concurrent use. A zero field means "auto" where the tags say so, and nothing elsewhere: start from Default.
type Config struct {
	DataDir      string   `toml:"data_dir" default:"data" unit:"path" doc:"The directory of the messages. It is made if it is missing. A relative path in a file starts at the directory of that file, elsewhere at the working directory."`
	Durability   string   `toml:"durability" default:"always" oneof:"always interval" doc:"When a producer is answered. \"always\": after fsync of the CommitLog, many producers sharing one. \"interval\": when it is written; a power cut may take back what was answered since the last fsync, a kill of the process nothing. Readers see durable messages only, with either."`
	SyncInterval Duration `toml:"sync_interval" default:"1s" min:"1ms" max:"1m" unit:"duration" doc:"How long what was written waits for its fsync at most, with durability \"interval\"."`
	Profile      string   `toml:"profile" default:"default" oneof:"default edge" doc:"The memory budgets. \"edge\" divides those that are \"auto\" by 8, for a machine with 64 MB."`
	MemoryLimit  Size     `toml:"memory_limit" default:"auto" auto:"what the budgets come to, some 225MiB, and 50MiB with the profile edge; the variable GOMEMLIMIT counts more" min:"16MiB" unit:"size" live:"true" doc:"From how much memory on the garbage collector works harder. It is a soft limit: nothing is refused because of it."`
	NoLock       bool     `toml:"no_lock" default:"false" doc:"Open the data directory without a lock file, on a file system that cannot lock. Two servers on one directory destroy it: then nothing but you prevents that."`

	Timer  TimerTable  `toml:"timer" doc:"Messages that wait for their time."`
	Log    LogTable    `toml:"log" doc:"The CommitLog: what is kept, for how long, and in which pieces."`
	Listen ListenTable `toml:"listen" doc:"Where the server listens."`
	Auth   AuthTable   `toml:"auth" doc:"Who may do what."`
	Limits LimitsTable `toml:"limits" doc:"What may wait in memory. A request beyond a limit waits; none is lost."`
	// BrokerTable is not called Broker, which is the method.
	BrokerTable BrokerTable  `toml:"broker" doc:"Topics and the work behind them."`
	Group       GroupTable   `toml:"group" doc:"Consumer groups."`
	Logging     LoggingTable `toml:"logging" doc:"What the server says of itself, on standard error."`
	Topics      []TopicTable `toml:"topic" doc:"A topic that the server makes when it starts, if it is missing; one table for each. A topic that is no longer in the file stays, with its messages."`

	PluginHost PluginsTable  `toml:"plugins" doc:"WASM plugins: where their files are, and what they may take together."`
	Plugins    []PluginTable `toml:"plugin" live:"true" doc:"A plugin that decides about messages; one table for each. A running server takes over what changes here, one batch of messages being decided by one version of a plugin."`

	dir     string            // of the file; "." without one
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
	HTTP    string `toml:"http" default:"127.0.0.1:7070" unit:"address" doc:"Where HTTP is served: a host and a port; port 0 takes any free one. An address that other machines can reach takes tls_cert, tls_key, and tokens_file of [auth]."`
	TLSCert string `toml:"tls_cert" default:"" unit:"file" doc:"The certificate, with those of the authorities between, in PEM. With it HTTP is served over TLS only. SIGHUP reads the file again."`
	TLSKey  string `toml:"tls_key" default:"" unit:"file" doc:"The key of tls_cert, in PEM. SIGHUP reads the file again."`
}

// AuthTable is [auth].
type AuthTable struct {
	TokensFile string `toml:"tokens_file" default:"" unit:"file" doc:"The file of bearer tokens. A line is the SHA-256 of a token in hex, its role (read, produce or operate; each includes those before it) and a name for the log; # begins a comment. With it every request needs a token, but for /healthz and /readyz. SIGHUP reads the file again."`
}

// LimitsTable is [limits].
type LimitsTable struct {
	Queued   Size `toml:"queued" default:"auto" auto:"32MiB" min:"1B" max:"64GiB" unit:"size" doc:"Messages that wait for the writer."`
	Unsynced Size `toml:"unsynced" default:"auto" auto:"16MiB" min:"1B" max:"64GiB" unit:"size" doc:"Log that is written and not yet durable."`
}

// BrokerTable is [broker].
type BrokerTable struct {
	Workers           int      `toml:"workers" default:"2" min:"1" max:"64" unit:"goroutines" doc:"How many background jobs run at once: flushes, compactions, checkpoints."`
	Queues            int      `toml:"queues" default:"4" min:"1" max:"65536" unit:"queues" doc:"Queues of a topic whose number is not given."`
	IdempotencyWindow Duration `toml:"idempotency_window" default:"1d" min:"0" max:"100y" unit:"duration" doc:"How long a put with an idempotency key is remembered, so that its repetition is answered and not stored. What was put with a key stays in the log as long. 0: such keys are refused."`
	KnownTopicsOnly   bool     `toml:"known_topics_only" default:"false" doc:"Refuse messages to a topic that nobody made. Otherwise the first message makes it."`
}

// GroupTable is [group].
type GroupTable struct {
	AckTimeout  Duration `toml:"ack_timeout" default:"30s" min:"1ms" max:"12h" unit:"duration" doc:"How long a reader has a message before it is delivered again, unless it asks for another time."`
	MaxAttempts int      `toml:"max_attempts" default:"16" min:"1" max:"1000" unit:"deliveries" doc:"How often a message is delivered to a group before it becomes a dead letter."`
	MaxUnacked  int      `toml:"max_unacked" default:"16384" min:"1" max:"1048576" unit:"messages" doc:"How far a group reads on in a queue above its lowest message that is not acked. It bounds the memory for leases, 40 bytes each, and what comes again after a restart."`
}

// LoggingTable is [logging].
type LoggingTable struct {
	Format string `toml:"format" default:"text" oneof:"text json" doc:"The form of a line."`
	Level  string `toml:"level" default:"info" oneof:"debug info warn error" live:"true" doc:"From which weight on something is said."`
}

// Slog is the level for package slog.
func (t LoggingTable) Slog() slog.Level {
	var l slog.Level
	_ = l.UnmarshalText([]byte(t.Level)) // it knows the words
	return l
}

// TopicTable is one [[topic]].
type TopicTable struct {
	Name   string `toml:"name" required:"true" example:"orders" unit:"name" live:"true" doc:"The name: 1 to 127 of A-Z a-z 0-9 _ % -."`
	Queues int    `toml:"queues" default:"auto" auto:"as queues of [broker]" min:"1" max:"65536" unit:"queues" live:"true" doc:"Queues of the topic. A topic that has another number gets this one."`
}

// Engine is the configuration of the engine. Progress is the caller's to set.
func (c *Config) Engine() engine.Options {
	t, l := &c.Timer, &c.Log
	profile := engine.ProfileDefault
	if c.Profile == "edge" {
		profile = engine.ProfileEdge
	}
	reserve, window := l.Reserve, time.Duration(c.BrokerTable.IdempotencyWindow)
	if reserve == 0 {
		reserve = -1 // to the engine, 0 is its default
	}
	if window == 0 {
		window = -1
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

		Queues: c.BrokerTable.Queues, NoAutoTopics: c.BrokerTable.KnownTopicsOnly, IdempotencyWindow: window,
		Profile: profile, NoLock: c.NoLock,
	}
}

// edgeShare is by what the profile "edge" divides a budget, as the engine does.
const edgeShare = 8

// Broker is the configuration of the broker, with that of the engine in it.
func (c *Config) Broker() broker.Options {
	o := broker.Options{
		Engine:        c.Engine(),
		Workers:       c.BrokerTable.Workers,
		QueueBytes:    int(c.Limits.Queued),
		UnsyncedBytes: int64(c.Limits.Unsynced),
		SyncInterval:  time.Duration(c.SyncInterval),
		AckTimeout:    time.Duration(c.Group.AckTimeout),
		MaxAttempts:   c.Group.MaxAttempts,
		MaxUnacked:    c.Group.MaxUnacked,
	}
	o.Durability, _ = broker.ParseDurability(c.Durability) // it knows the words
	if o.QueueBytes == 0 {
		o.QueueBytes = int(c.share(32 << 20))
	}
	if o.UnsyncedBytes == 0 {
		o.UnsyncedBytes = c.share(16 << 20)
	}
	return o
}

// share is what the profile leaves of a budget.
func (c *Config) share(budget int64) int64 {
	if c.Profile == "edge" {
		return budget / edgeShare
	}
	return budget
}

// Memory is the soft limit of memory, in bytes: memory_limit, or what the budgets come to when all of them are used.
func (c *Config) Memory() int64 {
	if c.MemoryLimit != 0 {
		return int64(c.MemoryLimit)
	}
	or := func(given, budget int64) int64 {
		if given != 0 {
			return given
		}
		return c.share(budget)
	}
	const entry = 56
	lanes := int64(c.Timer.Lanes)
	entries := lanes * (or(int64(c.Timer.SecondsEntries), 524288/lanes) + or(int64(c.Timer.HoursEntries), 262144/lanes) +
		or(int64(c.Timer.LooseEntries), 65536/lanes))
	b := c.Broker()
	sum := 24<<20 + // the program, and requests on their way
		entries*entry*8/5 + // memtables, and the largest of them again while it is frozen
		c.share(32<<20) + // merges
		or(int64(c.Log.Tail), 32<<20) + or(int64(c.Timer.BitsCache), 8<<20) +
		c.share(8<<20) + 2<<20 + // tails of ConsumeQueues, rings
		int64(b.QueueBytes) + b.UnsyncedBytes +
		c.pluginMemory()
	return sum >> 20 << 20 // it is printed
}

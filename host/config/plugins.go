package config

import (
	"path/filepath"

	"github.com/tidewheel/tidewheel/engine"
)

// PluginsTable is [plugins].
type PluginsTable struct {
	Dir            string   `toml:"dir" default:"auto" auto:"the directory \"plugins\" beside the configuration file" unit:"directory" doc:"Where the files of the plugins are. A relative path in a file starts at the directory of that file."`
	CacheDir       string   `toml:"cache_dir" default:"auto" auto:"plugin-cache in the data directory" unit:"directory" doc:"Where compiled plugins are kept, so that the next start takes a fraction of a second. It may be deleted at any time; damage in it is found and healed."`
	ReloadInterval Duration `toml:"reload_interval" default:"2s" min:"0" max:"1d" unit:"duration" live:"true" doc:"How often the files are looked at. A file that has changed, and was the same twice, is loaded beside the old one and takes over between two batches; one that cannot be loaded changes nothing. 0: only when told, see POST /v1/plugins/{plugin}/reload."`
	MemoryTotal    Size     `toml:"memory_total" default:"64MiB" min:"64KiB" max:"64GiB" unit:"size" doc:"The sum of instances × memory_max over all plugins may not exceed it."`
	RequirePin     bool     `toml:"require_pin" default:"false" live:"true" doc:"Refuse a plugin without sha256."`
}

// PluginTable is one [[plugin]].
type PluginTable struct {
	Name            string   `toml:"name" required:"true" example:"tenant-filter" unit:"plugin name" doc:"The name: 1 to 100 of A-Z a-z 0-9 _ -. Metrics, logs and dead letters name it."`
	File            string   `toml:"file" required:"true" example:"tenant-filter.wasm" unit:"module" doc:"The WebAssembly module, in dir of [plugins], or with an absolute path."`
	SHA256          string   `toml:"sha256" default:"" unit:"SHA-256" doc:"The pin: a file with another SHA-256, in 64 hexadecimal digits, is not loaded. Empty: any."`
	Hooks           []string `toml:"hooks" required:"true" example:"filter" oneof:"publish filter transform deliver" doc:"Where it is asked. publish: before a message is stored. filter: at its due time, or before a group reads it (at). transform: as filter, and it may change the message. deliver: it makes HTTP requests of messages, and stands alone; see delivery."`
	At              string   `toml:"at" default:"due" oneof:"due consume" doc:"When filter and transform are asked. due: once, when the message is due, before it becomes visible. consume: before a group gets it."`
	Match           []string `toml:"match" required:"true" example:"orders-*" unit:"patterns of topics, with * and ?" doc:"The topics whose messages it is asked about. * is any text, ? one character. Topics whose name begins with % are never meant."`
	Groups          []string `toml:"groups" default:"*" unit:"patterns of groups, with * and ?" doc:"With at = \"consume\": the consumer groups whose messages it is asked about."`
	Order           int      `toml:"order" default:"100" min:"0" max:"1000000" unit:"" doc:"Of several plugins the one with the lower number is asked first; with the same number, the name decides. A message that one keeps goes to the next, any other answer is the last one."`
	OnError         string   `toml:"on_error" required:"true" example:"dead_letter" oneof:"dead_letter skip drop block retry" doc:"What becomes of a message that the plugin fails on. dead_letter: it goes to %DLQ%plugin-NAME, with the reason. skip: as if the plugin had not been asked. drop: it is forgotten. block: it waits, and what is behind it. retry: it is asked about again after retry_delay, retry_max times, and then a dead letter."`
	RetryMax        int      `toml:"retry_max" default:"5" min:"1" max:"1000" unit:"attempts" doc:"With on_error = \"retry\": the attempts before a message becomes a dead letter."`
	RetryDelay      Duration `toml:"retry_delay" default:"1s" min:"1ms" max:"30d" unit:"duration" doc:"With on_error = \"retry\": the time until the next attempt."`
	Fail            string   `toml:"fail" default:"auto" auto:"closed, but with the hook publish it must be given" oneof:"closed open" doc:"While the plugin is quarantined, or could not be loaded. closed: messages wait, and puts are refused with 503. open: they pass as if it had not been asked."`
	QuarantineAfter int      `toml:"quarantine_after" default:"5" min:"1" max:"1000000" unit:"deaths" doc:"So many deaths of its instances without one answer between quarantine it: it is not asked for a second, then for two, up to 30; then it gets one message to try."`
	Instances       int      `toml:"instances" default:"2" min:"1" max:"1024" unit:"instances" doc:"How many batches it may decide at the same time, each with memory of its own."`
	Targets         []string `toml:"targets" default:"" unit:"topics" doc:"Where the verdict route may send a message: it names one by its place in this list, from 0 on."`

	Limits       PluginLimits       `toml:"limits" doc:"What the plugin may take."`
	Capabilities PluginCapabilities `toml:"capabilities" doc:"What the plugin may do beside computing. Nothing is granted by itself, and nothing else can be."`
	Delivery     PluginDelivery     `toml:"delivery" doc:"With hooks = [\"deliver\"]: how its requests are sent."`

	Config Object `toml:"config" default:"" unit:"a table with keys of the plugin's own" doc:"What the plugin is given as a JSON object when it starts. In the place of a value { secret = \"NAME\" } stands for the variable TIDEWHEEL_SECRET_NAME, and { secret_file = \"FILE\" } for what is in a file; neither is ever printed."`
}

// PluginLimits is [plugin.limits].
type PluginLimits struct {
	BinaryMax     Size `toml:"binary_max" default:"16MiB" min:"1KiB" max:"256MiB" unit:"size" doc:"Of the file."`
	MemoryMax     Size `toml:"memory_max" default:"16MiB" min:"64KiB" max:"4GiB" unit:"size" doc:"Memory of one instance, in steps of 64KiB. A Go guest needs 8MiB."`
	FuelInit      int  `toml:"fuel_init" default:"50000000" min:"1" max:"1000000000000" unit:"fuel" doc:"Steps that starting and configuring may take. One is about a turn of a loop, or eight instructions."`
	FuelBase      int  `toml:"fuel_base" default:"1000000" min:"1" max:"1000000000000" unit:"fuel" doc:"Steps of a call, whatever is in it."`
	FuelPerRecord int  `toml:"fuel_per_record" default:"200000" min:"1" max:"1000000000000" unit:"fuel" doc:"Steps that each message adds to a call."`
	FuelCallMax   int  `toml:"fuel_call_max" default:"10000000" min:"1" max:"1000000000000" unit:"fuel" doc:"The most steps of a call, however many records it has."`
	BatchMax      int  `toml:"batch_max" default:"256" min:"1" max:"65536" unit:"messages" doc:"The most messages of a call."`
	BatchBytes    Size `toml:"batch_bytes" default:"1MiB" min:"1B" max:"1GiB" unit:"size" doc:"The most bytes of a call with several messages."`
	RecordBytes   Size `toml:"record_bytes" default:"auto" auto:"4MiB, at most a quarter of memory_max" min:"1B" max:"1GiB" unit:"size" doc:"The largest message that the plugin is given; a larger one counts as a failure."`
	OutBytesMax   Size `toml:"out_bytes_max" default:"4MiB" min:"1B" max:"1GiB" unit:"size" doc:"The most bytes that a call may answer with."`
	LogPerSecond  int  `toml:"log_per_second" default:"100" min:"1" max:"1000000" unit:"lines" doc:"Lines that the plugin may log in a second; the others are counted and forgotten."`
	RecycleCalls  int  `toml:"recycle_calls" default:"0" min:"0" max:"1000000000000" unit:"calls" doc:"After so many calls an instance is replaced by a new one; 0: never. For guests that leak."`
}

// PluginCapabilities is [plugin.capabilities].
type PluginCapabilities struct {
	JSON             bool     `toml:"json" default:"false" doc:"json_get: values out of JSON bodies."`
	Headers          bool     `toml:"headers" default:"false" doc:"hdr_get: values of headers."`
	Match            bool     `toml:"match" default:"false" doc:"match: patterns over topics, keys and bodies."`
	Egress           []string `toml:"egress" default:"" unit:"hosts" doc:"Where the requests of hooks = [\"deliver\"] may go: a host, with a port if it is not 443, or all hosts below a name, as *.example.com, or * for all names. http:// in front allows requests without TLS, to port 80 if none is given."`
	PrivateAddresses []string `toml:"private_addresses" default:"" unit:"networks" doc:"Networks, as 10.1.0.0/16, that requests may reach although their addresses are not public."`
}

// PluginDelivery is [plugin.delivery].
type PluginDelivery struct {
	Group          string   `toml:"group" default:"auto" auto:"plugin-NAME" unit:"group name" doc:"The consumer group that the messages are read with."`
	Concurrency    int      `toml:"concurrency" default:"16" min:"1" max:"1024" unit:"requests" doc:"Requests that are on their way at the same time."`
	Timeout        Duration `toml:"timeout" default:"10s" min:"10ms" max:"10m" unit:"duration" doc:"The time that a request has, with its response."`
	MaxRequest     Size     `toml:"max_request" default:"1MiB" min:"1B" max:"4MiB" unit:"size" doc:"The largest body of a request."`
	MaxResponse    Size     `toml:"max_response" default:"1MiB" min:"0" max:"4MiB" unit:"size" doc:"What is read of a response; the rest of a longer one is left."`
	MaxAttempts    int      `toml:"max_attempts" default:"16" min:"1" max:"1000" unit:"deliveries" doc:"How often a message is tried before it becomes a dead letter."`
	CAFile         string   `toml:"ca_file" default:"" unit:"file" doc:"Certificates of authorities in PEM that servers may have theirs from, beside those that the system trusts. TLS is always verified. SIGHUP reads the file again."`
	SigningSecrets Secret   `toml:"signing_secrets" unit:"secrets" doc:"The secrets that requests are signed with, as Standard Webhooks has it: lines of whsec_ and base64, several while one takes over from another."`
}

// PluginDir is the directory of the files of plugins.
func (c *Config) PluginDir() string {
	if c.PluginHost.Dir != "" {
		return c.PluginHost.Dir
	}
	return filepath.Join(c.dir, "plugins")
}

// PluginCacheDir is the directory of compiled plugins.
func (c *Config) PluginCacheDir() string {
	if c.PluginHost.CacheDir != "" {
		return c.PluginHost.CacheDir
	}
	return filepath.Join(c.DataDir, engine.CacheDir)
}

// pluginMemory is what the instances of all plugins may take, in bytes.
func (c *Config) pluginMemory() (sum int64) {
	for i := range c.Plugins {
		sum += c.Plugins[i].memory()
	}
	return sum
}

// memory is what the instances of a plugin may take, in bytes.
func (p *PluginTable) memory() int64 { return int64(p.Instances) * int64(p.Limits.MemoryMax) }

// FailOpen says whether messages pass while the plugin cannot be asked.
func (p *PluginTable) FailOpen() bool { return p.Fail == "open" }

// Group is the consumer group of a plugin with the hook deliver.
func (p *PluginTable) Group() string {
	if p.Delivery.Group != "" {
		return p.Delivery.Group
	}
	return "plugin-" + p.Name
}

// absent are keys that people look for, with what there is instead. By table and word.
var absent = map[string]string{
	"plugins.trusted_keys":       "signatures of files are not looked at: pin a file with sha256, and set require_pin",
	"plugin.mode":                "there is one mode: an instance keeps its memory from batch to batch, and is replaced when it dies or grows",
	"plugin.shadow":              "there is no trial beside the old file: a new file that fails in its first 64 batches is rolled back by itself",
	"plugin.canary":              "there is no trial beside the old file: a new file that fails in its first 64 batches is rolled back by itself",
	"plugin.canary_batches":      "there is no trial beside the old file: a new file that fails in its first 64 batches is rolled back by itself",
	"plugin.capabilities.fs":     "a plugin has no files",
	"plugin.capabilities.state":  "a plugin keeps nothing beyond its memory",
	"plugin.capabilities.env":    "a plugin has no environment: give it what it needs in [plugin.config]",
	"plugin.limits.instances":    "it stands in [[plugin]] itself",
	"plugin.limits.memory_total": "it stands in [plugins]",
}

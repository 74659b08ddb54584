// Package config reads what a server is told: a TOML file, environment variables and flags, in this order, the later
// one counting. Without any of them the configuration is a good one: everything has a default, and everything listens
// on loopback.
//
//	cfg, err := config.Load(config.Source{File: "tidewheel.toml", Environ: os.Environ()})
//	b, err := broker.Open(env, ".", cfg.Broker())
//
// # Problems
//
// Nothing is guessed and nothing is ignored: an unknown key, a value without its unit or out of its range, and an unknown
// TIDEWHEEL_ variable are problems. A Report has all problems of a configuration, each with its line or variable, and
// with the nearest name for one that is unknown.
//
// # Tags
//
// The tags of Config and of the structs in it are the only place where a key is described:
//
//	toml     the name
//	default  the value without a configuration
//	auto     what the value "auto", which is zero in the struct, comes to; without it "auto" is no value
//	unit     what the value is: size, duration, path, address, …; it decides what is checked
//	doc      what it does, in sentences
//	min, max the range, in the form of the value; no max: any
//	oneof    the allowed words
//	required "true" when a repeated table must have it
//	live     "true" when it can change while a server runs
//
// Reference and Template are made from them, and so is what Load accepts.
//
// # Variables
//
// TIDEWHEEL_SECTION__KEY sets key in [section], TIDEWHEEL_KEY a key above all sections: TIDEWHEEL_TIMER__MAX_DELAY=30d,
// TIDEWHEEL_DATA_DIR=/srv/tidewheel. TIDEWHEEL_URL, _TOKEN and _CTX belong to the command line, _VOLUME and _SEED to the
// tests. Variables that Kubernetes and Docker make for a service called tidewheel, as TIDEWHEEL_SERVICE_HOST and
// TIDEWHEEL_PORT_7070_TCP, are left alone. Tables that repeat ([[topic]]) stand in a file only.
//
// # Secrets
//
// A key of type Secret never has its value in the file. The file has the path of another one, under the key's name and
// "_file"; or a variable has the value. What is printed of it is whether it is set.
package config

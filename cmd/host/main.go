// Command host is the tidewheel program: a server for delayed messages, the commands that talk to it, and the tools for
// its files. Release builds name it tidewheel:
//
//	go build -o tidewheel ./cmd/host
//	./tidewheel demo
//	./tidewheel serve --data ./data
//	./tidewheel put orders '{"id":42}' --in 30m
//	./tidewheel consume orders --group billing --ack
//
// # Output and exit codes
//
// Results go to standard output, everything else to standard error. Every verb that reads takes -o table, json, ndjson,
// csv or name; with json and ndjson errors are problems in JSON, too. All verbs are in docs/cli.md.
//
//	0  done
//	1  error
//	2  usage
//	3  not found
//	4  too late: the message was delivered, or moved to another handle
//	5  the server does not answer
//	6  damage was found
package main

import "os"

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

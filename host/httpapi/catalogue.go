package httpapi

import (
	"context"
	"strings"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/broker"
)

// problemKind is one row of the catalogue: what a code means, always the same, and what /problems/{code} says of it.
type problemKind struct {
	code   string
	status int
	title  string
	cause  string
	cure   string
	key    string // of the configuration, that has to do with it
}

// slug is the code as a path has it.
func (k *problemKind) slug() string { return strings.ReplaceAll(k.code, "_", "-") }

// kindOf finds a code's row; nil when there is none.
func kindOf(code string) *problemKind {
	for i := range catalogue {
		if catalogue[i].code == code {
			return &catalogue[i]
		}
	}
	return nil
}

// catalogue has every code, by status. A code never changes its meaning.
var catalogue = [...]problemKind{
	{"bad_json", 400, "The JSON is not valid",
		"The body is not one JSON value with known members, each once.",
		"Look at detail. Names of members are those of /openapi.json; nothing unknown is ignored.", ""},
	{"body_unreadable", 400, "The body could not be read",
		"The connection ended within the body, or a compressed body is damaged.",
		"Send the request again.", ""},
	{"unauthorized", 401, "A token is needed",
		"The request has no bearer token, or one that the server does not know.",
		"Send Authorization: Bearer TOKEN, with a token whose hash is in the tokens file.", "auth.tokens_file"},
	{"forbidden", 403, "The token does not allow this",
		"The token's role is below the one that the route asks for.",
		"Use a token with the role in limit. Roles are read, produce and operate; each includes those before it.", "auth.tokens_file"},
	{"cross_origin", 403, "Requests from other web sites are refused",
		"A browser says that another site made it send the request.",
		"Let your own server send it.", ""},
	{"read_only", 403, "This address only reads",
		"The server, or this listener of it, was started read-only.",
		"Use the address that writes.", ""},
	{"clock_is_real", 403, "This server's clock cannot be moved",
		"Only a server that was started for tests has a clock to be moved by hand.",
		"Start one: tidewheel dev --clock manual.", ""},
	{"not_found", 404, "No such handle",
		"It is unknown, damaged, of another store, or forgotten after the retention.",
		"Look for the message with GET /v1/timers, or in its topic.", "log.retention"},
	{"unknown_topic", 404, "There is no such topic",
		"No message was sent to it, and nobody made it.",
		"Send a message to it, or make it with PUT /v1/topics/{topic}.", ""},
	{"unknown_message", 404, "There is no such message",
		"Its id is unknown or damaged, it still waits, or it was taken back or deleted.",
		"A message that waits is read by its handle: GET /v1/timers/{handle}.", "log.retention"},
	{"unknown_path", 404, "There is no such path",
		"No route has the path. Paths have no doubled slashes and no dots.",
		"Look at /openapi.json.", ""},
	{"unknown_problem", 404, "There is no such problem",
		"No problem has the code.",
		"GET /problems lists them.", ""},
	{"unknown_group", 404, "There is no such group",
		"Nobody made it, and nobody has read with it.",
		"GET /v1/groups lists them. Reading with a group makes it.", ""},
	{"unknown_receipt", 404, "There is no such receipt",
		"It is damaged, of another store, or its group or topic is gone.",
		"Use the receipt that came with the message.", ""},
	{"unknown_bulk", 404, "There is no such bulk change",
		"Its id is unknown, or it ended long ago, or before the server was started.",
		"Ask for a preview again.", ""},
	{"method_not_allowed", 405, "The path does not take this method",
		"The path is known with other methods.",
		"Use one of those in limit.", ""},
	{"body_timeout", 408, "The body took too long to arrive",
		"A body has 30 seconds.",
		"Send less at once, or over a faster line.", ""},
	{"already_cancelled", 409, "The message was cancelled before",
		"A cancel came first.",
		"POST /v1/timers/{handle}/undo takes the cancel back, until the due time.", ""},
	{"already_delivered", 409, "The message was delivered before",
		"It was due before the request; due_ms says when.",
		"Let the consumer decide.", ""},
	{"broadcast", 409, "A broadcast group cannot do this",
		"Its readers keep their places themselves, and messages with a delay are not for it.",
		"Use a group of mode clustering, or name the queues to read.", ""},
	{"lease_expired", 409, "The lease is over",
		"The message was not acked in time, or the server was started again: it comes again, or has come.",
		"Do nothing: who has it now acks it. Ask for a longer ack_timeout, or extend the lease while you work.", "group.ack_timeout"},
	{"not_cancelled", 409, "The message waits: there is no cancel to take back",
		"An undo takes a cancel back, and nothing else.", "There is nothing to do.", ""},
	{"superseded", 409, "The message was moved; its newer handle counts",
		"A move, a fire or an undo gave the message another handle.",
		"Use the handle that was answered then, or find it with GET /v1/timers.", ""},
	{"too_late", 409, "The due time has passed",
		"A cancel can be taken back until the message's due time.",
		"Send the message again.", ""},
	{"bulk_expired", 409, "The preview has expired",
		"A preview can be confirmed for ten minutes, once, and until the server ends.",
		"Ask for a preview again.", ""},
	{"bulk_busy", 409, "Too many bulk changes are running",
		"A few may run at the same time.",
		"Wait for one to end, or stop it with DELETE /v1/bulk/{id}.", ""},
	{"body_deleted", 410, "The message's body was deleted",
		"The head of the log was deleted after the retention.",
		"Send the message again.", "log.retention"},
	{"given_up", 410, "The message was damaged and given up by a repair",
		"A repair declared a damaged range of the log lost.",
		"Restore a copy if you need it. The other messages are whole.", ""},
	{"trimmed", 410, "The messages at this offset were deleted",
		"The group is slower than the retention.",
		"Go on from the queue's min.", "log.retention"},
	{"too_large", 413, "The message is too large",
		"A body, a key, a tag or the request is beyond its limit.",
		"GET /v1/limits shows what is allowed. Store the large part elsewhere and send where it is.", ""},
	{"too_many", 413, "The batch has too many messages",
		"One request may carry so many lines.",
		"Send several batches.", ""},
	{"unsupported_encoding", 415, "The body's encoding is not supported",
		"A body may be as it is, or compressed with gzip.",
		"Leave Content-Encoding out, or say gzip.", ""},
	{"host_not_allowed", 421, "The Host header does not name this machine",
		"Without tokens the server answers to names of this machine only, so that a web page cannot reach it by a name of its own.",
		"Ask for localhost or a loopback address, or set up tokens.", "auth.tokens_file"},
	{"bad_field", 422, "Value is not allowed",
		"A header, a parameter or a member has a value that nobody can take for sure, or is unknown.",
		"Field, got and limit say which, and what is allowed.", ""},
	{"bad_request", 422, "The request is not allowed",
		"Values that are allowed each are not together.",
		"Look at detail.", ""},
	{"delay_level", 422, "There is no such delay level",
		"Levels are 0 or more; 1 is the first of the table.",
		"GET /v1/limits shows the table. A level above the last counts as the last.", "timer.levels"},
	{"delay_too_long", 422, "The delay exceeds max_delay",
		"A message may be due so far ahead.",
		"Send at most that, or raise the limit, up to 100y.", "timer.max_delay"},
	{"due_time", 422, "The due time is not allowed",
		"Due times lie in the years 1970 to 9999.",
		"Times in ms are since 1970; seconds are not guessed.", ""},
	{"group_name", 422, "Group name is not allowed",
		"Names have 1 to 120 characters of A-Z a-z 0-9 _ % -.",
		"Choose another name.", ""},
	{"not_supported_yet", 422, "This version cannot do that yet",
		"A later version will; ignoring it would do something else than was asked for.",
		"Leave it out.", ""},
	{"offset", 422, "Offset is not allowed",
		"It is beyond the queue's end, or goes back without seek.",
		"Set seek to go back.", ""},
	{"properties", 422, "Properties are not allowed",
		"A name is reserved or empty, or all together are too large.",
		"GET /v1/limits shows what is allowed.", ""},
	{"queue_out_of_range", 422, "The topic has no such queue",
		"Queues are numbered from 0.",
		"GET /v1/topics/{topic} lists them.", ""},
	{"topic_name", 422, "Topic name is not allowed",
		"Names have 1 to 127 characters of A-Z a-z 0-9 _ % -.",
		"Choose another name.", ""},
	{"client_gone", 499, "The client has gone",
		"The connection ended before the answer; nobody sees this but a log.",
		"There is nothing to do.", ""},
	{"damaged", 500, "Stored data is damaged",
		"Bytes of file do not have their checksum, at offset.",
		"Stop the server and run: tidewheel data check. The guide to failure modes says how to go on.", ""},
	{"internal", 500, "Something went wrong in the server",
		"Nobody expected this.",
		"Report it, with detail.", ""},
	{"backlog", 503, "Checkpoints cannot be written; delivering and cancelling go on",
		"So much log would have to be read at a start that no more is taken.",
		"Look at the disk and at GET /v1/status, and try again.", ""},
	{"closing", 503, "The server is stopping",
		"It was told to end. What was answered is kept; what waited was not done.",
		"Try again.", ""},
	{"failed", 503, "A write to disk failed; nothing more is stored",
		"A write of the log or a sync failed, and no later sync is believed.",
		"Look at the disk, then restart the server. Reads go on.", ""},
	{"recovering", 503, "The server is starting",
		"It reads the end of its log; done_bytes of all_bytes are read.",
		"Try again.", ""},
	{"unknown_outcome", 503, "The request may or may not have been done",
		"The connection or the server ended after the request was taken.",
		"Look whether it was done, or send it again and expect it twice.", ""},
	{"disk_full", 507, "The disk is full; delivering and cancelling go on",
		"There is no room for the log, or it has reached its limit.",
		"Make room. It goes on by itself.", "log.high_water"},
}

// known maps the errors of broker and engine to codes. The first that fits counts.
var known = []struct {
	err   error
	code  string
	limit string
	fix   string
}{
	{broker.ErrUnknown, "unknown_outcome", "", "look whether it was, or send it again and expect it twice"},
	{engine.ErrFailed, "failed", "", "look at the disk, then restart the server"},
	{broker.ErrClosed, "closing", "", "try again"},
	{broker.ErrExpired, "lease_expired", "", "the message comes again"},
	{broker.ErrReceipt, "unknown_receipt", "", ""},
	{broker.ErrBroadcast, "broadcast", "", ""},
	{engine.ErrNoGroup, "unknown_group", "", "GET /v1/groups lists them"},
	{engine.ErrNoTopic, "unknown_topic", "", "send a message to it, or make it with PUT /v1/topics/{topic}"},
	{engine.ErrTopicName, "topic_name", "1 to 127 of A-Z a-z 0-9 _ % -", ""},
	{engine.ErrGroupName, "group_name", "1 to 120 of A-Z a-z 0-9 _ % -", ""},
	{engine.ErrQueue, "queue_out_of_range", "", "GET /v1/topics/{topic} lists them"},
	{engine.ErrLevel, "delay_level", "0 or more", "GET /v1/limits shows the table; above the last counts as the last"},
	{engine.ErrDelay, "delay_too_long", "", "GET /v1/limits shows it; [timer] max_delay raises it, up to 100y"},
	{engine.ErrDue, "due_time", "the years 1970 to 9999", ""},
	{engine.ErrTooLate, "too_late", "", ""},
	{engine.ErrNoMessage, "body_deleted", "", ""},
	{engine.ErrTooLarge, "too_large", "", "GET /v1/limits shows what is allowed"},
	{engine.ErrProperties, "properties", "", "GET /v1/limits shows what is allowed"},
	{engine.ErrOffset, "offset", "", "set seek to go back"},
	{engine.ErrTrimmed, "trimmed", "", "go on from the queue's min"},
	{engine.ErrDiskFull, "disk_full", "", "make room"},
	{engine.ErrBacklog, "backlog", "", "look at the disk and at GET /v1/status, and try again"},
	{engine.ErrHole, "given_up", "", ""},
	{context.Canceled, "client_gone", "", ""},
	{broker.ErrRequest, "bad_request", "", ""},
	{engine.ErrBadCommand, "bad_request", "", ""},
}

package httpapi_test

import "time"

// step is one request of the story, and what the document shows as an example.
type step struct {
	op, name string
	path     string              // "name=value" of the parameters of the path, by spaces
	query    map[string][]string // as header
	header   map[string][]string
	media    string // of the body
	body     string
	status   int
	keep     string        // a member of the answer that later steps use
	as       string        // by this name: {{name}}
	advance  time.Duration // of the clock, before it
	loose    bool          // what is answered is not the same each time
	events   int           // of a stream, to be read
	until    string        // the state, which is asked for again
}

func pairs(list ...string) map[string][]string {
	m := map[string][]string{}
	for i := 0; i < len(list); i += 2 {
		m[list[i]] = append(m[list[i]], list[i+1])
	}
	return m
}

const (
	jsonType = "application/json"
	rawType  = "application/octet-stream"
)

// story is told to a new server whose clock stands at startMs. Every operation of the document has a step at least.
var story = []step{
	{op: "defineTopic", name: "make", path: "topic=orders", media: jsonType, body: `{"queues":2}`, status: 200},
	{op: "putMessage", name: "now", path: "topic=orders", media: rawType, body: `{"id":41}`,
		header: pairs("Tidewheel-Queue", "0", "Tidewheel-Property", "shop=1", "Tidewheel-Property", "trace=a=b"), status: 201, keep: "id", as: "id"},
	{op: "putMessage", name: "in_30_minutes", path: "topic=orders", media: rawType, body: `{"id":42}`,
		header: pairs("Tidewheel-Delay", "30m", "Tidewheel-Key", "order-42", "Tidewheel-Tag", "unpaid"), status: 201, keep: "handle", as: "h1"},
	{op: "putMessage", name: "once", path: "topic=orders", media: rawType, body: `{"id":40}`,
		header: pairs("Tidewheel-Queue", "1", "Idempotency-Key", `"order-40"`), status: 201},
	{op: "putMessage", name: "once_again", path: "topic=orders", media: rawType, body: `{"id":40}`,
		header: pairs("Tidewheel-Queue", "1", "Idempotency-Key", `"order-40"`), status: 201},
	{op: "putMessage", name: "another_with_its_key", path: "topic=orders", media: rawType, body: `{"id":39}`,
		header: pairs("Tidewheel-Queue", "1", "Idempotency-Key", `"order-40"`), status: 422},
	{op: "putMessage", name: "at_a_time", path: "topic=orders", media: rawType, body: `{"id":43}`,
		header: pairs("Tidewheel-Deliver-At", "2026-12-01T18:00:00+01:00"), status: 201, keep: "handle", as: "h2"},
	{op: "putMessage", name: "at_ms", path: "topic=orders", media: rawType, body: `{"id":44}`,
		header: pairs("Tidewheel-Deliver-At-Ms", "1796122800000"), status: 201},
	{op: "putMessage", name: "level_3", path: "topic=orders", media: rawType, body: `{"id":45}`,
		header: pairs("Tidewheel-Delay-Level", "3"), status: 201},
	{op: "putMessage", name: "envelope", path: "topic=orders", media: "application/vnd.tidewheel+json",
		body: `{"body":"{\"id\":46}","delay":"2h","key":"order-46","tag":"unpaid","properties":{"shop":"1"}}`, status: 201, keep: "handle", as: "h3"},
	{op: "putMessage", name: "json_envelope", path: "topic=orders", media: jsonType,
		body: `{"body":"{\"id\":47}","delay":"3h"}`, status: 201},
	{op: "putMessage", name: "json_of_either_kind", path: "topic=orders", media: rawType, body: `{"body":"x","delay":"3h"}`, status: 422},
	{op: "putMessage", name: "too_far_ahead", path: "topic=orders", media: "application/vnd.tidewheel+json",
		body: `{"body":"x","delay":"9d"}`, status: 422},
	{op: "putMessage", name: "misspelt_member", path: "topic=orders", media: "application/vnd.tidewheel+json",
		body: `{"body":"x","dealy":"5m"}`, status: 400},
	{op: "putBatch", name: "three_lines", media: "application/x-ndjson",
		body: `"{\"topic\":\"orders\",\"body\":\"a\",\"queue\":1}\n{\"topic\":\"orders\",\"body\":\"b\",\"delay\":\"1h\"}\n{\"topic\":\"orders\",\"body\":\"c\",\"delay\":\"9d\"}\n"`, status: 200},
	{op: "pullMessages", name: "all", path: "topic=orders", query: pairs("max", "10"), status: 200},
	{op: "pullMessages", name: "one_queue", path: "topic=orders", query: pairs("queue", "0", "offset", "0", "wait", "1s"), status: 200},
	{op: "pullMessages", name: "no_topic", path: "topic=nosuch", status: 404},
	{op: "pullMessages", name: "as_a_group", path: "topic=orders", query: pairs("group", "mail", "ack_timeout", "1m", "max", "1"), status: 200,
		keep: "messages.0.receipt", as: "r1", loose: true},
	{op: "extend", name: "two_minutes", path: "topic=orders", media: jsonType, body: `{"receipt":"{{r1}}","ack_timeout":"2m"}`, status: 204},
	{op: "ack", name: "receipts", path: "topic=orders", media: jsonType, body: `{"receipts":["{{r1}}","forged"]}`, status: 200, loose: true},
	{op: "pullMessages", name: "the_next", path: "topic=orders", query: pairs("group", "mail", "max", "1"), status: 200,
		keep: "messages.0.receipt", as: "r2", loose: true},
	{op: "retry", name: "in_10_seconds", path: "topic=orders", media: jsonType, body: `{"receipt":"{{r2}}","delay":"10s","reason":"mail server is down"}`, status: 200},
	{op: "pullMessages", name: "put_off", path: "topic=orders", query: pairs("group", "mail", "wait", "20s", "max", "1"), status: 200, advance: 11 * time.Second,
		keep: "messages.0.receipt", as: "r3", loose: true},
	{op: "retry", name: "give_up", path: "topic=orders", media: jsonType, body: `{"receipt":"{{r3}}","reject":true,"reason":"no such address"}`, status: 200},
	{op: "retry", name: "too_late", path: "topic=orders", media: jsonType, body: `{"receipt":"{{r3}}"}`, status: 409},
	{op: "listDeadGroups", name: "all", status: 200},
	{op: "listDeadLetters", name: "mail", path: "group=mail", query: pairs("reason", "address"), status: 200},
	{op: "showDeadLetter", name: "first", path: "group=mail offset=0", status: 200},
	{op: "retryDeadLetters", name: "count", path: "group=mail", media: jsonType, body: `{"reason":"address","dry_run":true}`, status: 200},
	{op: "retryDeadLetters", name: "retry", path: "group=mail", media: jsonType, body: `{"offsets":["0"],"to_group":true}`, status: 200},
	{op: "dropDeadLetters", name: "all", path: "group=mail", media: jsonType, body: `{"all":true}`, status: 200},
	{op: "defineGroup", name: "make", path: "group=audit", media: jsonType, body: `{"mode":"clustering"}`, status: 200},
	{op: "listGroups", name: "all", status: 200, loose: true},
	{op: "showGroup", name: "mail", path: "group=mail", status: 200, loose: true},
	{op: "showGroup", name: "unknown", path: "group=nosuch", status: 404},
	{op: "seek", name: "back_to_a_time", path: "group=mail", media: jsonType, body: `{"topic":"orders","time":"2026-11-30T10:00:00Z"}`, status: 200},
	{op: "seek", name: "offsets", path: "group=mail", media: jsonType, body: `{"topic":"orders","offsets":[{"queue":0,"offset":"0"}]}`, status: 200},
	{op: "deleteGroup", name: "delete", path: "group=audit", status: 204},
	{op: "pauseTopic", name: "pause", path: "topic=orders", status: 200},
	{op: "resumeTopic", name: "resume", path: "topic=orders", status: 200},
	{op: "ack", name: "commit", path: "topic=orders", media: jsonType,
		body: `{"group":"billing","offsets":[{"queue":0,"offset":"1"}]}`, status: 204},
	{op: "listTimers", name: "unpaid", query: pairs("topic", "orders", "tag", "unpaid", "to", "+1d", "limit", "10"), status: 200},
	{op: "showTimer", name: "waiting", path: "handle={{h1}}", status: 200},
	{op: "moveTimer", name: "two_hours_later", path: "handle={{h1}}", media: jsonType, body: `{"by":"+2h"}`, status: 200, keep: "handle", as: "h4"},
	{op: "moveTimer", name: "in_5_minutes", path: "handle={{h4}}", media: jsonType, body: `{"delay":"5m"}`, status: 200, keep: "handle", as: "h5"},
	{op: "moveTimer", name: "old_handle", path: "handle={{h1}}", media: jsonType, body: `{"delay":"5m"}`, status: 409},
	{op: "explainTimer", name: "moved", path: "handle={{h5}}", status: 200},
	{op: "cancelTimer", name: "cancel", path: "handle={{h5}}", status: 200},
	{op: "cancelTimer", name: "again", path: "handle={{h5}}", status: 200},
	{op: "undoTimer", name: "undo", path: "handle={{h5}}", status: 200},
	{op: "fireTimer", name: "fire", path: "handle={{h2}}", status: 200, keep: "handle", as: "h6"},
	{op: "showTimer", name: "delivered", path: "handle={{h6}}", status: 200, until: "delivered"},
	{op: "cancelTimer", name: "too_late", path: "handle={{h6}}", status: 409, loose: true},
	{op: "cancelTimer", name: "unknown", path: "handle=tw1.forged", status: 404},
	{op: "levels", name: "levels", status: 200},
	{op: "events", name: "from_the_begin", query: pairs("from", "first"), status: 200, events: 4, loose: true},
	{op: "events", name: "go_on", header: pairs("Last-Event-ID", "5"), status: 200, events: 1, loose: true},
	{op: "events", name: "no_position", query: pairs("from", "soon"), status: 422},
	{op: "horizon", name: "hours", query: pairs("step", "1h", "to", "+3h"), status: 200},
	{op: "showMessage", name: "by_id", path: "id={{id}}", status: 200},
	{op: "showMessage", name: "unknown", path: "id=1-2", status: 404},
	{op: "bulk", name: "count", media: jsonType, body: `{"action":"move","by":"+2h","filter":{"topic":"orders","to":"+1d"},"dry_run":true}`, status: 200},
	{op: "bulk", name: "preview", media: jsonType, body: `{"action":"cancel","filter":{"tags":["unpaid"]}}`, status: 200, keep: "confirm", as: "confirm", loose: true},
	{op: "bulk", name: "start", media: jsonType, body: `{"confirm":"{{confirm}}"}`, status: 202, keep: "id", as: "bulk", loose: true},
	{op: "bulk", name: "start_twice", media: jsonType, body: `{"confirm":"{{confirm}}"}`, status: 409},
	{op: "showBulk", name: "progress", path: "id={{bulk}}", status: 200, loose: true, until: "done"},
	{op: "listBulk", name: "all", status: 200, loose: true},
	{op: "stopBulk", name: "stop", path: "id={{bulk}}", status: 200, loose: true},
	{op: "config", name: "all", status: 200},
	{op: "advanceClock", name: "real_clock", media: jsonType, body: `{"advance":"48h"}`, status: 403},
	{op: "metrics", name: "scrape", status: 200, loose: true},
	{op: "listTopics", name: "all", status: 200, loose: true},
	{op: "showTopic", name: "orders", path: "topic=orders", status: 200},
	{op: "limits", name: "limits", status: 200},
	{op: "time", name: "now", status: 200},
	{op: "plugins", name: "all", status: 200, loose: true},
	{op: "showPlugin", name: "tenant_filter", path: "plugin=tenant-filter", status: 200, loose: true},
	{op: "showPlugin", name: "unknown", path: "plugin=nosuch", status: 404},
	{op: "pluginLogs", name: "lines", path: "plugin=tenant-filter", status: 200},
	{op: "reloadPlugin", name: "nothing_new", path: "plugin=tenant-filter", status: 200, loose: true},
	{op: "reloadPlugin", name: "missing_file", path: "plugin=no-file", status: 422},
	{op: "rollbackPlugin", name: "nothing_before", path: "plugin=tenant-filter", status: 409},
	{op: "rollbackPlugin", name: "after_a_reload", path: "plugin=replaced", status: 200, loose: true},
	{op: "verifyPlugin", name: "all_agree", path: "plugin=tenant-filter", query: pairs("limit", "1000"), status: 200, loose: true},
	{op: "verifyPlugin", name: "no_position", path: "plugin=tenant-filter", query: pairs("from", "first"), status: 422},
	{op: "healthz", name: "ok", status: 200},
	{op: "readyz", name: "ok", status: 200},
	{op: "status", name: "ready", status: 200},
	{op: "problems", name: "all", status: 200},
	{op: "problem", name: "text", path: "code=delay-too-long", status: 200},
	{op: "problem", name: "no_such", path: "code=nosuch", status: 404},
	{op: "openapi", name: "document", status: 200},
	{op: "defineTopic", name: "make_another", path: "topic=old", media: jsonType, body: `{"queues":1}`, status: 200},
	{op: "deleteTopic", name: "delete", path: "topic=old", status: 204},
}

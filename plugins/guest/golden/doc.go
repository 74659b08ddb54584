// Package golden is what tests of plugins are written in: files of records, and files of the verdicts that a plugin gives on
// them. The same files hold for the plugin's code in a native test and for the compiled module in its host.
//
// A directory of tests, testdata by custom, has
//
//	config.json                  the plugin's configuration, a JSON object; may be missing
//	HOOK.ndjson                  records for a hook: publish, filter, transform, prepare or result
//	HOOK-WHAT.ndjson             more records for the hook
//	HOOK.verdicts.ndjson         the verdicts on the records of HOOK.ndjson, one line for each of its lines
//
// A line of records is a JSON object. All members may be missing:
//
//	why            a remark for the reader
//	topic, key     of the message
//	tag            of the message; a header TAGS for the plugin
//	properties     of the message, an object of strings; headers for the plugin, sorted by name after the tag. For result, the
//	               headers of the response
//	body           a string, or any other JSON value, which is then itself the body, byte by byte
//	body_base64    instead of body, for bytes that are not text
//	id, stored_ms, due_ms, attempt
//	status         for result, the HTTP status of the response; 0 when none came, and the body is then the reason
//	cut            for result, whether the response was longer than the host takes, and the body is its beginning
//	now_ms         the time of the call; DefaultNowMs when missing. Lines that follow each other with the same time are one batch
//
// A line of verdicts:
//
//	action         keep, drop, retry, dead_letter, route, replace, defer; or error, when the plugin could not decide
//	code           the plugin's number for the reason; missing when 0
//	delay_ms       for retry
//	target         for route, the index of the target
//	record         for replace, what takes the message's place: topic, key, tag, properties, body or body_base64
//	request        for prepare, the request to send: method, url, headers, body or body_base64
//	failure, text  for error, the class of the failure, and its message when the plugin gave it itself
//
// Unknown members are errors, which name the file and the line. Empty lines do not count.
package golden

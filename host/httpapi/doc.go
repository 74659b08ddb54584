// Package httpapi serves a broker over HTTP, with JSON or raw bodies. One table of routes says all there is:
//
//	POST   /v1/topics/{topic}/messages   store a message
//	POST   /v1/messages/batch            store many: NDJSON in, NDJSON out
//	GET    /v1/topics/{topic}/messages   read messages, waiting for them if asked to
//	POST   /v1/topics/{topic}/ack        commit how far a group has come
//	GET    /v1/timers                    list waiting messages, in the order of their due times
//	GET    /v1/timers/{handle}           what became of a delayed message, and its body while it waits
//	DELETE /v1/timers/{handle}           cancel it
//	PATCH  /v1/timers/{handle}           give it another due time
//	POST   /v1/timers/{handle}/fire      deliver it now
//	POST   /v1/timers/{handle}/undo      take a cancel back
//	GET    /v1/timers/{handle}/explain   its life, and why it is where it is
//	GET    /v1/horizon                   how many messages fall due when
//	GET    /v1/topics                    list topics
//	GET    /v1/topics/{topic}            show a topic
//	PUT    /v1/topics/{topic}            make a topic, or change its queues
//	GET    /v1/status                    counts
//	GET    /v1/limits                    what is refused
//	GET    /healthz, /readyz             for supervisors
//
// # Storing
//
// The body of POST …/messages is the message, whatever its content type; the rest stands in headers:
//
//	Tidewheel-Delay: 30m                 or 7d12h; units are y w d h m s ms
//	Tidewheel-Deliver-At: 2026-12-24T18:00:00+01:00
//	Tidewheel-Deliver-At-Ms: 1798131600000
//	Tidewheel-Delay-Level: 3             1 is the first level of the table; none or 0: visible at once
//	Tidewheel-Key: order-42
//	Tidewheel-Tag: unpaid
//	Tidewheel-Queue: 0                   none: the broker chooses
//	Tidewheel-Property: name=value       as often as needed
//
// At most one of the first four may be there. A time that cannot be read is refused, and never means at once; one that has
// passed does, and the answer says "past".
//
// With Content-Type: application/vnd.tidewheel+json the body is an Envelope instead. It has a type of its own since
// application/json may well be what the message itself is. A batch is one Envelope a line, with a topic in each.
//
// # Waiting messages
//
// Cancel, move, fire and undo answer definitely, also after a crash. 200 has the outcome; 409 is a problem with code
// already_delivered, superseded (the handle of the move counts), already_cancelled, or too_late (an undo after the due
// time); 404 is not_found. A move answers the new handle.
//
//	PATCH /v1/timers/{handle}   {"delay":"5m"}, {"deliver_at":"…"}, {"deliver_at_ms":…} or {"by":"+2h"}
//	GET /v1/timers?topic=t&tag=a&tag=b&key=k&from=@0&to=%2B1h&limit=100&page=…
//	GET /v1/horizon?topic=t&from=…&to=…&step=1h
//
// Times in a query are RFC 3339 with an offset, @ms since 1970, or a duration from now; + has to be written %2B. Tags and
// keys are compared by their hashes. One look at a list is bounded: an empty page may have a next one, and scanned_to_ms
// says how far it looked. The horizon of all topics in whole hours is exact and costs nothing; any other is counted, and
// says how far it came.
//
// # Rules of the wire
//
// Offsets and positions are strings, since they do not fit a JavaScript number; counts and times (ms since 1970) are
// numbers. A body that is valid UTF-8 is "body", any other "body_base64". Nothing is guessed: unknown fields, two
// answers to one question, and what this version can't do are refused. Refusals are problems as in RFC 9457, with the
// members of Problem.
//
// # What is refused from outside
//
// Listen takes loopback addresses only. A request must name a loopback host in its Host header, so that a web page
// can't reach the store by a name that it points at 127.0.0.1, and a browser's cross-origin writes are refused.
package httpapi

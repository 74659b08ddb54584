// Package httpapi serves a broker over HTTP, with JSON or raw bodies. One table of routes says all there is:
//
//	POST   /v1/topics/{topic}/messages   store a message
//	POST   /v1/messages/batch            store many: NDJSON in, NDJSON out
//	GET    /v1/topics/{topic}/messages   read messages, waiting for them if asked to
//	POST   /v1/topics/{topic}/ack        commit how far a group has come
//	GET    /v1/timers/{handle}           what became of a delayed message
//	DELETE /v1/timers/{handle}           cancel it
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
//	Tidewheel-Delay-Level: 3             1 is the first level of the table; none or 0: visible at once
//	Tidewheel-Key: order-42
//	Tidewheel-Tag: unpaid
//	Tidewheel-Queue: 0                   none: the broker chooses
//	Tidewheel-Property: name=value       as often as needed
//
// With Content-Type: application/vnd.tidewheel+json the body is an Envelope instead. It has a type of its own since
// application/json may well be what the message itself is. A batch is one Envelope a line, with a topic in each.
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

// Package httpapi serves a broker over HTTP, with JSON or raw bodies.
//
//	api := httpapi.Handler(b, httpapi.Options{})
//	defer api.Close()
//	l, err := httpapi.Options{}.Listen("127.0.0.1:7070")
//	err = httpapi.NewServer(api, log).Serve(l)
//
// One table of routes says all there is: it registers the handlers, refuses what it does not know, and is /openapi.json
// (OpenAPI 3.1) and docs/http.md. Each row has its method, path, role, parameters, bodies and problems, and stands beside
// its handler. A test runs every example of the document against a live server.
//
// Within another program the API is an http.Handler with a prefix: mux.Handle("/tidewheel/", httpapi.Handler(b,
// httpapi.Options{Prefix: "/tidewheel", AnyHost: true})), whose own authentication says who may ask; the metrics of its
// broker are httpapi.Collector(b) for its own registry.
//
// # Rules of the wire
//
// Offsets and positions are strings, since they do not fit a JavaScript number; counts and times (ms since 1970) are
// numbers. A body that is valid UTF-8 is "body", any other "body_base64". Nothing is guessed: unknown fields, two
// answers to one question, and times that cannot be read are refused. Refusals are problems as in RFC 9457, with the
// members of Problem; the catalogue has each code once, with its cause, its cure and the key of the configuration, and
// /problems/{code} shows it.
//
// A raw message has its headers, an Envelope (Content-Type EnvelopeType, or envelope=true in the query) its members. It has
// a type of its own since application/json may well be what the message itself is; JSON that could be either is refused.
//
// # Who may ask
//
// Without Options.Tokens everybody may do everything, so Listen takes addresses of this machine only, and a request must
// name a loopback host in its Host header, so that a web page can't reach the store by a name that it points at
// 127.0.0.1. A browser's cross-origin writes are refused always. Beyond this machine Listen asks for Tokens and for a
// Certificate. Nothing of a stranger's body is read.
//
// # Peers that harm
//
// Headers have 5 s and 48 KiB, a body has 30 s and its limit, an answer that is not taken has 30 s; what a compressed
// body holds counts, not its length. A peer that goes away while it waits is let go at once. Connections are bounded.
package httpapi

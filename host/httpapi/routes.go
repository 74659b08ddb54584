package httpapi

import (
	"net/http"
	"reflect"
	"slices"
)

// route is one row of the table: what is registered with the mux, what is checked before the handler runs, and what
// /openapi.json and docs/http.md say.
type route struct {
	method, pattern string
	id              string // the operation's name in the document
	group           string // the chapter of the document
	role            Role
	summary         string
	text            string // more than the summary, if there is more to say
	params          []param
	takes           []content // what the body may be; nil: there is none, and what is sent is not read
	gives           []content // what a success is; nil: 204 without a body
	status          int       // of a success; 0: 200, or 204 without a body
	also            int       // another status of a success; 0: none
	problems        []string  // codes that are the route's own; commonProblems come on top
	waits           bool      // it may take long to answer, since it waits for something
	early           bool      // it answers also while the server is starting
	handle          func(*API, *call) error
}

// content is a body: its media type, and the Go type that is its JSON; nil when it has no form of its own.
type content struct {
	media string
	typ   reflect.Type
	text  string
}

// The media types of bodies.
const (
	jsonMedia  = "application/json"
	lineMedia  = "application/x-ndjson"
	eventMedia = "text/event-stream"
	plainMedia = "text/plain; charset=utf-8"
	pageMedia  = "text/html; charset=utf-8"
	rawMedia   = "application/octet-stream"
)

// jsonOf is a JSON body of a type.
func jsonOf[T any]() []content { return []content{{jsonMedia, reflect.TypeFor[T](), ""}} }

// routes is all there is, family by family; each stands beside its handlers.
var routes = slices.Concat(
	messageRoutes, leaseRoutes, timerRoutes, eventRoutes, bulkRoutes, topicRoutes, groupRoutes, letterRoutes, pluginRoutes, statusRoutes, adminRoutes, documentRoutes,
)

// code is the status of a success.
func (rt *route) code() int {
	switch {
	case rt.status != 0:
		return rt.status
	case rt.gives == nil:
		return http.StatusNoContent
	}
	return http.StatusOK
}

// writes says whether the route changes something whatever is asked.
func (rt *route) writes() bool { return rt.role > RoleRead }

// kind is how a parameter is written.
type kind uint8

const (
	kindText  kind = iota
	kindWhole      // a whole number in [min, max]
	kindSpan       // a duration, "7d12h"
	kindWhen       // a time, as package instant has it
	kindYes        // true or false
)

// Where a parameter stands.
const (
	inPath   = "path"
	inQuery  = "query"
	inHeader = "header"
)

// param is a parameter of a route. Whatever else stands in a query is refused, since a misspelt one would be ignored.
type param struct {
	in, name string
	kind     kind
	min, max int64  // of a whole number
	def      string // what counts when it is not there; empty: nothing
	words    []string
	list     bool // it may be there more than once
	text     string
}

// The parameters of paths.
var (
	topicParam  = param{in: inPath, name: "topic", text: "the topic's name"}
	handleParam = param{in: inPath, name: "handle", text: "the handle that a put, a move or an undo answered"}
)

// param finds a parameter by its name.
func (rt *route) param(in, name string) (param, bool) {
	for _, p := range rt.params {
		if p.in == in && p.name == name {
			return p, true
		}
	}
	return param{}, false
}

// names lists the parameters of one place.
func (rt *route) names(in string) []string {
	var names []string
	for _, p := range rt.params {
		if p.in == in {
			names = append(names, p.name)
		}
	}
	return names
}

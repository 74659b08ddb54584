package httpapi

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// recorded are the examples of the document: requests that a test sends to a live server, with the answers that it got.
// The test keeps them equal to what a server answers; with -update it records them anew.
//
//go:embed examples.json
var recorded []byte

// exchange is one recorded request with its answer.
type exchange struct {
	Operation string              `json:"operation"`
	Name      string              `json:"name"`
	Path      map[string]string   `json:"path,omitempty"`
	Query     map[string][]string `json:"query,omitempty"`
	Header    map[string][]string `json:"header,omitempty"`
	Media     string              `json:"media,omitempty"`
	Body      json.RawMessage     `json:"body,omitempty"` // a JSON body, or a string that is the body
	Status    int                 `json:"status"`
	GotMedia  string              `json:"got_media,omitempty"`
	Got       json.RawMessage     `json:"got,omitempty"` // as Body
}

// exchanges reads the recorded examples. They are part of the program, and a test reads them.
func exchanges() []exchange {
	var list []exchange
	_ = json.Unmarshal(recorded, &list)
	return list
}

// isJSON says whether bodies of a media type are JSON values.
func isJSON(media string) bool { return media == jsonMedia || strings.HasSuffix(media, "+json") }

// groups are the chapters of the document, in its order.
var groups = [...]struct{ name, text string }{
	{"Messages", "Storing and reading messages."},
	{"Timers", "Messages that wait for their time."},
	{"Bulk", "Changes of many messages that wait."},
	{"Topics", "Topics and their queues."},
	{"Groups", "Consumer groups: who reads together, and how far it is."},
	{"Dead letters", "Messages that a group gave up."},
	{"Plugins", "WASM modules that decide about messages."},
	{"Server", "How the server is, and what it refuses."},
	{"Documents", "What there is, and what problems mean."},
}

// openAPI is the document about the routes, OpenAPI 3.1.
func openAPI(opts Options) object {
	s := newSchemas()
	for _, rt := range routes {
		for _, c := range rt.takes {
			if c.typ != nil {
				s.take(c.typ)
			}
		}
	}
	examples := map[string][]exchange{}
	for _, x := range exchanges() {
		examples[x.Operation] = append(examples[x.Operation], x)
	}
	paths := object{}
	for i := range routes {
		rt := &routes[i]
		path, _ := paths[rt.pattern].(object)
		if path == nil {
			path = object{}
			paths[rt.pattern] = path
		}
		path[strings.ToLower(rt.method)] = rt.operation(s, examples[rt.id])
	}
	var tags []object
	for _, g := range groups {
		tags = append(tags, object{"name": g.name, "description": g.text})
	}
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Tidewheel", "version": "1",
			"description": "A durable delay engine. Offsets and positions are strings, since they do not fit a JavaScript number; " +
				"counts and times, ms since 1970, are numbers. Nothing is guessed: unknown members, parameters and headers " +
				"beginning with Tidewheel- are refused. Refusals are problems as in RFC 9457.",
			"license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"servers": []object{{"url": cmp.Or(opts.Prefix, "/")}},
		"tags":    tags,
		"paths":   paths,
		"components": object{
			"schemas": s.named,
			"securitySchemes": object{"bearer": object{
				"type": "http", "scheme": "bearer",
				"description": "A token of the tokens file. A server without one listens on this machine only, and asks for none.",
			}},
		},
	}
}

// operation is one route in the document.
func (rt *route) operation(s *schemas, examples []exchange) object {
	op := object{"operationId": rt.id, "tags": []string{rt.group}, "summary": rt.summary, "x-role": rt.role.String()}
	if text := rt.describe(); text != "" {
		op["description"] = text
	}
	if rt.role == RoleNone {
		op["security"] = []object{}
	} else {
		op["security"] = []object{{"bearer": []string{}}, {}}
	}
	if rt.waits {
		op["x-waits"] = true
	}
	var params []object
	for _, p := range rt.params {
		params = append(params, p.document(examples))
	}
	if params != nil {
		op["parameters"] = params
	}
	if rt.takes != nil {
		bodies := object{}
		for _, c := range rt.takes {
			body := c.document(s)
			if shown := shown(examples, func(x exchange) (json.RawMessage, bool) { return x.Body, x.Media == c.media }); shown != nil {
				body["examples"] = shown
			}
			bodies[c.media] = body
		}
		op["requestBody"] = object{"required": true, "content": bodies}
	}
	op["responses"] = rt.responses(s, examples)
	return op
}

// describe is the text of a route, with the role that it needs.
func (rt *route) describe() string {
	if rt.role == RoleNone {
		return rt.text
	}
	return strings.TrimSpace(rt.text + " Role: " + rt.role.String() + ".")
}

// value is a parameter's text as JSON has it.
func (p param) value(text string) any {
	switch p.kind {
	case kindWhole:
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
	case kindYes:
		return text == "true"
	}
	return text
}

// document is the parameter in the document.
func (p param) document(examples []exchange) object {
	out := object{"name": p.name, "in": p.in, "schema": p.schema(), "required": p.in == inPath}
	if p.text != "" {
		out["description"] = p.text
	}
	all := object{}
	for _, x := range examples {
		switch {
		case p.in == inPath && x.Path[p.name] != "":
			all[x.Name] = object{"value": x.Path[p.name]}
		case p.in == inQuery && x.Query[p.name] != nil:
			all[x.Name] = object{"value": p.values(x.Query[p.name])}
		case p.in == inHeader && x.Header[p.name] != nil:
			all[x.Name] = object{"value": p.values(x.Header[p.name])}
		}
	}
	if len(all) > 0 {
		out["examples"] = all
	}
	return out
}

// values is what was sent for a parameter as JSON has it.
func (p param) values(texts []string) any {
	if !p.list {
		return p.value(texts[0])
	}
	var list []any
	for _, text := range texts {
		list = append(list, p.value(text))
	}
	return list
}

// document is a body in the document. Of lines the schema is that of a string, since OpenAPI has no other word for them.
func (c content) document(s *schemas) object {
	out := object{"schema": object{}}
	switch {
	case c.typ != nil && isJSON(c.media):
		out["schema"] = s.of(c.typ)
	case c.typ != nil:
		s.of(c.typ)
		out["schema"] = object{"type": "string", "description": "each line is one " + c.typ.Name()}
		out["x-item"] = object{"$ref": "#/components/schemas/" + c.typ.Name()}
	case c.text != "":
		out["schema"] = object{"description": c.text}
	}
	return out
}

// shown are the bodies of examples that belong somewhere, as the document shows them; nil when there are none.
func shown(examples []exchange, body func(exchange) (json.RawMessage, bool)) object {
	all := object{}
	for _, x := range examples {
		if b, here := body(x); here && b != nil {
			all[x.Name] = object{"value": b}
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// responses are the route's answers: the success, and the problems by their status.
func (rt *route) responses(s *schemas, examples []exchange) object {
	out := object{strconv.Itoa(rt.code()): rt.success(s, examples, rt.code())}
	if rt.also != 0 {
		out[strconv.Itoa(rt.also)] = rt.success(s, examples, rt.also)
		if rt.also == http.StatusNoContent {
			out[strconv.Itoa(rt.also)] = object{"description": rt.summary}
		}
	}
	for status, codes := range rt.problemsByStatus() {
		var titles []string
		for _, code := range codes {
			titles = append(titles, code+": "+kindOf(code).title)
		}
		body := content{ProblemType, problemContent.typ, ""}.document(s)
		shown := shown(examples, func(x exchange) (json.RawMessage, bool) { return x.Got, x.Status == status })
		if shown != nil {
			body["examples"] = shown
		}
		out[strconv.Itoa(status)] = object{
			"description": strings.Join(titles, "\n"), "x-codes": codes, "content": object{ProblemType: body},
		}
	}
	return out
}

// success is the answer of a status that is no problem.
func (rt *route) success(s *schemas, examples []exchange, status int) object {
	bodies := object{}
	for _, c := range rt.gives {
		body := c.document(s)
		shown := shown(examples, func(x exchange) (json.RawMessage, bool) {
			return x.Got, x.Status == status && x.GotMedia == c.media
		})
		if shown != nil {
			body["examples"] = shown
		}
		bodies[c.media] = body
	}
	success := object{"description": rt.summary}
	if len(bodies) > 0 {
		success["content"] = bodies
	}
	return success
}

// problemsByStatus are the codes that the route may answer.
func (rt *route) problemsByStatus() map[int][]string {
	by := map[int][]string{}
	for _, code := range slices.Sorted(maps.Keys(rt.allProblems())) {
		status := kindOf(code).status
		by[status] = append(by[status], code)
	}
	return by
}

// allProblems are the route's own problems and those that any such route has.
func (rt *route) allProblems() map[string]bool {
	all := map[string]bool{"host_not_allowed": true, "cross_origin": true, "internal": true}
	add := func(codes ...string) {
		for _, code := range codes {
			all[code] = true
		}
	}
	add(rt.problems...)
	if !rt.early {
		add("recovering", "closing", "damaged")
	}
	if rt.role > RoleNone {
		add("unauthorized")
	}
	if rt.role > RoleRead {
		add("forbidden", "read_only")
	}
	if rt.takes != nil {
		add("bad_field", "body_timeout", "body_unreadable", "too_large", "unsupported_encoding")
	}
	for _, c := range rt.takes {
		if isJSON(c.media) {
			add("bad_json")
		}
	}
	if len(rt.names(inQuery)) > 0 {
		add("bad_field")
	}
	return all
}

package httpapi_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

var update = httpapi.Update

// examplesFile is what the document's examples are made of.
const examplesFile = "examples.json"

// exchange is one example.
type exchange struct {
	Operation string              `json:"operation"`
	Name      string              `json:"name"`
	Path      map[string]string   `json:"path,omitempty"`
	Query     map[string][]string `json:"query,omitempty"`
	Header    map[string][]string `json:"header,omitempty"`
	Media     string              `json:"media,omitempty"`
	Body      json.RawMessage     `json:"body,omitempty"`
	Status    int                 `json:"status"`
	GotMedia  string              `json:"got_media,omitempty"`
	Got       json.RawMessage     `json:"got,omitempty"`
}

// storyServer is a live server whose store, clock and keys are the same in each run.
func storyServer(t testing.TB) (url string, now *clock) {
	t.Helper()
	now = new(clock)
	now.set(startMs)
	env := broker.Env{FS: crashfs.New(crashfs.Options{}), Wall: now.ms, Rand: rand.NewChaCha8([32]byte{1})}
	b, err := broker.Open(env, ".", broker.Options{Engine: engine.Options{SegmentSize: 1 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(httpapi.Handler(b, httpapi.Options{Plugins: storyPlugins(t, now)}))
	t.Cleanup(func() {
		s.Close()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.URL, now
}

// document is /openapi.json as a tree.
type document struct {
	root map[string]any
	ops  map[string]operation // by id
}

type operation struct {
	method, path string
	node         map[string]any
}

func readDocument(t testing.TB, url string) *document {
	t.Helper()
	resp, err := http.Get(url + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	d := &document{ops: map[string]operation{}}
	dec := json.NewDecoder(resp.Body)
	dec.UseNumber()
	if err := dec.Decode(&d.root); err != nil {
		t.Fatal(err)
	}
	for path, methods := range d.root["paths"].(map[string]any) {
		for method, op := range methods.(map[string]any) {
			node := op.(map[string]any)
			d.ops[node["operationId"].(string)] = operation{strings.ToUpper(method), path, node}
		}
	}
	return d
}

// at goes down a tree; nil when there is no such place.
func at(node any, path ...string) any {
	for _, name := range path {
		m, _ := node.(map[string]any)
		node = m[name]
	}
	return node
}

// TestStory runs every example of the document against a live server, in the order of the story: each is answered as the
// document shows it, in a body that its schema takes.
func TestStory(t *testing.T) {
	url, now := storyServer(t)
	doc := readDocument(t, url)
	kept := map[string]string{}
	var recorded []exchange
	told := map[string]bool{}
	swap := strings.NewReplacer() // what the document has where it is another word each time
	var swaps []string
	for _, s := range story {
		told[s.op] = true
		now.set(now.ms() + s.advance.Milliseconds())
		x := s.exchange(kept)
		if !*update {
			x = doc.example(t, s)
		}
		got := doc.send(t, url, x.swapped(swap), s.events)
		for s.until != "" && got.Status == s.status && memberOf(got.Got, "state") != s.until {
			runtime.Gosched()
			got = doc.send(t, url, x.swapped(swap), 0)
		}
		if got.Status != s.status {
			t.Fatalf("%s %s: status %d, want %d: %s", s.op, s.name, got.Status, s.status, got.Got)
		}
		if s.keep != "" {
			if kept[s.as] = memberOf(got.Got, s.keep); kept[s.as] == "" {
				t.Fatalf("%s %s has no %s: %s", s.op, s.name, s.keep, got.Got)
			}
			if was := memberOf(x.Got, s.keep); was != "" {
				swaps = append(swaps, was, kept[s.as])
				swap = strings.NewReplacer(swaps...)
			}
		}
		if s.op != "openapi" && s.op != "metrics" { // it has itself in it; it is long
			recorded = append(recorded, got)
		}
		if !*update {
			doc.check(t, s, x, got)
		}
	}
	for id := range doc.ops {
		if !told[id] {
			t.Errorf("operation %s has no example", id)
		}
	}
	if *update {
		writeExamples(t, recorded)
	}
}

// memberOf is a member of a tree, as messages.0.receipt, if it is text.
func memberOf(body json.RawMessage, name string) string {
	var node any
	_ = json.Unmarshal(body, &node)
	for _, part := range strings.Split(name, ".") {
		if list, ok := node.([]any); ok {
			if i, err := strconv.Atoi(part); err == nil && i < len(list) {
				node = list[i]
			}
			continue
		}
		node = at(node, part)
	}
	text, _ := node.(string)
	return text
}

// swapped is a request with words put in the place of others.
func (x exchange) swapped(swap *strings.Replacer) exchange {
	if x.Body != nil {
		x.Body = json.RawMessage(swap.Replace(string(x.Body)))
	}
	for name, value := range x.Path {
		x.Path[name] = swap.Replace(value)
	}
	return x
}

func writeExamples(t *testing.T, list []exchange) {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(list); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(examplesFile, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// exchange is the request of a step.
func (s step) exchange(kept map[string]string) exchange {
	fill := func(text string) string {
		for name, value := range kept {
			text = strings.ReplaceAll(text, "{{"+name+"}}", value)
		}
		return text
	}
	x := exchange{Operation: s.op, Name: s.name, Query: s.query, Header: s.header, Media: s.media, Status: s.status}
	if s.body != "" {
		x.Body = json.RawMessage(fill(s.body))
	}
	for _, pair := range strings.Fields(s.path) {
		name, value, _ := strings.Cut(pair, "=")
		if x.Path == nil {
			x.Path = map[string]string{}
		}
		x.Path[name] = fill(value)
	}
	return x
}

// example reads a request, and its answer, from the places of the document where examples stand.
func (d *document) example(t *testing.T, s step) exchange {
	t.Helper()
	op, ok := d.ops[s.op]
	if !ok {
		t.Fatalf("no operation %s", s.op)
	}
	x := exchange{Operation: s.op, Name: s.name, Status: s.status, Media: s.media}
	params, _ := op.node["parameters"].([]any)
	for _, node := range params {
		value := at(node, "examples", s.name, "value")
		if value == nil {
			continue
		}
		name := at(node, "name").(string)
		switch at(node, "in") {
		case "path":
			setIn(&x.Path, name, value.(string))
		case "query":
			setIn(&x.Query, name, texts(value))
		case "header":
			setIn(&x.Header, name, texts(value))
		}
	}
	if s.media != "" {
		x.Body = raw(t, at(op.node, "requestBody", "content", s.media, "examples", s.name, "value"))
	}
	contents, _ := at(op.node, "responses", strconv.Itoa(s.status), "content").(map[string]any)
	for media, content := range contents {
		if value := at(content, "examples", s.name, "value"); value != nil {
			x.GotMedia, x.Got = media, raw(t, value)
		}
	}
	return x
}

func setIn[V any](m *map[string]V, name string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[name] = v
}

func texts(v any) []string {
	list, ok := v.([]any)
	if !ok {
		return []string{fmt.Sprint(v)}
	}
	var out []string
	for _, v := range list {
		out = append(out, fmt.Sprint(v))
	}
	return out
}

func raw(t *testing.T, v any) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// send does the request of an example; the answer is in what it returns. Of a stream it reads some events.
func (d *document) send(t *testing.T, base string, x exchange, events int) exchange {
	t.Helper()
	op, ok := d.ops[x.Operation]
	if !ok {
		t.Fatalf("no operation %s", x.Operation)
	}
	path := op.path
	for name, value := range x.Path {
		path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(value))
	}
	if len(x.Query) > 0 {
		path += "?" + url.Values(x.Query).Encode()
	}
	body := []byte(x.Body)
	if text := ""; json.Unmarshal(body, &text) == nil {
		body = []byte(text) // lines: the body is what the string holds
	}
	req, err := http.NewRequestWithContext(t.Context(), op.method, base+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(req.Header, http.Header(x.Header))
	if x.Media != "" {
		req.Header.Set("Content-Type", x.Media)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var from io.Reader = resp.Body
	if events > 0 {
		from = firstEvents(t, resp.Body, events)
	}
	got, err := io.ReadAll(from)
	if err != nil {
		t.Fatal(err)
	}
	x.Status, x.GotMedia, x.Got = resp.StatusCode, resp.Header.Get("Content-Type"), nil
	switch {
	case len(got) == 0:
	case json.Valid(got) && !strings.Contains(x.GotMedia, "ndjson"):
		x.Got = bytes.TrimSpace(got)
	default:
		x.Got = raw(t, string(got))
	}
	return x
}

// firstEvents reads the begin of a stream.
func firstEvents(t *testing.T, stream io.Reader, n int) io.Reader {
	t.Helper()
	var text strings.Builder
	lines := bufio.NewScanner(stream)
	for n > 0 && lines.Scan() {
		text.WriteString(lines.Text() + "\n")
		if strings.HasPrefix(lines.Text(), "data: ") {
			n--
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.NewReader(text.String())
}

// check compares an answer with the document's, and with the schema.
func (d *document) check(t *testing.T, s step, want, got exchange) {
	t.Helper()
	if s.op == "openapi" || s.op == "metrics" {
		return
	}
	if got.GotMedia != want.GotMedia && (got.Got != nil || want.Got != nil) {
		t.Errorf("%s %s: content type %q, the document says %q", want.Operation, want.Name, got.GotMedia, want.GotMedia)
	}
	var a, b any
	if got.Got != nil || want.Got != nil {
		if err := json.Unmarshal(want.Got, &a); err != nil {
			t.Fatalf("%s %s has no answer in the document: %v", want.Operation, want.Name, err)
		}
		if err := json.Unmarshal(got.Got, &b); err != nil {
			t.Fatal(err)
		}
	}
	if !s.loose && !reflect.DeepEqual(steady(a), steady(b)) {
		t.Errorf("%s %s\nthe document: %s\nthe server:   %s\n(go test -run TestStory -update records it anew)", want.Operation, want.Name, clip(want.Got), clip(got.Got))
	}
	ops := d.ops[want.Operation]
	if want.Media != "" {
		d.validate(t, want.Body, ops, "requestBody", "content", want.Media)
	}
	if got.Got != nil {
		d.validate(t, got.Got, ops, "responses", strconv.Itoa(got.Status), "content", got.GotMedia)
	}
}

// moving are members that say where something stands in the log, or are made of that: they are shown as they were when the
// example was recorded.
var moving = map[string]bool{
	"position": true, "handle": true, "id": true, "message_id": true, "log": true, "since_start": true, "size": true,
}

// steady is a tree without them.
func steady(node any) any {
	switch node := node.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, v := range node {
			if !moving[name] {
				out[name] = steady(v)
			}
		}
		return out
	case []any:
		out := make([]any, len(node))
		for i, v := range node {
			out[i] = steady(v)
		}
		return out
	}
	return node
}

// clip keeps a body that is shown readable.
func clip(b []byte) []byte { return b[:min(len(b), 1000)] }

// validate holds a body against the schema of a place, line by line if it is of lines.
func (d *document) validate(t *testing.T, body json.RawMessage, op operation, place ...string) {
	t.Helper()
	node := at(op.node, place...)
	if node == nil {
		t.Errorf("%s: nothing in the document at %v", op.path, place)
		return
	}
	d.schema(t, at(node, "schema"), body)
	if item := at(node, "x-item"); item != nil {
		var text string
		if err := json.Unmarshal(body, &text); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(text) {
			if place[len(place)-1] == "text/event-stream" {
				data, ok := strings.CutPrefix(line, "data: ")
				if !ok {
					continue
				}
				line = data
			}
			// A request's line may be wrong, to show what is answered.
			if place[0] == "responses" {
				d.schema(t, item, json.RawMessage(line))
			}
		}
	}
}

// schema compiles a schema of the document, as JSON Schema 2020-12, and holds a value against it.
func (d *document) schema(t *testing.T, schema any, body json.RawMessage) {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	resource := map[string]any{"components": d.root["components"], "here": schema}
	if err := c.AddResource("tidewheel:document", resource); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("tidewheel:document#/here")
	if err != nil {
		t.Fatalf("%v: %v", schema, err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	// A misspelt member is an example of what is refused.
	if err := compiled.Validate(value); err != nil && !bytes.Contains(body, []byte("dealy")) {
		t.Errorf("%s: %v", body, err)
	}
}

// TestDocument: the document is what OpenAPI 3.1 asks for, as far as we use it, and every schema is one.
func TestDocument(t *testing.T) {
	url, _ := storyServer(t)
	d := readDocument(t, url)
	if d.root["openapi"] != "3.1.0" || at(d.root, "info", "title") == "" || at(d.root, "info", "version") == "" {
		t.Errorf("%v %v", d.root["openapi"], d.root["info"])
	}
	for name, schema := range at(d.root, "components", "schemas").(map[string]any) {
		c := jsonschema.NewCompiler()
		c.DefaultDraft(jsonschema.Draft2020)
		if err := c.AddResource("tidewheel:document", map[string]any{"components": d.root["components"]}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Compile("tidewheel:document#/components/schemas/" + name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(schema.(map[string]any)["properties"].(map[string]any)) == 0 {
			t.Errorf("%s has no members", name)
		}
	}
	tags := map[any]bool{}
	for _, tag := range d.root["tags"].([]any) {
		tags[at(tag, "name")] = true
	}
	for id, op := range d.ops {
		var inPath []string
		params, _ := op.node["parameters"].([]any)
		for _, p := range params {
			if at(p, "schema", "type") == nil {
				t.Errorf("%s: parameter %v has no type", id, at(p, "name"))
			}
			if at(p, "in") == "path" {
				inPath = append(inPath, "{"+at(p, "name").(string)+"}")
			}
		}
		for _, part := range strings.Split(op.path, "/") {
			if strings.HasPrefix(part, "{") && !slices.Contains(inPath, part) {
				t.Errorf("%s: %s of %s is no parameter", id, part, op.path)
			}
		}
		if len(inPath) != strings.Count(op.path, "{") {
			t.Errorf("%s: parameters %v are not in %s", id, inPath, op.path)
		}
		if at(op.node, "summary") == nil || len(at(op.node, "responses").(map[string]any)) < 2 || !tags[op.node["tags"].([]any)[0]] {
			t.Errorf("%s: %v", id, op.node)
		}
	}
}

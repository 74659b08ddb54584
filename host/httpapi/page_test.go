package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// httpPage is docs/http.md: the routes for people, made of the same table as the document for programs.
func httpPage() string {
	examples := map[string][]exchange{}
	for _, x := range exchanges() {
		examples[x.Operation] = append(examples[x.Operation], x)
	}
	var b strings.Builder
	b.WriteString(pageHead)
	for _, g := range groups {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", g.name, g.text)
		for i := range routes {
			if rt := &routes[i]; rt.group == g.name {
				writeRoute(&b, rt, examples[rt.id])
			}
		}
	}
	b.WriteString("\n## Problems\n\n`GET /problems/{code}` says the same, also without a network.\n\n| code | status | what | cause | cure |\n|---|---|---|---|---|\n")
	for _, k := range catalogue {
		cure := k.cure
		if k.key != "" {
			cure += " Key: `" + k.key + "`."
		}
		fmt.Fprintf(&b, "| `%s` | %d | %s | %s | %s |\n", k.code, k.status, k.title, k.cause, cure)
	}
	return b.String()
}

func writeRoute(b *strings.Builder, rt *route, examples []exchange) {
	fmt.Fprintf(b, "\n### %s %s\n\n%s.", rt.method, rt.pattern, rt.summary)
	if rt.text != "" {
		fmt.Fprintf(b, " %s", rt.text)
	}
	if rt.role != RoleNone {
		fmt.Fprintf(b, " Role: %s.", rt.role)
	}
	b.WriteString("\n")
	if len(rt.params) > 0 {
		b.WriteString("\n| parameter | in | what |\n|---|---|---|\n")
	}
	for _, p := range rt.params {
		text := p.text
		if p.def != "" {
			text += "; default " + p.def
		}
		if p.kind == kindWhole && p.max < 1<<31-1 {
			text += fmt.Sprintf("; %d to %d", p.min, p.max)
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", p.name, p.in, text)
	}
	if len(rt.problems) > 0 {
		codes := slices.Clone(rt.problems)
		slices.Sort(codes)
		fmt.Fprintf(b, "\nProblems of its own: `%s`.\n", strings.Join(slices.Compact(codes), "`, `"))
	}
	for _, x := range examples {
		if x.Status < 300 && rt.id != "problems" && rt.id != "metrics" {
			writeExample(b, rt, x)
			return
		}
	}
}

// writeExample shows a request as a line for a shell, and its answer.
func writeExample(b *strings.Builder, rt *route, x exchange) {
	path := rt.pattern
	for name, value := range x.Path {
		path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(value))
	}
	if len(x.Query) > 0 {
		path += "?" + url.Values(x.Query).Encode()
	}
	b.WriteString("\n```\ncurl ")
	if rt.method != "GET" && (rt.method != "POST" || x.Body == nil) {
		b.WriteString("-X " + rt.method + " ")
	}
	if x.Body != nil {
		body, flag := compact(x.Body), "-d"
		if strings.Contains(body, "\n") {
			flag = "--data-binary"
		}
		if strings.HasSuffix(x.Media, "+json") || x.Media == lineMedia {
			fmt.Fprintf(b, "-H 'Content-Type: %s' ", x.Media)
		}
		fmt.Fprintf(b, "%s '%s' ", flag, body)
	}
	for _, p := range rt.params {
		for _, value := range x.Header[p.name] {
			fmt.Fprintf(b, "-H '%s: %s' ", p.name, value)
		}
	}
	fmt.Fprintf(b, "'localhost:7070%s'\n", path)
	answer := strings.TrimSpace(compact(x.Got))
	if len(answer) > 1500 {
		answer = strings.ToValidUTF8(answer[:1500], "") + " …"
	}
	fmt.Fprintf(b, "%d %s\n```\n", x.Status, answer)
}

// compact is a body in one line; of lines, the lines.
func compact(body json.RawMessage) string {
	if text := ""; json.Unmarshal(body, &text) == nil {
		return text
	}
	var b bytes.Buffer
	if json.Compact(&b, body) != nil {
		return string(body)
	}
	return b.String()
}

// pageHead is what no table says.
const pageHead = `# HTTP

A test makes this page from the table of routes in ` + "`host/httpapi`" + `, which registers the handlers and is ` + "`/openapi.json`" + ` (OpenAPI
3.1), too; the examples are recorded from a live server, and run against one by the tests.

## Rules

- Offsets and positions are strings, since they do not fit a JavaScript number; counts and times, ms since 1970, are numbers.
- Nothing is guessed. Unknown members, parameters and headers that begin with ` + "`Tidewheel-`" + ` are refused, and so are two answers to one
  question. A time that cannot be read is refused and never means at once.
- Times in a query are RFC 3339 with an offset, @ms since 1970, or a duration from now; + has to be written %2B.
- A body that is valid UTF-8 is ` + "`body`" + `, any other ` + "`body_base64`" + `. A request's body may be compressed with gzip.
- A refusal is a problem as in RFC 9457 (` + "`application/problem+json`" + `) with ` + "`code`" + `, which never changes, and where a value is wrong
  with ` + "`field`, `got`, `limit` and `fix`" + `. Its type is the path of a page about it.
- An answer to a change leaves when it is durable (with durability = "interval" that to a put when it is written). After
  503 ` + "`unknown_outcome`" + `, or no answer, ask again: cancel and move answer definitely; give a put an Idempotency-Key.

## Who may do what

Without tokens the server listens on addresses of this machine only, answers to names of this machine only (so that a web page
cannot reach it by a name of its own), and everybody there may do everything. Beyond this machine it asks for both tokens and
TLS, and does not start without:

` + "```toml" + `
[listen]
http = "0.0.0.0:7070"
tls_cert = "/etc/tidewheel/cert.pem"
tls_key = "/etc/tidewheel/key.pem"

[auth]
tokens_file = "/etc/tidewheel/tokens"
` + "```" + `

The tokens file has a line for each token: its SHA-256 in hex, a role, and a name. The tokens themselves are nowhere.

` + "```" + `
TOKEN=$(openssl rand -hex 32)
echo "$(printf %s "$TOKEN" | sha256sum | cut -d' ' -f1)  produce  shop" >> /etc/tidewheel/tokens
curl -H "Authorization: Bearer $TOKEN" https://tidewheel.example:7070/v1/topics
` + "```" + `

| role | may |
|---|---|
| read | look, and change nothing |
| produce | store, cancel and move messages, and read as a group; and what read may |
| operate | topics, groups, dead letters, bulk changes, the configuration; and what produce may |

Certificate, key and tokens are read again on SIGHUP; after a mistake in them those of before count. What is not known to be
somebody's is answered with 401 before any of its body is read. A connection beyond 8,192, or beyond 512 of one other machine, is
closed.

Whoever takes long: headers have 5 s, a body 30 s, and an answer that is not taken 30 s; then the connection ends.
`

func TestHTTPPage(t *testing.T) { comparePage(t, "../../docs/http.md", httpPage()) }

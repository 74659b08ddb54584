package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/message"
)

// ProblemType is the media type of an error.
const ProblemType = "application/problem+json"

// Problem is an error, as in RFC 9457. Code is what a program looks at: it never changes. Field, Got and Limit say what
// is wrong where a value is; Fix says what to do.
type Problem struct {
	Type   string `json:"type" doc:"the path of a page about the code"`
	Title  string `json:"title" doc:"what the code means"`
	Status int    `json:"status"`
	Code   string `json:"code" doc:"what a program looks at; it never changes"`
	Detail string `json:"detail,omitempty" doc:"what is known beyond the title"`
	Field  string `json:"field,omitempty" doc:"where the value is that is wrong"`
	Got    string `json:"got,omitempty" doc:"the value"`
	Limit  string `json:"limit,omitempty" doc:"what is allowed there"`
	Fix    string `json:"fix,omitempty" doc:"what to do"`

	DueMs       int64  `json:"due_ms,omitempty" doc:"when the message was due that came before the request"`
	DeliveredAt string `json:"delivered_at,omitempty" doc:"when it became visible, RFC 3339; known when topic, queue and offset are"`
	Topic       string `json:"topic,omitempty" doc:"where it is"`
	Queue       *int   `json:"queue,omitempty" doc:"the queue of the topic"`
	File        string `json:"file,omitempty" doc:"the file that is damaged"`
	Offset      *Int64 `json:"offset,omitempty" doc:"the message's offset in the queue; or the byte in the file"`
	DoneBytes   int64  `json:"done_bytes,omitempty" doc:"how much of the log the start has read"`
	AllBytes    int64  `json:"all_bytes,omitempty" doc:"how much it has to read"`
}

// Error is the title and what is known beyond it, in one line.
func (p *Problem) Error() string {
	s := p.Title
	if p.Field != "" {
		s += fmt.Sprintf(": %s is %q", p.Field, p.Got)
		if p.Limit != "" {
			s += ", allowed is " + p.Limit
		}
	}
	if p.Detail != "" {
		s += ": " + p.Detail
	}
	if p.Fix != "" {
		s += " (" + p.Fix + ")"
	}
	return s
}

// problem makes one of the catalogue; of a code that is not in it, an internal error, which no test lets pass.
func problem(code string) *Problem {
	k := kindOf(code)
	if k == nil {
		p := problem("internal")
		p.Detail = fmt.Sprintf("a problem without a name: %q", code)
		return p
	}
	return &Problem{Type: "/problems/" + k.slug(), Title: k.title, Status: k.status, Code: code}
}

// badField is the refusal of one value.
func badField(field, got, limit, fix string) *Problem {
	p := problem("bad_field")
	p.Field, p.Got, p.Limit, p.Fix = field, shorten(got), limit, fix
	return p
}

// shorten keeps a value that is quoted in a problem readable.
func shorten(s string) string {
	const most = 120
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// asProblem says an error in the words of the wire. What nobody expected is an internal error, and says what it is.
func asProblem(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	var damage *engine.CorruptError
	if errors.As(err, &damage) {
		p := problem("damaged")
		offset := Int64(damage.Offset)
		p.File, p.Offset, p.Detail = damage.File, &offset, err.Error()
		p.Fix = "stop the server and run: data check"
		return p
	}
	if p := bulkProblem(err); p != nil {
		return p
	}
	for _, k := range known {
		if errors.Is(err, k.err) {
			p := problem(k.code)
			p.Detail, p.Limit, p.Fix = beyond(err, k.err), k.limit, k.fix
			return p
		}
	}
	p = problem("internal")
	p.Detail = err.Error()
	return p
}

// beyond is what an error says beyond its kind, which the title of the problem says in better words, and beyond the packages
// that it came through.
func beyond(err, kind error) string {
	before, after, _ := strings.Cut(err.Error(), kind.Error())
	for cut := true; cut; {
		before, cut = cutPackage(before)
	}
	return strings.Trim(before+strings.TrimPrefix(after, ": "), ": ")
}

// cutPackage takes the name of a package off an error's text.
func cutPackage(s string) (string, bool) {
	for _, name := range []string{"broker: ", "engine: ", "message: ", "schedule: "} {
		if rest, ok := strings.CutPrefix(s, name); ok {
			return rest, true
		}
	}
	return s, false
}

// isAny says whether an error is of one of the kinds.
func isAny(err error, kinds ...error) bool {
	for _, kind := range kinds {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// tooLarge is the refusal of a request's body.
func tooLarge(limit int) *Problem {
	p := problem("too_large")
	p.Field, p.Got, p.Limit = "body", fmt.Sprintf("more than %d bytes", limit), fmt.Sprintf("%d bytes", limit)
	if limit == message.MaxBody {
		p.Fix = "store the large part elsewhere and send where it is"
	} else {
		p.Fix = "send fewer messages at once"
	}
	return p
}

// write sends the problem.
func (p *Problem) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", ProblemType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	writeBody(w, p)
}

// writeBody sends JSON after the header. An error means that the peer is gone: there is nobody to tell.
func writeBody(w http.ResponseWriter, v any) {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
}

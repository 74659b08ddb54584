package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/host/broker"
)

// ProblemType is the media type of an error.
const ProblemType = "application/problem+json"

// Problem is an error, as in RFC 9457. Code is what a program looks at: it never changes. Field, Got and Limit say what
// is wrong where a value is; Fix says what to do.
type Problem struct {
	Type   string `json:"type"` // "/problems/" and the code
	Title  string `json:"title"`
	Status int    `json:"status"`
	Code   string `json:"code"`
	Detail string `json:"detail,omitempty"`
	Field  string `json:"field,omitempty"`
	Got    string `json:"got,omitempty"`
	Limit  string `json:"limit,omitempty"`
	Fix    string `json:"fix,omitempty"`

	// Of what came too late or is damaged.
	DueMs  int64  `json:"due_ms,omitempty"`
	File   string `json:"file,omitempty"`
	Offset *Int64 `json:"offset,omitempty"`
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

// problem makes one; the title is what the code means, always the same.
func problem(status int, code, title string) *Problem {
	return &Problem{
		Type: "/problems/" + strings.ReplaceAll(code, "_", "-"), Title: title, Status: status, Code: code,
	}
}

// badField is the refusal of one value.
func badField(field, got, limit, fix string) *Problem {
	p := problem(http.StatusUnprocessableEntity, "bad_field", "Value is not allowed")
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

// notYet is the refusal of what a later version will do. It is not ignored: a message would be delivered at once.
func notYet(field, got, fix string) *Problem {
	p := problem(http.StatusUnprocessableEntity, "not_supported_yet", "This version cannot do that yet")
	p.Field, p.Got, p.Fix = field, shorten(got), fix
	return p
}

// known maps the errors of broker and engine. The first that fits counts.
var known = []struct {
	err    error
	status int
	code   string
	title  string
	limit  string
	fix    string
}{
	{broker.ErrUnknown, 503, "unknown_outcome", "The request may or may not have been done", "",
		"look whether it was, or send it again and expect it twice"},
	{engine.ErrFailed, 503, "failed", "A write to disk failed; nothing more is stored", "",
		"look at the disk, then restart the server"},
	{broker.ErrClosed, 503, "closing", "The server is stopping", "", "try again"},
	{engine.ErrNoTopic, 404, "unknown_topic", "There is no such topic", "",
		"send a message to it, or make it with PUT /v1/topics/{topic}"},
	{engine.ErrTopicName, 422, "topic_name", "Topic name is not allowed", "1 to 127 of A-Z a-z 0-9 _ % -", ""},
	{engine.ErrGroupName, 422, "group_name", "Group name is not allowed", "1 to 120 of A-Z a-z 0-9 _ % -", ""},
	{engine.ErrQueue, 422, "queue_out_of_range", "The topic has no such queue", "", "GET /v1/topics/{topic} lists them"},
	{engine.ErrLevel, 422, "delay_level", "There is no such delay level", "0 or more",
		"GET /v1/limits shows the table; above the last counts as the last"},
	{engine.ErrDelay, 422, "delay_too_long", "The delay exceeds max_delay", "", "GET /v1/limits shows it; [timer] max_delay raises it, up to 100y"},
	{engine.ErrDue, 422, "due_time", "The due time is not allowed", "the years 1970 to 9999", ""},
	{engine.ErrTooLate, 409, "too_late", "The due time has passed", "", ""},
	{engine.ErrNoMessage, 410, "body_deleted", "The message's body was deleted", "", ""},
	{engine.ErrTooLarge, 413, "too_large", "The message is too large", "", "GET /v1/limits shows what is allowed"},
	{engine.ErrProperties, 422, "properties", "Properties are not allowed", "", "GET /v1/limits shows what is allowed"},
	{engine.ErrOffset, 422, "offset", "Offset is not allowed", "", "set seek to go back"},
	{engine.ErrTrimmed, 410, "trimmed", "The messages at this offset were deleted", "", "go on from the queue's min"},
	{engine.ErrDiskFull, 507, "disk_full", "The disk is full; delivering and cancelling go on", "", "make room"},
	{engine.ErrBacklog, 503, "backlog", "Checkpoints cannot be written; delivering and cancelling go on", "",
		"look at the disk and at GET /v1/status, and try again"},
	{engine.ErrHole, 410, "given_up", "The message was damaged and given up by a repair", "", ""},
	{broker.ErrRequest, 422, "bad_request", "The request is not allowed", "", ""},
	{engine.ErrBadCommand, 422, "bad_request", "The request is not allowed", "", ""},
}

// asProblem says an error in the words of the wire. What nobody expected is an internal error, and says what it is: the
// server listens on loopback only.
func asProblem(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	var damage *engine.CorruptError
	if errors.As(err, &damage) {
		p := problem(http.StatusInternalServerError, "damaged", "Stored data is damaged")
		offset := Int64(damage.Offset)
		p.File, p.Offset, p.Detail = damage.File, &offset, err.Error()
		p.Fix = "stop the server and run: data check"
		return p
	}
	for _, k := range known {
		if errors.Is(err, k.err) {
			p := problem(k.status, k.code, k.title)
			p.Detail, p.Limit, p.Fix = err.Error(), k.limit, k.fix
			return p
		}
	}
	p = problem(http.StatusInternalServerError, "internal", "Something went wrong in the server")
	p.Detail = err.Error()
	return p
}

// tooLarge is the refusal of a request's body.
func tooLarge(limit int) *Problem {
	p := problem(http.StatusRequestEntityTooLarge, "too_large", "The message is too large")
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

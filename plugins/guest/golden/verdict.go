package golden

import (
	"github.com/tidewheel/tidewheel/plugins/abi"
)

// Verdict is one line of a file of verdicts; doc.go says what its members mean.
type Verdict struct {
	Action  string
	Code    uint16
	DelayMs uint32
	Target  uint32
	Record  *Record  // what takes the message's place; only topic, key, tag, properties and body count
	Request *Request // for prepare
	Failure string   // class, for the action error
	Text    string
}

// Request is an HTTP request that a plugin made.
type Request struct {
	Method  string // POST when the plugin named none
	URL     string
	Headers map[string]string // of several with one name the first
	Body    []byte
}

// verdictLine is a Verdict as it is written.
type verdictLine struct {
	Action  string       `json:"action"`
	Code    uint16       `json:"code,omitempty"`
	DelayMs uint32       `json:"delay_ms,omitempty"`
	Target  *uint32      `json:"target,omitempty"`
	Record  *recordLine  `json:"record,omitempty"`
	Request *requestLine `json:"request,omitempty"`
	Failure string       `json:"failure,omitempty"`
	Text    string       `json:"text,omitempty"`
}

type requestLine struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
	bodyLine
}

// Decided is the line for a verdict that a plugin gave itself. output is what a verdict replace refers to; its slices are copied.
// For an error, see Failed.
func Decided(hook abi.Hook, v abi.Verdict, output abi.Record) Verdict {
	l := Verdict{Action: v.Action().String(), Code: v.Code()}
	switch v.Action() {
	case abi.Retry:
		l.DelayMs = v.Arg()
	case abi.Route:
		l.Target = v.Arg()
	case abi.Replace:
		tag, properties := Properties(output.Headers)
		body := append([]byte(nil), output.Body...)
		if hook == abi.Prepare {
			if tag != "" { // a request has headers, and one of this name is nothing special
				if properties == nil {
					properties = map[string]string{}
				}
				properties[TagHeader] = tag
			}
			l.Request = &Request{Method: string(output.Key), URL: string(output.Topic), Headers: properties, Body: body}
			if l.Request.Method == "" {
				l.Request.Method = "POST"
			}
			return l
		}
		l.Record = &Record{Topic: string(output.Topic), Key: string(output.Key), Tag: tag, Properties: properties, Body: body}
	}
	return l
}

// Failed is the line for a record that a plugin could not decide. The message of a plugin is part of the verdict; what a host
// says of a trap is not, since it differs between versions and engines.
func Failed(class string, code uint16, message string) Verdict {
	if class != ClassError {
		message = ""
	}
	return Verdict{Action: abi.Error.String(), Code: code, Failure: class, Text: message}
}

// ClassError is the class of a failure that the plugin declared itself, with guest.Fail or by a panic.
const ClassError = "error"

func (v Verdict) line() verdictLine {
	l := verdictLine{Action: v.Action, Code: v.Code, DelayMs: v.DelayMs, Failure: v.Failure, Text: v.Text}
	if v.Action == abi.Route.String() {
		l.Target = &v.Target
	}
	if v.Record != nil {
		r := v.Record.line()
		l.Record = &r
	}
	if q := v.Request; q != nil {
		l.Request = &requestLine{q.Method, q.URL, q.Headers, newBodyLine(q.Body)}
	}
	return l
}

func (l verdictLine) verdict() (Verdict, error) {
	v := Verdict{Action: l.Action, Code: l.Code, DelayMs: l.DelayMs, Failure: l.Failure, Text: l.Text}
	if l.Target != nil {
		v.Target = *l.Target
	}
	if l.Record != nil {
		r, err := l.Record.record()
		if err != nil {
			return v, err
		}
		v.Record = &r
	}
	if q := l.Request; q != nil {
		body, err := q.bytes()
		if err != nil {
			return v, err
		}
		v.Request = &Request{q.Method, q.URL, q.Headers, body}
	}
	return v, nil
}

// String is the line without its end.
func (v Verdict) String() string { return string(line(v.line())) }

// String is the line without its end.
func (r Record) String() string { return string(line(r.line())) }

package httpapi

import (
	"bytes"
	"encoding/json"
	"mime"
	"reflect"
	"strings"
)

// asEnvelope says whether the body of a put is an Envelope: by its content type, or as the query says.
func (c *call) asEnvelope() (is, said bool, err error) {
	kind, _, _ := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if c.r.URL.RawQuery == "" {
		return kind == EnvelopeType, kind == EnvelopeType, nil
	}
	q := c.query()
	text, _, there := q.first("envelope")
	switch {
	case q.err != nil || !there:
		return kind == EnvelopeType, kind == EnvelopeType, q.err
	case text != "true" && text != "false":
		return false, false, badField("envelope", text, "true, false", "")
	}
	if kind == EnvelopeType && text == "false" {
		return false, false, badField("envelope", text, "true", "the content type says that it is one")
	}
	return text == "true", true, nil
}

// envelopeNames are the members of an Envelope.
var envelopeNames = func() map[string]bool {
	names := map[string]bool{}
	for _, t := range []reflect.Type{reflect.TypeFor[Envelope](), reflect.TypeFor[Time]()} {
		for i := range t.NumField() {
			if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" {
				names[name] = true
			}
		}
	}
	return names
}()

// ambiguous refuses a raw body that may be meant as an Envelope: taken for the message, its delay would not be heeded. It
// has a body, all its members are an Envelope's, and no header of ours says that the body is the message.
func (c *call) ambiguous(b []byte) error {
	if !bytes.HasPrefix(bytes.TrimLeft(b, " \t\r\n"), []byte("{")) || !bytes.Contains(b, []byte(`"body`)) {
		return nil
	}
	for name := range c.r.Header {
		if strings.HasPrefix(name, "Tidewheel-") {
			return nil
		}
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(b, &members) != nil || members["body"] == nil && members["body_base64"] == nil {
		return nil
	}
	for name := range members {
		if !envelopeNames[name] {
			return nil
		}
	}
	p := problem("envelope_or_message")
	p.Fix = "add ?envelope=true, or Content-Type: " + EnvelopeType + "; to store the JSON as it is, ?envelope=false"
	return p
}

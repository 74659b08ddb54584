package httpapi

import (
	"bytes"
	"encoding/json"
	"mime"
	"reflect"
	"strings"
)

// putBody reads the body of a put, and says whether it is an Envelope.
func (c *call) putBody() (b []byte, envelope bool, err error) {
	kind, _, _ := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	envelope, said, err := c.asEnvelope(kind)
	if err != nil {
		return nil, false, err
	}
	most := maxRaw
	if envelope || kind == jsonMedia {
		most = maxEnvelope
	}
	if b, err = c.body(most); err != nil {
		return nil, false, err
	}
	if !said && c.looksLikeEnvelope(b) {
		if kind != jsonMedia { // taken for the message, its delay would not be heeded; taken for an envelope, a text would be cut open
			p := problem("envelope_or_message")
			p.Fix = "add ?envelope=true, or Content-Type: " + jsonMedia + "; to store the JSON as it is, ?envelope=false"
			return nil, false, p
		}
		return b, true, nil
	}
	if !envelope {
		return b, false, nil
	}
	for _, name := range c.route.names(inHeader) {
		if got := c.r.Header.Get(name); got != "" {
			return nil, false, badField(name, got, "no header beside an envelope", "say it in the envelope")
		}
	}
	return b, true, nil
}

// asEnvelope says whether the body of a put is said to be an Envelope, or not to be one: by its content type, or by the query.
func (c *call) asEnvelope(kind string) (is, said bool, err error) {
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

// looksLikeEnvelope says whether a body has the form of an Envelope: it has a body, all its members are an Envelope's, and no
// header of ours says that it is the message.
func (c *call) looksLikeEnvelope(b []byte) bool {
	if !bytes.HasPrefix(bytes.TrimLeft(b, " \t\r\n"), []byte("{")) || !bytes.Contains(b, []byte(`"body`)) {
		return false
	}
	for name := range c.r.Header {
		if strings.HasPrefix(name, "Tidewheel-") || name == HeaderIdempotency {
			return false
		}
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(b, &members) != nil || members["body"] == nil && members["body_base64"] == nil {
		return false
	}
	for name := range members {
		if !envelopeNames[name] {
			return false
		}
	}
	return true
}

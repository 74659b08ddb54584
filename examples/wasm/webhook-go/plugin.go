// Command webhook-go is a plugin of Tidewheel that delivers messages to a webhook.
package main

import (
	"encoding/json"
	"errors"
	"net/url"
	"strconv"

	"github.com/tidewheel/tidewheel/plugins/guest"
)

// Codes of verdicts that no HTTP status stands for.
const (
	codeOtherTenant = 1 // dropped: the receiver did not ask for this tenant's messages
	codeNoAnswer    = 2 // tried again: no response came
)

// Delays between attempts when the receiver names none.
const (
	firstDelayMs = 1_000
	maxDelayMs   = 3_600_000
)

// settings are what stands in [plugin.config].
type settings struct {
	URL    string `json:"url"`
	Tenant string `json:"tenant"` // empty: those of all tenants
}

var config settings

func init() {
	guest.Configure(configure)
	guest.Prepare(prepare)
	guest.Result(result)
}

func configure(b []byte) error {
	var c settings
	if err := json.Unmarshal(b, &c); err != nil {
		return err
	}
	if u, err := url.Parse(c.URL); err != nil || u.Scheme == "" || u.Host == "" {
		return errors.New("url is missing or is no absolute URL")
	}
	config = c
	return nil
}

// prepare makes a request of a message; the host sends it, signed, and counts the attempts.
func prepare(r *guest.Record) guest.Verdict {
	tenant, _ := r.Header("tenant")
	if config.Tenant != "" && string(tenant) != config.Tenant {
		return guest.Drop(codeOtherTenant)
	}
	h := guest.Headers(nil).Append([]byte("Content-Type"), []byte(contentType(r)))
	h = h.Append([]byte("Tidewheel-Topic"), r.Topic)
	if len(r.Key) > 0 {
		h = h.Append([]byte("Tidewheel-Key"), r.Key)
	}
	return guest.Send(guest.Request{URL: config.URL, Headers: h, Body: r.Body})
}

func contentType(r *guest.Record) string {
	if len(r.Body) > 0 && (r.Body[0] == '{' || r.Body[0] == '[') {
		return "application/json"
	}
	return "application/octet-stream"
}

// result judges the response. What the receiver took is done. What it will never take goes to the dead letters: 410 says that
// the receiver is gone, other 4xx that the request is wrong. The rest is tried again, when the receiver says or ever later.
func result(r *guest.Record) guest.Verdict {
	status := r.Status()
	switch {
	case status >= 200 && status <= 299:
		return guest.Keep()
	case status == 0:
		return guest.RetryAfter(delayMs(r), codeNoAnswer)
	case status == 408, status == 425, status == 429, status >= 500:
		return guest.RetryAfter(delayMs(r), uint16(status))
	}
	return guest.DeadLetter(uint16(status))
}

// delayMs is what Retry-After asks for, in seconds, or twice as long with each attempt.
func delayMs(r *guest.Record) uint32 {
	if value, ok := r.Header("retry-after"); ok { // the host writes the names of a response's headers in small letters
		if s, err := strconv.ParseUint(string(value), 10, 32); err == nil {
			return uint32(min(1000*s, maxDelayMs))
		}
	}
	return uint32(min(firstDelayMs<<min(r.Attempt, 12), maxDelayMs))
}

func main() {}

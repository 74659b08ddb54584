// Command webhook-go is a plugin of Tidewheel that delivers messages to a webhook.
package main

import (
	"encoding/json"
	"errors"
	"net/url"

	"github.com/tidewheel/tidewheel/plugins/guest"
)

// Codes of verdicts that no HTTP status stands for.
const (
	codeOtherTenant = 1 // dropped: the receiver did not ask for this tenant's messages
	codeNoAnswer    = 2 // tried again: no response came
)

// tooManyMs is how long a receiver that has too much to do is left alone at least.
const tooManyMs = 60_000

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
// the receiver is gone, other 4xx that the request is wrong. The rest is tried again: a delay of 0 leaves it to the host, which
// waits longer with each attempt, and never less than the receiver asks for in Retry-After.
func result(r *guest.Record) guest.Verdict {
	status := r.Status()
	switch {
	case status >= 200 && status <= 299:
		return guest.Keep()
	case status == 0:
		return guest.RetryAfter(0, codeNoAnswer)
	case status == 429:
		return guest.RetryAfter(tooManyMs, 429)
	case status == 408, status == 425, status >= 500:
		return guest.RetryAfter(0, uint16(status))
	}
	return guest.DeadLetter(uint16(status))
}

func main() {}

package httpapi

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"reflect"
	"strings"
)

// problemContent is the body of every refusal.
var problemContent = content{ProblemType, reflect.TypeFor[Problem](), ""}

var documentRoutes = []route{
	{
		method: "GET", pattern: "/openapi.json", id: "openapi", group: "Documents",
		summary: "This document", gives: []content{{jsonMedia, nil, "OpenAPI 3.1"}}, early: true, problems: []string{"recovering"}, handle: (*API).openapi,
	},
	{
		method: "GET", pattern: "/problems", id: "problems", group: "Documents",
		summary: "List the problems that answers may be", gives: jsonOf[ProblemKinds](), early: true, problems: []string{"recovering"}, handle: (*API).problems,
	},
	{
		method: "GET", pattern: "/problems/{code}", id: "problem", group: "Documents",
		summary: "What a problem means: its cause, its cure, and the key of the configuration",
		text:    "A page for people, or JSON for who accepts application/json and no page.",
		params:  []param{{in: inPath, name: "code", text: "the problem's code, with - or _"}},
		gives: []content{
			{jsonMedia, reflect.TypeFor[ProblemKind](), ""}, {pageMedia, nil, "the same as a page"}, {plainMedia, nil, "the same as text"},
		},
		problems: []string{"unknown_problem", "recovering"}, early: true, handle: (*API).problem,
	},
}

// ProblemKind is what a code means.
type ProblemKind struct {
	Type   string `json:"type" doc:"as in a problem"`
	Code   string `json:"code"`
	Status int    `json:"status"`
	Title  string `json:"title"`
	Cause  string `json:"cause"`
	Cure   string `json:"cure"`
	Key    string `json:"key,omitempty" doc:"of the configuration, that has to do with it"`
}

// ProblemKinds lists what problems mean.
type ProblemKinds struct {
	Problems []ProblemKind `json:"problems"`
}

func (k *problemKind) wire() ProblemKind {
	return ProblemKind{
		Type: "/problems/" + k.slug(), Code: k.code, Status: k.status, Title: k.title, Cause: k.cause, Cure: k.cure, Key: k.key,
	}
}

// openapi answers the document, which is made at the first request.
func (a *API) openapi(c *call) error {
	b, err := a.document()
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", jsonMedia)
	_, err = c.w.Write(b)
	return gone(err)
}

// makeDocument encodes the document.
func makeDocument(opts Options) ([]byte, error) {
	b, err := json.Marshal(openAPI(opts))
	if err != nil {
		return nil, fmt.Errorf("httpapi: openapi: %w", err)
	}
	return append(b, '\n'), nil
}

// gone drops the error of a peer that has gone: there is nobody to tell.
func gone(error) error { return nil }

func (a *API) problems(c *call) error {
	out := ProblemKinds{}
	for i := range catalogue {
		out.Problems = append(out.Problems, catalogue[i].wire())
	}
	return c.answer(out)
}

// problem explains a code.
func (a *API) problem(c *call) error {
	code := strings.ReplaceAll(c.path("code"), "-", "_")
	k := kindOf(code)
	if k == nil {
		p := problem("unknown_problem")
		p.Field, p.Got = "code", shorten(c.path("code"))
		return p
	}
	accept := strings.Join(c.r.Header.Values("Accept"), ",")
	media, text := plainMedia, k.text()
	switch {
	case strings.Contains(accept, "text/html"):
		media, text = pageMedia, k.page()
	case strings.Contains(accept, jsonMedia):
		return c.answer(k.wire())
	}
	c.w.Header().Set("Content-Type", media)
	c.w.Header().Set("Content-Security-Policy", "default-src 'none'")
	c.w.WriteHeader(http.StatusOK)
	_, err := c.w.Write([]byte(text))
	return gone(err)
}

// text is the code's page for a terminal.
func (k *problemKind) text() string {
	s := fmt.Sprintf("%s (%s, status %d)\n\nCause: %s\nCure:  %s\n", k.title, k.code, k.status, k.cause, k.cure)
	if k.key != "" {
		s += fmt.Sprintf("Key:   %s (tidewheel config docs)\n", k.key)
	}
	return s
}

// page is the code's page for a browser.
func (k *problemKind) page() string {
	key := ""
	if k.key != "" {
		key = "<dt>Key of the configuration</dt><dd><code>" + html.EscapeString(k.key) + "</code></dd>\n"
	}
	return fmt.Sprintf(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>%[1]s</title></head>
<body><h1>%[1]s</h1>
<p><code>%[2]s</code>, status %[3]d</p>
<dl><dt>Cause</dt><dd>%[4]s</dd>
<dt>Cure</dt><dd>%[5]s</dd>
%[6]s</dl></body></html>
`, html.EscapeString(k.title), k.code, k.status, html.EscapeString(k.cause), html.EscapeString(k.cure), key)
}

package author

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"

	"github.com/tidewheel/tidewheel/plugins"
)

// Deployment is what a configuration says about a plugin when it is new there.
type Deployment struct {
	Name    string
	File    string   // in the directory of plugins
	Match   []string // patterns of topics
	Targets []string // topics for the verdict route
	OnError string
	Fail    string
	Config  []byte // a JSON object for the plugin; nil for none
	Info    plugins.Info
}

// column is where the remarks begin.
const column = 34

// TOML is the table [[plugin]] of the deployment, with the reasons of the manifest. It returns an error for a Config that is
// no JSON object.
func (d Deployment) TOML() (string, error) {
	var b strings.Builder
	about := strings.TrimSpace(d.Info.Manifest.Name + " " + d.Info.Manifest.Version)
	if text := d.Info.Manifest.Description; text != "" {
		about = strings.TrimSpace(about + ": " + text)
	}
	if about != "" {
		fmt.Fprintf(&b, "# %s\n", oneLine(about))
	}
	row := func(key, value, remark string) {
		text := key + " = " + value
		if remark != "" {
			text += strings.Repeat(" ", max(1, column-utf8.RuneCountInString(text))) + "# " + oneLine(remark)
		}
		b.WriteString(text + "\n")
	}
	hooks := ConfiguredHooks(Hooks(d.Info))
	b.WriteString("[[plugin]]\n")
	row("name", quoted(d.Name), "")
	row("file", quoted(d.File), "in dir of [plugins]")
	row("sha256", quoted(d.Info.Digest.String()), "")
	row("hooks", list(hooks), "")
	row("match", list(d.Match), "the topics whose messages it is asked about")
	if len(d.Targets) > 0 {
		row("targets", list(d.Targets), "the topics that it routes to, by number from 0 on")
	}
	row("on_error", quoted(d.OnError), "what becomes of a message that it fails on: dead_letter, skip, drop, block, retry")
	row("fail", quoted(d.Fail), `while it can't be asked: messages wait ("closed") or pass ("open")`)
	d.capabilities(&b, row)
	config, err := configTOML(d.Config)
	return b.String() + config, err
}

// capabilities writes what the plugin asks for.
func (d Deployment) capabilities(b *strings.Builder, row func(key, value, remark string)) {
	var hosts, reasons []string
	all := Capabilities(d.Info)
	if len(all) == 0 {
		return
	}
	b.WriteString("\n[plugin.capabilities]\n")
	for _, c := range all {
		if c.Name == "egress" {
			hosts = append(hosts, c.Host)
			if c.Reason != "" {
				reasons = append(reasons, c.Reason)
			}
			continue
		}
		remark := c.Reason
		if remark == "" {
			remark = "it gives no reason"
		}
		row(c.Name, "true", remark)
	}
	if len(hosts) > 0 {
		row("egress", list(hosts), strings.Join(reasons, "; "))
	}
}

// heads are the heads of tables in what the encoder writes.
var heads = regexp.MustCompile(`(?m)^ *(\[+)config`)

// configTOML is [plugin.config] for a JSON object; empty for none.
func configTOML(object []byte) (string, error) {
	if object == nil {
		return "", nil
	}
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.UseNumber()
	var config map[string]any
	if err := decoder.Decode(&config); err != nil {
		return "", fmt.Errorf("the plugin's configuration is no JSON object: %w", err)
	}
	if len(config) == 0 {
		return "", nil
	}
	text, err := toml.Marshal(map[string]any{"config": plain(config)})
	if err != nil {
		return "", fmt.Errorf("the plugin's configuration in TOML: %w", err)
	}
	lines := strings.Split(heads.ReplaceAllString(string(text), "${1}plugin.config"), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimLeft(l, " ") // tables within tables are indented by the encoder
	}
	return "\n" + strings.Join(lines, "\n"), nil
}

// plain makes numbers of JSON numbers and leaves out what is null, which TOML does not have.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64() // the decoder has checked it
		return f
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			if value != nil {
				out[key] = plain(value)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plain(v[i])
		}
		return out
	}
	return v
}

// quoted is a basic string of TOML: what Go escapes in its own way does not occur in names, and is replaced in remarks.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteString(`\` + string(c))
		case c < ' ' || c == 0x7f:
			b.WriteString(`\u` + fmt.Sprintf("%04X", c))
		default:
			b.WriteRune(c)
		}
	}
	return b.String() + `"`
}

func list(all []string) string {
	var q []string
	for _, s := range all {
		q = append(q, quoted(s))
	}
	return "[" + strings.Join(q, ", ") + "]"
}

// oneLine is text for a remark: what ends a line, or a terminal could act on, is a space.
func oneLine(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f || !strconv.IsPrint(c) && c > 0x7f {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(s, "?"))
}

package author

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"

	"github.com/tidewheel/tidewheel/host/config"
	"github.com/tidewheel/tidewheel/plugins"
)

// Deployment is what a configuration says about a plugin when it is new there.
type Deployment struct {
	Name    string
	File    string   // in the directory of plugins
	Match   []string // patterns of topics
	Targets []string // topics for the verdict route
	Egress  []string // hosts that requests may go to, beside those that the manifest asks for
	OnError string
	Fail    string
	Config  []byte // a JSON object for the plugin; nil for none
	From    string // the file that Config is from, for a remark
	Info    plugins.Info

	MemoryMax     int64 // bytes, for [plugin.limits]; 0: nothing is said
	FuelPerRecord int64 // the same
}

// column is where the remarks begin.
const column = 34

// deliver is the word of a configuration for the hooks of a delivery.
const deliver = "deliver"

// tables are the names of the tables [[plugin]] that the plugin has, and their hooks. A delivery stands alone: a plugin that
// has other hooks beside it is two plugins of one file for a server.
func (d Deployment) tables() (names []string, hooks [][]string) {
	all := ConfiguredHooks(Hooks(d.Info))
	if n := len(all); n > 1 && all[n-1] == deliver {
		return []string{d.Name, d.Name + "-" + deliver}, [][]string{all[:n-1], all[n-1:]}
	}
	return []string{d.Name}, [][]string{all}
}

// TOML is the table [[plugin]] of the deployment, with the reasons of the manifest, or two of them for a plugin that delivers
// and has other hooks. It returns an error for a Config that is no JSON object.
func (d Deployment) TOML() (string, error) {
	own, err := configTOML(d.Config)
	if err != nil {
		return "", err
	}
	if own != "" && d.From != "" {
		own = "\n# from " + oneLine(d.From) + ": change what is different here" + own
	}
	var b strings.Builder
	about := strings.TrimSpace(d.Info.Manifest.Name + " " + d.Info.Manifest.Version)
	if text := d.Info.Manifest.Description; text != "" {
		about = strings.TrimSpace(about + ": " + text)
	}
	if about != "" {
		fmt.Fprintf(&b, "# %s\n", oneLine(about))
	}
	names, hooks := d.tables()
	for i := range names {
		if i > 0 {
			b.WriteByte('\n')
		}
		d.table(&b, names[i], hooks[i])
		b.WriteString(own)
	}
	return b.String(), nil
}

// table writes one table but for the plugin's own configuration.
func (d Deployment) table(b *strings.Builder, name string, hooks []string) {
	delivers := hooks[len(hooks)-1] == deliver
	row := func(key, value, remark string) {
		text := key + " = " + value
		if remark != "" {
			text += strings.Repeat(" ", max(1, column-utf8.RuneCountInString(text))) + "# " + oneLine(remark)
		}
		b.WriteString(text + "\n")
	}
	b.WriteString("[[plugin]]\n")
	row("name", quoted(name), "")
	row("file", quoted(d.File), "in dir of [plugins]")
	row("sha256", quoted(d.Info.Digest.String()), "")
	row("hooks", list(hooks), "")
	row("match", list(d.Match), "the topics whose messages it is asked about")
	if len(d.Targets) > 0 && !delivers {
		row("targets", list(d.Targets), "the topics that it routes to, by number from 0 on")
	}
	row("on_error", quoted(d.OnError), "what becomes of a message that it fails on: dead_letter, skip, drop, block, retry")
	fail := d.Fail
	if delivers {
		fail = "closed" // what can't be sent waits
	}
	row("fail", quoted(fail), `while it can't be asked: messages wait ("closed") or pass ("open")`)
	if d.MemoryMax > 0 || d.FuelPerRecord > 0 {
		b.WriteString("\n[plugin.limits]\n")
	}
	if d.MemoryMax > 0 {
		row("memory_max", quoted(config.Size(d.MemoryMax).String()), "")
	}
	if d.FuelPerRecord > 0 {
		row("fuel_per_record", strconv.FormatInt(d.FuelPerRecord, 10), "")
		if most := d.FuelPerRecord + plugins.DefaultFuelBase; most > 10_000_000 { // a call of one record has to fit
			row("fuel_call_max", strconv.FormatInt(most, 10), "")
		}
	}
	d.capabilities(b, delivers, row)
}

// capabilities writes what the plugin asks for.
func (d Deployment) capabilities(b *strings.Builder, delivers bool, row func(key, value, remark string)) {
	hosts, reasons := slices.Clone(d.Egress), []string{}
	type grant struct{ name, reason string }
	var grants []grant
	for _, c := range Capabilities(d.Info) {
		if c.Name != "egress" {
			grants = append(grants, grant{c.Name, cmp.Or(c.Reason, "it gives no reason")})
			continue
		}
		if !slices.Contains(hosts, c.Host) {
			hosts = append(hosts, c.Host)
		}
		if c.Reason != "" {
			reasons = append(reasons, c.Reason)
		}
	}
	delivers = delivers && len(hosts) > 0
	if len(grants) > 0 || delivers {
		b.WriteString("\n[plugin.capabilities]\n")
	}
	for _, g := range grants {
		row(g.name, "true", g.reason)
	}
	if delivers {
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

package author

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tidewheel/tidewheel/host/config"
	"github.com/tidewheel/tidewheel/host/egress"
)

// Installed is what Install did.
type Installed struct {
	Config  string   // the configuration file
	Made    bool     // it was not there before
	File    string   // the module, where the server finds it
	Updated bool     // the plugin had a table, whose pin is the new digest now
	Asks    []string // capabilities that the plugin asks for, and that the table it had does not grant
}

// Install puts a plugin into the configuration of a server, and its module into the server's directory of plugins: the module
// first, so that a server that looks in between sees a file that is not the pinned one, and changes nothing. A plugin that has
// a table keeps it, with a new pin; a new one gets the table of d. A configuration that would have mistakes is not written: the
// error is a *config.Report.
func Install(configFile string, d Deployment, module []byte) (Installed, error) {
	done := Installed{Config: configFile}
	old, err := os.ReadFile(configFile)
	if errors.Is(err, fs.ErrNotExist) {
		done.Made, err = true, nil
	}
	if err != nil {
		return done, err
	}
	table, err := d.TOML()
	if err != nil {
		return done, err
	}
	if done.Made {
		old = []byte(newConfig)
	}
	next, updated := repinned(old, d)
	if done.Updated = updated; !updated {
		next = old
		if len(bytes.TrimSpace(old)) > 0 {
			next = append(bytes.TrimRight(old, "\n"), "\n\n"...)
		}
		next = append(next, table...)
	}
	cfg, err := config.Parse(config.Source{File: configFile}, next)
	if err != nil {
		return done, err
	}
	names, _ := d.tables()
	for _, name := range names {
		t := tableOf(cfg, name)
		if t == nil && updated {
			continue // a person made one plugin of two
		}
		if t == nil || t.SHA256 != d.Info.Digest.String() {
			return done, fmt.Errorf("%s: the table of %s can't be changed as it is written; set sha256 = %q there", configFile, name, d.Info.Digest)
		}
		d.File = t.File // a person may have named it in another way
		for _, asked := range ungranted(d, t) {
			if !slices.Contains(done.Asks, asked) {
				done.Asks = append(done.Asks, asked)
			}
		}
	}
	if done.File = d.File; !filepath.IsAbs(d.File) {
		done.File = filepath.Join(cfg.PluginDir(), d.File)
	}
	if err := os.MkdirAll(filepath.Dir(done.File), 0o755); err != nil {
		return done, err
	}
	if err := replace(done.File, module); err != nil {
		return done, err
	}
	return done, replace(configFile, next)
}

// newConfig is what a configuration that Install makes begins with: enough for a server.
const newConfig = `# "tidewheel config docs" explains every key.
data_dir = "data" # beside this file
`

// tableOf is the table of a plugin; nil without one.
func tableOf(cfg *config.Config, name string) *config.PluginTable {
	for i := range cfg.Plugins {
		if cfg.Plugins[i].Name == name {
			return &cfg.Plugins[i]
		}
	}
	return nil
}

// ungranted are the capabilities that a plugin asks for and that a table does not grant.
func ungranted(d Deployment, t *config.PluginTable) (all []string) {
	grants := map[string]bool{"json": t.Capabilities.JSON, "headers": t.Capabilities.Headers, "match": t.Capabilities.Match}
	for _, c := range Capabilities(d.Info) {
		switch {
		case c.Name == "egress" && slices.Contains(t.Hooks, deliver):
			if !reaches(t.Capabilities.Egress, c.Host) {
				all = append(all, "egress to "+c.Host)
			}
		case c.Name != "egress" && c.Used && !grants[c.Name]:
			all = append(all, c.Name)
		}
	}
	return all
}

// reaches says whether a list of hosts has one that covers a host which a plugin asks for.
func reaches(hosts []string, asked string) bool {
	want := canonical(asked)
	for _, h := range hosts {
		have := canonical(h)
		scheme, name, ok := strings.Cut(have, "*")
		if have == want || ok && strings.HasPrefix(want, scheme) && strings.HasSuffix(want, name) && strings.Contains(want, "://") == (scheme != "") {
			return true
		}
	}
	return false
}

// canonical is an entry of a list of hosts with its port.
func canonical(host string) string {
	if r, err := egress.ParseRule(host); err == nil {
		return r.String()
	}
	return host
}

var (
	anyHead    = regexp.MustCompile(`^\s*\[`)
	pluginHead = regexp.MustCompile(`^\s*\[\[\s*plugin\s*\]\]`)
	nameLine   = regexp.MustCompile(`^\s*name\s*=\s*["']([^"']*)["']`)
	pinLine    = regexp.MustCompile(`^(\s*sha256\s*=\s*)("[^"]*"|'[^']*')`)
)

// repinned is a configuration in which a plugin's tables have another digest; false when the plugin has none. Only those lines
// change: the file is a person's, with its remarks. What the lines mean is checked afterwards.
func repinned(text []byte, d Deployment) ([]byte, bool) {
	lines := strings.SplitAfter(string(text), "\n")
	names, _ := d.tables()
	found := false
	for lo := 0; lo < len(lines); lo++ {
		if !pluginHead.MatchString(lines[lo]) {
			continue
		}
		name, pin, at := "", -1, lo
		for hi := lo + 1; hi < len(lines) && !anyHead.MatchString(lines[hi]); hi++ {
			if m := nameLine.FindStringSubmatch(lines[hi]); m != nil {
				name, at = m[1], hi
			}
			if pinLine.MatchString(lines[hi]) {
				pin = hi
			}
		}
		if !slices.Contains(names, name) {
			continue
		}
		found = true
		digest := quoted(d.Info.Digest.String())
		if pin >= 0 {
			lines[pin] = pinLine.ReplaceAllString(lines[pin], "${1}"+digest)
		} else {
			lines[at] = strings.TrimSuffix(lines[at], "\n") + "\nsha256 = " + digest + "\n"
		}
	}
	return []byte(strings.Join(lines, "")), found
}

package httpapi

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/host/config"
)

// A page names keys that the configuration has, every code is in the catalogue once, and each route's are known.
func TestCatalogue(t *testing.T) {
	cfg, err := config.Load(config.Source{Environ: []string{"TIDEWHEEL_DATA_DIR=x"}})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, s := range cfg.Settings() {
		keys = append(keys, s.Key)
	}
	word := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	seen := map[string]bool{}
	last := 0
	for _, k := range catalogue {
		if seen[k.code] || !word.MatchString(k.code) || k.status < 400 || k.status < last || k.title == "" || k.cause == "" || k.cure == "" {
			t.Errorf("%+v", k)
		}
		_, inPlugin, _ := strings.Cut(config.Template(), "\n#[[plugin]]\n")
		if key, ok := strings.CutPrefix(k.key, "plugin."); ok && strings.Contains(inPlugin, "\n#"+key+" = ") {
			k.key = ""
		}
		if k.key != "" && !slices.Contains(keys, k.key) {
			t.Errorf("%s names key %q, which is none of %q", k.code, k.key, keys)
		}
		seen[k.code], last = true, k.status
	}
	for _, k := range known {
		if !seen[k.code] {
			t.Errorf("%v is %q, which is not in the catalogue", k.err, k.code)
		}
	}
	for i := range routes {
		for code := range routes[i].allProblems() {
			if !seen[code] {
				t.Errorf("%s: %q is not in the catalogue", routes[i].id, code)
			}
		}
	}
	if p := problem("nosuch"); p.Code != "internal" {
		t.Errorf("%+v", p)
	}
}

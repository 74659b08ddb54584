package author

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/tidewheel/tidewheel/plugins"
)

// A template has the name of its file in the project and ".tmpl" behind it, with "<<" and ">>" around what is filled in.
//
//go:embed templates
var templates embed.FS

// Wanted says what project New makes.
type Wanted struct {
	Dir  string // must not be there, or be empty
	Name string // the last element of Dir if empty
	Lang Lang
	Kind string // of Kinds; filter if empty
}

// Kinds are the plugins that New makes: named as a configuration names the hooks.
var Kinds = []string{"filter", "transform", "publish", deliver}

// words are what the templates are filled in with, beside name and language.
var words = map[string]map[string]string{
	"filter":    {"Hook": "filter", "Register": "Filter", "HookCapital": "FILTER", "Moment": "due", "About": "drops messages that are marked as spam"},
	"publish":   {"Hook": "publish", "Register": "Publish", "HookCapital": "PUBLISH", "Moment": "about to be stored", "About": "refuses messages that are marked as spam"},
	"transform": {"Hook": "transform", "About": "marks messages with the property reviewed"},
	deliver:     {"Hook": "prepare", "Flag": " --hook prepare", "About": "delivers messages to a webhook"},
}

// KitDir is the directory of a project with copies of what it is written with.
const KitDir = "tidewheel"

// New makes a project: a plugin that works, with a test. What was written before an error stays.
func New(w Wanted) (*Project, error) {
	abs, err := filepath.Abs(w.Dir)
	if err != nil {
		return nil, err
	}
	if w.Name == "" {
		w.Name = filepath.Base(abs)
	}
	if err := CheckName(w.Name); err != nil {
		return nil, err
	}
	switch entries, err := os.ReadDir(w.Dir); {
	case err == nil && len(entries) > 0:
		return nil, fmt.Errorf("%s is there already and not empty; nothing was written", w.Dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	w.Kind = cmp.Or(w.Kind, Kinds[0])
	if words[w.Kind] == nil {
		return nil, fmt.Errorf("the kind is %q, allowed are %s", w.Kind, strings.Join(Kinds, ", "))
	}
	source := w.Kind
	if source == "publish" {
		source = "filter" // the same, at another time
	}
	for _, tree := range []string{"all", string(w.Lang), string(w.Lang) + "-" + source, "tests-" + source} {
		if err := fill(w, path.Join("templates", tree)); err != nil {
			return nil, err
		}
	}
	if err := WriteKit(filepath.Join(w.Dir, KitDir), w.Lang); err != nil {
		return nil, err
	}
	if w.Lang == AssemblyScript {
		for _, name := range []string{"package.json", "package-lock.json"} {
			content, err := fs.ReadFile(plugins.Sources(), path.Join("guest/as", name))
			if err != nil {
				return nil, err
			}
			if err := write(filepath.Join(w.Dir, name), content); err != nil {
				return nil, err
			}
		}
	}
	return Load(w.Dir)
}

// fill writes the templates of a tree, if there is one.
func fill(w Wanted, tree string) error {
	if _, err := fs.Stat(templates, tree); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	with := maps.Clone(words[w.Kind])
	with["Name"], with["Lang"], with["MinGo"] = w.Name, w.Lang.String(), minGo
	return fs.WalkDir(templates, tree, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := templates.ReadFile(file)
		if err != nil {
			return err
		}
		t, err := template.New(file).Delims("<<", ">>").Option("missingkey=zero").Parse(string(text))
		if err != nil {
			return err
		}
		var b bytes.Buffer
		if err := t.Execute(&b, with); err != nil {
			return err
		}
		name := strings.TrimSuffix(strings.TrimPrefix(file, tree+"/"), ".tmpl")
		name = strings.ReplaceAll(name, "HOOK", with["Hook"])
		if name == "gitignore" {
			name = ".gitignore" // embed leaves out what begins with a dot
		}
		return write(filepath.Join(w.Dir, filepath.FromSlash(name)), b.Bytes())
	})
}

func write(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	return os.WriteFile(name, content, 0o666)
}

// kitFiles says which sources are copied for a language, and where they go in the kit's directory.
var kitFiles = map[Lang][]struct{ from, to string }{
	Go:             {{"abi", "plugins/abi"}, {"guest", "plugins/guest"}, {"guest/golden", "plugins/guest/golden"}},
	C:              {{"guest/c", "."}, {"abi/ABI.md", "ABI.md"}},
	AssemblyScript: {{"guest/as", "."}, {"abi/ABI.md", "ABI.md"}},
}

// WriteKit writes what a plugin in a language is written with into a directory, over what is there. The Go kit is a module of
// its own with the import paths of this one, so that a project replaces the published module by it.
func WriteKit(dir string, lang Lang) error {
	for _, f := range kitFiles[lang] {
		err := fs.WalkDir(plugins.Sources(), f.from, func(name string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && name != f.from:
				return fs.SkipDir
			case d.IsDir(), strings.HasPrefix(d.Name(), "package"):
				return nil
			}
			content, err := fs.ReadFile(plugins.Sources(), name)
			if err != nil {
				return err
			}
			return write(filepath.Join(dir, filepath.FromSlash(f.to), filepath.FromSlash(strings.TrimPrefix(name, f.from))), content)
		})
		if err != nil {
			return fmt.Errorf("the kit of %v: %w", lang, err)
		}
	}
	if lang == Go {
		return write(filepath.Join(dir, "go.mod"), fmt.Appendf(nil, "module %s\n\ngo %s\n", kitModule, minGo))
	}
	return nil
}

// kitModule is the module that the Go kit is a part of.
const kitModule = "github.com/tidewheel/tidewheel"

// SameKit says whether a project's kit is the one that New would write. A directory without a kit has none that differs.
func (p *Project) SameKit() (bool, error) {
	if _, err := os.Stat(filepath.Join(p.Dir, KitDir)); err != nil {
		return errors.Is(err, fs.ErrNotExist), nil
	}
	tmp, err := os.MkdirTemp("", "tidewheel-kit")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(tmp)
	if err := WriteKit(tmp, p.Lang); err != nil {
		return false, err
	}
	same := true
	err = filepath.WalkDir(tmp, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(tmp, name)
		if err != nil {
			return err
		}
		want, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		got, err := os.ReadFile(filepath.Join(p.Dir, KitDir, rel))
		same = same && err == nil && bytes.Equal(got, want)
		return nil
	})
	return same, err
}

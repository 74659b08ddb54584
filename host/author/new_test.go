package author_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/host/author"
	"github.com/tidewheel/tidewheel/plugins/guest/golden"
)

// project makes a project of a language in a directory of its own.
func project(t *testing.T, lang author.Lang) *author.Project {
	t.Helper()
	p, err := author.New(author.Wanted{Dir: filepath.Join(t.TempDir(), "spam-filter"), Lang: lang})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// built builds it. A missing tool skips the test, unless PLUGIN_TOOLS says that all are there.
func built(t *testing.T, p *author.Project) author.Built {
	t.Helper()
	if testing.Short() {
		t.Skip("runs a compiler")
	}
	b, err := p.Build(context.Background(), io.Discard)
	var missing *author.MissingError
	if errors.As(err, &missing) && os.Getenv("PLUGIN_TOOLS") == "" {
		t.Skip(missing.Tool + " is missing")
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestNewGo: a project in Go builds with an empty module cache and without a network, passes go vet and its own native test,
// and is not of this repository.
func TestNewGo(t *testing.T) {
	p := project(t, author.Go)
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOFLAGS", "")
	t.Setenv("GOMODCACHE", t.TempDir())
	b := built(t, p)
	if got := b.Info.Manifest.Hooks; b.Info.Manifest.Name != "spam-filter" || len(got) != 1 || got[0] != "filter" {
		t.Errorf("manifest %+v", b.Info.Manifest)
	}
	for _, args := range [][]string{{"vet", "./..."}, {"test", "."}, {"mod", "tidy", "-diff"}} {
		cmd := exec.Command("go", args...)
		cmd.Dir = p.Dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("go %v: %v\n%s", args, err, out)
		}
	}
	again, err := p.Build(context.Background(), io.Discard)
	if err != nil || again.Info.Digest != b.Info.Digest {
		t.Errorf("a second build has another digest, or fails: %v", err)
	}
}

// TestNewC: the same with clang.
func TestNewC(t *testing.T) {
	b := built(t, project(t, author.C))
	if len(b.Info.Hooks) != 1 || len(b.Info.Manifest.Imports) != 1 {
		t.Errorf("%+v", b.Info)
	}
}

// TestNewKinds: each kind in each language builds without a warning and passes its own tests, compiled and in Go natively.
func TestNewKinds(t *testing.T) {
	projects := t.TempDir()
	// The compiler of AssemblyScript is that of the kit's own tests, if it was fetched, or that of the first project that needs one.
	compiler, err := filepath.Abs("../../plugins/guest/as/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(compiler, ".bin")); err != nil {
		compiler = ""
	}
	for _, lang := range author.Langs {
		for _, kind := range author.Kinds {
			if lang == author.AssemblyScript && kind == "publish" {
				continue // the source of a filter, and its compiler takes five seconds
			}
			t.Run(lang.String()+"/"+kind, func(t *testing.T) {
				if lang == author.AssemblyScript && compiler == "" && os.Getenv("PLUGIN_TOOLS") == "" {
					t.Skip("npm needs the network: npm ci in plugins/guest/as, or set PLUGIN_TOOLS")
				}
				p, err := author.New(author.Wanted{Dir: filepath.Join(projects, lang.String()+"-"+kind), Lang: lang, Kind: kind})
				if err != nil {
					t.Fatal(err)
				}
				modules := filepath.Join(p.Dir, "node_modules")
				if lang == author.AssemblyScript && compiler != "" {
					if err := os.Symlink(compiler, modules); err != nil {
						t.Fatal(err)
					}
				}
				b := built(t, p)
				if lang == author.AssemblyScript && compiler == "" {
					compiler = modules
				}
				if all := author.Warnings(b.Info); len(all) > 0 {
					t.Errorf("warnings: %q", all)
				}
				if got := author.ConfiguredHooks(author.Hooks(b.Info)); len(got) != 1 || got[0] != kind {
					t.Errorf("hooks %v", got)
				}
				module, err := os.ReadFile(b.File)
				if err != nil {
					t.Fatal(err)
				}
				s, err := author.Open(ctx, module, author.Setting{Interpreter: true}) // which starts at once
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				report, err := golden.Check(filepath.Join(p.Dir, author.TestDir), s.Decide, false)
				if err != nil || len(report.Diffs) > 0 {
					t.Errorf("%v, %v", report.Diffs, err)
				}
				if lang != author.Go || kind == "filter" || kind == "publish" { // TestNewGo has them
					return
				}
				cmd := exec.Command("go", "test", ".")
				cmd.Dir = p.Dir
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("go test: %v\n%s", err, out)
				}
			})
		}
	}
}

// TestNewRefuses: what is there is not touched, and names are checked.
func TestNewRefuses(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, w := range []author.Wanted{{Dir: dir, Name: "x"}, {Dir: filepath.Join(t.TempDir(), "with space")}, {Dir: filepath.Join(t.TempDir(), "x"), Name: "-x"}, {Dir: filepath.Join(t.TempDir(), "x"), Kind: "none"}} {
		w.Lang = author.Go
		if _, err := author.New(w); err == nil {
			t.Errorf("%+v: it was made", w)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("%d files", len(entries))
	}
}

// TestLoadRefuses: a directory that is no project, and one with a damaged manifest.
func TestLoadRefuses(t *testing.T) {
	dir := t.TempDir()
	if _, err := author.Load(dir); !errors.Is(err, author.ErrNoProject) {
		t.Errorf("got %v", err)
	}
	for manifest, want := range map[string]string{`{"name":"a b"}`: "the name", `{"nmae":"a"}`: "nmae", `{"name":"a"}`: "go.mod"} {
		if err := os.WriteFile(filepath.Join(dir, author.ManifestFile), []byte(manifest), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := author.Load(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", manifest, err, want)
		}
	}
}

// TestKit: a project's kit is the binary's until somebody changes it, and can be brought up to date.
func TestKit(t *testing.T) {
	p := project(t, author.C)
	if same, err := p.SameKit(); err != nil || !same {
		t.Errorf("new: %v %v", same, err)
	}
	kit := filepath.Join(p.Dir, author.KitDir)
	if err := os.WriteFile(filepath.Join(kit, "tidewheel.h"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if same, err := p.SameKit(); err != nil || same {
		t.Errorf("changed: %v %v", same, err)
	}
	if err := author.WriteKit(kit, author.C); err != nil {
		t.Fatal(err)
	}
	if same, err := p.SameKit(); err != nil || !same {
		t.Errorf("written anew: %v %v", same, err)
	}
}

// TestMissingTools: without a tool the error names it and says how to get it, and the last module stays.
func TestMissingTools(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for lang, tool := range map[author.Lang]string{author.Go: "Go 1.24 or later", author.C: "clang"} {
		p := project(t, lang)
		if err := os.WriteFile(p.Module(), []byte("old"), 0o666); err != nil {
			t.Fatal(err)
		}
		_, err := p.Build(context.Background(), io.Discard)
		var missing *author.MissingError
		if !errors.As(err, &missing) || missing.Tool != tool || !strings.Contains(err.Error(), "install") {
			t.Errorf("%v: %v", lang, err)
		}
		if b, _ := os.ReadFile(p.Module()); string(b) != "old" {
			t.Errorf("%v: the module was touched", lang)
		}
	}
}

package repo_test

import (
	"bytes"
	"go/ast"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// passiveExempt lists what in the engine's tree may reach the outside.
var passiveExempt = []struct{ tree, why string }{
	{"engine/vfs/osfs", "it is the file system of package os"},
	{"engine/enginetest", "it is test support: it reads the environment for seeds and volumes"},
	{"engine/internal/filetest", "it is test support"},
	{"engine/internal/golden", "it is test support: it reads and writes the golden files"},
	{"engine/wasmtest", "it is test support"},
	{"engine/mutants", "it is a program that runs tests"},
}

// clock lists what reads or waits for a clock; the engine has Env.Wall and Env.Mono.
var clock = map[string]bool{
	"Now": true, "Since": true, "Until": true, "Sleep": true, "After": true, "AfterFunc": true,
	"NewTimer": true, "NewTicker": true, "Tick": true,
}

// directly lists packages whose direct import takes the engine out of the caller's hands.
var directly = map[string]string{
	"context":      "a file write cannot be cancelled; contexts belong to the host",
	"math/rand":    "randomness comes from Env.Rand",
	"math/rand/v2": "randomness comes from Env.Rand",
	"os/exec":      "it starts processes",
	"os/signal":    "it starts a goroutine",
	"embed":        "a guest has no files",
}

// TestEngineIsPassive: the engine starts no goroutine, reads no clock and touches no process-wide file system, so that
// the same code runs in a host, in a simulation and in a WASM guest, where work left to a goroutine would never finish.
func TestEngineIsPassive(t *testing.T) {
	eachSource(t, func(s source) { passive(s, t.Errorf) })
}

func passive(s source, bad report) {
	if s.test() || !under(s.path, "engine") || exempt(s.path) {
		return
	}
	for name, path := range s.imports() {
		if why := directly[path]; why != "" {
			bad("%s imports %s: %s", s.path, path, why)
		}
		if name == "." {
			bad("%s: a dot import hides what is used from this test", s.path)
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			bad("%s: go statement; the host owns the threads", s.at(n))
		case *ast.FuncDecl:
			if n.Recv == nil && n.Name.Name == "init" {
				bad("%s: func init; a package that is only imported does nothing", s.at(n))
			}
		case *ast.CallExpr:
			id, ok := n.Fun.(*ast.Ident)
			if ok && id.Name == "panic" && id.Obj == nil && !under(s.path, "engine/internal/invariant") {
				bad("%s: panic; return an error, or assert with internal/invariant", s.at(n))
			}
		}
		return true
	})
	s.uses(s.file, func(pkg, name string, at ast.Node) {
		switch {
		case pkg == "time" && clock[name]:
			bad("%s: time.%s; take the time from Env or as an argument", s.at(at), name)
		case pkg == "os" && !strings.HasPrefix(name, "O_"):
			bad("%s: os.%s; files come through vfs.FS (the O_ constants are free)", s.at(at), name)
		case pkg == "runtime" && (name == "SetFinalizer" || name == "AddCleanup"):
			bad("%s: runtime.%s runs on a goroutine of its own", s.at(at), name)
		}
	})
}

func exempt(path string) bool {
	for _, e := range passiveExempt {
		if under(path, e.tree) {
			return true
		}
	}
	return false
}

// sleepers may call time.Sleep outside a synctest bubble, each for its reason.
var sleepers = []struct{ tree, why string }{}

// TestNoTestSleeps: a test that sleeps is slow when it passes and fails when the machine is busy. Inside a bubble of
// testing/synctest sleep costs nothing; elsewhere wait for the event itself.
func TestNoTestSleeps(t *testing.T) {
	eachSource(t, func(s source) {
		for _, e := range sleepers {
			if under(s.path, e.tree) {
				return
			}
		}
		awake(s, t.Errorf)
	})
}

func awake(s source, bad report) {
	if !s.test() && !underAny(s.path, testSupport) {
		return
	}
	bubbles := map[ast.Node]bool{}
	s.uses(s.file, func(pkg, name string, at ast.Node) {
		if pkg == "testing/synctest" && name == "Test" {
			bubbles[at] = true
		}
	})
	ast.Inspect(s.file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && bubbles[call.Fun] {
			return false // what is written inside a bubble
		}
		if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Sleep" {
			if x, ok := sel.X.(*ast.Ident); ok && s.imports()[x.Name] == "time" {
				bad("%s: time.Sleep in a test: wait for the event, or use testing/synctest", s.at(n))
			}
		}
		return true
	})
}

var (
	work  = regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b`)
	owned = regexp.MustCompile(`\bTODO\([a-z][a-z0-9-]*\): \S`)
)

// TestWorkLeftHasAName: work left is an issue; if it must be a comment, it says who and what makes it due.
func TestWorkLeftHasAName(t *testing.T) {
	eachSource(t, func(s source) { named(s, t.Errorf) })
}

func named(s source, bad report) {
	for _, group := range s.file.Comments {
		for _, c := range group.List {
			if work.MatchString(owned.ReplaceAllString(c.Text, "")) {
				bad("%s: %q: write TODO(name): what, and the condition that makes it due", s.at(c), c.Text)
			}
		}
	}
}

// placeNames match what only its author's machine knows. They are put together here so that this file does not contain them.
var placeNames = func() []*regexp.Regexp {
	var all []*regexp.Regexp
	for _, dir := range []string{"work", "root", "tmp/spec", "home"} {
		all = append(all, regexp.MustCompile("(^|[\\s\"'`(=:])/"+dir+"/[A-Za-z0-9._-]"))
	}
	for _, host := range [][2]string{
		{"proxy", "golang.org"}, {"sum", "golang.org"}, {"registry", "npmjs.org"}, {"registry", "yarnpkg.com"},
		{"files", "pythonhosted.org"}, {"pypi", "org"}, {"static", "crates.io"}, {"index", "crates.io"},
		{"repo1", "maven.org"}, {"repo", "maven.apache.org"}, {"deb", "debian.org"}, {"security", "debian.org"},
	} {
		all = append(all, regexp.MustCompile(`\b`+regexp.QuoteMeta(host[0]+"."+host[1])+`\b`))
	}
	return all
}()

// TestFilesNameNoMachine reads every tracked file: a path of one machine or the host of a package registry makes the
// repository work in one place only.
func TestFilesNameNoMachine(t *testing.T) {
	out, err := exec.Command("git", "ls-files", "-z").Output()
	if err != nil {
		t.Skipf("not a git checkout: git ls-files: %v", err)
	}
	for _, name := range strings.Split(strings.TrimRight(string(out), "\x00"), "\x00") {
		text, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue // tracked and deleted in the work tree
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if bytes.IndexByte(text, 0) >= 0 {
			continue
		}
		places(name, text, t.Errorf)
	}
}

func places(name string, text []byte, bad report) {
	for i, line := range bytes.Split(text, []byte("\n")) {
		for _, re := range placeNames {
			if m := re.Find(line); m != nil {
				bad("%s:%d: %q belongs to one machine or names a registry's host", name, i+1, m)
			}
		}
	}
}

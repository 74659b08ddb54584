package repo_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// TestRulesSee shows each rule a file that breaks it and one beside it that does not: a rule that sees nothing would
// pass for ever.
func TestRulesSee(t *testing.T) {
	long := "package a\nfunc F() {\n" + strings.Repeat("_ = 1\n", maxFuncLines) + "}\n"
	cases := []struct {
		name string
		rule func(source, report)
		path string
		text string
		want string // part of the report; empty: nothing is wrong
	}{
		{"comment of another package", packageComment, "a/a.go", "// Package b is.\npackage a", "go doc expects"},
		{"package comment", packageComment, "a/a.go", "// Package a is.\npackage a", ""},
		{"command comment", packageComment, "a/a.go", "// Tool does.\npackage main", ""},

		{"long file", size, "a/a.go", "package a\n" + strings.Repeat("\n", maxFileLines), "split it"},
		{"long function", size, "a/a.go", long, "give its parts names"},
		{"long test", size, "a/a_test.go", long, ""},

		{"function", documented, "a/a.go", "package a\nfunc F() {}", "F is exported"},
		{"method", documented, "a/a.go", "package a\ntype t int\n// T is.\ntype T int\nfunc (T) M() {}", "M is exported"},
		{"generic method", documented, "a/a.go", "package a\n// T is.\ntype T[E any] int\nfunc (*T[E]) M() {}", "M is exported"},
		{"type", documented, "a/a.go", "package a\ntype T int", "T is exported"},
		{"constant", documented, "a/a.go", "package a\nconst C = 1", "C is exported"},
		{"interface method", documented, "a/a.go", "package a\n// I is.\ntype I interface {\nM()\nN() // it\n}", "I.M is exported"},
		{"group, line comment, hidden receiver, String", documented, "a/a.go",
			"package a\n// All of them.\nconst (\nC = 1\nD = 2\n)\nvar V = 1 // it\ntype t int\nfunc (t) M() {}\n// T is.\ntype T int\nfunc (T) String() string { return \"\" }", ""},
		{"tests", documented, "a/a_test.go", "package a\nfunc F() {}", ""},

		{"goroutine", passive, "engine/a/a.go", "package a\nfunc f() { go f() }", "go statement"},
		{"goroutine elsewhere", passive, "host/a.go", "package a\nfunc f() { go f() }", ""},
		{"clock", passive, "engine/a.go", "package a\nimport \"time\"\nvar x = time.Now()", "time.Now"},
		{"clock by another name", passive, "engine/a.go", "package a\nimport clock \"time\"\nvar x = clock.Since", "time.Since"},
		{"a variable called time", passive, "engine/a.go", "package a\nfunc f(time T) { time.Now() }", ""},
		{"durations", passive, "engine/a.go", "package a\nimport \"time\"\nvar x = time.Second", ""},
		{"dot import", passive, "engine/a.go", "package a\nimport . \"time\"\nvar x = Now()", "dot import"},
		{"files", passive, "engine/a.go", "package a\nimport \"os\"\nvar x = os.Open", "os.Open"},
		{"flags of files", passive, "engine/a.go", "package a\nimport \"os\"\nvar x = os.O_RDWR", ""},
		{"the file system of package os", passive, "engine/vfs/osfs/a.go", "package a\nimport \"os\"\nvar x = os.Open", ""},
		{"context", passive, "engine/a.go", "package a\nimport \"context\"\nvar x context.Context", "cannot be cancelled"},
		{"random numbers", passive, "engine/a.go", "package a\nimport \"math/rand/v2\"\nvar x = rand.Int()", "Env.Rand"},
		{"init", passive, "engine/a.go", "package a\nfunc init() {}", "func init"},
		{"panic", passive, "engine/a.go", "package a\nfunc f() { panic(1) }", "panic"},
		{"finalizer", passive, "engine/a.go", "package a\nimport \"runtime\"\nvar x = runtime.AddCleanup[int, int]", "goroutine of its own"},

		{"sleep", awake, "a/a_test.go", "package a\nimport \"time\"\nfunc f() { time.Sleep(1) }", "time.Sleep"},
		{"sleep in a bubble", awake, "a/a_test.go",
			"package a\nimport (\n\"testing\"\n\"testing/synctest\"\n\"time\"\n)\nfunc f(t *testing.T) { synctest.Test(t, func(t *testing.T) { time.Sleep(1) }) }", ""},
		{"sleep in a program", awake, "a/a.go", "package a\nimport \"time\"\nfunc f() { time.Sleep(1) }", ""},

		{"nameless work", named, "a/a.go", "package a\n// TO" + "DO: more", "write TODO(name)"},
		{"other words for it", named, "a/a.go", "package a\n// FIX" + "ME later", "write TODO(name)"},
		{"named work", named, "a/a.go", "package a\n// TODO(ann): more, when there is a second lane", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, c.path, c.text, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			judge(t, c.want, func(bad report) { c.rule(source{c.path, []byte(c.text), fset, file}, bad) })
		})
	}
}

func TestPlacesSee(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"cd /wo" + "rk/main", "one machine"},
		{"see `/ro" + "ot/x`", "one machine"},
		{"https://proxy." + "golang.org/x", "registry"},
		{"net/work/a and https://example.org/home/a", ""},
		{"golang.org/x/sys v0.1.0", ""},
	} {
		t.Run(c.text, func(t *testing.T) {
			judge(t, c.want, func(bad report) { places("a.md", []byte(c.text), bad) })
		})
	}
}

// judge expects one report that contains want, or none when want is empty.
func judge(t *testing.T, want string, rule func(report)) {
	t.Helper()
	var got []string
	rule(func(format string, args ...any) { got = append(got, fmt.Sprintf(format, args...)) })
	switch {
	case want == "" && len(got) > 0:
		t.Errorf("reported %q, nothing is wrong", got)
	case want != "" && (len(got) != 1 || !strings.Contains(got[0], want)):
		t.Errorf("reported %q, want one with %q", got, want)
	}
}

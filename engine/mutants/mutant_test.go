package main

import (
	"bytes"
	"go/format"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestTableFits: each row's old text stands once in its file, and what the row makes of the file is Go. So a change of the
// engine that leaves a mutant behind is seen at once, although the mutants are run by hand.
func TestTableFits(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, m := range table {
		if names[m.name] {
			t.Errorf("%s: two rows have this name", m.name)
		}
		names[m.name] = true
		if m.name == "" || m.breaks == "" || m.pkg == "" || m.test == "" {
			t.Errorf("%q: a column is empty", m.name)
		}
		text, err := m.apply(root)
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := format.Source(text); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

// toy is a module with one function, one test, and one test that is always red.
func toy(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module toy\n\ngo 1.26\n",
		"toy.go": "package toy\n\nfunc Sum(a, b int) int {\n\tif a == 7 {\n\t\tfor i := 0; i < b; i++ {\n\t\t\ta++\n\t\t}\n\t\treturn a\n\t}\n\treturn a + b\n}\n",
		"toy_test.go": "package toy\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\tt.Run(\"small\", func(t *testing.T) {\n\t\tif Sum(1, 2) != 3 || Sum(7, 1) != 8 {\n\t\t\tt.Error(\"wrong\")\n\t\t}\n\t})\n}\n" +
			"\nfunc TestRed(t *testing.T) { t.Error(\"always\") }\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestJudge(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a module several times")
	}
	root := toy(t)
	row := func(name, old, new, test string) mutant {
		return mutant{name: name, file: "toy.go", old: old, new: new, pkg: ".", test: test, breaks: "arithmetic"}
	}
	var out bytes.Buffer
	results, err := judge(root, []mutant{
		row("minus", "a + b", "a - b", "^TestSum$"),
		row("lives", "a + b", "b + a", "^TestSum$"),
		row("panics", "return a + b", "panic(a + b)", "^TestSum$"),
		row("hangs", "i < b", "i < b || true", "^TestSum$"),
	}, 2*time.Second, &out)
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		found bool
		by    string
	}{{true, "TestSum/small"}, {false, "LIVES"}, {true, "TestSum/small"}, {true, "the test did not end"}}
	for i, r := range results {
		if r.found != want[i].found || r.by != want[i].by {
			t.Errorf("%s: found %v by %q, want %v by %q", r.name, r.found, r.by, want[i].found, want[i].by)
		}
	}
	if n := strings.Count(out.String(), "no mutant"); n != 1 {
		t.Errorf("the same test ran %d times without a mutant, want once:\n%s", n, &out)
	}

	readme := filepath.Join(root, "README.md")
	if err := os.WriteFile(readme, []byte("above\n"+tableBegin+"old\n"+tableEnd+"below\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeTable(readme, results); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"above\n", "below\n", "| minus | arithmetic | TestSum/small |", "3 of 4 found"} {
		if !strings.Contains(string(text), part) {
			t.Errorf("README.md has no %q:\n%s", part, text)
		}
	}
	if strings.Contains(string(text), "old") {
		t.Errorf("README.md keeps the old table:\n%s", text)
	}
}

// TestJudgeRefuses: what cannot be judged is not counted as found.
func TestJudgeRefuses(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a module several times")
	}
	root := toy(t)
	for _, c := range []struct{ name, old, new, test, want string }{
		{"old text twice", "return a", "return b", "^TestSum$", "stands 2 times"},
		{"old text gone", "a * b", "a", "^TestSum$", "stands 0 times"},
		{"no change", "a + b", "a + b", "^TestSum$", "changes nothing"},
		{"not Go", "a + b", "a +", "^TestSum$", "NOT JUDGED: does not build"},
		{"no test", "a + b", "a - b", "^TestNone$", "NOT JUDGED: without the mutant: no test"},
		{"red without a mutant", "a + b", "a - b", "^TestRed$", "NOT JUDGED: without the mutant: TestRed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := mutant{name: c.name, file: "toy.go", old: c.old, new: c.new, pkg: ".", test: c.test}
			results, err := judge(root, []mutant{m}, time.Minute, &bytes.Buffer{})
			got := ""
			switch {
			case err != nil:
				got = err.Error()
			case len(results) == 1 && !results[0].found:
				got = results[0].by
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("results %+v, error %v, want one with %q", results, err, c.want)
			}
		})
	}
}

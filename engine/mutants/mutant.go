package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// mutant is one seeded bug: in file, old becomes new.
type mutant struct {
	name   string
	breaks string // the promise or rule, in one line
	file   string // from the root of the module
	old    string // stands in the file exactly once
	new    string
	pkg    string // of the test that must find it, as go test takes it
	test   string // -run
	env    string // "NAME=value" for the test, or empty
}

// result is what became of a mutant.
type result struct {
	mutant
	found bool
	by    string // the test that failed first, or what else happened
	took  time.Duration
}

// moduleRoot is the directory of go.mod.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	mod := strings.TrimSpace(string(out))
	if filepath.Base(mod) != "go.mod" {
		return "", errors.New("not in a module")
	}
	return filepath.Dir(mod), nil
}

// apply returns the text of the mutant's file with the bug in it.
func (m mutant) apply(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.file)))
	if err != nil {
		return nil, err
	}
	if n := bytes.Count(text, []byte(m.old)); n != 1 {
		return nil, fmt.Errorf("%s: the old text stands %d times in %s, want once", m.name, n, m.file)
	}
	if m.old == m.new {
		return nil, fmt.Errorf("%s changes nothing", m.name)
	}
	return bytes.Replace(text, []byte(m.old), []byte(m.new), 1), nil
}

// judge runs the tests without a mutant, then each mutant, and reports as it goes. What cannot be judged is not found:
// a mutant that does not build, a test that is not there or fails anyway. An error says that a row does not fit.
func judge(root string, mutants []mutant, limit time.Duration, out io.Writer) ([]result, error) {
	scratch, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)
	for _, m := range mutants {
		if _, err := m.apply(root); err != nil {
			return nil, err
		}
	}
	type test struct{ pkg, test, env string }
	health := map[test]string{}
	for _, m := range mutants {
		key := test{m.pkg, m.test, m.env}
		if _, known := health[key]; known {
			continue
		}
		r, log := m.run(root, "", limit)
		by := "passes"
		if r.by != "" {
			by = r.by + "\n" + log
		}
		health[key] = r.by
		fmt.Fprintf(out, "%-32s %6.1f s  %s %s: %s\n", "no mutant", r.took.Seconds(), m.pkg, m.test, by)
	}
	var results []result
	for _, m := range mutants {
		var r result
		var log string
		if by := health[test{m.pkg, m.test, m.env}]; by != "" {
			r = result{mutant: m, by: "NOT JUDGED: without the mutant: " + by}
		} else {
			overlay, err := m.overlay(root, scratch)
			if err != nil {
				return nil, err
			}
			r, log = m.run(root, overlay, limit)
			switch {
			case r.found:
				log = ""
			case r.by == "":
				r.by, log = "LIVES", ""
			default:
				r.by, log = "NOT JUDGED: "+r.by, "\n"+log
			}
		}
		fmt.Fprintf(out, "%-32s %6.1f s  %s%s\n", m.name, r.took.Seconds(), r.by, log)
		results = append(results, r)
	}
	return results, nil
}

// overlay writes the changed file and the list that tells the compiler to use it.
func (m mutant) overlay(root, scratch string) (list string, err error) {
	text, err := m.apply(root)
	if err != nil {
		return "", err
	}
	changed := filepath.Join(scratch, "changed.go")
	if err := os.WriteFile(changed, text, 0o600); err != nil {
		return "", err
	}
	b, err := json.Marshal(map[string]map[string]string{
		"Replace": {filepath.Join(root, filepath.FromSlash(m.file)): changed},
	})
	if err != nil {
		return "", err
	}
	list = filepath.Join(scratch, "overlay.json")
	return list, os.WriteFile(list, b, 0o600)
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// run runs the mutant's test. When nothing was found, r.by is empty if the test passed and says what is wrong if it
// could not be judged.
func (m mutant) run(root, overlay string, limit time.Duration) (r result, output string) {
	args := []string{"test", "-count=1", "-failfast", "-timeout", limit.String(), "-run", m.test}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.Command("go", append(args, m.pkg)...)
	cmd.Dir = root
	cmd.Env = os.Environ()
	if m.env != "" {
		cmd.Env = append(cmd.Env, m.env)
	}
	start := time.Now()
	log, err := cmd.CombinedOutput()
	r = result{mutant: m, took: time.Since(start)}
	names := failed.FindAllSubmatch(log, -1)
	switch {
	case bytes.Contains(log, []byte("[no tests to run]")), bytes.Contains(log, []byte("[no test files]")):
		r.by = "no test has that name"
	case err == nil:
	case bytes.Contains(log, []byte("[build failed]")), bytes.Contains(log, []byte("[setup failed]")):
		r.by = "does not build"
	case bytes.Contains(log, []byte("panic: test timed out")):
		r.found, r.by = true, "the test did not end"
	case len(names) > 0:
		// A subtest is printed below its test: the deepest of the first failure says most.
		name := string(names[0][1])
		for _, n := range names[1:] {
			if !strings.HasPrefix(string(n[1]), name+"/") {
				break
			}
			name = string(n[1])
		}
		r.found, r.by = true, name
	case bytes.Contains(log, []byte("panic: ")):
		r.found, r.by = true, "panic"
	default:
		r.by = "go test: " + err.Error()
	}
	return r, string(log)
}

const (
	tableBegin = "<!-- written by go run ./engine/mutants -write -->\n"
	tableEnd   = "<!-- end -->\n"
)

// writeTable puts the results between the marks of a Markdown file.
func writeTable(path string, results []result) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(text), tableBegin)
	_, tail, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		return fmt.Errorf("%s: the marks of the table are missing", path)
	}
	var b strings.Builder
	b.WriteString("| mutant | what it breaks | found by | seconds |\n|---|---|---|---|\n")
	found := 0
	for _, r := range results {
		fmt.Fprintf(&b, "| %s | %s | %s | %.1f |\n", r.name, r.breaks, r.by, r.took.Seconds())
		if r.found {
			found++
		}
	}
	fmt.Fprintf(&b, "\n%d of %d found.\n", found, len(results))
	return os.WriteFile(path, []byte(head+tableBegin+b.String()+tableEnd+tail), 0o644)
}

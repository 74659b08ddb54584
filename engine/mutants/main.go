// Mutants seeds small bugs into the engine, one at a time, and runs the test that must find each.
//
//	go run ./engine/mutants                 all of table.go, in order
//	go run ./engine/mutants -run 'sync|log' those whose name matches
//	go run ./engine/mutants -list           names and what they break
//	go run ./engine/mutants -write          write the table of README.md too
//
// A test suite is judged by what it finds. A mutant that lives is a promise that no test keeps; the exit code is then 1.
// Nothing is changed on disk: the compiler is given the changed text by an overlay. Before any mutant, each test is run
// once without one and has to pass, since a test that fails anyway finds nothing.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(stderr)
	match := flags.String("run", "", "run the mutants whose name matches this regular expression")
	list := flags.Bool("list", false, "list the mutants and run nothing")
	write := flags.Bool("write", false, "write the table into engine/mutants/README.md")
	limit := flags.Duration("timeout", 3*time.Minute, "time for each test; one that takes longer has found the mutant")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	pattern, err := regexp.Compile(*match)
	if err != nil {
		fmt.Fprintln(stderr, "mutants: -run:", err)
		return 2
	}
	root, err := moduleRoot()
	if err != nil {
		fmt.Fprintln(stderr, "mutants:", err)
		return 1
	}
	var chosen []mutant
	for _, m := range table {
		if pattern.MatchString(m.name) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		fmt.Fprintln(stderr, "mutants: no name matches", *match)
		return 2
	}
	if *list {
		for _, m := range chosen {
			fmt.Fprintf(stdout, "%-32s %s\n", m.name, m.breaks)
		}
		return 0
	}
	results, err := judge(root, chosen, *limit, stdout)
	if err != nil {
		fmt.Fprintln(stderr, "mutants:", err)
		return 1
	}
	if *write {
		if len(chosen) < len(table) {
			fmt.Fprintln(stderr, "mutants: -write needs all of them")
			return 2
		}
		if err := writeTable(filepath.Join(root, "engine", "mutants", "README.md"), results); err != nil {
			fmt.Fprintln(stderr, "mutants:", err)
			return 1
		}
	}
	found := 0
	for _, r := range results {
		if r.found {
			found++
		}
	}
	fmt.Fprintf(stdout, "%d of %d found\n", found, len(results))
	if found < len(results) {
		return 1
	}
	return 0
}

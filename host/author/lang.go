package author

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Lang is a language that plugins are written in.
type Lang string

// The languages.
const (
	Go             Lang = "go"
	C              Lang = "c"
	AssemblyScript Lang = "as"
)

// Langs are all languages.
var Langs = []Lang{Go, AssemblyScript, C}

// String is the name of the language for people.
func (l Lang) String() string {
	switch l {
	case Go:
		return "Go"
	case C:
		return "C"
	case AssemblyScript:
		return "AssemblyScript"
	}
	return string(l)
}

// ParseLang reads what --lang says.
func ParseLang(s string) (Lang, error) {
	for _, l := range Langs {
		if s == string(l) {
			return l, nil
		}
	}
	return "", fmt.Errorf("the language is %q, allowed is go, as, c", s)
}

// langOf tells the language of a project by its files.
func langOf(dir string) (Lang, error) {
	for _, sign := range []struct {
		file string
		lang Lang
	}{{"go.mod", Go}, {"package.json", AssemblyScript}} {
		if _, err := os.Stat(filepath.Join(dir, sign.file)); err == nil {
			return sign.lang, nil
		}
	}
	for _, sign := range []struct {
		files string
		lang  Lang
	}{{"*.go", Go}, {"*.c", C}} { // a plugin in Go may be a package of a larger module
		if files, _ := filepath.Glob(filepath.Join(dir, sign.files)); len(files) > 0 { // the pattern is fine
			return sign.lang, nil
		}
	}
	return "", fmt.Errorf("%s has no go.mod, no package.json and no file that ends with .go or .c: the language can't be told", dir)
}

// MissingError says that a tool is not on this machine, or is too old, and how to get it.
type MissingError struct {
	Tool string // "clang"
	Why  string // what it is for, or what is wrong with the one that is there
	Get  []string
}

// Error says all of it, a line for each way to get the tool.
func (e *MissingError) Error() string {
	return fmt.Sprintf("%s is missing: %s\n  %s", e.Tool, e.Why, strings.Join(e.Get, "\n  "))
}

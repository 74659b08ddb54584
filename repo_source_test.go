package repo_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	maxFileLines = 700 // aim at 400
	maxFuncLines = 80
)

// source is one hand-written Go file of the repository, nested modules included.
type source struct {
	path string // slash-separated, relative to the root
	text []byte
	fset *token.FileSet
	file *ast.File
}

func (s source) test() bool             { return strings.HasSuffix(s.path, "_test.go") }
func (s source) dir() string            { return path.Dir(s.path) }
func (s source) at(n ast.Node) string   { return s.fset.Position(n.Pos()).String() }
func (s source) lines(n ast.Node) int   { return s.line(n.End()) - s.line(n.Pos()) + 1 }
func (s source) line(pos token.Pos) int { return s.fset.Position(pos).Line }

// imports maps the name by which the file knows a package to its path.
func (s source) imports() map[string]string {
	names := map[string]string{}
	for _, imp := range s.file.Imports {
		p, _ := strconv.Unquote(imp.Path.Value)
		name := path.Base(p)
		if strings.HasPrefix(name, "v") && strings.Trim(name[1:], "0123456789") == "" {
			name = path.Base(path.Dir(p)) // math/rand/v2 is rand
		}
		if imp.Name != nil {
			name = imp.Name.Name
		}
		names[name] = p
	}
	return names
}

// uses calls fn for each mention of a package's name in n: os.Open is fn("os", "Open").
func (s source) uses(n ast.Node, fn func(pkg, name string, at ast.Node)) {
	imports := s.imports()
	ast.Inspect(n, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Obj == nil && imports[x.Name] != "" {
				fn(imports[x.Name], sel.Sel.Name, sel)
			}
		}
		return true
	})
}

// sources parses the tree once for all tests.
var sources = sync.OnceValues(func() ([]source, error) {
	var all []source
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base := d.Name(); d.IsDir() && name != "." && (base == "testdata" || base == "node_modules" || base[0] == '.') {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, text, parser.ParseComments)
		if err != nil {
			return err
		}
		if !ast.IsGenerated(file) {
			all = append(all, source{filepath.ToSlash(name), text, fset, file})
		}
		return nil
	})
	return all, err
})

// eachSource calls fn for every hand-written file, tests included.
func eachSource(t *testing.T, fn func(s source)) {
	t.Helper()
	all, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("found no Go file")
	}
	for _, s := range all {
		fn(s)
	}
}

// report takes one violation.
type report func(format string, args ...any)

// TestPackageComments: a package comment that does not touch the package clause is invisible to go doc, two are joined
// in an order that nobody chose.
func TestPackageComments(t *testing.T) {
	comments := map[string]int{} // by directory
	eachSource(t, func(s source) {
		if s.test() {
			return
		}
		comments[s.dir()] += 0
		if s.file.Doc != nil {
			comments[s.dir()]++
			packageComment(s, t.Errorf)
		}
	})
	for dir, n := range comments {
		if n != 1 {
			t.Errorf("%s has %d package comments, want 1: it must touch the package clause, in one file", dir, n)
		}
	}
}

func packageComment(s source, bad report) {
	want := "Package " + s.file.Name.Name + " "
	if s.file.Name.Name == "main" {
		want = "" // a command's comment begins with its name
	}
	if text := s.file.Doc.Text(); !strings.HasPrefix(text, want) {
		bad("%s: the package comment begins %.30q, go doc expects %q", s.path, text, want)
	}
}

func TestFileAndFunctionSize(t *testing.T) {
	eachSource(t, func(s source) { size(s, t.Errorf) })
}

func size(s source, bad report) {
	if s.test() {
		return
	}
	if n := bytes.Count(s.text, []byte("\n")); n > maxFileLines {
		bad("%s has %d lines, the limit is %d: split it by responsibility", s.path, n, maxFileLines)
	}
	for _, d := range s.file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && s.lines(f) > maxFuncLines {
			bad("%s: %s has %d lines, the limit is %d: give its parts names", s.at(f), f.Name.Name, s.lines(f), maxFuncLines)
		}
	}
}

// TestExportedNamesAreDocumented covers constants, variables, types, functions, methods and interface methods. A
// comment on a group of constants or variables documents the group.
func TestExportedNamesAreDocumented(t *testing.T) {
	eachSource(t, func(s source) { documented(s, t.Errorf) })
}

// wellKnown methods mean the same on every type.
var wellKnown = map[string]bool{"Error": true, "String": true, "Unwrap": true, "Is": true}

func documented(s source, bad report) {
	if s.test() || s.file.Name.Name == "main" {
		return
	}
	miss := func(n ast.Node, name string) {
		bad("%s: %s is exported and has no comment: say what it is, its units, what is returned on error, who owns memory", s.at(n), name)
	}
	for _, d := range s.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			known := d.Recv != nil && wellKnown[d.Name.Name]
			if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) && !known {
				miss(d, d.Name.Name)
			}
		case *ast.GenDecl:
			documentedSpecs(d, miss)
		}
	}
}

func exportedReceiver(f *ast.FuncDecl) bool {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return true
	}
	typ := f.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return true
		}
	}
}

func documentedSpecs(d *ast.GenDecl, miss func(ast.Node, string)) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.IsExported() && d.Doc == nil && spec.Doc == nil {
				miss(spec, spec.Name.Name)
			}
			iface, ok := spec.Type.(*ast.InterfaceType)
			if !ok || !spec.Name.IsExported() || len(iface.Methods.List) < 2 {
				continue // the comment of a one-method interface speaks of the method
			}
			for _, m := range iface.Methods.List {
				if len(m.Names) == 1 && m.Names[0].IsExported() && m.Doc == nil && m.Comment == nil {
					miss(m, spec.Name.Name+"."+m.Names[0].Name)
				}
			}
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				if name.IsExported() && d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
					miss(name, name.Name)
				}
			}
		}
	}
}

// TestPackagesAreTested: what is exported has a test or an example in its own directory.
func TestPackagesAreTested(t *testing.T) {
	exports, tested := map[string]string{}, map[string]bool{}
	eachSource(t, func(s source) {
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			switch {
			case s.test() && ok && f.Recv == nil && isTestName(f.Name.Name):
				tested[s.dir()] = true
			case !s.test() && ok && f.Name.IsExported() && s.file.Name.Name != "main":
				exports[s.dir()] = f.Name.Name
			}
		}
	})
	for dir, name := range exports {
		if !tested[dir] {
			t.Errorf("%s exports %s and others and has no test and no example: a promise that nothing keeps", dir, name)
		}
	}
}

func isTestName(name string) bool {
	for _, prefix := range []string{"Test", "Example", "Fuzz"} {
		if strings.HasPrefix(name, prefix) && name != "TestMain" {
			return true
		}
	}
	return false
}

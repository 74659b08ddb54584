package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/afero"

	"github.com/tidewheel/tidewheel/engine/record"
	"github.com/tidewheel/tidewheel/fsadapter"
	"github.com/tidewheel/tidewheel/host/broker"
)

// everyKey calls fn for the keys of Config, those of tables that repeat included, with a struct that holds each.
func everyKey(fn func(k *key, in reflect.Value)) {
	schema().each(reflect.ValueOf(&Config{}).Elem(), fn)
	for _, s := range schema().tables {
		if s.list {
			s.each(reflect.New(s.typ).Elem(), fn)
		}
	}
}

func TestTags(t *testing.T) {
	words := map[string]string{}
	everyKey(func(k *key, in reflect.Value) {
		numeric := k.kind == kindNumber || k.kind == kindSize || k.kind == kindDuration
		switch {
		case k.word == "" || k.word != strings.ToLower(k.word) || strings.Contains(k.word, "__"):
			t.Errorf("%s: the name must be of lower case, and no variable may be ambiguous", k.name())
		case !strings.HasSuffix(k.doc, "."):
			t.Errorf("%s: doc %q is no sentence", k.name(), k.doc)
		case numeric != (k.min != ""):
			t.Errorf("%s: a number has a range and nothing else has one", k.name())
		case (k.def == "auto") != (k.auto != ""):
			t.Errorf("%s: default is %q, auto is %q", k.name(), k.def, k.auto)
		case k.unit == "" && k.kind != kindBool && len(k.words) == 0 && k.word != "order":
			t.Errorf("%s has no unit", k.name())
		case k.required && k.def != "", !k.required && k.def == "" && !mayBeEmpty(k):
			t.Errorf("%s: default is %q, required is %v", k.name(), k.def, k.required)
		case k.required != (k.example != ""):
			t.Errorf("%s: a key that must be given has an example, and no other one: %q", k.name(), k.example)
		}
		// A default is written as the key's value is printed, so that show, docs and init say the same.
		if !k.required && k.kind != kindSecret && k.kind != kindObject {
			if err := k.set(in, k.def); err != nil || k.text(in) != k.def {
				t.Errorf("%s: default %q is printed as %q, %v", k.name(), k.def, k.text(in), err)
			}
		}
		if before, twice := words[k.variable()]; twice {
			t.Errorf("%s and %s have one variable", before, k.name())
		}
		words[k.variable()] = k.name()
	})
	var docs func(of *table)
	docs = func(of *table) {
		for _, table := range of.tables {
			if table.doc == "" {
				t.Errorf("[%s] has no doc", table.name)
			}
			docs(table)
		}
	}
	docs(schema())
	if most := schema().sub("topic").keys[1].max; most != strconv.Itoa(record.MaxQueues) {
		t.Errorf("a topic may have %s queues, the engine says %d", most, record.MaxQueues)
	}
}

// mayBeEmpty says whether a key without a value is one that makes sense.
func mayBeEmpty(k *key) bool {
	return k.unit == "file" || k.unit == "SHA-256" || k.kind == kindTexts || k.kind == kindSecret || k.kind == kindObject
}

// other is a value of a key that is not its default.
func other(k *key) string {
	for _, text := range append([]string{k.max, k.min, "1TiB", "true", "1s 2s", "127.0.0.1:1", "elsewhere"}, k.words...) {
		if text != "" && text != k.def && k.set(k.holder(reflect.ValueOf(&Config{}).Elem()), text) == nil {
			return text
		}
	}
	return ""
}

// TestEveryOptionHasItsKey: what can be tuned can be tuned by an operator, and a key that does nothing is a lie.
func TestEveryOptionHasItsKey(t *testing.T) {
	elsewhere := map[string]bool{ // the server uses them
		"data_dir": true, "memory_limit": true, "listen.http": true, "listen.tls_cert": true, "listen.tls_key": true,
		"auth.tokens_file": true, "logging.format": true, "logging.level": true,
		"plugins.dir": true, "plugins.cache_dir": true, "plugins.reload_interval": true, "plugins.memory_total": true,
		"plugins.require_pin": true,
	}
	var flags []Flag
	schema().each(reflect.ValueOf(&Config{}).Elem(), func(k *key, _ reflect.Value) {
		text := other(k)
		if text == "" {
			t.Errorf("%s: no value but its default was found", k.name())
			return
		}
		flag := Flag{Name: "--" + k.word, Key: k.name(), Value: text}
		flags = append(flags, flag)
		c, err := Load(Source{Flags: append(partners(k), flag)})
		if err != nil {
			t.Fatal(err)
		}
		if same := reflect.DeepEqual(c.Broker(), Default().Broker()); same != elsewhere[k.name()] {
			t.Errorf("%s = %s: the options are those of the default: %v", k.name(), text, same)
		}
	})
	c, err := Load(Source{Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	var compare func(where string, a, b reflect.Value)
	compare = func(where string, a, b reflect.Value) {
		for i := range a.NumField() {
			name := where + "." + a.Type().Field(i).Name
			switch {
			case name == "broker.Options.Engine":
				compare("engine.Options", a.Field(i), b.Field(i))
			case name == "engine.Options.Progress", name == "engine.Options.Stage", name == "broker.Options.Hooks": // of the server
			case a.Field(i).Equal(b.Field(i)):
				t.Errorf("%s has no key", name)
			}
		}
	}
	compare("broker.Options", reflect.ValueOf(c.Broker()), reflect.ValueOf(Default().Broker()))
}

// partners are the flags without which a key alone is refused.
func partners(k *key) []Flag {
	if strings.HasPrefix(k.word, "tls_") {
		return []Flag{{"--x", "listen.tls_cert", "x"}, {"--x", "listen.tls_key", "x"}}
	}
	return nil
}

// TestRangesAreTheEngines: what a range allows, the engine and the broker allow.
func TestRangesAreTheEngines(t *testing.T) {
	fsys := fsadapter.New(afero.NewReadOnlyFs(afero.NewMemMapFs())) // nothing is made: options are looked at before
	schema().each(reflect.ValueOf(&Config{}).Elem(), func(k *key, _ reflect.Value) {
		values := append([]string{k.min, k.max}, k.words...)
		if k.auto != "" {
			values = append(values, "auto")
		}
		for _, text := range values {
			if text == "" {
				continue
			}
			c, err := Load(Source{Flags: []Flag{{Name: "--x", Key: k.name(), Value: text}}})
			if err != nil {
				t.Errorf("%s = %s: %v", k.name(), text, err)
				continue
			}
			b, err := broker.Open(broker.Env{FS: fsys}, ".", c.Broker())
			if err == nil {
				_ = b.Close()
				t.Fatal("a store was made")
			}
			if strings.Contains(err.Error(), "option") {
				t.Errorf("%s = %s: %v", k.name(), text, err)
			}
		}
	})
}

// TestDefaultsAreTheEngines: a server without a configuration is tuned as an engine with zero Options, and both say the
// same in their docs. The engine fills its zero fields where nobody sees it, so this reads its source.
func TestDefaultsAreTheEngines(t *testing.T) {
	want := Default().Broker()
	found := 0
	for _, src := range []struct {
		file, fn string
		options  reflect.Value
	}{
		{"../../engine/options.go", "withDefaults", reflect.ValueOf(want.Engine)},
		{"../broker/options.go", "withDefaults", reflect.ValueOf(want)},
	} {
		for field, text := range defaultsIn(t, src.file, src.fn) {
			f := src.options.FieldByName(field)
			if f.IsZero() { // auto
				continue
			}
			found++
			if got := fmt.Sprint(literalOf(f)); got != text {
				t.Errorf("%s: %s is %s here and %s there", src.file, field, got, text)
			}
		}
	}
	if found < 15 {
		t.Errorf("compared %d defaults only: the form of withDefaults has changed", found)
	}
	source := ""
	for _, file := range []string{"../../engine/options.go", "../broker/options.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source += strings.ReplaceAll(string(text), " ", "")
	}
	everyKey(func(k *key, _ reflect.Value) {
		n, _, _ := strings.Cut(k.auto, " ")
		n = strings.ReplaceAll(strings.Trim(n, ",;"), ",", "")
		if s, err := parseSize(n); err == nil {
			n = fmt.Sprintf("%d<<20", s>>20)
		}
		top, _, _ := strings.Cut(k.table, ".")
		other := top == "topic" || strings.HasPrefix(top, "plugin") || k.name() == "memory_limit" // TestMemory, package pluginhost
		if k.auto != "" && !other && !strings.Contains(source, n) {
			t.Errorf("%s: auto is said to be %q, and the engine does not have %q", k.name(), k.auto, n)
		}
	})
}

// literalOf is a value as defaultsIn gives it.
func literalOf(f reflect.Value) any {
	if f.CanInt() {
		return f.Int()
	}
	return f.Interface()
}

// defaultsIn finds fill(&o.Field, value) and if o.Field == 0 { o.Field = value } in a function.
func defaultsIn(t *testing.T, file, fn string) map[string]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.FromSlash(file), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			return n.Name.Name == fn
		case *ast.CallExpr:
			if name, ok := n.Fun.(*ast.Ident); ok && name.Name == "fill" && len(n.Args) == 2 {
				field := n.Args[0].(*ast.UnaryExpr).X.(*ast.SelectorExpr).Sel.Name
				found[field] = constant(n.Args[1])
			}
		case *ast.AssignStmt:
			if field, ok := n.Lhs[0].(*ast.SelectorExpr); ok {
				found[field.Sel.Name] = constant(n.Rhs[0])
			}
		}
		return true
	})
	return found
}

// constant evaluates what stands in withDefaults.
func constant(e ast.Expr) string {
	known := map[string]int64{"maxChunk": record.MaxItems, "Hour": int64(3600e9), "Second": int64(1e9), "div": 1}
	var value func(e ast.Expr) int64
	value = func(e ast.Expr) int64 {
		switch e := e.(type) {
		case *ast.BasicLit:
			n, _ := strconv.ParseInt(e.Value, 0, 64)
			return n
		case *ast.Ident:
			return known[e.Name]
		case *ast.SelectorExpr:
			return known[e.Sel.Name]
		case *ast.BinaryExpr:
			a, b := value(e.X), value(e.Y)
			switch e.Op {
			case token.MUL:
				return a * b
			case token.SHL:
				return a << b
			case token.QUO:
				return a / b
			}
		}
		return 0
	}
	if s, ok := e.(*ast.SelectorExpr); ok && s.Sel.Name == "DefaultLevels" {
		return Default().Timer.Levels // by name; TestDefaultLevels compares the text
	}
	return strconv.FormatInt(value(e), 10)
}

// withSecret is a configuration that has a secret; Config has none yet.
type withSecret struct {
	Name string `toml:"name" default:"x" unit:"text" doc:"A name."`
	Auth struct {
		Token Secret `toml:"token" unit:"text" doc:"A token."`
	} `toml:"auth" doc:"Who may."`
}

func TestSecret(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	if err := os.WriteFile(file, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	table := newTable("", reflect.TypeFor[withSecret](), false)
	load := func(doc string) (withSecret, *loader) {
		var c withSecret
		l := &loader{src: Source{File: filepath.Join(dir, "t.toml")}, cfg: &Config{origins: map[string]string{}}}
		v := reflect.ValueOf(&c).Elem()
		table.defaults(v)
		clean, tree := l.parse(doc)
		l.lines = lines(clean)
		l.walk(table, v, tree, "")
		return c, l
	}
	c, l := load("[auth]\ntoken_file = \"token\"")
	if c.Auth.Token.Reveal() != "hunter2" || len(l.problems) > 0 || !strings.HasSuffix(l.cfg.origins["auth.token"], "t.toml:2") {
		t.Errorf("got %q, %v, %v", c.Auth.Token.Reveal(), l.problems, l.cfg.origins)
	}
	k := table.sub("auth").keys[0]
	s := k.setting(reflect.ValueOf(&c.Auth).Elem(), "auth.token", "x")
	shown, err := json.Marshal([]any{s, c.Auth.Token})
	if err != nil || s.Value != "(set)" || s.raw != "hunter2" {
		t.Errorf("got %+v, %v", s, err)
	}
	for _, text := range []string{fmt.Sprintf("%v %+v %#v %s %q", c.Auth.Token, c, c, c.Auth.Token, c.Auth.Token), string(shown), c.Auth.Token.LogValue().String()} {
		if strings.Contains(text, "hunter2") || !strings.Contains(text, "set)") {
			t.Errorf("it is printed: %s", text)
		}
	}
	if got := fmt.Sprint(Secret{}); got != "(not set)" {
		t.Errorf("the zero value is printed as %q", got)
	}
	for _, doc := range []string{"[auth]\ntoken = \"hunter2\"", "[auth]\ntoken = 2", "[auth]\ntoken_file = \"none\"", "[auth]\ntoken_file = 2"} {
		c, l := load(doc)
		if len(l.problems) != 1 || c.Auth.Token.Reveal() != "" || l.problems[0].Line != 2 {
			t.Errorf("%q: got %v", doc, l.problems)
			continue
		}
		if text := l.problems[0].String(); strings.Contains(text, "hunter2") {
			t.Errorf("%q: the secret is printed: %s", doc, text)
		}
	}
	if err := k.set(reflect.ValueOf(&c.Auth).Elem(), ""); err == nil {
		t.Error("an empty secret was taken")
	}
	if got := k.variable(); got != "TIDEWHEEL_AUTH__TOKEN" {
		t.Errorf("the variable is %s", got)
	}
}

func TestReportError(t *testing.T) {
	err := error(&Report{Problems: []Problem{{Source: "f", Line: 2, Key: "k", Text: "bad"}}})
	if got := err.Error(); got != "config: f:2: k: bad" {
		t.Errorf("got %q", got)
	}
	err = fmt.Errorf("serve: %w", &Report{Problems: []Problem{{Source: "f", Line: 2, Text: "bad"}, {Source: "TIDEWHEEL_X", Text: "worse"}}})
	if got := err.Error(); got != "serve: config: 2 problems\n  f:2: bad\n  TIDEWHEEL_X: worse" {
		t.Errorf("got %q", got)
	}
	if report := (*Report)(nil); !errors.As(err, &report) {
		t.Error("it is not found")
	}
}

package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestLines(t *testing.T) {
	doc := `# one
a = 1
"b.c" = 'x' # =
'd"' . e = 2

[t.u]
v = """
f = 1
\""""" # g
w = [ # h
  [1, 2],
  {x = 3, y.z = [{}]}, ]
[[l]]
m = 1979-05-27 07:32:00
[l.n]
o = true
[[l]] # [[l]]
m = '''p = 1'''''
[[l.q]]
[[l.q]]
r=1
"\u0073" = 1
`
	want := map[string]int{
		"a": 2, `"b.c"`: 3, `"d\""`: 4, `"d\"".e`: 4,
		"t": 6, "t.u": 6, "t.u.v": 7, "t.u.w": 10, "t.u.w[0]": 11, "t.u.w[0][0]": 11, "t.u.w[0][1]": 11,
		"t.u.w[1]": 12, "t.u.w[1].x": 12, "t.u.w[1].y": 12, "t.u.w[1].y.z": 12, "t.u.w[1].y.z[0]": 12,
		"l": 13, "l[0]": 13, "l[0].m": 14, "l[0].n": 15, "l[0].n.o": 16,
		"l[1]": 17, "l[1].m": 18, "l[1].q": 19, "l[1].q[0]": 19, "l[1].q[1]": 20, "l[1].q[1].r": 21, "l[1].q[1].s": 22,
	}
	tree, err := decode(doc)
	if err != nil {
		t.Fatal(err)
	}
	if got := lines(doc); !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	agree(t, doc, tree)
}

// agree compares the scanner with the decoder: both must find the same paths.
func agree(t *testing.T, doc string, tree map[string]any) {
	t.Helper()
	want := map[string]bool{}
	paths(tree, "", want)
	got := lines(doc)
	for path := range want {
		if got[path] < 1 || got[path] > 1+strings.Count(doc, "\n") {
			t.Errorf("%q is on line %d of %q", path, got[path], doc)
		}
	}
	for path := range got {
		if !want[path] {
			t.Errorf("%q is not in %q, which has %q", path, doc, slices.Sorted(maps.Keys(want)))
		}
	}
}

// paths collects the paths of a value.
func paths(v any, at string, into map[string]bool) {
	if at != "" {
		into[at] = true
	}
	switch v := v.(type) {
	case map[string]any:
		for name, e := range v {
			paths(e, child(at, name), into)
		}
	case []map[string]any:
		for i, e := range v {
			paths(e, item(at, i), into)
		}
	case []any:
		for i, e := range v {
			paths(e, item(at, i), into)
		}
	}
}

func FuzzLines(f *testing.F) {
	for _, doc := range []string{
		"a.b = {c = [1,\n2, '''\n'''\n]}\n[d]\n[[e]]\n[e.f]\n[[e]]\ng=\"\\\"\"", "\"\" = 0", "a = \"\"\"x\"\"\"\"\"\n'b\"' = 1",
		"a = [[[]], [ ] # ]\n,]\r\n b = -inf", "a = {\n b = 1, # c\n}\n", "'' . '' = 1", "[ a . 'b' ]\n c=1",
	} {
		f.Add(doc)
	}
	f.Fuzz(func(t *testing.T, doc string) {
		if len(doc) > 8<<10 || strings.Count(doc, ".") > 500 {
			return
		}
		doc = withoutMark(doc)
		lines(doc) // of any text it must come back
		if tree, err := decode(doc); err == nil && doc == withoutMark(doc) {
			agree(t, doc, tree)
		}
	})
}

func TestNearest(t *testing.T) {
	names := []string{"max_delay", "levels", "near", "lanes", "tail", "http"}
	for _, c := range []struct{ word, want string }{
		{"max_delay", "max_delay"}, {"maxdelay", "max_delay"}, {"max_dealy", "max_delay"}, {"max-delay", "max_delay"},
		{"MAX_DELAY", "max_delay"}, {"level", "levels"}, {"lane", "lanes"}, {"laens", "lanes"}, {"nea", "near"},
		{"tali", "tail"}, {"x", ""}, {"", ""}, {"max", ""}, {"console", ""}, {strings.Repeat("levels", 20), ""},
	} {
		if got := nearest(c.word, names); got != c.want {
			t.Errorf("nearest to %q is %q, want %q", c.word, got, c.want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "", 1}, {"", "abc", 3}, {"abc", "abc", 0}, {"abc", "abd", 1}, {"abc", "acb", 1},
		{"abc", "ab", 1}, {"kitten", "sitting", 3}, {"ca", "abc", 3}, {"tali", "tail", 1},
	} {
		for _, got := range []int{distance(c.a, c.b), distance(c.b, c.a)} {
			if got != c.want {
				t.Errorf("from %q to %q it is %d, want %d", c.a, c.b, got, c.want)
			}
		}
	}
}

func BenchmarkParse(b *testing.B) {
	doc := Template()
	for i := range 1000 {
		doc += fmt.Sprintf("[[topic]]\nname = \"topic-%d\"\nqueues = 8\n", i)
	}
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(Source{File: "t.toml"}, []byte(doc)); err != nil {
			b.Fatal(err)
		}
	}
}

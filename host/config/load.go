package config

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Source says where a configuration comes from. The later one counts: defaults, file, variables, flags. The zero value
// gives the defaults.
type Source struct {
	// File is the path of a TOML file; empty: none.
	File string
	// Environ has variables as os.Environ gives them, "NAME=value"; nil: none. The first of a name counts.
	Environ []string
	// Flags have values from the command line.
	Flags []Flag
}

// Flag is a value from the command line.
type Flag struct {
	Name  string // "--data", for problems and as the origin
	Key   string // "data_dir"
	Value string // as a variable would have it
}

// maxFile bounds what is read; some 8,000 topics fit.
const maxFile = 256 << 10

// Default is the configuration without a file, variables and flags.
func Default() *Config {
	c := &Config{}
	schema().defaults(reflect.ValueOf(c).Elem())
	return c
}

// Load reads a configuration. If anything is wrong with it, the error is a *Report with every problem; if the file can't
// be read, it wraps what the operating system says. In both cases the Config is nil.
func Load(src Source) (*Config, error) {
	if src.File == "" {
		return Parse(src, nil)
	}
	data, err := readFile(src.File)
	if err != nil {
		return nil, fmt.Errorf("config: read: %w", err)
	}
	return Parse(src, data)
}

// Parse is Load with the content of the file given; src.File only names it. It keeps nothing of data.
func Parse(src Source, data []byte) (*Config, error) {
	l := &loader{src: src, cfg: Default()}
	l.cfg.origins, l.cfg.dir = map[string]string{}, filepath.Dir(src.File)
	l.root = reflect.ValueOf(l.cfg).Elem()
	l.file(string(data))
	l.environ()
	l.flags()
	l.checkTogether()
	slices.SortStableFunc(l.problems, func(a, b Problem) int { return cmp.Compare(l.rank(a), l.rank(b)) })
	if len(l.problems) > 0 {
		return nil, &Report{Problems: l.problems}
	}
	for i := range l.cfg.Topics {
		if t := &l.cfg.Topics[i]; t.Queues == 0 {
			t.Queues = l.cfg.BrokerTable.Queues // a variable may have changed it
		}
	}
	return l.cfg, nil
}

// readFile reads a file that is not too large.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s is longer than %s", name, Size(maxFile))
	}
	return data, nil
}

// loader makes one Config.
type loader struct {
	src      Source
	cfg      *Config
	root     reflect.Value  // of cfg
	lines    map[string]int // by path
	partial  bool           // lines were left out, see parse
	problems []Problem
}

// bad notes a problem of the file.
func (l *loader) bad(path, text string) {
	l.problems = append(l.problems, Problem{Source: l.src.File, Line: l.lines[path], Key: path, Text: text})
}

// rank sorts problems: those of the file by line, before the others.
func (l *loader) rank(p Problem) int {
	if p.Source == l.src.File {
		return p.Line
	}
	return math.MaxInt
}

// place says where in the file a path stands.
func (l *loader) place(path string) string {
	if line := l.lines[path]; line > 0 {
		return fmt.Sprintf("%s:%d", l.src.File, line)
	}
	return l.src.File
}

// assign sets a key and notes where the value comes from. With a secret, inFile says that text is the path of a file.
func (l *loader) assign(k *key, in reflect.Value, text string, inFile bool, path, origin string) error {
	if k.kind == kindSecret {
		if inFile {
			data, err := readFile(text)
			if err != nil {
				return err
			}
			text = strings.TrimRight(string(data), "\r\n")
		}
		if err := k.set(in, text); err != nil {
			return err
		}
	} else if err := k.set(in, text); err != nil {
		return fmt.Errorf("%q: %w", shorten(text), err)
	}
	l.cfg.origins[path] = origin
	return nil
}

// envPrefix begins the name of every variable of ours.
const envPrefix = "TIDEWHEEL_"

// notKeys are variables of ours that are no keys: the first three belong to the command line, the others to tests.
var notKeys = []string{
	envPrefix + "CTX", envPrefix + "URL", envPrefix + "TOKEN", envPrefix + "VOLUME", envPrefix + "SEED",
}

// injected are variables that Kubernetes and Docker make in every container for a service that has our name: they tell
// where it is, nobody wrote them, and a server must not stop for them.
var injected = regexp.MustCompile(
	`^TIDEWHEEL(_[A-Z0-9]+)*_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9]+)*|PORT|PORT_[0-9]+_[A-Z]+(_PROTO|_PORT|_ADDR)?)$`)

// environ lays the variables over the file.
func (l *loader) environ() {
	names := slices.Clone(notKeys)
	schema().each(l.root, func(k *key, _ reflect.Value) { names = append(names, k.variable()) })
	seen := map[string]bool{}
	for _, entry := range slices.SortedStableFunc(slices.Values(l.src.Environ), byName) {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, envPrefix) || slices.Contains(notKeys, name) || strings.HasPrefix(name, secretPrefix) || seen[name] {
			continue
		}
		seen[name] = true
		k, in, inFile := l.find(fromVariable(name))
		problem := Problem{Source: name}
		switch {
		case k != nil:
			err := l.assign(k, in, value, inFile, k.name(), name)
			if err == nil {
				continue
			}
			problem.Key, problem.Text = k.name(), err.Error()
		case injected.MatchString(name):
			continue
		case strings.HasPrefix(name, envPrefix+"TOPIC__"):
			problem.Text = "topics stand in a file only, as [[topic]]"
		case strings.HasPrefix(name, envPrefix+"PLUGIN__"):
			problem.Text = "plugins stand in a file only, as [[plugin]]"
		default:
			problem.Text = "unknown variable" + didYouMean(name, names)
		}
		l.problems = append(l.problems, problem)
	}
}

func byName(a, b string) int {
	a, _, _ = strings.Cut(a, "=")
	b, _, _ = strings.Cut(b, "=")
	return cmp.Compare(a, b)
}

// fromVariable takes the name of a variable apart.
func fromVariable(name string) (table, word string) {
	name = strings.TrimPrefix(name, envPrefix)
	if name != strings.ToUpper(name) {
		return "", ""
	}
	table, word, ok := strings.Cut(strings.ToLower(name), "__")
	if !ok {
		return "", table
	}
	return table, word
}

// find finds a key that is not in a list, and the struct that has it.
func (l *loader) find(table, word string) (k *key, in reflect.Value, inFile bool) {
	t, in := schema(), l.root
	if table != "" {
		t = t.sub(table)
		if t == nil || t.list {
			return nil, in, false
		}
		in = in.Field(t.field)
	}
	k, inFile = t.key(word)
	return k, in, inFile
}

// flags lays the flags over the variables.
func (l *loader) flags() {
	for _, f := range l.src.Flags {
		table, word, ok := strings.Cut(f.Key, ".")
		if !ok {
			table, word = "", f.Key
		}
		k, in, inFile := l.find(table, word)
		if k == nil {
			l.problems = append(l.problems, Problem{Source: f.Name, Key: f.Key, Text: "unknown key"})
			continue
		}
		if err := l.assign(k, in, f.Value, inFile, k.name(), f.Name); err != nil {
			l.problems = append(l.problems, Problem{Source: f.Name, Key: k.name(), Text: err.Error()})
		}
	}
}

// file reads the document into the configuration.
func (l *loader) file(doc string) {
	clean, tree := l.parse(withoutMark(doc))
	if tree == nil {
		return
	}
	l.lines = lines(clean)
	l.walk(schema(), l.root, tree, "")
	l.checkTopics()
	l.checkPlugins()
}

// withoutMark cuts off the byte order marks that the decoder does not mind.
func withoutMark(doc string) string {
	for _, mark := range []string{"\ufeff", "\xff\xfe", "\xfe\xff"} {
		if rest, ok := strings.CutPrefix(doc, mark); ok {
			return rest
		}
	}
	return doc
}

// absolute makes a path of the file independent of the working directory.
func (l *loader) absolute(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(l.src.File), path)
}

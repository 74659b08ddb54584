package config

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// table is what may stand in a table of the file.
type table struct {
	name   string // "timer", "plugin.limits"; empty for the top
	word   string // the last word of the name
	doc    string
	field  int  // of the struct above
	list   bool // [[name]]
	typ    reflect.Type
	keys   []*key
	tables []*table
}

// kind is how a value is written.
type kind uint8

const (
	kindText kind = iota
	kindNumber
	kindBool
	kindSize
	kindDuration
	kindSecret
	kindTexts
	kindObject
)

var kinds = map[reflect.Type]kind{
	reflect.TypeFor[string]():   kindText,
	reflect.TypeFor[int]():      kindNumber,
	reflect.TypeFor[bool]():     kindBool,
	reflect.TypeFor[Size]():     kindSize,
	reflect.TypeFor[Duration](): kindDuration,
	reflect.TypeFor[Secret]():   kindSecret,
	reflect.TypeFor[[]string](): kindTexts,
	reflect.TypeFor[Object]():   kindObject,
}

// key is a key with what its tags say.
type key struct {
	table, word          string
	field                int // of the table's struct
	kind                 kind
	def, auto, unit, doc string
	example              string // of a required one
	min, max             string
	words                []string // oneof
	live, required       bool
}

// schema is that of Config.
var schema = sync.OnceValue(func() *table { return newTable("", reflect.TypeFor[Config](), false) })

// newTable reads the tags of a struct. What stands in tags is constant, so a mistake there is found by any test, and
// panics. All keys of a live table are live.
func newTable(name string, typ reflect.Type, live bool) *table {
	t := &table{name: name, word: name[strings.LastIndexByte(name, '.')+1:], typ: typ}
	for i := range typ.NumField() {
		f := typ.Field(i)
		word := f.Tag.Get("toml")
		if !f.IsExported() {
			continue
		}
		live := live || f.Tag.Get("live") == "true"
		if k, isKey := kinds[f.Type]; isKey {
			t.keys = append(t.keys, newKey(name, word, i, k, live, f.Tag))
			continue
		}
		list, of := f.Type.Kind() == reflect.Slice, f.Type
		if list {
			of = of.Elem()
		}
		sub := newTable(join(name, word), of, live)
		sub.list, sub.field, sub.doc = list, i, f.Tag.Get("doc")
		t.tables = append(t.tables, sub)
	}
	return t
}

func newKey(table, word string, field int, kind kind, live bool, tag reflect.StructTag) *key {
	k := &key{
		table: table, word: word, field: field, kind: kind,
		def: tag.Get("default"), auto: tag.Get("auto"), unit: tag.Get("unit"), doc: tag.Get("doc"),
		min: tag.Get("min"), max: tag.Get("max"), words: strings.Fields(tag.Get("oneof")),
		example: tag.Get("example"), live: live, required: tag.Get("required") == "true",
	}
	for _, text := range []string{k.min, k.max} {
		if _, err := k.number(text); text != "" && err != nil {
			panic(fmt.Sprintf("config: range of %s: %v", k.name(), err))
		}
	}
	return k
}

// name is the key as users know it: "timer.max_delay".
func (k *key) name() string { return join(k.table, k.word) }

func join(table, word string) string {
	if table == "" {
		return word
	}
	return table + "." + word
}

// variable is the environment variable of a key.
func (k *key) variable() string {
	name := strings.ToUpper(k.word)
	if k.table != "" {
		name = strings.ToUpper(k.table) + "__" + name
	}
	return envPrefix + name
}

// fileSuffix on the name of a secret says that the value is the path of the file that has it.
const fileSuffix = "_file"

// key finds a key by its word; inFile says that the word is that of the file of a secret.
func (t *table) key(word string) (k *key, inFile bool) {
	for _, k := range t.keys {
		switch {
		case k.word == word:
			return k, false
		case k.kind == kindSecret && k.word+fileSuffix == word:
			return k, true
		}
	}
	return nil, false
}

// sub finds a table by its name.
func (t *table) sub(name string) *table {
	for _, s := range t.tables {
		if s.word == name {
			return s
		}
	}
	return nil
}

// each calls fn for the keys of the table and of its tables, but for lists, with the structs in v that hold them.
func (t *table) each(v reflect.Value, fn func(k *key, in reflect.Value)) {
	for _, k := range t.keys {
		fn(k, v)
	}
	for _, s := range t.tables {
		if !s.list {
			s.each(v.Field(s.field), fn)
		}
	}
}

// defaults fills a struct.
func (t *table) defaults(v reflect.Value) {
	t.each(v, func(k *key, in reflect.Value) {
		if k.required || k.kind == kindSecret || k.kind == kindObject {
			return
		}
		if err := k.set(in, k.def); err != nil {
			panic(fmt.Sprintf("config: default of %s: %v", k.name(), err))
		}
	})
}

// set puts a value into the struct of the key's table, or says what is wrong with it.
func (k *key) set(in reflect.Value, text string) error {
	f := in.Field(k.field)
	if k.auto != "" && text == "auto" {
		f.SetZero()
		return nil
	}
	switch k.kind {
	case kindText:
		if err := k.check(text); err != nil {
			return err
		}
		f.SetString(text)
	case kindSecret:
		if text == "" {
			return errors.New("it is empty")
		}
		if err := k.check(text); err != nil {
			return err
		}
		f.Set(reflect.ValueOf(Secret{text}))
	case kindTexts:
		return k.setTexts(f, text)
	case kindBool:
		if text != "true" && text != "false" {
			return errors.New("allowed is true, false")
		}
		f.SetBool(text == "true")
	default:
		n, err := k.number(text)
		if err != nil {
			return err
		}
		if err := k.inRange(n); err != nil {
			return err
		}
		f.SetInt(n)
	}
	return nil
}

// setTexts sets a list, which as one text has commas between its items.
func (k *key) setTexts(f reflect.Value, text string) error {
	var list []string
	for _, one := range strings.Split(text, ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		if err := k.check(one); err != nil {
			return err
		}
		list = append(list, one)
	}
	f.Set(reflect.ValueOf(list))
	return nil
}

// number reads a number, size or duration.
func (k *key) number(text string) (int64, error) {
	switch k.kind {
	case kindSize:
		n, err := parseSize(text)
		return int64(n), err
	case kindDuration:
		n, err := parseDuration(text)
		return int64(n), err
	}
	n, err := strconv.ParseInt(text, 10, strconv.IntSize)
	if errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("allowed is %s", k.allowed())
	}
	if err != nil {
		return 0, errors.New("it must be a whole number")
	}
	return n, nil
}

func (k *key) inRange(n int64) error {
	least, _ := k.number(k.min) // newKey has read both
	most, _ := k.number(k.max)
	if n < least || k.max != "" && n > most {
		return fmt.Errorf("allowed is %s", k.allowed())
	}
	return nil
}

// allowed is the range, the words, or what the unit says, for a message and for the reference.
func (k *key) allowed() string {
	s := k.unit
	switch {
	case len(k.words) > 0:
		s = strings.Join(k.words, ", ")
	case k.kind == kindBool:
		s = "true, false"
	case k.min != "" && k.max == "":
		s = k.min + " or more"
	case k.min != "":
		s = k.min + " to " + k.max
	}
	if k.kind == kindNumber && k.unit != "" {
		s += " " + k.unit
	}
	if k.auto != "" {
		s += ", or auto"
	}
	return s
}

// text is the value as set reads it, but for a secret.
func (k *key) text(in reflect.Value) string {
	f := in.Field(k.field)
	switch {
	case k.auto != "" && f.IsZero():
		return "auto"
	case k.kind == kindText:
		return f.String()
	case k.kind == kindTexts:
		return strings.Join(f.Interface().([]string), ", ")
	}
	return fmt.Sprint(f.Interface())
}

// literal writes a value as the file has it.
func (k *key) literal(text string) string {
	if k.kind == kindTexts {
		var items []string
		for _, one := range strings.Split(text, ", ") {
			if one != "" {
				items = append(items, strconv.Quote(one))
			}
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	if k.kind == kindObject {
		return "{}"
	}
	if k.kind == kindBool || k.kind == kindNumber && text != "auto" {
		return text
	}
	return strconv.Quote(text)
}

package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// walk puts a table of the file into a struct. The decoder could do so, but it ends at the first value that does not
// fit, and a report has all of them.
func (l *loader) walk(t *table, in reflect.Value, tree map[string]any, at string) {
	for _, word := range slices.Sorted(maps.Keys(tree)) {
		value, path := tree[word], child(at, word)
		if k, inFile := t.key(word); k != nil {
			l.value(k, in, value, inFile, path)
			continue
		}
		sub := t.sub(word)
		switch content, isTable := value.(map[string]any); {
		case sub == nil:
			l.unknown(t, word, path)
		case sub.list:
			l.list(sub, in.Field(sub.field), value, path)
		case isTable:
			l.walk(sub, in.Field(sub.field), content, path)
		default:
			text := fmt.Sprintf("it is a table: write [%s], and the keys below it", sub.name)
			if one := t.sub(strings.TrimSuffix(word, "s")); one != nil && one.list {
				text = fmt.Sprintf("it is one table, [%s]; write [[%s]] for each %s", sub.name, one.name, one.name)
			}
			l.bad(path, text)
		}
	}
}

// value sets one key.
func (l *loader) value(k *key, in reflect.Value, value any, inFile bool, path string) {
	switch {
	case k.kind == kindTexts:
		l.texts(k, in, value, path)
		return
	case k.kind == kindObject:
		in.Field(k.field).Set(reflect.ValueOf(l.object(value, path)))
		l.cfg.origins[path] = l.place(path)
		return
	case k.kind == kindSecret && k.within() != "" && !inFile:
		l.secretKey(k, in, value, path)
		return
	}
	text, err := k.fromTOML(value, inFile)
	if err != nil {
		l.bad(path, err.Error())
		return
	}
	if inFile && text == "" {
		return // as without it
	}
	if k.unit == "path" || k.unit == "file" || inFile || k.unit == "directory" && text != "auto" {
		text = l.absolute(text)
	}
	// The file of a secret is a key of its own in the file, and none anywhere else.
	name := path
	if inFile {
		name = strings.TrimSuffix(path, fileSuffix)
	}
	if err := l.assign(k, in, text, inFile, name, l.place(path)); err != nil {
		l.bad(path, err.Error())
	}
}

// texts sets a list of texts. Each of them is checked by itself, since each may stand on a line of its own.
func (l *loader) texts(k *key, in reflect.Value, value any, path string) {
	items, ok := value.([]any)
	if !ok {
		l.bad(path, `it must be a list of texts, as in ["a", "b"]`)
		return
	}
	var list []string
	for i, one := range items {
		text, ok := one.(string)
		switch err := k.check(text); {
		case !ok:
			l.bad(item(path, i), "it must be text in quotes")
		case text == "" || strings.ContainsRune(text, ','):
			l.bad(item(path, i), fmt.Sprintf("%q is empty, or has a comma in it", shorten(text)))
		case err != nil:
			l.bad(item(path, i), fmt.Sprintf("%q: %v", shorten(text), err))
		case slices.Contains(list, text):
			l.bad(item(path, i), fmt.Sprintf("%q is there twice", text))
		default:
			list = append(list, text)
		}
	}
	if k.required && len(items) == 0 {
		l.bad(path, "it is empty"+k.choices())
	}
	in.Field(k.field).Set(reflect.ValueOf(list))
	l.cfg.origins[path] = l.place(path)
}

// choices says what may stand in a key with words, for the end of a message.
func (k *key) choices() string {
	if len(k.words) == 0 {
		return ""
	}
	return "; allowed is " + strings.Join(k.words, ", ")
}

// secretKey sets a secret in a table that repeats, which no variable can name: { secret = "NAME" } does.
func (l *loader) secretKey(k *key, in reflect.Value, value any, path string) {
	content, ok := value.(map[string]any)
	if !ok || len(content) != 1 || content[secretVariable] == nil {
		l.bad(path, fmt.Sprintf("a secret does not belong into this file: write %s%s, with the path of a file, or "+
			"{ secret = \"NAME\" }, with the value in the variable %sNAME", k.word, fileSuffix, secretPrefix))
		return
	}
	text, err := l.secret(content)
	if err == nil {
		err = l.assign(k, in, text, false, path, l.place(path))
	}
	if err != nil {
		l.bad(path, err.Error())
	}
}

// within is the table that repeats in which the key stands; empty: none.
func (k *key) within() string {
	if top, _, _ := strings.Cut(k.table, "."); schema().sub(top) != nil && schema().sub(top).list {
		return top
	}
	return ""
}

// fromTOML makes the text of a value that set reads, if the type is right.
func (k *key) fromTOML(value any, inFile bool) (string, error) {
	if k.kind == kindSecret && !inFile {
		return "", fmt.Errorf("a secret does not belong into this file: write %s%s, with the path of a file, or set %s",
			k.word, fileSuffix, k.variable())
	}
	switch v := value.(type) {
	case string:
		if k.kind == kindBool || k.kind == kindNumber && (k.auto == "" || v != "auto") {
			return "", fmt.Errorf("%q: it must be %s, without quotes", shorten(v), k.what())
		}
		return v, nil
	case bool:
		if k.kind == kindBool {
			return strconv.FormatBool(v), nil
		}
		return "", fmt.Errorf("it is %t and must be %s", v, k.what())
	case int64:
		switch {
		case k.kind == kindNumber:
			return strconv.FormatInt(v, 10), nil
		case (k.kind == kindSize || k.kind == kindDuration) && v == 0:
			return "0", nil
		}
		return "", fmt.Errorf("it is %d and must be %s", v, k.what())
	case float64:
		return "", fmt.Errorf("it is %v and must be %s", v, k.what())
	case map[string]any, []map[string]any:
		return "", fmt.Errorf("it is a table and must be %s", k.what())
	case []any:
		return "", fmt.Errorf("it is a list and must be %s", k.what())
	}
	return "", errors.New("it is a date and must be " + k.what())
}

// what is the kind of a value, as a message says it.
func (k *key) what() string {
	switch k.kind {
	case kindNumber:
		return "a whole number"
	case kindBool:
		return "true or false"
	case kindSize:
		return `a size with its unit in quotes, as in "64MiB"`
	case kindDuration:
		return `a duration with its unit in quotes, as in "7d"`
	}
	return "text in quotes"
}

// list reads [[name]].
func (l *loader) list(t *table, in reflect.Value, value any, path string) {
	var items []any
	switch v := value.(type) {
	case []map[string]any:
		for _, content := range v {
			items = append(items, content)
		}
	case []any: // name = [{…}, {…}]
		items = v
	default:
		l.bad(path, fmt.Sprintf("there may be several of it: write [[%s]]", t.name))
	}
	for i, content := range items {
		e := reflect.New(t.typ).Elem()
		t.defaults(e)
		if content, ok := content.(map[string]any); ok {
			l.item(t, e, content, item(path, i))
		} else {
			l.bad(item(path, i), "it must be a table")
		}
		in.Set(reflect.Append(in, e))
	}
}

// item reads one of [[name]].
func (l *loader) item(t *table, in reflect.Value, content map[string]any, at string) {
	l.walk(t, in, content, at)
	for _, k := range t.keys {
		// Where lines were left out, it may have stood on one of them.
		if _, ok := content[k.word]; k.required && !ok && !l.partial {
			l.bad(at, k.word+" is missing"+k.choices())
		}
	}
}

// unknown says what may have been meant.
func (l *loader) unknown(t *table, word, path string) {
	if text, ok := absent[join(t.name, word)]; ok {
		l.bad(path, "unknown key; "+text)
		return
	}
	var here, tables []string
	for _, k := range t.keys {
		here = append(here, k.word)
	}
	for _, s := range t.tables {
		tables = append(tables, s.word)
	}
	if hint := didYouMean(word, append(slices.Clone(here), tables...)); hint != "" {
		l.bad(path, "unknown key"+hint)
		return
	}
	// The right word in the wrong table, as when a header was forgotten.
	if owner, k := schema().owner(word); k != nil && owner != t {
		where := "above all tables"
		if owner.name != "" {
			where = "in [" + owner.name + "]"
		}
		l.bad(path, fmt.Sprintf("unknown key; there is %q %s", k.word, where))
		return
	}
	text := "unknown key; here may stand " + strings.Join(here, ", ")
	if len(tables) > 0 {
		text += ", and the tables " + strings.Join(tables, ", ")
	}
	l.bad(path, text)
}

// owner finds the first key with a word like this one in a table or its tables, but for lists.
func (t *table) owner(word string) (*table, *key) {
	var words []string
	for _, k := range t.keys {
		words = append(words, k.word)
	}
	if name := nearest(word, words); name != "" {
		k, _ := t.key(name)
		return t, k
	}
	for _, s := range t.tables {
		if s.list {
			continue
		}
		if owner, k := s.owner(word); k != nil {
			return owner, k
		}
	}
	return nil, nil
}

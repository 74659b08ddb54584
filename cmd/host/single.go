package main

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"text/tabwriter"
)

// one prints a single result: the table is what table prints, with tabs between its columns.
func (a *app) one(v any, table func(w io.Writer)) error {
	switch {
	case a.format == formatJSON:
		return encode(a.stdout, v, "  ")
	case a.format == formatNDJSON:
		return encode(a.stdout, v, "")
	case a.format == formatName, a.format == formatCSV, len(a.columns) > 0:
		return a.fields(v)
	}
	t := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	table(t)
	return t.Flush()
}

// nameFields are the fields that name a result; the first one that is there does.
var nameFields = []string{"handle", "id", "name", "group", "topic"}

// fields prints a single result as a row of the fields of its JSON: those of --columns, or all.
func (a *app) fields(v any) error {
	names, values, err := fieldsOf(v)
	if err != nil {
		return err
	}
	if a.format == formatName {
		for _, name := range nameFields {
			if value := values[name]; value != "" {
				_, err := fmt.Fprintln(a.stdout, value)
				return err
			}
		}
		_, err := fmt.Fprintln(a.stdout, values[names[0]])
		return err
	}
	l := a.list(names...)
	cells := make([]string, len(names))
	for i, name := range names {
		cells[i] = values[name]
	}
	if err := l.add(v, cells...); err != nil {
		return err
	}
	return l.close()
}

// fieldsOf is the fields of a struct's JSON, also those that are left out when they are empty, in their order. What is no
// text or number is JSON.
func fieldsOf(v any) (names []string, values map[string]string, err error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, nil, err
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return nil, nil, err
	}
	values = map[string]string{}
	for name, value := range raw {
		text := string(value)
		if value[0] == '"' {
			if err := json.Unmarshal(value, &text); err != nil {
				return nil, nil, err
			}
		}
		values[name] = text
	}
	t := reflect.TypeOf(v)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return fieldNames(t), values, nil
}

// fieldNames are the names that a struct's fields have in JSON.
func fieldNames(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			names = append(names, fieldNames(f.Type)...)
		case f.IsExported() && name != "" && name != "-":
			names = append(names, name)
		}
	}
	return names
}

package httpapi

import (
	"reflect"
	"strings"
)

// object is a JSON object under construction.
type object = map[string]any

// schemas makes JSON Schemas of Go types, as encoding/json writes them. Tags say what a type does not: doc is the
// description, enum the words that a string may be, format what a string is.
type schemas struct {
	taken map[reflect.Type]bool // types of requests, in which nothing unknown may stand
	named object                // the schemas of structs, by name
}

func newSchemas() *schemas { return &schemas{map[reflect.Type]bool{}, object{}} }

// take notes that requests have the type, and what is in it.
func (s *schemas) take(t reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		s.take(t.Elem())
	case reflect.Struct:
		s.taken[t] = true
		for i := range t.NumField() {
			s.take(t.Field(i).Type)
		}
	}
}

// of is the schema of a type: of a struct, a reference to the named one.
func (s *schemas) of(t reflect.Type) object {
	if t == reflect.TypeFor[Int64]() {
		return object{"type": "string", "pattern": "^-?[0-9]{1,19}$"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return object{"type": "string", "contentEncoding": "base64"}
		}
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.Struct:
		s.name(t)
		return object{"$ref": "#/components/schemas/" + t.Name()}
	case reflect.Interface:
		return object{}
	}
	return object{"type": "integer"}
}

// name makes the schema of a struct.
func (s *schemas) name(t reflect.Type) {
	if s.named[t.Name()] != nil {
		return
	}
	properties, required := object{}, []string{}
	schema := object{"type": "object", "properties": properties}
	s.named[t.Name()] = schema // before its fields, which may name it again
	s.fields(t, true, properties, &required)
	if len(required) > 0 {
		schema["required"] = required
	}
	if s.taken[t] {
		schema["additionalProperties"] = false
	}
}

// fields adds the members of a struct and of those embedded in it; certain says that the struct itself is there.
func (s *schemas) fields(t reflect.Type, certain bool, properties object, required *[]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && f.Type.Kind() == reflect.Pointer:
			s.fields(f.Type.Elem(), false, properties, required)
			continue
		case f.Anonymous:
			s.fields(f.Type, certain, properties, required)
			continue
		case name == "" || name == "-":
			continue
		}
		p := s.of(f.Type)
		for tag, member := range map[string]string{"doc": "description", "format": "format"} {
			if text := f.Tag.Get(tag); text != "" {
				p[member] = text
			}
		}
		if words := f.Tag.Get("enum"); words != "" {
			p["enum"] = strings.Split(words, ",")
		}
		properties[name] = p
		if certain && !strings.HasPrefix(options, "omit") {
			*required = append(*required, name)
		}
	}
}

// schema is that of a parameter.
func (p param) schema() object {
	s := object{"type": "string"}
	switch p.kind {
	case kindWhole:
		s = object{"type": "integer", "minimum": p.min, "maximum": p.max}
	case kindSpan:
		s["description"] = "a duration: whole numbers with units, as in 7d12h"
	case kindWhen:
		s["description"] = "RFC 3339 with its offset, @ms since 1970, or a duration from now, as in +2h"
	case kindYes:
		s = object{"type": "boolean"}
	}
	if p.words != nil {
		s["enum"] = p.words
	}
	if p.def != "" {
		s["default"] = p.value(p.def)
	}
	if p.list {
		s = object{"type": "array", "items": s}
	}
	return s
}

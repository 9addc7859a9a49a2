package args

import (
	"fmt"
	"reflect"
	"strings"
)

// The checks in this file run when a program starts. Without them jobs would fail later: they find types
// that cannot be written as JSON, or would be read back as other values.

type look struct {
	path string // of the current field, for messages
	seen map[seen]bool
	// foundAny reports that there is an any, which may receive a number without a Go type.
	foundAny bool
}

// A type may occur where package job writes it, or inside a struct, where encoding/json's rules hold.
type seen struct {
	t    reflect.Type
	ours bool
}

func (l *look) wrong(format string, args ...any) error {
	if l.path != "" {
		format = "field " + strings.ReplaceAll(l.path, "%", "%%") + ": " + format
	}
	return fmt.Errorf(format, args...)
}

// at returns an error if no argument can be a t or contain one.
func (l *look) at(t reflect.Type, ours bool) error {
	if l.seen[seen{t, ours}] {
		return nil // a recursive type, such as a tree
	}
	if l.seen == nil {
		l.seen = map[seen]bool{}
	}
	l.seen[seen{t, ours}] = true
	if t.Kind() != reflect.Pointer && writesItself(t) {
		return l.atItsOwnWriter(t)
	}
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return l.wrong("a %v has no JSON", t)
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return l.wrong("%v is an interface with methods, and JSON does not say which type to make: use a type, any or json.RawMessage", t)
		}
		l.foundAny = true
	case reflect.Pointer:
		if t.Elem().Kind() == reflect.Pointer {
			return l.wrong("%v points to a pointer: it could be nil in two ways, and JSON has one null", t)
		}
		return l.at(t.Elem(), ours)
	case reflect.Slice, reflect.Array:
		return l.at(t.Elem(), ours)
	case reflect.Map:
		return l.atMap(t, ours)
	case reflect.Struct:
		return l.atStruct(t)
	}
	return nil
}

func (l *look) atItsOwnWriter(t reflect.Type) error {
	method, reads := "MarshalText", readsItself(t)
	if implements(t, jsonMarshaler) {
		method, reads = "MarshalJSON", implements(t, jsonUnmarshaler)
	}
	if !reads {
		return l.wrong("%v has a %s and no Un%s: no handler could read it", t, method, strings.ToLower(method[:1])+method[1:])
	}
	if embedded, borrowed := borrowedWriter(t); borrowed {
		return l.wrong("%v has the %s of its embedded %v, and nothing else would be written: give the embedded field a name", t, method, embedded)
	}
	return nil
}

func (l *look) atMap(t reflect.Type, ours bool) error {
	key := t.Key()
	number := key.Kind() >= reflect.Int && key.Kind() <= reflect.Uintptr
	asText := implements(key, textMarshaler) && implements(key, textUnmarshaler)
	switch {
	case key.Kind() == reflect.String:
	case ours:
		return l.wrong("a %v has keys that are no strings, and JSON knows no others", t)
	case !number && !asText:
		return l.wrong("a %v has keys that cannot be written as strings", t)
	}
	if needsAddress(t.Elem()) {
		return l.wrong("a %v writes its values as copies, and %v writes itself only by a pointer: make it a map of pointers", t, t.Elem())
	}
	return l.at(t.Elem(), ours)
}

func (l *look) atStruct(t reflect.Type) error {
	path := l.path
	defer func() { l.path = path }()
	names := map[string]bool{}
	exported := 0
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		embedded := field.Anonymous && name == ""
		l.path = strings.TrimPrefix(path+"."+field.Name, ".")
		switch {
		case field.Tag.Get("json") == "-":
			continue
		case embedded && !field.IsExported() && field.Type.Kind() == reflect.Pointer:
			return l.wrong("no handler could make a %v to read into: embed the struct itself", field.Type)
		case !field.IsExported() && !(embedded && field.Type.Kind() == reflect.Struct):
			continue
		case !embedded:
			if name == "" {
				name = field.Name
			}
			if names[name] {
				return l.wrong("its JSON name %q is there twice, and neither field would be written", name)
			}
			names[name] = true
		}
		exported++
		if err := l.at(field.Type, false); err != nil {
			return err
		}
	}
	if l.path = path; exported == 0 && t.NumField() > 0 {
		return l.wrong("%v has no exported fields and would be written as {}; capitalize their names", t)
	}
	return nil
}

package args

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/belayq/belay/job"
)

// The checks in this file run when a program starts. Without them jobs would fail later: they find types
// that cannot be written as JSON, or would be read back as other values.

type look struct {
	path string // of the current field, for messages
	seen map[reflect.Type]bool
	// foundAny reports that there is an any, which may receive a number without a Go type.
	foundAny bool
}

func (l *look) errorf(format string, args ...any) error {
	if l.path != "" {
		format = "field " + strings.ReplaceAll(l.path, "%", "%%") + ": " + format
	}
	return fmt.Errorf(format, args...)
}

// at returns an error if no argument can be a t or contain one.
func (l *look) at(t reflect.Type) error {
	if l.seen[t] {
		return nil // a recursive type, such as a tree
	}
	if l.seen == nil {
		l.seen = map[reflect.Type]bool{}
	}
	l.seen[t] = true
	if t.Kind() != reflect.Pointer && job.WritesItself(t) {
		return l.atItsOwnWriter(t)
	}
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return l.errorf("a %v has no JSON", t)
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return l.errorf("%v is an interface with methods, and JSON does not say which type to make: use a type, any or json.RawMessage", t)
		}
		l.foundAny = true
	case reflect.Pointer:
		if t.Elem().Kind() == reflect.Pointer {
			return l.errorf("%v points to a pointer: it could be nil in two ways, and JSON has one null", t)
		}
		return l.at(t.Elem())
	case reflect.Slice, reflect.Array:
		return l.at(t.Elem())
	case reflect.Map:
		return l.atMap(t)
	case reflect.Struct:
		return l.atStruct(t)
	}
	return nil
}

func (l *look) atItsOwnWriter(t reflect.Type) error {
	method, reads := "MarshalText", readsItself(t)
	if job.Implements(t, jsonMarshaler) {
		method, reads = "MarshalJSON", job.Implements(t, jsonUnmarshaler)
	}
	if !reads {
		return l.errorf("%v has a %s and no Un%s: no handler could read it", t, method, strings.ToLower(method[:1])+method[1:])
	}
	if t.Kind() == reflect.Struct {
		if err := job.CheckStruct(t); err != nil {
			return l.errorf("%w", err)
		}
	}
	return nil
}

func (l *look) atMap(t reflect.Type) error {
	key := t.Key()
	number := key.Kind() >= reflect.Int && key.Kind() <= reflect.Uintptr
	asText := job.Implements(key, textMarshaler) && job.Implements(key, textUnmarshaler)
	if key.Kind() != reflect.String && !number && !asText {
		return l.errorf("a %v has keys that cannot be written as strings", t)
	}
	return l.at(t.Elem())
}

func (l *look) atStruct(t reflect.Type) error {
	path := l.path
	defer func() { l.path = path }()
	if err := job.CheckStruct(t); err != nil {
		return l.errorf("%w", err)
	}
	names := map[string]bool{}
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		embedded := field.Anonymous && name == ""
		l.path = strings.TrimPrefix(path+"."+field.Name, ".")
		switch {
		case field.Tag.Get("json") == "-":
			continue
		case embedded && !field.IsExported() && field.Type.Kind() == reflect.Pointer:
			return l.errorf("no handler could make a %v to read into: embed the struct itself", field.Type)
		case !field.IsExported() && !(embedded && field.Type.Kind() == reflect.Struct):
			continue
		case !embedded:
			if name == "" {
				name = field.Name
			}
			if strings.ContainsAny(name, "\"'`\\") {
				return l.errorf("its JSON name %q holds a quotation mark or a backslash, and would not be read back", name)
			}
			if names[name] {
				return l.errorf("its JSON name %q is there twice, and neither field would be written", name)
			}
			names[name] = true
		}
		if err := l.at(field.Type); err != nil {
			return err
		}
	}
	return nil
}

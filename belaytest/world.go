package belaytest

import (
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/belayq/belay"
)

// textOf returns a value and everything in it as text, one line for each part. The texts of a pointer, map or
// slice before and after a change differ, while the two values would be the same object.
func textOf(world any) string {
	var s snapshot
	s.write("", reflect.ValueOf(world))
	return s.String()
}

type snapshot struct {
	strings.Builder
	above []uintptr // the pointers and maps around the current value
}

func (s *snapshot) line(format string, args ...any) {
	s.WriteString(fmt.Sprintf(format, args...) + "\n")
}

func (s *snapshot) write(indent string, v reflect.Value) {
	if !v.IsValid() {
		s.line("nil")
		return
	}
	if text, ok := ownText(v); ok {
		s.line("%s", text)
		return
	}
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer, reflect.Map, reflect.Slice:
		if v.IsNil() {
			s.line("nil")
			return
		}
	}
	switch v.Kind() {
	case reflect.Interface:
		s.write(indent, v.Elem())
	case reflect.Pointer:
		s.inside(v, func() { s.write(indent, v.Elem()) })
	case reflect.Struct:
		s.line("%v", v.Type())
		for field, value := range v.Fields() {
			if v.Type() == reflect.TypeFor[Waiting]() && !field.IsExported() {
				continue // its Job says the same
			}
			s.part(indent, field.Name, value)
		}
	case reflect.Slice, reflect.Array:
		s.line("%v of %d", v.Type(), v.Len())
		for i := range v.Len() {
			s.part(indent, fmt.Sprint(i), v.Index(i))
		}
	case reflect.Map:
		s.inside(v, func() { s.entries(indent, v) })
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		s.line("%v", v.Type()) // it has no content to compare
	case reflect.String:
		s.line("%q", v.String())
	default:
		s.line("%v", v)
	}
}

// ownText returns the text of a value with the method MarshalText, such as a time.Time, and the payload of a
// job.
func ownText(v reflect.Value) (string, bool) {
	if !v.CanInterface() {
		return "", false
	}
	if j, ok := v.Interface().(*belay.Job); ok && j != nil {
		return j.Raw(), true
	}
	marshaler, ok := v.Interface().(encoding.TextMarshaler)
	if !ok || v.Kind() == reflect.Pointer && v.IsNil() {
		return "", false
	}
	text, err := marshaler.MarshalText()
	return string(text), err == nil
}

func (s *snapshot) part(indent, name string, v reflect.Value) {
	indent += "  "
	s.WriteString(indent + name + ": ")
	s.write(indent, v)
}

// entries writes a map sorted by the texts of its keys, because a map has no order.
func (s *snapshot) entries(indent string, v reflect.Value) {
	s.line("%v of %d", v.Type(), v.Len())
	values := make(map[string]reflect.Value, v.Len())
	for key, value := range v.Seq2() {
		values[fmt.Sprintf("%#v", key)] = value
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		s.part(indent, key, values[key])
	}
}

// inside calls write for the content of v, unless v contains itself.
func (s *snapshot) inside(v reflect.Value, write func()) {
	if slices.Contains(s.above, v.Pointer()) {
		s.line("(as above)")
		return
	}
	s.above = append(s.above, v.Pointer())
	write()
	s.above = s.above[:len(s.above)-1]
}

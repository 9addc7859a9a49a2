package args

import (
	"fmt"
	"reflect"
	"strings"
)

// Lossless says why the JSON of v, which it has, would be the same for other values of its type that anybody would tell apart: a
// struct in it has fields, and none of them is written. nil when there is no such struct. What For says of a type before there is a
// value, this says of a value whose type nobody knew, such as one in an any; that it can be read again is not asked.
//
// v must not hold itself, which its JSON says.
func Lossless(v any) error { return lossless(reflect.ValueOf(v), false) }

// lossless goes where encoding/json goes. addressed says that v lies where a method of a pointer to it can be called.
func lossless(v reflect.Value, addressed bool) error {
	if !v.IsValid() {
		return nil
	}
	t := v.Type()
	itself := t.Implements(jsonMarshaler) || t.Implements(textMarshaler)
	byPointer := addressed && t.Kind() != reflect.Interface && writesItself(t)
	switch t.Kind() {
	case reflect.Interface:
		return lossless(v.Elem(), false)
	case reflect.Pointer:
		if v.IsNil() || itself && t.Elem().Kind() != reflect.Struct {
			return nil
		}
		return lossless(v.Elem(), true)
	case reflect.Struct:
		if itself || byPointer {
			return losslessWriter(t)
		}
		return losslessStruct(v, addressed)
	}
	if itself || byPointer {
		return nil
	}
	switch t.Kind() {
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			if err := lossless(entries.Value(), false); err != nil {
				return err
			}
		}
	case reflect.Slice, reflect.Array:
		if !mayHoldStructs(t.Elem()) {
			return nil
		}
		for i := range v.Len() {
			if err := lossless(v.Index(i), addressed || t.Kind() == reflect.Slice); err != nil {
				return err
			}
		}
	}
	return nil
}

// mayHoldStructs spares the elements of long slices that have none.
func mayHoldStructs(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Interface, reflect.Pointer, reflect.Map, reflect.Slice, reflect.Array, reflect.Struct:
		return true
	}
	return false
}

// losslessWriter is for a struct that writes itself, which knows what it leaves out, unless an embedded one's method does it.
func losslessWriter(t reflect.Type) error {
	if embedded, borrowed := borrowedWriter(t); borrowed {
		return fmt.Errorf("%v is written by the method of its embedded %v, and nothing else of it is: give the embedded field a name", t, embedded)
	}
	return nil
}

func losslessStruct(v reflect.Value, addressed bool) error {
	t := v.Type()
	written, err := losslessFields(v, addressed)
	if err != nil || written > 0 || t.NumField() == 0 {
		return err
	}
	if writesItself(t) {
		return fmt.Errorf("%v writes itself only by a pointer, and would be written as {}: make it a pointer", t)
	}
	return fmt.Errorf("%v has no exported fields and would be written as {}; capitalize their names", t)
}

// losslessFields is how many fields of a struct are written, those of embedded ones among them.
func losslessFields(v reflect.Value, addressed bool) (written int, err error) {
	t := v.Type()
	for i := range t.NumField() {
		field, value := t.Field(i), v.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		inside := field.Anonymous && name == "" && (field.Type.Kind() == reflect.Struct || field.Type.Kind() == reflect.Pointer)
		if field.Tag.Get("json") == "-" || !field.IsExported() && !inside {
			continue
		}
		if inside && field.Type.Kind() == reflect.Struct && !writesItself(field.Type) {
			within, err := losslessFields(value, addressed)
			if err != nil {
				return 0, err
			}
			written += within // none is no loss beside others, as of a marker
			continue
		}
		written++
		if err := lossless(value, addressed); err != nil {
			return 0, err
		}
	}
	return written, nil
}

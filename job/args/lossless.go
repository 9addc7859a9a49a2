package args

import (
	"fmt"
	"reflect"
	"strings"
)

// Lossless returns an error if the JSON of v would be the same for different values of its type, because
// none of the fields of a struct in it are written. For checks a type in advance; Lossless checks a value
// whose type is known only at run time, such as the content of an any. It does not check whether the value
// can be read again.
//
// v must have JSON, so it must not contain itself.
func Lossless(v any) error { return lossless(reflect.ValueOf(v), false) }

// lossless visits what encoding/json visits. addressed reports that methods of a pointer to v can be
// called.
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

// mayHoldStructs reports whether elements of type t may contain structs; others need no visit.
func mayHoldStructs(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Interface, reflect.Pointer, reflect.Map, reflect.Slice, reflect.Array, reflect.Struct:
		return true
	}
	return false
}

// losslessWriter checks a struct that writes itself. Its method decides what to omit, unless it is an
// embedded struct's.
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

// losslessFields returns how many fields of a struct are written, including those of embedded structs.
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
			written += within // an embedded marker without fields is no loss
			continue
		}
		written++
		if err := lossless(value, addressed); err != nil {
			return 0, err
		}
	}
	return written, nil
}

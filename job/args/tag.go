package args

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

type fieldTag struct {
	skip, rest bool
	// name is the field's name in JSON. An argument has no name, but an embedded struct with a name is one
	// argument.
	name string
	omit func(reflect.Value) bool
}

func readTag(field reflect.StructField) (fieldTag, error) {
	belayTag, jsonTag := field.Tag.Get("belay"), field.Tag.Get("json")
	if belayTag == "-" || jsonTag == "-" {
		return fieldTag{skip: true}, nil
	}
	name, list, _ := strings.Cut(jsonTag, ",")
	tag := fieldTag{rest: belayTag == ",rest", name: name}
	options := strings.Split(list, ",")
	switch {
	case belayTag != "" && !tag.rest:
		return tag, fmt.Errorf(`field %s: the tag belay:%q is not known; there are belay:"-" and belay:",rest"`, field.Name, belayTag)
	case slices.Contains(options, "string"):
		return tag, fmt.Errorf(`field %s: the tag json:",string" is not for arguments: make the field a string`, field.Name)
	case slices.Contains(options, "omitzero"):
		tag.omit = isZero
	case slices.Contains(options, "omitempty"):
		tag.omit = isEmpty
	}
	return tag, nil
}

// isEmpty reports whether encoding/json omits v from a field with omitempty.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

// isZero reports whether encoding/json omits v from a field with omitzero: it calls v's IsZero method, if
// there is one. v is addressable.
func isZero(v reflect.Value) bool {
	receiver := v
	if kind := v.Kind(); kind != reflect.Pointer && kind != reflect.Interface {
		receiver = v.Addr() // it has the methods of both
	} else if v.IsNil() {
		return true
	}
	if own, ok := receiver.Interface().(interface{ IsZero() bool }); ok {
		return own.IsZero()
	}
	return v.IsZero()
}

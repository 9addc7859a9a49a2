package args

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// A fieldTag is the content of the tags of a T's field.
type fieldTag struct {
	skip, rest bool
	// name is the field's name in JSON. An argument has no name, but an embedded struct with a name is one
	// argument.
	name string
	omit func(reflect.Value) bool
}

func readTag(field reflect.StructField) (fieldTag, error) {
	ours, theirs := field.Tag.Get("belay"), field.Tag.Get("json")
	if ours == "-" || theirs == "-" {
		return fieldTag{skip: true}, nil
	}
	name, options, _ := strings.Cut(theirs, ",")
	tag := fieldTag{rest: ours == ",rest", name: name}
	said := strings.Split(options, ",")
	switch {
	case ours != "" && !tag.rest:
		return tag, fmt.Errorf(`field %s: the tag belay:%q is not known; there are belay:"-" and belay:",rest"`, field.Name, ours)
	case slices.Contains(said, "string"):
		return tag, fmt.Errorf(`field %s: the tag json:",string" is not for arguments: make the field a string`, field.Name)
	case slices.Contains(said, "omitzero"):
		tag.omit = isZero
	case slices.Contains(said, "omitempty"):
		tag.omit = isEmpty
	}
	return tag, nil
}

// isEmpty reports whether json:",omitempty" omits v.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	default:
		return v.IsZero()
	}
}

// isZero reports whether json:",omitzero" omits v.
func isZero(v reflect.Value) bool {
	if v.IsZero() {
		return true
	}
	asked, ok := v.Addr().Interface().(interface{ IsZero() bool })
	if !ok {
		asked, ok = v.Interface().(interface{ IsZero() bool }) // a pointer's own method
	}
	return ok && asked.IsZero()
}

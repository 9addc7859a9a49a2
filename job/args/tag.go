package args

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/belayq/belay/job"
)

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
		tag.omit = job.IsZero
	case slices.Contains(said, "omitempty"):
		tag.omit = job.IsEmpty
	}
	return tag, nil
}

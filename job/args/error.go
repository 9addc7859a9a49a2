package args

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// An Error says which argument of a job has a wrong type. It shows types and never the argument, which may
// be secret: error messages are stored in the job and logged.
type Error struct {
	// Position counts the job's arguments from 1.
	Position int
	// Field is the struct field for the argument, or for the wrong part of it, such as Owner.Name; "" if
	// there is none.
	Field string
	// Got is the kind of the job's value: null, boolean, number, string, array or object; "value" if it is
	// not known.
	Got string
	// Want is the field's type; nil for a surplus argument.
	Want reflect.Type
	// Err is the error of the type's decoder, which may quote the argument; nil for a surplus argument.
	Err error

	of    reflect.Type
	given int
}

func (e *Error) Error() string {
	if e.Want == nil {
		return fmt.Sprintf("the job has %d, %v takes at most %d", e.given, e.of, e.Position-1)
	}
	at := "argument " + strconv.Itoa(e.Position)
	if e.Field != "" {
		at += " (" + e.Field + ")"
	}
	if kind, found := errors.AsType[*json.UnmarshalTypeError](e.Err); found && !strings.HasPrefix(kind.Value, "number ") {
		return fmt.Sprintf("%s: %s, where %v is wanted", at, withArticle(e.Got), e.Want)
	}
	return fmt.Sprintf("%s: %s that %v cannot hold", at, withArticle(e.Got), e.Want)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// ErrorClass returns the name that operators see, which is the public name of this type.
func (e *Error) ErrorClass() string { return "belay.ArgumentError" }

func (p *place) error(index int, text string, err error) error {
	argErr := &Error{Position: index + 1, Field: p.name, Got: kindOf(text), Want: p.of, Err: err}
	inner, found := errors.AsType[*json.UnmarshalTypeError](err)
	if found && !readsItself(p.of) && inner.Type != nil {
		argErr.Got, argErr.Want = kindNamed(inner.Value), inner.Type
		argErr.Field = strings.Trim(p.name+"."+inner.Field, ".")
	}
	return argErr
}

// kindNamed returns the kind of a JSON value from encoding/json's description, which may also contain the
// value.
func kindNamed(name string) string {
	name, _, _ = strings.Cut(name, " ")
	switch name {
	case "number", "string", "array", "object":
		return name
	case "bool":
		return "boolean"
	}
	return "value" // from a type's own UnmarshalJSON
}

func kindOf(text string) string {
	switch text[0] {
	case 'n':
		return "null"
	case 't', 'f':
		return "boolean"
	case '"':
		return "string"
	case '[':
		return "array"
	case '{':
		return "object"
	}
	return "number"
}

func withArticle(kind string) string {
	switch kind {
	case "null":
		return kind
	case "array", "object":
		return "an " + kind
	}
	return "a " + kind
}

package args

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// An Error says which argument of a job does not fit. It shows types and never the argument, which
// may be secret: error messages are stored with the job, and logged.
type Error struct {
	// Position counts the job's arguments from 1.
	Position int
	// Field is the struct field that the argument, or the part of it that does not fit, was for, such as Owner.Name; "" when
	// it is for none.
	Field string
	// Got is what the job has there: null, boolean, number, string, array or object; "value" when that is not known.
	Got string
	// Want is the field's type; nil when the argument is one too many.
	Want reflect.Type
	// Err is what the type's decoder said, and may quote the argument. nil when the argument is one too many.
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

// ErrorClass is how it is shown to operators, who know it by the name that programs use.
func (e *Error) ErrorClass() string { return "belay.ArgumentError" }

// error is what is said when the argument with this index, from 0, could not be read.
func (p *place) error(index int, text string, err error) error {
	wrong := &Error{Position: index + 1, Field: p.name, Got: kindOf(text), Want: p.of, Err: err}
	inner, found := errors.AsType[*json.UnmarshalTypeError](err)
	if found && !readsItself(p.of) && inner.Type != nil {
		wrong.Got, wrong.Want = kindNamed(inner.Value), inner.Type
		wrong.Field = strings.Trim(p.name+"."+inner.Field, ".")
	}
	return wrong
}

// kindNamed is the kind of a JSON value by encoding/json's name for it, behind which the value itself may stand.
func kindNamed(name string) string {
	name, _, _ = strings.Cut(name, " ")
	switch name {
	case "number", "string", "array", "object":
		return name
	case "bool":
		return "boolean"
	}
	return "value" // by somebody's own UnmarshalJSON
}

// kindOf is the kind of a JSON value.
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

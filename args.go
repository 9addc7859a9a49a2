package belay

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
)

// A shape is how a type and a job's positional arguments correspond, found out once for each Definition.
type shape struct {
	// whole: the value is one argument. Otherwise the fields with these indexes are, in order.
	whole  bool
	fields []int
}

var (
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

func shapeOf(t reflect.Type) (shape, error) {
	// A type that writes itself is one value (time.Time is a struct, too).
	ptr := reflect.PointerTo(t)
	if t.Kind() != reflect.Struct || ptr.Implements(jsonMarshaler) || ptr.Implements(textMarshaler) {
		return shape{whole: true}, nil
	}
	var s shape
	for i := range t.NumField() {
		if field := t.Field(i); field.IsExported() && field.Tag.Get("json") != "-" {
			s.fields = append(s.fields, i)
		}
	}
	if len(s.fields) == 0 && t.NumField() > 0 {
		return s, fmt.Errorf("%v has no exported fields to be arguments; capitalize their names", t)
	}
	return s, nil
}

// args are the arguments that v stands for.
func (s shape) args(v reflect.Value) []any {
	if s.whole {
		return []any{v.Interface()}
	}
	args := make([]any, len(s.fields))
	for n, i := range s.fields {
		args[n] = v.Field(i).Interface()
	}
	return args
}

// fill puts a job's arguments into v, which is zero. A null leaves a pointer nil and another field zero.
func (s shape) fill(v reflect.Value, args []string) error {
	places := []reflect.Value{v}
	if !s.whole {
		places = places[:0]
		for _, i := range s.fields {
			places = append(places, v.Field(i))
		}
	}
	// A missing argument may be one that older producers did not send; a surplus one would be lost without a word.
	if len(args) > len(places) {
		return fmt.Errorf("the job has %d, %v takes at most %d", len(args), v.Type(), len(places))
	}
	for n, arg := range args {
		if err := json.Unmarshal([]byte(arg), places[n].Addr().Interface()); err != nil {
			return fmt.Errorf("argument %d: %w", n+1, err)
		}
	}
	return nil
}

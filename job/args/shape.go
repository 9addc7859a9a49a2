package args

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/belayq/belay/job"
)

// A Shape is the mapping between a type and a job's positional arguments, by the rules in the package's
// documentation. For returns it. It never changes and is safe for concurrent use.
type Shape struct {
	of     reflect.Type
	places []place
	// rest receives the arguments after the places, one per element of its slice; nil without such a field.
	rest *place
}

type place struct {
	path []int  // field indexes, through embedded structs; empty if T itself is the argument
	name string // of the field, "" for T itself
	of   reflect.Type
	// isEmpty reports whether to omit the value if nothing follows it; nil means never.
	isEmpty func(reflect.Value) bool
	read    reader
}

// For returns the shape of a type. Its error lists everything wrong with the type: values that have no
// JSON, or would be read back as other values.
func For(t reflect.Type) (*Shape, error) {
	s := &Shape{of: t}
	if t.Kind() == reflect.Pointer && isPlainStruct(t.Elem()) {
		return nil, fmt.Errorf("%v is a pointer: leave out the asterisk, and the fields of the struct are the arguments", t)
	}
	if !isPlainStruct(t) {
		// A struct that writes itself is one value too (time.Time).
		return s, s.add(place{of: t})
	}
	if err := s.addFields(t, nil); err != nil {
		return nil, errors.Join(err, lostFields(t))
	}
	if len(s.places) == 0 && s.rest == nil && t.NumField() > 0 {
		return nil, fmt.Errorf("%v has no exported fields to be arguments; capitalize their names", t)
	}
	return s, lostFields(t)
}

// ForNamed returns the shape of a struct that is one argument: an object with its fields by name.
func ForNamed(t reflect.Type) (*Shape, error) {
	if !isPlainStruct(t) {
		return nil, fmt.Errorf("%v is not a struct: named arguments are its fields", t)
	}
	s := &Shape{of: t}
	return s, errors.Join(s.add(place{of: t}), lostFields(t))
}

// lostFields returns an error for each field of T, or of a struct that is embedded in it, that would be written
// into no job, because it is not exported. Handlers would get its zero value.
func lostFields(t reflect.Type) error {
	var errs []error
	for i := range t.NumField() {
		field := t.Field(i)
		tag, _ := readTag(field)
		embedded := field.Anonymous && tag.name == ""
		switch {
		case tag.skip || field.Name == "_" || embedded && field.Type.Kind() == reflect.Pointer:
		case embedded && isPlainStruct(field.Type):
			errs = append(errs, lostFields(field.Type))
		case !field.IsExported():
			errs = append(errs, fmt.Errorf(`field %s is not exported, so no handler would get it: capitalize its name, or tag it belay:"-"`, field.Name))
		}
	}
	return errors.Join(errs...)
}

func isPlainStruct(t reflect.Type) bool { return t.Kind() == reflect.Struct && !job.WritesItself(t) }

// addFields adds the arguments for the fields of t, which is T or embedded in it at path.
func (s *Shape) addFields(t reflect.Type, path []int) error {
	var errs []error
	for i := range t.NumField() {
		field := t.Field(i)
		tag, err := readTag(field)
		at := append(path[:len(path):len(path)], i)
		switch {
		case err != nil:
		case tag.skip:
		case field.Anonymous && tag.name == "" && isPlainStruct(field.Type):
			err = s.addFields(field.Type, at)
		case field.Anonymous && tag.name == "" && field.Type.Kind() == reflect.Pointer && isPlainStruct(field.Type.Elem()):
			err = fmt.Errorf("field %s: a job without it and a job with zeros would be the same: embed the struct itself", field.Name)
		case field.IsExported():
			p := place{path: at, name: field.Name, of: field.Type, isEmpty: tag.omit}
			if tag.rest {
				err = s.addRest(p)
			} else {
				err = s.add(p)
			}
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// EndsAlike reports whether the last argument of every value is that of the same field.
func (s *Shape) EndsAlike() bool {
	last := len(s.places) - 1
	return last >= 0 && s.rest == nil && s.places[last].isEmpty == nil
}

func (s *Shape) add(p place) error {
	if s.rest != nil {
		return fmt.Errorf("field %s follows %s, which takes the rest: put %[2]s last", p.name, s.rest.name)
	}
	if err := s.checkName(p.name); err != nil {
		return err
	}
	l := look{path: p.name}
	if err := l.at(p.of); err != nil {
		return err
	}
	p.read = readerOf(p.of, l.foundAny)
	s.places = append(s.places, p)
	return nil
}

func (s *Shape) addRest(p place) error {
	if p.of.Kind() != reflect.Slice || p.of.Elem().Kind() == reflect.Uint8 || job.WritesItself(p.of) {
		return fmt.Errorf("field %s: a rest must be a slice with an element for each argument, such as []json.RawMessage; %v is not", p.name, p.of)
	}
	slice := p.of
	p.of = slice.Elem()
	if err := s.add(p); err != nil {
		return err
	}
	last := len(s.places) - 1
	s.rest, s.places = &s.places[last], s.places[:last:last]
	return nil
}

// checkName refuses a second field of one name, which an embedded struct could add: they could be confused.
func (s *Shape) checkName(name string) error {
	for _, earlier := range s.places {
		if earlier.name == name {
			return fmt.Errorf("field %s is there twice, once in an embedded struct: rename one", name)
		}
	}
	return nil
}

// Write returns the arguments of v for job.MarshalArgs. v has the shape's type and is addressable.
func (s *Shape) Write(v reflect.Value) []any {
	args := make([]any, 0, len(s.places))
	for i := range s.places {
		args = append(args, s.places[i].in(v).Interface())
	}
	if s.rest != nil {
		further := s.rest.in(v)
		for i := range further.Len() {
			args = append(args, further.Index(i).Interface())
		}
	}
	for n := len(args); n > 0 && n <= len(s.places); n-- {
		last := &s.places[n-1]
		if last.isEmpty == nil || !last.isEmpty(last.in(v)) {
			break
		}
		args = args[:n-1]
	}
	return args
}

// Fill reads a job's arguments, as job.Job.Args returns them, into v, which is zero, has the shape's type
// and is addressable. Its error is an *Error; v is then undefined.
func (s *Shape) Fill(v reflect.Value, args []string) error {
	// Older producers may not send the last arguments; a surplus one would be lost silently.
	if len(args) > len(s.places) && s.rest == nil {
		return &Error{Position: len(s.places) + 1, Got: kindOf(args[len(s.places)]), of: s.of, given: len(args)}
	}
	for n := range min(len(args), len(s.places)) {
		if err := s.places[n].fill(s.places[n].in(v), args[n]); err != nil {
			return s.places[n].error(n, args[n], err)
		}
	}
	if len(args) <= len(s.places) {
		return nil
	}
	further := reflect.MakeSlice(s.rest.in(v).Type(), len(args)-len(s.places), len(args)-len(s.places))
	for i, arg := range args[len(s.places):] {
		if err := s.rest.fill(further.Index(i), arg); err != nil {
			return s.rest.error(len(s.places)+i, arg, err)
		}
	}
	s.rest.in(v).Set(further)
	return nil
}

// Position returns the position, from 1, of a field of T among the arguments of every job. It returns an
// error if there is none: T has no field of that name, or the field is the rest of the arguments, or it may
// be omitted. A job without an omitted field would not count as equal to a job that has the same value.
func (s *Shape) Position(field string) (int, error) {
	for i := range s.places {
		switch p := &s.places[i]; {
		case field == "" || p.name != field:
		case p.isEmpty != nil:
			return 0, fmt.Errorf("field %s is left out of a job where it is empty", field)
		default:
			return i + 1, nil
		}
	}
	if s.rest != nil && s.rest.name == field {
		return 0, fmt.Errorf("field %s is the rest of the arguments, not one", field)
	}
	return 0, fmt.Errorf("%v has no field %s that is an argument", s.of, field)
}

func (p *place) in(v reflect.Value) reflect.Value {
	for _, i := range p.path {
		v = v.Field(i)
	}
	return v
}

// fill reads one argument. encoding/json reads what quickly cannot, or returns the error.
func (p *place) fill(v reflect.Value, text string) error {
	if p.read.quickly != nil && p.read.quickly(v, text) {
		return nil
	}
	if !p.read.exactly {
		return json.Unmarshal([]byte(text), v.Addr().Interface())
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(v.Addr().Interface())
}

package args

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// A Shape is how a type and a job's positional arguments correspond; the package's documentation tells the rules. For makes
// it. It never changes, and may be used from any goroutine.
type Shape struct {
	of     reflect.Type
	places []place
	// rest takes the arguments behind the places, one per element of its slice. nil without such a field.
	rest *place
}

// A place is where in a T one argument stands.
type place struct {
	path []int  // the indexes of fields, down through embedded structs; none: T itself is the argument
	name string // of the field, "" for T itself
	of   reflect.Type
	// byAddress: the argument is handed on as a pointer, because something in it writes itself only by one.
	byAddress bool
	// isEmpty says whether the value is left out where nothing follows it. nil: never.
	isEmpty func(reflect.Value) bool
	read    reader
}

// For finds out the shape of a type. Its error names all that is wrong with the type: no JSON for it, or none that would
// come back as it was.
func For(t reflect.Type) (*Shape, error) {
	s := &Shape{of: t}
	if t.Kind() == reflect.Pointer && isPlainStruct(t.Elem()) {
		return nil, fmt.Errorf("%v is a pointer: leave out the asterisk, and the fields of the struct are the arguments", t)
	}
	if !isPlainStruct(t) {
		// A type that writes itself is one value, too (time.Time is a struct).
		return s, s.add(place{of: t})
	}
	if err := s.addFields(t, nil); err != nil {
		return nil, err
	}
	if len(s.places) == 0 && s.rest == nil && t.NumField() > 0 {
		return nil, fmt.Errorf("%v has no exported fields to be arguments; capitalize their names", t)
	}
	return s, nil
}

func isPlainStruct(t reflect.Type) bool { return t.Kind() == reflect.Struct && !writesItself(t) }

// addFields adds the arguments that stand in the fields of t, which is T or embedded in it at path.
func (s *Shape) addFields(t reflect.Type, path []int) error {
	var wrong []error
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
			err = fmt.Errorf("field %s: a job without it could not be told from one with zeros: embed the struct itself", field.Name)
		case field.IsExported():
			p := place{path: at, name: field.Name, of: field.Type, isEmpty: tag.omit}
			if tag.rest {
				err = s.addRest(p)
			} else {
				err = s.add(p)
			}
		}
		wrong = append(wrong, err)
	}
	return errors.Join(wrong...)
}

func (s *Shape) add(p place) error {
	if s.rest != nil {
		return fmt.Errorf("field %s stands behind %s, which takes the rest: put %[2]s last", p.name, s.rest.name)
	}
	if err := s.checkName(p.name); err != nil {
		return err
	}
	l := look{path: p.name}
	if err := l.at(p.of, true); err != nil {
		return err
	}
	p.byAddress, p.read = needsAddress(p.of), readerOf(p.of, l.foundAny)
	s.places = append(s.places, p)
	return nil
}

func (s *Shape) addRest(p place) error {
	if p.of.Kind() != reflect.Slice || p.of.Elem().Kind() == reflect.Uint8 || writesItself(p.of) {
		return fmt.Errorf("field %s: a rest is a slice with an element for each argument, such as []json.RawMessage; %v is none", p.name, p.of)
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

// checkName refuses a second field of one name: with an embedded struct a reader could not tell which is which.
func (s *Shape) checkName(name string) error {
	for _, earlier := range s.places {
		if earlier.name == name {
			return fmt.Errorf("field %s is there twice, once in an embedded struct: rename one", name)
		}
	}
	return nil
}

// Write makes the arguments that v stands for, ready for job.MarshalArgs. v is of the shape's type and can be addressed;
// the arguments may be pointers into it.
func (s *Shape) Write(v reflect.Value) []any {
	args := make([]any, 0, len(s.places))
	for i := range s.places {
		args = append(args, s.places[i].value(s.places[i].in(v)))
	}
	if s.rest != nil {
		further := s.rest.in(v)
		for i := range further.Len() {
			args = append(args, s.rest.value(further.Index(i)))
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

// Fill puts a job's arguments, each of them JSON as job.Job.Args answers it, into v, which is zero, of the shape's type and
// can be addressed. Its error is an *Error, and v is then of no use.
func (s *Shape) Fill(v reflect.Value, args []string) error {
	// A missing argument may be one that older producers did not send; a surplus one would be lost without a word.
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

// Position is which argument a field of T is, counted from 1, in every job. The error says why none is: no field of that
// name, or one that stands for any number of arguments, or that may be left out, because a job without it would then not
// count as the same as one that has it with the same value.
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

// in is the place's own part of a T.
func (p *place) in(v reflect.Value) reflect.Value {
	for _, i := range p.path {
		v = v.Field(i)
	}
	return v
}

func (p *place) value(v reflect.Value) any {
	if p.byAddress {
		return v.Addr().Interface()
	}
	return v.Interface()
}

// fill reads one argument. What the quick way cannot read, encoding/json may, or it says why not.
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

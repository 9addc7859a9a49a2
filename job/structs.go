package job

import (
	"bytes"
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// encoding/json writes a float64 field of 2 as 2, and the job would get an Integer in Ruby. So this package
// walks structs itself. It follows encoding/json's rules for which fields are written, by which names, and
// when they are omitted; a test compares the two.

type structField struct {
	name      string
	tagged    bool  // the name comes from a tag
	index     []int // the path to it through embedded structs
	text      bool  // tagged ",string": a number or a boolean goes into a string
	omitEmpty bool
	omitZero  bool
}

var structFields sync.Map // of []structField, by reflect.Type: computed once for each type

func appendStruct(out []byte, v reflect.Value, inside place) ([]byte, error) {
	found, known := structFields.Load(v.Type())
	if !known {
		found, _ = structFields.LoadOrStore(v.Type(), fieldsOf(v.Type()))
	}
	fields, _ := found.([]structField) // nothing else is stored
	out = append(out, '{')
	first := true
	for _, f := range fields {
		value, reached := f.in(v)
		if !reached || f.omitEmpty && IsEmpty(value) || f.omitZero && IsZero(value) {
			continue
		}
		if !first {
			out = append(out, ',')
		}
		first = false
		var err error
		if out, err = f.append(append(appendQuoted(out, f.name), ':'), value, inside); err != nil {
			return nil, within(err, "[%q]", f.name)
		}
	}
	return append(out, '}'), nil
}

// in returns the field's value in a struct, unless a pointer on the path is nil.
func (f *structField) in(v reflect.Value) (field reflect.Value, reached bool) {
	for _, i := range f.index {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return v, false
			}
			v = v.Elem()
		}
		v = v.Field(i)
	}
	return v, true
}

func (f *structField) append(out []byte, v reflect.Value, inside place) ([]byte, error) {
	if _, itself := marshaler(v); itself && v.Type() != typeNumber || !f.text {
		return appendValue(out, v, inside)
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return append(out, "null"...), nil
		}
		v = v.Elem()
	}
	// encoding/json writes the text in the string, because Ruby does not read it as a number.
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v.Interface()); err != nil {
		return nil, err
	}
	if v.Kind() == reflect.String && strings.Contains(text.String(), `\ufffd`) && !strings.Contains(v.String(), `\ufffd`) {
		return nil, errNotUTF8
	}
	return appendString(out, strings.TrimSuffix(text.String(), "\n"))
}

// IsEmpty reports whether encoding/json omits v from a field with omitempty.
func IsEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct, reflect.Func, reflect.Chan, reflect.UnsafePointer, reflect.Complex64, reflect.Complex128:
		return false
	}
	return v.IsZero()
}

// IsZero reports whether encoding/json omits v from a field with omitzero: it calls v's IsZero method, if
// there is one.
func IsZero(v reflect.Value) bool {
	type zeroer interface{ IsZero() bool }
	if asked, t := reflect.TypeFor[zeroer](), v.Type(); !t.Implements(asked) {
		if !reflect.PointerTo(t).Implements(asked) {
			return v.IsZero()
		}
		copied := reflect.New(t)
		copied.Elem().Set(v)
		v = copied
	}
	for p := v; p.Kind() == reflect.Interface || p.Kind() == reflect.Pointer; p = p.Elem() {
		if p.IsNil() {
			return true
		}
	}
	own, ok := v.Interface().(zeroer)
	return ok && own.IsZero()
}

// An embedded struct's fields are promoted to the struct around it.
type embedded struct {
	t     reflect.Type
	index []int
}

// fieldsOf finds a struct's fields level by level. Of several fields with one name the shallowest is
// written; at the same depth the one with a tag; if several are left, none.
func fieldsOf(root reflect.Type) []structField {
	var fields []structField
	seen := map[reflect.Type]bool{}
	times := map[reflect.Type]int{root: 1}
	for level := []embedded{{t: root}}; len(level) > 0; {
		var next []embedded
		nextTimes := map[reflect.Type]int{}
		for _, e := range level {
			if seen[e.t] {
				continue
			}
			seen[e.t] = true
			for i := range e.t.NumField() {
				f, inner, ok := fieldOfStruct(e.t.Field(i), append(slices.Clone(e.index), i))
				switch {
				case inner != nil:
					if nextTimes[inner]++; nextTimes[inner] == 1 {
						next = append(next, embedded{inner, f.index})
					}
				case ok:
					// A type that is embedded twice at one level has each name twice.
					fields = append(fields, slices.Repeat([]structField{f}, min(times[e.t], 2))...)
				}
			}
		}
		level, times = next, nextTimes
	}
	return dominant(fields)
}

// fieldOfStruct reads one field, or returns the type of an embedded struct to descend into.
func fieldOfStruct(sf reflect.StructField, index []int) (f structField, inner reflect.Type, ok bool) {
	tag := sf.Tag.Get("json")
	t := sf.Type
	if t.Name() == "" && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if tag == "-" || !sf.IsExported() && (!sf.Anonymous || t.Kind() != reflect.Struct) {
		return f, nil, false
	}
	name, options, _ := strings.Cut(tag, ",")
	if !isName(name) {
		name = ""
	}
	f = structField{name: cmp.Or(name, sf.Name), tagged: name != "", index: index}
	if !f.tagged && sf.Anonymous && t.Kind() == reflect.Struct {
		return f, t, false
	}
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "omitempty":
			f.omitEmpty = true
		case "omitzero":
			f.omitZero = true
		case "string":
			f.text = t.Kind() >= reflect.Bool && t.Kind() <= reflect.Float64 || t.Kind() == reflect.String
		}
	}
	return f, nil, true
}

// isName reports whether encoding/json accepts the name in a tag.
func isName(name string) bool {
	for _, r := range name {
		if !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return false
		}
	}
	return true
}

// dominant keeps for each name the field that is written, if there is one, in the order of the struct.
func dominant(fields []structField) []structField {
	slices.SortStableFunc(fields, func(a, b structField) int {
		byTag := 0 // a tagged field comes first
		switch {
		case a.tagged && !b.tagged:
			byTag = -1
		case b.tagged && !a.tagged:
			byTag = 1
		}
		return cmp.Or(strings.Compare(a.name, b.name), cmp.Compare(len(a.index), len(b.index)), byTag,
			slices.Compare(a.index, b.index))
	})
	var written []structField
	for len(fields) > 0 {
		same := 1
		for same < len(fields) && fields[same].name == fields[0].name {
			same++
		}
		if same == 1 || len(fields[0].index) != len(fields[1].index) || fields[0].tagged != fields[1].tagged {
			written = append(written, fields[0])
		}
		fields = fields[same:]
	}
	slices.SortFunc(written, func(a, b structField) int { return slices.Compare(a.index, b.index) })
	return written
}

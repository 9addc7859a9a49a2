package job

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Marshal writes v as JSON in the spelling of Ruby's JSON.generate: on one line, without spaces, with
// unescaped characters, and every float with its fraction, because Ruby reads 1 as an Integer and 1.0 as a
// Float.
//
// Struct fields are selected, named and omitted by encoding/json's rules, []byte is Base64, and the keys of
// maps are sorted. A json.RawMessage, a json.Number and the results of MarshalJSON and MarshalText are
// respelled: escapes become characters, 1E5 becomes 100000.0, and of duplicate names the last value stays,
// in the place of the first. Integers keep all their digits. Any other number becomes the nearest float64,
// as in Ruby; put a decimal that needs more than 17 digits into a string.
//
// NaN, an infinity, a number beyond float64, a string that is not UTF-8, half a surrogate pair and, outside
// of structs, a map whose keys are not strings are errors that name the place.
//
// A nil slice is written [] when it is v itself, null when it stands inside something.
func Marshal(v any) (string, error) {
	if s := reflect.ValueOf(v); s.Kind() == reflect.Slice && s.IsNil() && s.Type() != typeRaw {
		return "[]", nil
	}
	out, err := appendValue(nil, reflect.ValueOf(v), place{})
	if err != nil {
		return "", fmt.Errorf("write JSON: %w", err)
	}
	return string(out), nil
}

// AsWritten reports, by a quick scan, whether text is an array exactly as MarshalArgs would write it: no
// spaces, no escapes, no floats, no objects. It may report false for such an array.
func AsWritten(text string) bool {
	if text == "" || text[0] != '[' {
		return false
	}
	quoted, last := false, byte(0)
	for i := range len(text) {
		switch c := text[i]; {
		case c <= ' ' || c == '\\':
			return false
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '.' || c == 'E' || c == 'e' && '0' <= last && last <= '9' || c == '0' && last == '-':
			return false
		}
		last = text[i]
	}
	end, why := skipValue(text, 0, 1)
	return why == sound && end == len(text)
}

// MarshalArgs writes a payload's args, as Marshal does. No args are [], never null: Ruby loses a job with
// null args when it pushes it again. It refuses args that would nest the payload deeper than MaxDepth.
func MarshalArgs(args []any) (string, error) {
	out := []byte{'['}
	for i, arg := range args {
		if i > 0 {
			out = append(out, ',')
		}
		var err error
		if out, err = appendArg(out, arg); err != nil {
			return "", fmt.Errorf("write argument %d: %w", i+1, err)
		}
	}
	text := string(append(out, ']'))
	switch _, why := skipValue(text, 0, 1); why {
	case sound:
		return text, nil
	case tooDeep:
		return "", fmt.Errorf("write arguments: %w", errTooDeep)
	default:
		// This cannot happen: this package wrote all of it.
		return "", fmt.Errorf("write arguments: %w", errNotUTF8)
	}
}

var errTooDeep = fmt.Errorf("nested deeper than %d, or a value that contains itself", MaxDepth)

// appendArg writes the commonest types without reflection.
func appendArg(out []byte, arg any) ([]byte, error) {
	switch v := arg.(type) {
	case nil:
		return append(out, "null"...), nil
	case bool:
		return strconv.AppendBool(out, v), nil
	case int:
		return strconv.AppendInt(out, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(out, v, 10), nil
	case string:
		return appendString(out, v)
	}
	return appendValue(out, reflect.ValueOf(arg), place{})
}

var (
	typeRaw       = reflect.TypeFor[json.RawMessage]()
	typeNumber    = reflect.TypeFor[json.Number]()
	typeMarshaler = reflect.TypeFor[json.Marshaler]()
	typeText      = reflect.TypeFor[encoding.TextMarshaler]()
)

type place struct {
	// depth counts the enclosing values, pointers included, so that a cycle of pointers ends.
	depth int
	// inStruct reports that maps may have any keys that encoding/json accepts, as they always could in
	// structs.
	inStruct bool
}

func (p place) deeper() place { return place{p.depth + 1, p.inStruct} }

func appendValue(out []byte, v reflect.Value, at place) ([]byte, error) {
	if at.depth > MaxDepth {
		return nil, errTooDeep
	}
	if !v.IsValid() {
		return append(out, "null"...), nil
	}
	if v.Type() == typeRaw {
		return appendRaw(out, v.Bytes())
	}
	if leaf, ok := marshaler(v); ok {
		return appendForeign(out, leaf)
	}
	switch v.Kind() {
	case reflect.Bool:
		return strconv.AppendBool(out, v.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(out, v.Int(), 10), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return strconv.AppendUint(out, v.Uint(), 10), nil
	case reflect.Float32, reflect.Float64:
		return appendFloat(out, v.Float(), v.Type().Bits())
	case reflect.String:
		return appendString(out, v.String())
	case reflect.Interface:
		return appendValue(out, v.Elem(), at)
	case reflect.Pointer:
		return appendValue(out, v.Elem(), at.deeper())
	case reflect.Slice, reflect.Array:
		return appendSlice(out, v, at.deeper())
	case reflect.Map:
		return appendMap(out, v, at.deeper())
	case reflect.Struct:
		return appendStruct(out, v, place{at.depth + 1, true})
	}
	return nil, fmt.Errorf("a %s has no JSON", v.Type())
}

// marshaler returns the value for encoding/json, and true, if the value has its own MarshalJSON or
// MarshalText.
func marshaler(v reflect.Value) (any, bool) {
	t := v.Type()
	switch p := reflect.PointerTo(t); {
	case t.Kind() == reflect.Interface:
		return nil, false // its content is checked instead
	case v.CanAddr() && (p.Implements(typeMarshaler) || p.Implements(typeText)):
		return v.Addr().Interface(), true
	case t == typeNumber, t.Implements(typeMarshaler), t.Implements(typeText):
		return v.Interface(), true
	}
	return nil, false
}

func appendSlice(out []byte, v reflect.Value, inside place) ([]byte, error) {
	if v.Kind() == reflect.Slice {
		if v.IsNil() {
			return append(out, "null"...), nil
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return appendForeign(out, v.Interface()) // Base64, as everywhere in Go
		}
	}
	out = append(out, '[')
	for i := range v.Len() {
		if i > 0 {
			out = append(out, ',')
		}
		var err error
		if out, err = appendValue(out, v.Index(i), inside); err != nil {
			return nil, within(err, "[%d]", i)
		}
	}
	return append(out, ']'), nil
}

func appendMap(out []byte, v reflect.Value, inside place) ([]byte, error) {
	if v.Type().Key().Kind() != reflect.String && !inside.inStruct {
		return nil, fmt.Errorf("a %s: JSON allows only strings as keys", v.Type())
	}
	if v.IsNil() {
		return append(out, "null"...), nil
	}
	type entry struct {
		name string
		key  reflect.Value
	}
	entries := make([]entry, 0, v.Len())
	for _, key := range v.MapKeys() {
		name, err := keyName(key)
		if err != nil {
			return nil, fmt.Errorf("a %s: %w", v.Type(), err)
		}
		entries = append(entries, entry{name, key})
	}
	// Sorted, so that equal arguments are equal bytes: unique jobs are compared by them.
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	out = append(out, '{')
	for i, e := range entries {
		if i > 0 {
			out = append(out, ',')
		}
		var err error
		if out, err = appendString(out, e.name); err != nil {
			return nil, err
		}
		if out, err = appendValue(append(out, ':'), v.MapIndex(e.key), inside); err != nil {
			return nil, within(err, "[%q]", e.name)
		}
	}
	return append(out, '}'), nil
}

// keyName returns a map's key as encoding/json writes it.
func keyName(key reflect.Value) (string, error) {
	if key.Kind() == reflect.String {
		return key.String(), nil
	}
	if text, ok := key.Interface().(encoding.TextMarshaler); ok {
		if key.Kind() == reflect.Pointer && key.IsNil() {
			return "", nil
		}
		name, err := text.MarshalText()
		return string(name), err
	}
	if key.CanInt() {
		return strconv.FormatInt(key.Int(), 10), nil
	}
	if key.CanUint() {
		return strconv.FormatUint(key.Uint(), 10), nil
	}
	return "", errors.New("its keys cannot be written as strings")
}

// A pathError locates a value that cannot be written.
type pathError struct {
	path string
	err  error
}

func (e *pathError) Error() string { return "at " + e.path + ": " + e.err.Error() }
func (e *pathError) Unwrap() error { return e.err }

// within adds one step to the front of an error's path. A value that contains itself gets no path: it would
// be endless.
func within(err error, step string, key any) error {
	if errors.Is(err, errTooDeep) {
		return err
	}
	step = fmt.Sprintf(step, key)
	if inner, ok := err.(*pathError); ok { //nolint:errorlint // only our own, unwrapped, has a path to go on
		return &pathError{step + inner.path, inner.err}
	}
	return &pathError{step, err}
}

func appendString(out []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return nil, errNotUTF8
	}
	return appendQuoted(out, s), nil
}

// appendFloat writes a float as Ruby's to_s does: always with a fraction, and with an exponent below 0.0001
// and, for a whole number, from 1e15 up.
func appendFloat(out []byte, f float64, bits int) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, fmt.Errorf("%v has no JSON", f)
	}
	if bits == 32 {
		// Ruby has only float64: it reads the short text of a float32 as the nearest float64.
		f, _ = strconv.ParseFloat(strconv.FormatFloat(f, 'g', -1, bits), 64)
	}
	size := math.Abs(f)
	digits := strconv.FormatFloat(f, 'f', -1, 64)
	whole := !strings.Contains(digits, ".")
	if size != 0 && size < 1e-4 || whole && size >= 1e15 {
		digits = strconv.FormatFloat(f, 'e', -1, 64)
	}
	if strings.Contains(digits, ".") {
		return append(out, digits...), nil
	}
	mantissa, exponent, _ := strings.Cut(digits, "e")
	out = append(append(out, mantissa...), ".0"...)
	if exponent != "" {
		out = append(append(out, 'e'), exponent...)
	}
	return out, nil
}

// appendRaw respells JSON that was written elsewhere.
func appendRaw(out []byte, raw []byte) ([]byte, error) {
	if raw == nil {
		return append(out, "null"...), nil
	}
	out, err := appendSpelled(out, string(raw), false)
	if err == errNotJSON { //nolint:errorlint // our own, unwrapped
		return nil, errors.New("a json.RawMessage is not JSON")
	}
	return out, err
}

// appendForeign writes a value by encoding/json and respells the result.
func appendForeign(out []byte, v any) ([]byte, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	out, err := appendSpelled(out, text.String(), true)
	if err != nil {
		return nil, fmt.Errorf("in a %T: %w", v, err)
	}
	return out, nil
}

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

// Marshal writes v as JSON, as Ruby would: on one line, without spaces, characters as themselves.
//
// What is walked here are scalars, strings, slices, arrays, maps with string keys (sorted), pointers and interfaces,
// to any depth. In these a float keeps its fraction (1.0 is not 1: Ruby would hand the job an Integer), and NaN, an
// infinity, a string that is not UTF-8 and a map with other keys are errors that say where they stand.
// A json.RawMessage passes byte for byte when it is valid and without space between its tokens, else compacted.
// Structs, []byte, json.Number and types with a MarshalJSON or MarshalText are encoding/json's to write: a 1.0 in a
// struct is written as 1.
//
// A nil slice is written [] when it is v itself, null when it stands inside something.
func Marshal(v any) (string, error) {
	if s := reflect.ValueOf(v); s.Kind() == reflect.Slice && s.IsNil() && s.Type() != typeRaw {
		return "[]", nil
	}
	out, err := appendValue(nil, reflect.ValueOf(v), 0)
	if err != nil {
		return "", fmt.Errorf("write JSON: %w", err)
	}
	return string(out), nil
}

// AsWritten says, at one look and no more, that text is an array just as MarshalArgs would write it: nothing between its parts, and no
// escapes. What it says no to may still be one.
func AsWritten(text string) bool {
	if text == "" || text[0] != '[' {
		return false
	}
	for i := range len(text) {
		if text[i] <= ' ' || text[i] == '\\' {
			return false
		}
	}
	end, why := skipValue(text, 0, 1)
	return why == sound && end == len(text)
}

// MarshalArgs writes a payload's args, as Marshal does. No args at all are [], never null, which would cost the job its
// life when Ruby pushes it again. It refuses args that would nest the payload deeper than MaxDepth.
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
		// Only a json.RawMessage inside a struct can bring this about.
		return "", fmt.Errorf("write arguments: %w", errNotUTF8)
	}
}

var errTooDeep = fmt.Errorf("nested deeper than %d, or a value that holds itself", MaxDepth)

// appendArg spares the commonest kinds the way through reflection.
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
	return appendValue(out, reflect.ValueOf(arg), 0)
}

var (
	typeRaw       = reflect.TypeFor[json.RawMessage]()
	typeNumber    = reflect.TypeFor[json.Number]()
	typeMarshaler = reflect.TypeFor[json.Marshaler]()
	typeText      = reflect.TypeFor[encoding.TextMarshaler]()
)

// appendValue writes one value. depth counts what stands around it, pointers too, so that no ring of them is endless.
func appendValue(out []byte, v reflect.Value, depth int) ([]byte, error) {
	if depth > MaxDepth {
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
		return appendValue(out, v.Elem(), depth)
	case reflect.Pointer:
		return appendValue(out, v.Elem(), depth+1)
	case reflect.Slice, reflect.Array:
		return appendSlice(out, v, depth)
	case reflect.Map:
		return appendMap(out, v, depth)
	case reflect.Struct:
		if v.CanAddr() {
			v = v.Addr() // or fields that write themselves through a pointer would not
		}
		return appendForeign(out, v.Interface())
	}
	return nil, fmt.Errorf("a %s has no JSON", v.Type())
}

// marshaler answers what encoding/json is to be handed when the value writes itself.
func marshaler(v reflect.Value) (any, bool) {
	t := v.Type()
	switch {
	case t.Kind() == reflect.Interface:
		return nil, false // what it holds is asked instead
	case t == typeNumber, t.Implements(typeMarshaler), t.Implements(typeText):
		return v.Interface(), true
	}
	if p := reflect.PointerTo(t); v.CanAddr() && (p.Implements(typeMarshaler) || p.Implements(typeText)) {
		return v.Addr().Interface(), true
	}
	return nil, false
}

func appendSlice(out []byte, v reflect.Value, depth int) ([]byte, error) {
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
		if out, err = appendValue(out, v.Index(i), depth+1); err != nil {
			return nil, within(err, "[%d]", i)
		}
	}
	return append(out, ']'), nil
}

func appendMap(out []byte, v reflect.Value, depth int) ([]byte, error) {
	if v.Type().Key().Kind() != reflect.String {
		return nil, fmt.Errorf("a %s: JSON knows only strings as keys", v.Type())
	}
	if v.IsNil() {
		return append(out, "null"...), nil
	}
	keys := v.MapKeys()
	// Sorted, so that the same arguments are always the same bytes: uniqueness is judged by them.
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	out = append(out, '{')
	for i, key := range keys {
		if i > 0 {
			out = append(out, ',')
		}
		var err error
		if out, err = appendString(out, key.String()); err != nil {
			return nil, err
		}
		if out, err = appendValue(append(out, ':'), v.MapIndex(key), depth+1); err != nil {
			return nil, within(err, "[%q]", key.String())
		}
	}
	return append(out, '}'), nil
}

// A pathError says where in an argument a value stands that cannot be written.
type pathError struct {
	path string
	err  error
}

func (e *pathError) Error() string { return "at " + e.path + ": " + e.err.Error() }
func (e *pathError) Unwrap() error { return e.err }

// within puts one step before an error's path. A value that holds itself has no path worth telling.
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

// appendFloat writes a float as Ruby's to_s does: always with a fraction, with an exponent below 0.0001 and, where it
// is whole, from 1e15 up. (Tried against Ruby 3.1.)
func appendFloat(out []byte, f float64, bits int) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, fmt.Errorf("%v has no JSON", f)
	}
	size := math.Abs(f)
	digits := strconv.FormatFloat(f, 'f', -1, bits)
	whole := !strings.Contains(digits, ".")
	if size != 0 && size < 1e-4 || whole && size >= 1e15 {
		digits = strconv.FormatFloat(f, 'e', -1, bits)
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

// appendRaw lets JSON through that somebody has written already.
func appendRaw(out []byte, raw []byte) ([]byte, error) {
	if raw == nil {
		return append(out, "null"...), nil
	}
	if !utf8.Valid(raw) {
		return nil, errNotUTF8
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return nil, fmt.Errorf("a json.RawMessage is not JSON: %w", err)
	}
	// Compact changes nothing but space between tokens, so text that has none passes byte for byte.
	return append(out, compact.Bytes()...), nil
}

// appendForeign lets encoding/json write a value, in Ruby's spelling.
func appendForeign(out []byte, v any) ([]byte, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	spelled, err := respell(bytes.TrimSuffix(text.Bytes(), []byte("\n")))
	if err != nil {
		return nil, fmt.Errorf("in a %T: %w", v, err)
	}
	if !utf8.Valid(spelled) {
		return nil, fmt.Errorf("in a %T: %w", v, errNotUTF8)
	}
	return append(out, spelled...), nil
}

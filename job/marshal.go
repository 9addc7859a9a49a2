package job

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
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
// Unlike encoding/json, Marshal calls MarshalJSON and MarshalText of pointers for copies, too. NaN, an
// infinity, a number beyond float64, a string that is not UTF-8, half a surrogate pair and a struct whose
// fields would not be written (see CheckStruct) are errors that name the place.
//
// A nil slice is written as [] if it is v itself, and as null inside another value.
func Marshal(v any) (string, error) {
	if s := reflect.ValueOf(v); s.Kind() == reflect.Slice && s.IsNil() && s.Type() != reflect.TypeFor[stdjson.RawMessage]() {
		return "[]", nil
	}
	out, err := appendArg(nil, v)
	if err != nil {
		return "", fmt.Errorf("write JSON: %w", err)
	}
	return string(out), nil
}

var errTooDeep = fmt.Errorf("nested deeper than %d, or a value that contains itself", MaxDepth)

// appendArg writes one value.
func appendArg(out []byte, arg any) ([]byte, error) {
	if plain, ok := appendPlain(out, arg, plainDepth); ok {
		return plain, nil
	}
	return appendValue(out, arg)
}

// plainDepth is how deeply maps and slices may nest for appendPlain. Arguments seldom nest deeper, and a value
// that contains itself ends there.
const plainDepth = 16

// appendPlain writes the commonest types without reflection; only a map of many keys allocates. ok is false if
// v has a value of another type, or one that has no JSON: appendValue writes all others, and its errors name
// the place.
func appendPlain(out []byte, v any, depth int) (text []byte, ok bool) {
	if depth == 0 {
		return nil, false
	}
	switch v := v.(type) {
	case nil:
		return append(out, "null"...), true
	case bool:
		return strconv.AppendBool(out, v), true
	case int:
		return strconv.AppendInt(out, int64(v), 10), true
	case int32:
		return strconv.AppendInt(out, int64(v), 10), true
	case int64:
		return strconv.AppendInt(out, v, 10), true
	case uint64:
		return strconv.AppendUint(out, v, 10), true
	case float64:
		out, err := appendFloat(out, v, 64)
		return out, err == nil
	case string:
		return appendText(out, v)
	case map[string]any:
		return appendObject(out, v, func(out []byte, v any) ([]byte, bool) { return appendPlain(out, v, depth-1) })
	case map[string]string:
		return appendObject(out, v, appendText)
	case []any:
		return appendArray(out, v, func(out []byte, v any) ([]byte, bool) { return appendPlain(out, v, depth-1) })
	case []string:
		return appendArray(out, v, appendText)
	}
	return nil, false
}

func appendText(out []byte, s string) (text []byte, ok bool) {
	out, err := jsontext.AppendQuote(out, s)
	return out, err == nil
}

// appendObject writes a map with its keys in order.
func appendObject[V any](out []byte, m map[string]V, appendMember func([]byte, V) ([]byte, bool)) (text []byte, ok bool) {
	if m == nil {
		return append(out, "null"...), true
	}
	var few [fewNames]string // on the stack
	names := few[:0]
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	out = append(out, '{')
	for i, name := range names {
		if i > 0 {
			out = append(out, ',')
		}
		if out, ok = appendText(out, name); !ok {
			return nil, false
		}
		if out, ok = appendMember(append(out, ':'), m[name]); !ok {
			return nil, false
		}
	}
	return append(out, '}'), true
}

func appendArray[V any](out []byte, list []V, appendElement func([]byte, V) ([]byte, bool)) (text []byte, ok bool) {
	if list == nil {
		return append(out, "null"...), true
	}
	out = append(out, '[')
	for i, v := range list {
		if i > 0 {
			out = append(out, ',')
		}
		if out, ok = appendElement(out, v); !ok {
			return nil, false
		}
	}
	return append(out, ']'), true
}

// The library that encoding/json is becoming writes all other values: which fields a struct has, how they are
// called and which are omitted is as in encoding/json. Only floats and raw JSON are written here. Strings that
// others escaped stay so for now, because appendSpelled judges escapes.
var options = json.JoinOptions(
	jsonv1.DefaultOptionsV1(), jsonv1.CallMethodsWithLegacySemantics(false), jsontext.EscapeForHTML(false), jsontext.EscapeForJS(false),
	json.WithMarshalers(json.JoinMarshalers(json.MarshalToFunc(writeRaw), json.MarshalToFunc(writeNumber), json.MarshalToFunc(write))),
)

func appendValue(out []byte, v any) ([]byte, error) {
	text, err := json.Marshal(v, options)
	if placeErr, ok := errors.AsType[*placeError](err); ok {
		return nil, placeErr
	}
	if err != nil {
		return nil, err
	}
	if out, err = appendSpelled(out, string(text), true); err != nil {
		return nil, fmt.Errorf("in a %T: %w", v, err)
	}
	return out, nil
}

// writeRaw respells JSON that was written elsewhere.
func writeRaw(enc *jsontext.Encoder, raw stdjson.RawMessage) error {
	if raw == nil {
		return enc.WriteToken(jsontext.Null)
	}
	text, err := appendSpelled(nil, string(raw), false)
	if err == errNotJSON { //nolint:errorlint // our own, unwrapped
		err = errors.New("a json.RawMessage is not JSON")
	}
	if err != nil {
		return placed(enc, err)
	}
	return enc.WriteValue(text)
}

// writeNumber tells the library that its own type for numbers and encoding/json's are the same.
func writeNumber(enc *jsontext.Encoder, n stdjson.Number) error {
	return jsonv1.Number(n).MarshalJSONTo(enc)
}

// write writes a float, refuses what has no JSON, and leaves all else to the library.
func write(enc *jsontext.Encoder, pointer any) error {
	v := reflect.ValueOf(pointer).Elem()
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		// Ruby does not read a field with the tag ",string" as a number.
		if asText, _ := json.GetOption(enc.Options(), json.StringifyNumbers); asText {
			return errors.ErrUnsupported
		}
		text, err := appendFloat(nil, v.Float(), v.Type().Bits())
		if err != nil {
			return placed(enc, err)
		}
		return enc.WriteValue(text)
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			return placed(enc, errNotUTF8)
		}
		if within, length := enc.StackIndex(enc.StackDepth()); within == '{' && length%2 == 0 {
			return enc.WriteToken(jsontext.String(v.String())) // a map's key: encoding/json does not call its methods
		}
	case reflect.Map:
		if v.Type().Key().Kind() == reflect.Interface {
			return placed(enc, fmt.Errorf("a %v: JSON allows only strings as keys", v.Type()))
		}
	case reflect.Struct:
		if err := CheckStruct(v.Type()); err != nil {
			return placed(enc, err)
		}
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return placed(enc, fmt.Errorf("a %v has no JSON", v.Type()))
	case reflect.Pointer, reflect.Interface:
		// The library finds a cycle by its depth in the JSON, and one of pointers alone has none.
		for steps := 0; (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) && !v.IsNil(); steps++ {
			if v = v.Elem(); steps == MaxDepth {
				return placed(enc, errTooDeep)
			}
		}
	}
	if enc.StackDepth() > MaxDepth {
		return placed(enc, errTooDeep)
	}
	return errors.ErrUnsupported
}

// A placeError says where in the JSON the value is that cannot be written.
type placeError struct {
	place jsontext.Pointer
	err   error
}

// placed returns an error about the value that enc is to write next.
func placed(enc *jsontext.Encoder, err error) error {
	at := enc.StackPointer() // of the value before, in an array
	if within, length := enc.StackIndex(enc.StackDepth()); within == '[' {
		if length > 0 {
			at = at.Parent()
		}
		at = at.AppendToken(strconv.FormatInt(length, 10))
	}
	return &placeError{at, err}
}

func (e *placeError) Error() string {
	if e.place == "" || errors.Is(e.err, errTooDeep) { // a value that contains itself is everywhere
		return e.err.Error()
	}
	return fmt.Sprintf("at %s: %v", e.place, e.err)
}

func (e *placeError) Unwrap() error { return e.err }

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
	size, start := math.Abs(f), len(out)
	out = strconv.AppendFloat(out, f, 'f', -1, 64)
	whole := bytes.IndexByte(out[start:], '.') < 0
	if size != 0 && size < 1e-4 || whole && size >= 1e15 {
		out = strconv.AppendFloat(out[:start], f, 'e', -1, 64)
		whole = bytes.IndexByte(out[start:], '.') < 0
	}
	if !whole {
		return out, nil
	}
	if exponent := bytes.IndexByte(out[start:], 'e'); exponent >= 0 {
		return slices.Insert(out, start+exponent, '.', '0'), nil
	}
	return append(out, ".0"...), nil
}

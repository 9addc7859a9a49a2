package args

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"github.com/belayq/belay/job"
)

var (
	jsonMarshaler   = reflect.TypeFor[json.Marshaler]()
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func readsItself(t reflect.Type) bool {
	return job.Implements(t, jsonUnmarshaler) || job.Implements(t, textUnmarshaler)
}

type reader struct {
	// quickly reads the commonest types without encoding/json. It returns false, and changes nothing, if it
	// cannot. The text is one valid JSON value, because package job has scanned it.
	quickly func(v reflect.Value, text string) bool
	// exactly reads the numbers in an any as json.Number, because a float64 changes 9007199254740993 and
	// 1.0.
	exactly bool
}

func readerOf(t reflect.Type, holdsAny bool) reader {
	r := reader{exactly: holdsAny}
	if readsItself(t) || t == reflect.TypeFor[json.Number]() {
		return r
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		r.quickly = readInt
	case reflect.String:
		r.quickly = readString
	case reflect.Bool:
		r.quickly = readBool
	default:
	}
	return r
}

func readInt(v reflect.Value, text string) bool {
	if text == "null" { // for strconv it is an error
		return true
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v.OverflowInt(n) {
		return false
	}
	v.SetInt(n)
	return true
}

func readString(v reflect.Value, text string) bool {
	if text[0] != '"' || strings.IndexByte(text, '\\') >= 0 {
		return false
	}
	v.SetString(strings.Clone(text[1 : len(text)-1])) // without a copy, a handler that keeps a name would keep the payload in memory
	return true
}

func readBool(v reflect.Value, text string) bool {
	if text != "true" && text != "false" {
		return false
	}
	v.SetBool(text == "true")
	return true
}

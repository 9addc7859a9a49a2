package args

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// A reader is how the text of an argument becomes a value.
type reader struct {
	// quickly spares the commonest types the way through encoding/json; false: it could not, and has changed nothing.
	// The text is one sound JSON value, because package job has scanned it.
	quickly func(v reflect.Value, text string) bool
	// exactly reads the numbers of an any as json.Number: 9007199254740993 and 1.0 are not what a float64 says they are.
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
	if text == "null" { // for which strconv would make an error
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
	v.SetString(strings.Clone(text[1 : len(text)-1])) // or a handler that keeps a name would keep the payload
	return true
}

func readBool(v reflect.Value, text string) bool {
	if text != "true" && text != "false" {
		return false
	}
	v.SetBool(text == "true")
	return true
}

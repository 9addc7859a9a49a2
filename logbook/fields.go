package logbook

import (
	"bytes"
	"encoding/json"
	"log/slog"

	"github.com/rs/zerolog"
)

// eachField calls call with the fields of a line in order, without its level, and returns its message. Text
// that is not a JSON object, as with zerolog's build tag binary_log, is all message.
func eachField(text []byte, call func(name string, value []byte)) (message string) {
	text = bytes.TrimSpace(text)
	eachPair(text, func(name string, value []byte) {
		switch name {
		case zerolog.LevelFieldName:
		case zerolog.MessageFieldName:
			message = unquote(value)
		default:
			call(name, value)
		}
	})
	if !isObject(text) {
		message = string(text)
	}
	return message
}

func isObject(text []byte) bool { return json.Valid(text) && text[0] == '{' }

// eachPair calls call with the names and values of a JSON object, in order; the values are the bytes of the
// object.
func eachPair(text []byte, call func(name string, value []byte)) {
	if !isObject(text) {
		return
	}
	pairs := json.NewDecoder(bytes.NewReader(text))
	_, _ = pairs.Token() // the brace; there is no error in valid JSON
	for pairs.More() {
		name, _ := pairs.Token()
		var value json.RawMessage
		_ = pairs.Decode(&value)
		text, _ := name.(string)
		call(text, value)
	}
}

// slogValue converts the value of a field.
func slogValue(raw []byte) slog.Value {
	numbers := json.NewDecoder(bytes.NewReader(raw))
	numbers.UseNumber() // keeps all digits
	var value any
	_ = numbers.Decode(&value) // it is valid
	number, is := value.(json.Number)
	if !is {
		return slog.AnyValue(value)
	}
	if whole, err := number.Int64(); err == nil {
		return slog.Int64Value(whole)
	}
	float, _ := number.Float64()
	return slog.Float64Value(float)
}

// unquote reads a JSON string. Other values are the empty string.
func unquote(raw []byte) (text string) {
	_ = json.Unmarshal(raw, &text)
	return text
}

package logbook

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strconv"

	"github.com/rs/zerolog"
)

// eachField calls with the fields of a line in order, without its level, and answers its message. The values are parts of
// the line. What is no JSON object, as under zerolog's build tag binary_log, is all message.
func eachField(text []byte, call func(name string, value []byte)) (message string) {
	text = bytes.TrimSpace(text)
	if !json.Valid(text) || text[0] != '{' {
		return string(text)
	}
	rest := text[1 : len(text)-1]
	for len(rest) > 0 {
		var name, value []byte
		name, rest = cutToken(rest)
		value, rest = cutToken(rest)
		switch field := unquote(name); field {
		case zerolog.LevelFieldName:
		case zerolog.MessageFieldName:
			message = unquote(value)
		default:
			call(field, value)
		}
	}
	return message
}

// cutToken cuts valid JSON behind its first value: what is before the comma or colon, and what is after it.
func cutToken(text []byte) (value, rest []byte) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++ // stands in strings only, and what follows it does not end them
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		case depth == 0 && (c == ',' || c == ':'):
			return bytes.TrimSpace(text[:i]), text[i+1:]
		}
	}
	return bytes.TrimSpace(text), nil
}

// slogValue is a field's value as slog knows it.
func slogValue(raw []byte) slog.Value {
	switch raw[0] {
	case '"':
		return slog.StringValue(unquote(raw))
	case 't', 'f':
		return slog.BoolValue(raw[0] == 't')
	case 'n', '[', '{':
		numbers := json.NewDecoder(bytes.NewReader(raw))
		numbers.UseNumber() // all their digits
		var value any
		_ = numbers.Decode(&value) // it is valid
		return slog.AnyValue(value)
	}
	if whole, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return slog.Int64Value(whole)
	}
	float, _ := strconv.ParseFloat(string(raw), 64)
	return slog.Float64Value(float)
}

// unquote reads a JSON string; most have nothing in them that is escaped.
func unquote(raw []byte) string {
	if len(raw) >= 2 && raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var text string
	_ = json.Unmarshal(raw, &text) // no string is no text
	return text
}

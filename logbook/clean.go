package logbook

import (
	"bytes"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxName bounds, in bytes, what a line shows of a jid, a class or a queue. Belay's own have a few dozen
// bytes; any program that can write to Redis may have pushed longer ones, up to the size of a payload.
const maxName = 256

// names are the log fields that are cut to maxName.
var names = map[string]bool{"jid": true, "class": true, "queue": true, "holder": true, "key": true}

// CutName cuts a jid, a class or a queue to the length that a line shows, and appends its full length.
func CutName(name string) string { return Cut(name, maxName) }

// Cut cuts text to at most so many bytes, without splitting a character, and appends its full length.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + fmt.Sprintf("... (%d bytes)", len(text))
}

// cutNames returns a record whose names are cut, and about how many bytes it has.
func cutNames(record slog.Record) (cut slog.Record, bytes int) {
	cut, bytes = slog.NewRecord(record.Time, record.Level, record.Message, record.PC), len(record.Message)
	record.Attrs(func(attr slog.Attr) bool {
		if names[attr.Key] && attr.Value.Kind() == slog.KindString {
			attr.Value = slog.StringValue(CutName(attr.Value.String()))
		}
		bytes += len(attr.Key) + length(attr.Value)
		cut.AddAttrs(attr)
		return true
	})
	return cut, bytes
}

// length returns about how many bytes a value has; texts decide how many a record has.
func length(value slog.Value) int {
	if value.Kind() == slog.KindString {
		return len(value.String())
	}
	switch held := value.Any().(type) {
	case error:
		return len(held.Error())
	case []string:
		size := 0
		for _, text := range held {
			size += len(text)
		}
		return size
	}
	return 8
}

// Spell returns a text for people. show converts the stretches of characters that may be shown, and mark the
// escapes of those between them: \x9b for a byte that is no character, \n, \u202e.
func Spell(text string, may func(rune) bool, show, mark func(string) string) string {
	var out strings.Builder
	from := 0
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRuneInString(text[at:])
		if may(r) && (r != utf8.RuneError || size > 1) {
			at += size
			continue
		}
		out.WriteString(show(text[from:at]))
		quoted := strconv.QuoteToASCII(text[at : at+size])
		out.WriteString(mark(quoted[1 : len(quoted)-1]))
		at += size
		from = at
	}
	out.WriteString(show(text[from:]))
	return out.String()
}

// Plain returns text that is safe to show on a terminal: each character that could move a cursor, change a
// colour or turn the writing direction is written as an escape.
func Plain(text string) string {
	same := func(s string) string { return s }
	return Spell(text, strconv.IsPrint, same, same)
}

// EscapeJSON makes JSON safe to show on a terminal: a character that could move a cursor, change a colour or
// turn the writing direction becomes \uXXXX, which has the same meaning. Such characters occur only in
// strings, where JSON escapes ASCII control characters already. It returns text itself if there is nothing to
// escape, or if text is not JSON (zerolog's build tag binary_log).
func EscapeJSON(text []byte) []byte {
	if len(text) == 0 || text[0] >= utf8.RuneSelf || utf8.Valid(text) && !bytes.ContainsFunc(text, unshowable) {
		return text
	}
	out := make([]byte, 0, len(text)+16)
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1: // an invalid byte, which a terminal may interpret as a control
			out = append(out, `\ufffd`...)
		case !unshowable(r):
			out = append(out, text[:size]...)
		default:
			for _, unit := range utf16.Encode([]rune{r}) {
				out = fmt.Appendf(out, `\u%04x`, unit)
			}
		}
		text = text[size:]
	}
	return out
}

// unshowable reports whether a character must not be shown; the end of a line is not part of the JSON.
func unshowable(r rune) bool { return r != '\n' && !strconv.IsPrint(r) }

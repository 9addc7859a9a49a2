package logbook

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// mostName bounds, in bytes, what a line shows of a jid, a class or a queue. Belay's own have a few dozen
// bytes; any program that can write to Redis may have pushed longer ones, up to the size of a payload.
const mostName = 256

// names are the log fields that are cut to mostName.
var names = map[string]bool{"jid": true, "class": true, "queue": true, "holder": true, "key": true}

// CutName cuts a jid, a class or a queue to the length that a line shows, and appends its full length.
func CutName(name string) string { return Cut(name, mostName) }

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

// cutNames cuts the names in a line. A line shorter than mostName needs no work, so ordinary lines cost
// nothing.
func cutNames(text []byte) []byte {
	if line := bytes.TrimSpace(text); len(line) <= mostName || !isObject(line) {
		return text
	}
	out := []byte{'{'}
	eachPair(text, func(name string, value []byte) {
		if len(value) > mostName && value[0] == '"' && names[name] {
			value, _ = jsontext.AppendQuote(nil, CutName(unquote(value)))
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out, _ = jsontext.AppendQuote(out, name) // it replaces invalid characters; they are its only error
		out = append(append(out, ':'), value...)
	})
	return append(out, '}', '\n')
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

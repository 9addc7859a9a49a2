package logbook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
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
			value = quote(CutName(unquote(value)))
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, quote(name)...), ':'), value...)
	})
	return append(out, '}', '\n')
}

// quote writes text as JSON, without HTML's escapes.
func quote(text string) []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // encoding a string does not fail
	return bytes.TrimSpace(out.Bytes())
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

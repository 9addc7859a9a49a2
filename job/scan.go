package job

import (
	"strings"
	"unicode/utf8"
)

// MaxDepth is how deeply a payload may nest, including its own object. Redis' cjson has the same limit, so
// every script can read what Belay accepts; Ruby's parser allows a tenth of it.
const MaxDepth = 1000

// A fault says why a text is not a payload. The scanner returns it with its position.
type fault uint8

const (
	sound fault = iota
	badSyntax
	badUTF8
	tooDeep
	notObject
)

// A span is a part of the payload. The zero span is none: byte 0 is a brace, not a value. 32 bits keep a
// Job small; Redis limits a value to 512 MB.
type span struct{ start, end int32 }

// members reads the top-level members of an object in order and validates all of the text. After next has
// returned false, why reports whether the text is valid; if not, at is the position of the fault.
type members struct {
	raw         string
	at          int
	started     bool
	why         fault
	name, value span // the name with its quotes
}

func (m *members) next() bool {
	at := skipSpace(m.raw, m.at)
	if !m.started {
		m.started = true
		if at == len(m.raw) || m.raw[at] != '{' {
			return m.fail(at, notObject)
		}
		at = skipSpace(m.raw, at+1)
		if at < len(m.raw) && m.raw[at] == '}' {
			return m.finish(at)
		}
	} else {
		if at < len(m.raw) && m.raw[at] == '}' {
			return m.finish(at)
		}
		if at == len(m.raw) || m.raw[at] != ',' {
			return m.fail(at, badSyntax)
		}
		at = skipSpace(m.raw, at+1)
	}
	return m.member(at)
}

// member reads one `"name": value` that begins at at.
func (m *members) member(at int) bool {
	end, why := skipString(m.raw, at)
	if why != sound {
		return m.fail(end, why)
	}
	m.name = span{int32(at), int32(end)}
	if at, why = skipColon(m.raw, end); why != sound {
		return m.fail(at, why)
	}
	if end, why = skipValue(m.raw, at, 1); why != sound {
		return m.fail(end, why)
	}
	m.value = span{int32(at), int32(end)}
	m.at = end
	return true
}

// finish is called at the closing brace: only space may follow.
func (m *members) finish(at int) bool {
	if end := skipSpace(m.raw, at+1); end != len(m.raw) {
		return m.fail(end, badSyntax)
	}
	m.at = at
	return false
}

func (m *members) fail(at int, why fault) bool {
	m.at, m.why = at, why
	return false
}

func (m *members) text(s span) string { return m.raw[s.start:s.end] }

// lastMember returns the value of the last member of an object that has this name, "" if there is none. In a
// text with a fault, it is the last before the fault.
func lastMember(text, name string) (value string, why fault) {
	m := members{raw: text}
	for m.next() {
		if unquote(m.text(m.name)) == name {
			value = m.text(m.value)
		}
	}
	return value, m.why
}

// skipValue returns where the value that begins at i ends. depth counts the containers around it.
func skipValue(s string, i, depth int) (int, fault) {
	if i == len(s) || s[i] != '{' && s[i] != '[' {
		return skipScalar(s, i)
	}
	if depth == MaxDepth {
		return i, tooDeep
	}
	object, closer := s[i] == '{', s[i]+2 // as ASCII has them
	if i = skipSpace(s, i+1); i < len(s) && s[i] == closer {
		return i + 1, sound
	}
	for {
		var why fault
		if object {
			if i, why = skipName(s, i); why != sound {
				return i, why
			}
		}
		if i, why = skipValue(s, i, depth+1); why != sound {
			return i, why
		}
		i = skipSpace(s, i)
		switch {
		case i < len(s) && s[i] == closer:
			return i + 1, sound
		case i == len(s) || s[i] != ',':
			return i, badSyntax
		}
		i = skipSpace(s, i+1)
	}
}

func skipName(s string, i int) (int, fault) {
	i, why := skipString(s, i)
	if why != sound {
		return i, why
	}
	return skipColon(s, i)
}

func skipColon(s string, i int) (int, fault) {
	i = skipSpace(s, i)
	if i == len(s) || s[i] != ':' {
		return i, badSyntax
	}
	return skipSpace(s, i+1), sound
}

func skipSpace(s string, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\n' || s[i] == '\t' || s[i] == '\r') {
		i++
	}
	return i
}

func skipScalar(s string, i int) (int, fault) {
	if i == len(s) {
		return i, badSyntax
	}
	switch s[i] {
	case '"':
		return skipString(s, i)
	case 't':
		return skipWord(s, i, "true")
	case 'f':
		return skipWord(s, i, "false")
	case 'n':
		return skipWord(s, i, "null")
	default:
		return skipNumber(s, i)
	}
}

func skipWord(s string, i int, word string) (int, fault) {
	if !strings.HasPrefix(s[i:], word) {
		return i, badSyntax
	}
	return i + len(word), sound
}

func skipString(s string, i int) (int, fault) {
	if i == len(s) || s[i] != '"' {
		return i, badSyntax
	}
	i++
	for i < len(s) {
		switch c := s[i]; {
		case c == '"':
			return i + 1, sound
		case c == '\\':
			end, why := skipEscape(s, i)
			if why != sound {
				return end, why
			}
			i = end
		case c < ' ':
			return i, badSyntax
		case c < utf8.RuneSelf:
			i++
		default:
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				return i, badUTF8
			}
			i += size
		}
	}
	return i, badSyntax
}

func skipEscape(s string, i int) (int, fault) {
	if i+1 == len(s) {
		return i, badSyntax
	}
	switch s[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2, sound
	case 'u':
		if end := i + len(`\uffff`); end <= len(s) && strings.Trim(s[i+2:end], "0123456789abcdefABCDEF") == "" {
			return end, sound
		}
	}
	return i, badSyntax
}

func skipNumber(s string, i int) (int, fault) {
	if i < len(s) && s[i] == '-' {
		i++
	}
	start := i
	i = skipDigits(s, i)
	// A leading zero stands alone.
	if i == start || s[start] == '0' && i > start+1 {
		return start, badSyntax
	}
	if i < len(s) && s[i] == '.' {
		start = i + 1
		if i = skipDigits(s, start); i == start {
			return i, badSyntax
		}
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		i++
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		start = i
		if i = skipDigits(s, start); i == start {
			return i, badSyntax
		}
	}
	return i, sound
}

func skipDigits(s string, i int) int {
	for i < len(s) && '0' <= s[i] && s[i] <= '9' {
		i++
	}
	return i
}

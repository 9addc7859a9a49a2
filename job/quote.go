package job

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Strings are spelled as Ruby's JSON spells them: only quotes, backslashes and control characters are
// escaped. When Ruby moves a job, it looks for the bytes that it would generate itself; one "\u003c", and
// it stores a second copy instead.

const hexDigits = "0123456789abcdef"

func quote(s string) string { return string(appendQuoted(make([]byte, 0, len(s)+2), s)) }

// appendQuoted writes s as a JSON string. A byte that is not UTF-8 becomes U+FFFD.
func appendQuoted(out []byte, s string) []byte {
	out = append(out, '"')
	done := 0 // s is copied up to here
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				out = append(append(out, s[done:i]...), "\ufffd"...)
				done = i + 1
			}
			i += size
			continue
		}
		if c < ' ' || c == '"' || c == '\\' {
			out = appendEscaped(append(out, s[done:i]...), c)
			done = i + 1
		}
		i++
	}
	return append(append(out, s[done:]...), '"')
}

// appendEscaped writes a character that must be escaped in a string.
func appendEscaped(out []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(out, '\\', c)
	case '\b':
		return append(out, `\b`...)
	case '\f':
		return append(out, `\f`...)
	case '\n':
		return append(out, `\n`...)
	case '\r':
		return append(out, `\r`...)
	case '\t':
		return append(out, `\t`...)
	}
	return append(out, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// escapedRune reads the \uXXXX at i, and a pair of surrogates as one character. It returns half a pair
// unchanged.
func escapedRune(s string, i int) (r rune, size int) {
	r, _ = hex4(s, i+2)
	if !utf16.IsSurrogate(r) {
		return r, len(`\uXXXX`)
	}
	if strings.HasPrefix(s[i+6:], `\u`) {
		low, _ := hex4(s, i+8)
		if whole := utf16.DecodeRune(r, low); whole != utf8.RuneError {
			return whole, 2 * len(`\uXXXX`)
		}
	}
	return r, len(`\uXXXX`)
}

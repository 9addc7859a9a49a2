package job

import "github.com/go-json-experiment/json/jsontext"

// Strings are spelled as Ruby's JSON spells them: only quotes, backslashes and control characters are
// escaped. When Ruby moves a job, it looks for the bytes that it would generate itself; one "\u003c", and
// it stores a second copy instead.

func quote(s string) string { return string(appendQuoted(make([]byte, 0, len(s)+2), s)) }

// appendQuoted writes s as a JSON string. A byte that is not UTF-8 becomes U+FFFD.
func appendQuoted[T string | []byte](out []byte, s T) []byte {
	out, _ = jsontext.AppendQuote(out, s) // its error reports such a byte
	return out
}

package main

import (
	"strings"
	"unicode/utf8"
)

// tailBytes is how much of a program's standard error becomes the error message, which is stored in Redis
// with the job. The cause is usually in the last lines.
const tailBytes = 4 << 10

// A tail keeps the end of what is written to it.
type tail struct{ kept []byte }

func (t *tail) Write(part []byte) (int, error) {
	t.kept = append(t.kept, part[max(0, len(part)-tailBytes):]...)
	if len(t.kept) > 2*tailBytes {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-tailBytes:]...)
	}
	return len(part), nil
}

// String returns the last tailBytes as valid text, cut between characters.
func (t *tail) String() string {
	text := strings.ToValidUTF8(string(t.kept), "\ufffd")
	for cut := len(text) - tailBytes; cut > 0 && cut < len(text); cut++ {
		if utf8.RuneStart(text[cut]) {
			text = text[cut:]
			break
		}
	}
	return strings.TrimSpace(text)
}

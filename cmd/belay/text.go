package main

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// plain makes text safe to show: whatever could move a cursor, change a colour or turn the writing direction is written
// as an escape. Names of queues, classes and hosts come from whoever can write to Redis.
func plain(text string) string {
	if isPlain(text) {
		return text
	}
	var out strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			out.WriteString(`\x` + strconv.FormatUint(uint64(text[0]), 16))
		case strconv.IsPrint(r):
			out.WriteRune(r)
		default:
			quoted := strconv.QuoteRune(r)
			out.WriteString(quoted[1 : len(quoted)-1])
		}
		text = text[size:]
	}
	return out.String()
}

func isPlain(text string) bool {
	for _, r := range text {
		if r == utf8.RuneError || !strconv.IsPrint(r) {
			return false
		}
	}
	return true
}

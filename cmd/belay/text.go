package main

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
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

// plainJSON makes JSON safe to show: what plain would escape stands as \uXXXX, which means the same. All of that stands in
// strings, where JSON has its control characters escaped already.
func plainJSON(text string) string {
	var out strings.Builder
	for _, r := range text {
		switch {
		case strconv.IsPrint(r):
			out.WriteRune(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

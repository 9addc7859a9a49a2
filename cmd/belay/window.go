package main

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// windowOf returns the current size of a terminal; ok is false if out is not a terminal or its size is
// unknown.
func windowOf(stream any) (columns, lines int, ok bool) {
	file := fileOf(stream)
	if file == nil {
		return 0, 0, false
	}
	size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 || size.Row == 0 {
		return 0, 0, false
	}
	return int(size.Col), int(size.Row), true
}

// fit cuts a page to a window: it shortens long lines and replaces surplus lines with one that counts them.
// The result has no final line break, which would scroll a full window.
func fit(page []byte, columns, lines int) []byte {
	rows := bytes.Split(bytes.TrimRight(page, "\n"), []byte{'\n'})
	if more := len(rows) - lines; more > 0 {
		rows = append(rows[:lines-1], fmt.Appendf(nil, "... and %d more lines", more+1))
	}
	for n, row := range rows {
		rows[n] = fitLine(row, columns)
	}
	return bytes.Join(rows, []byte{'\n'})
}

// fitLine cuts a line to the given number of columns.
func fitLine(line []byte, columns int) []byte {
	used := 0
	for at := 0; at < len(line); {
		r, size := utf8.DecodeRune(line[at:])
		if used += width(r); used > columns {
			return line[:at]
		}
		at += size
	}
	return line
}

// width returns the maximum number of columns of a character. From Hangul on many take two; a line that is
// cut too short is better than one that wraps.
func width(r rune) int {
	const hangul = 0x1100
	switch {
	case r >= hangul && !unicode.In(r, unicode.Latin, unicode.Greek, unicode.Cyrillic) && !unicode.IsPunct(r):
		return 2
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	}
	return 1
}

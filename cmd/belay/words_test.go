package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSplitWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line  string
		words []string
	}{
		{"", nil},
		{"  \t ", nil},
		{"a b  c", []string{"a", "b", "c"}},
		{`'a b' "c d"`, []string{"a b", "c d"}},
		{`a'b c'd`, []string{"ab cd"}},
		{`a\ b \\ \'`, []string{"a b", `\`, "'"}},
		{`"a\"b\\c\d\$"`, []string{`a"b\c\d$`}},
		{`'a\b"c'`, []string{`a\b"c`}},
		{`'' ""`, []string{"", ""}},
		{"$HOME *.go a|b >c", []string{"$HOME", "*.go", "a|b", ">c"}},
		{"'é\n' x", []string{"é\n", "x"}},
	} {
		words, err := splitWords(c.line)
		require.NoError(t, err, "%q", c.line)
		require.Equal(t, c.words, words, "%q", c.line)
	}
	for line, complaint := range map[string]string{
		"a 'b": "single quote", `a "b`: "double quote", `"a\"`: "double quote", `a\`: "lone backslash",
	} {
		_, err := splitWords(line)
		require.ErrorContains(t, err, complaint, "%q", line)
	}
}

func TestPlain(t *testing.T) {
	t.Parallel()
	for text, shown := range map[string]string{
		"mail":             "mail",
		"é 日本 \"x\"":       "é 日本 \"x\"",
		"a\nb\x1b[31m":     `a\nb\x1b[31m`,
		"\u202etxt.exe":    `\u202etxt.exe`,
		"bad \xff\u009b6n": `bad \xff\u009b6n`,
		"\u007f\ufffd":     "\\x7f\ufffd",
	} {
		require.Equal(t, shown, plain(text), "%q", text)
	}
}

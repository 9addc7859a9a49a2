package main

import (
	"errors"
	"strings"
)

// splitWords splits a command as a shell splits a line: spaces separate words, quotes and backslashes keep
// them together. Nothing is expanded: no variables, no globs, no pipes. In double quotes a backslash is
// itself, except before the characters that a shell lets it escape.
func splitWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	begun, quote := false, byte(0) // a word of "" has begun and has no characters
	for i := 0; i < len(line); i++ {
		c := line[i]
		escapes := quote == 0 || quote == '"' && i+1 < len(line) && strings.IndexByte("\"\\$`", line[i+1]) >= 0
		switch {
		case c == '\\' && escapes:
			if i++; i == len(line) {
				return nil, errors.New("it ends with a lone backslash")
			}
			word.WriteByte(line[i])
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote == 0 && strings.IndexByte(" \t\n", c) >= 0:
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
			continue
		default:
			word.WriteByte(c)
		}
		begun = true
	}
	switch {
	case quote == '\'':
		return nil, errors.New("a single quote is not closed")
	case quote == '"':
		return nil, errors.New("a double quote is not closed")
	case begun:
		words = append(words, word.String())
	}
	return words, nil
}

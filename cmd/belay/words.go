package main

import (
	"errors"
	"strings"
)

// splitWords splits a command as a shell splits a line: spaces part words, quotes and backslashes keep them together.
// Nothing is expanded: no variables, no globs, no pipes. Within double quotes a backslash means itself but before one of
// the characters that a shell would let it take the meaning from.
func splitWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	begun := false // a word of "" has no characters
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == ' ' || c == '\t' || c == '\n':
			if begun {
				words = append(words, word.String())
				word.Reset()
				begun = false
			}
			continue
		case c == '\'':
			end := strings.IndexByte(line[i+1:], '\'')
			if end < 0 {
				return nil, errors.New("a single quote is not closed")
			}
			word.WriteString(line[i+1 : i+1+end])
			i += 1 + end
		case c == '"':
			end, err := doubleQuoted(&word, line, i+1)
			if err != nil {
				return nil, err
			}
			i = end
		case c == '\\':
			if i++; i == len(line) {
				return nil, errors.New("it ends with a lone backslash")
			}
			word.WriteByte(line[i])
		default:
			word.WriteByte(c)
		}
		begun = true
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}

// doubleQuoted writes what stands between double quotes, from at on, and answers where the closing one is.
func doubleQuoted(word *strings.Builder, line string, at int) (end int, err error) {
	for ; at < len(line); at++ {
		switch c := line[at]; {
		case c == '"':
			return at, nil
		case c == '\\' && at+1 < len(line) && strings.IndexByte("\"\\$`", line[at+1]) >= 0:
			at++
			word.WriteByte(line[at])
		default:
			word.WriteByte(c)
		}
	}
	return 0, errors.New("a double quote is not closed")
}

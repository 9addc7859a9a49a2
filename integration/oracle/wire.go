package oracle

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// readCommand reads one command, its name in capitals. Annotations on the way ("#TS:SECONDS") set at; io.EOF is
// the end before a command, io.ErrUnexpectedEOF the end within one.
func readCommand(r *bufio.Reader, at *time.Time) ([]string, error) {
	count := 0
	for count == 0 {
		line, err := r.ReadString('\n')
		switch {
		case errors.Is(err, io.EOF) && line != "":
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		case strings.HasPrefix(line, "#TS:"):
			seconds, err := strconv.ParseInt(strings.TrimSpace(line[4:]), 10, 64)
			if err != nil {
				return nil, fmt.Errorf("unknown annotation %q", line)
			}
			*at = time.Unix(seconds, 0)
		case line[0] == '#':
		default:
			if count, err = number('*', line); err != nil {
				return nil, err
			}
		}
	}
	command := make([]string, count)
	for i := range command {
		word, err := readWord(r)
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		command[i] = word
	}
	command[0] = strings.ToUpper(command[0])
	return command, nil
}

func readWord(r *bufio.Reader) (string, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	length, err := number('$', string(line))
	if err != nil {
		return "", err
	}
	word := make([]byte, length+2)
	if _, err := io.ReadFull(r, word); err != nil {
		return "", err
	}
	if !bytes.HasSuffix(word, []byte("\r\n")) {
		return "", fmt.Errorf("a word of %d bytes does not end where it should", length)
	}
	return string(word[:length]), nil
}

// number reads a line that is kind, a number and the end of line.
func number(kind byte, line string) (int, error) {
	if line[0] == kind && strings.HasSuffix(line, "\r\n") {
		if n, err := strconv.Atoi(line[1 : len(line)-2]); err == nil && n >= 0 {
			return n, nil
		}
	}
	return 0, fmt.Errorf("not a line of a log: %.60q", line)
}

// requireEmptySnapshot holds that a snapshot (RDB) has nothing but remarks in it, because this package reads no
// keys from one: after the header, remarks (0xFA, name and value), then the end (0xFF).
func requireEmptySnapshot(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	const header = len("REDIS0010")
	at := header
	for at < len(text) && text[at] == 0xFA {
		at = skipText(text, skipText(text, at+1))
	}
	if at >= len(text) || text[at] != 0xFF {
		return fmt.Errorf("the base %s holds keys: start the server empty, or with --aof-use-rdb-preamble no", path)
	}
	return nil
}

// skipText answers where a short text of a snapshot ends; beyond the end of the file for what no remark holds.
func skipText(text []byte, at int) int {
	if at >= len(text) {
		return at
	}
	switch first := text[at]; {
	case first>>6 == 0:
		return at + 1 + int(first)
	case first == 0xC0, first == 0xC1, first == 0xC2: // a number of 1, 2 or 4 bytes
		return at + 1 + 1<<(first&3)
	}
	return len(text)
}

// describe renders a step's commands for people, those left out that are only about other jobs than jid; "" is
// all of them.
func describe(commands [][]string, jid string) string {
	const most = 12
	var shown []string
	for _, command := range commands {
		text := strings.Join(command, " ")
		if jid != "" && strings.Contains(text, `"jid":`) && !strings.Contains(text, jid) {
			continue
		}
		if len(shown) == most {
			break
		}
		words := make([]string, len(command))
		for i, word := range command {
			words[i] = shorten(word)
		}
		shown = append(shown, strings.Join(words, " "))
	}
	if hidden := len(commands) - len(shown); hidden > 0 {
		shown = append(shown, fmt.Sprintf("and %d more", hidden))
	}
	return strings.Join(shown, "; ")
}

// shorten keeps both ends of a long word: a payload begins with what it is, and ends with what has happened to
// it.
func shorten(word string) string {
	const first, last = 100, 200
	if len(word) > first+last+20 {
		word = fmt.Sprintf("%s...(%d bytes)...%s", word[:first], len(word), word[len(word)-last:])
	}
	return strings.ToValidUTF8(word, "?")
}

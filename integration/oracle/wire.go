package oracle

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/internal/drivertest/resp"
)

// readCommand reads one command, its name in capitals. Annotations on the way ("#TS:SECONDS") set at; io.EOF
// is the end before a command, io.ErrUnexpectedEOF the end within one.
func readCommand(r *bufio.Reader, at *time.Time) ([]string, error) {
	for {
		first, err := r.Peek(1)
		if err != nil {
			return nil, err
		}
		if first[0] == '#' {
			if err := readAnnotation(r, at); err != nil {
				return nil, err
			}
			continue
		}
		value, err := resp.Read(r)
		words, _ := value.([]any)
		switch {
		case errors.Is(err, io.EOF):
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		case len(words) == 0:
			return nil, fmt.Errorf("not a command of a log: %.60q", fmt.Sprint(value))
		}
		command := make([]string, len(words))
		for i, word := range words {
			command[i] = fmt.Sprint(word)
		}
		command[0] = strings.ToUpper(command[0])
		return command, nil
	}
}

func readAnnotation(r *bufio.Reader, at *time.Time) error {
	line, err := r.ReadString('\n')
	if err != nil {
		return io.ErrUnexpectedEOF
	}
	if text, is := strings.CutPrefix(line, "#TS:"); is {
		seconds, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil {
			return fmt.Errorf("unknown annotation %q", line)
		}
		*at = time.Unix(seconds, 0)
	}
	return nil
}

// describe renders a step's commands for people, those left out that are only about other jobs than jid; ""
// is all of them.
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

// shorten keeps both ends of a long word: a payload begins with what it is, and ends with what has happened
// to it.
func shorten(word string) string {
	const first, last = 100, 200
	if len(word) > first+last+20 {
		word = fmt.Sprintf("%s...(%d bytes)...%s", word[:first], len(word), word[len(word)-last:])
	}
	return strings.ToValidUTF8(word, "?")
}

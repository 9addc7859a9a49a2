// Package resp reads Redis' replies for tests, RESP2 and what tests meet of RESP3. It is not a client.
package resp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/belayq/belay/driver"
)

// Read reads one reply: nil, a string, an int64 or a []any of these, in which the keys and values of a map
// alternate. An error reply, also one inside an array, is a *driver.ServerError. After any other error the
// stream cannot be read further.
func Read(in *bufio.Reader) (any, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("resp: read a line: %w", err)
	}
	text, ended := strings.CutSuffix(line, "\r\n")
	if !ended || text == "" {
		return nil, fmt.Errorf("resp: not a line of the protocol: %.60q", line)
	}
	kind, text := text[0], text[1:]
	switch kind {
	case '+', ',':
		return text, nil
	case '-':
		return nil, driver.NewServerError(text)
	case '_':
		return nil, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return nil, fmt.Errorf("resp: not a number: %.60q", line)
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case kind == '$':
		body := make([]byte, n+2)
		if _, err := io.ReadFull(in, body); err != nil {
			return nil, fmt.Errorf("resp: read a string of %d: %w", n, err)
		}
		text, ended := strings.CutSuffix(string(body), "\r\n")
		if !ended {
			return nil, fmt.Errorf("resp: a string of %d is longer", n)
		}
		return text, nil
	case kind == '%':
		n *= 2
	case kind != '*' && kind != '~' && kind != '>':
		return nil, fmt.Errorf("resp: unknown type: %.60q", line)
	}
	items := make([]any, n)
	var refused error
	for i := range items {
		var serverErr *driver.ServerError
		switch items[i], err = Read(in); {
		case errors.As(err, &serverErr):
			refused = serverErr
		case err != nil:
			return nil, err
		}
	}
	return items, refused
}

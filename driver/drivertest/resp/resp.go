// Package resp reads and writes the Redis protocol for tests: whole frames, RESP2 and RESP3. It is not a
// client and does not interpret commands.
package resp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// A Frame is one complete value from the wire.
type Frame struct {
	// Kind is the first byte: + - : $ * _ # , ( ! = % ~ > |
	Kind byte
	// Raw is every byte of the frame, including its items.
	Raw []byte
	// Text is a scalar's text without its framing.
	Text string
	// Null is true for RESP2's null string and null array.
	Null bool
	// Items are an aggregate's elements; a map's keys and values alternate.
	Items []Frame
}

// maxLine bounds a line, such as an inline command or an error text. Strings may be longer.
const maxLine = 64 << 10

// Read reads one frame. After an error other than io.EOF at its start, the stream cannot be read further.
func Read(r *bufio.Reader) (Frame, error) {
	line, err := r.ReadString('\n')
	switch {
	case err != nil && line != "":
		return Frame{}, midFrame(err)
	case err != nil:
		return Frame{}, err
	}
	if len(line) < 3 || len(line) > maxLine || !strings.HasSuffix(line, "\r\n") {
		return Frame{}, fmt.Errorf("resp: not a line of the protocol: %.60q", line)
	}
	f := Frame{Kind: line[0], Raw: []byte(line), Text: line[1 : len(line)-2]}
	switch f.Kind {
	case '+', '-', ':', '_', '#', ',', '(':
		return f, nil
	case '$', '!', '=':
		return f, f.readString(r)
	case '*', '~', '>', '%', '|':
		return f, f.readItems(r)
	}
	return Frame{}, fmt.Errorf("resp: unknown type in %.60q", line)
}

// midFrame returns io.ErrUnexpectedEOF for a stream that ended inside a frame.
func midFrame(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (f *Frame) readString(r *bufio.Reader) error {
	n, err := f.length()
	if err != nil || f.Null {
		return err
	}
	body := make([]byte, n+2)
	if _, err := io.ReadFull(r, body); err != nil {
		return fmt.Errorf("resp: read a string of %d: %w", n, midFrame(err))
	}
	f.Raw, f.Text = append(f.Raw, body...), string(body[:n])
	return nil
}

func (f *Frame) readItems(r *bufio.Reader) error {
	n, err := f.length()
	if err != nil || f.Null {
		return err
	}
	switch f.Kind {
	case '%':
		n *= 2
	case '|': // attributes precede their value, and form one frame with it
		n = n*2 + 1
	}
	f.Text = ""
	for range n {
		item, err := Read(r)
		if err != nil {
			return fmt.Errorf("resp: read an element: %w", midFrame(err))
		}
		f.Items = append(f.Items, item)
		f.Raw = append(f.Raw, item.Raw...)
	}
	return nil
}

// length reads the length of a string or an aggregate; -1 is null.
func (f *Frame) length() (int, error) {
	n, err := strconv.Atoi(f.Text)
	if err != nil || n < -1 {
		return 0, fmt.Errorf("resp: not a length: %.60q", f.Text)
	}
	f.Null = n == -1
	return n, nil
}

// Name returns the first word of a command in capitals, or "".
func (f Frame) Name() string {
	if len(f.Items) == 0 {
		return ""
	}
	return strings.ToUpper(f.Items[0].Text)
}

// Value returns the frame as nil, string, int64, []any of these, or, for an error reply, an error.
func (f Frame) Value() any {
	switch f.Kind {
	case '-', '!':
		return fmt.Errorf("%s", f.Text)
	case ':':
		n, err := strconv.ParseInt(f.Text, 10, 64)
		if err != nil {
			return fmt.Errorf("resp: not an integer: %.60q", f.Text)
		}
		return n
	case '_':
		return nil
	case '*', '~', '>', '%':
		if f.Null {
			return nil
		}
		values := make([]any, 0, len(f.Items))
		for _, item := range f.Items {
			values = append(values, item.Value())
		}
		return values
	}
	if f.Null {
		return nil
	}
	return f.Text
}

// Command returns the frame of a command.
func Command(words ...string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, word := range words {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(word), word)
	}
	return b
}

package goredisdriver

import (
	"fmt"
	"io"
	"strconv"
	"unsafe"

	"github.com/belayq/belay/driver"
)

// A reply builds one neutral value from the RESP that go-redis streams into it (see redis.RawWriteToCmd):
// each line, then the line's end, then for a string its bytes and their end.
//
// A *redis.Cmd, whose reply go-redis parses, cannot keep the promises of driver.Client. Some error replies
// inside an array (OOM, LOADING) end its reading of that array, and every later reply of the pipeline goes to
// the wrong command. When a connection breaks, the commands that were answered before get the error, too.
// Nothing can close the connection once the last reply has been read. RESP3 maps become Go maps, which have no
// order.
type reply struct {
	value any
	err   *driver.ServerError
	done  bool
	// atEnd, if set, is called when the reply is complete; if it returns an error, go-redis closes the
	// connection.
	atEnd func() error

	nest    []array
	kind    byte // of the string whose bytes come next
	length  int  // of that string
	scratch [16]byte
}

type array struct {
	items []any
	left  int
}

// Write receives a line or its end; ReadFrom receives the bytes of strings.
func (r *reply) Write(p []byte) (int, error) {
	if string(p) == "\r\n" {
		return len(p), r.finish()
	}
	return len(p), r.line(p[0], p[1:])
}

func (r *reply) line(kind byte, text []byte) error {
	switch kind {
	case '+', ',', '(':
		r.add(word(text))
	case '-':
		r.fail(string(text))
	case '_':
		r.add(nil)
	case '#':
		r.add(truth(text))
	case ':':
		n, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil {
			return fmt.Errorf("goredisdriver: not an integer: %.40q", text)
		}
		r.add(n)
	case '$', '=', '!', '*', '~', '>', '%':
		n, err := strconv.Atoi(string(text))
		if err != nil {
			return fmt.Errorf("goredisdriver: not a length: %.40q", text)
		}
		if n > longest {
			return fmt.Errorf("goredisdriver: a reply of length %d: the server is not Redis", n)
		}
		r.open(kind, n)
	default:
		return fmt.Errorf("goredisdriver: a reply of unknown type %q", kind)
	}
	return nil
}

// longest is the maximum length of a string or an array with Redis' default settings. A server that
// announces more speaks another protocol, and allocating that much memory would end the program.
const longest = 512 << 20

func (r *reply) open(kind byte, n int) {
	switch kind {
	case '$', '=', '!':
		if n >= 0 {
			r.kind, r.length = kind, n
			return
		}
	case '%':
		n *= 2
	}
	switch {
	case n < 0:
		r.add(nil)
	case n == 0:
		r.add([]any{})
	default:
		// Room for a usual reply; a longer array grows as its elements arrive, because the length may be
		// wrong.
		r.nest = append(r.nest, array{items: make([]any, 0, min(n, 1024)), left: n})
	}
}

// ReadFrom reads the bytes of the announced string, and their end.
func (r *reply) ReadFrom(from io.Reader) (int64, error) {
	b := r.scratch[:]
	if r.length+2 > len(b) {
		b = make([]byte, r.length+2)
	}
	read, err := io.ReadFull(from, b[:r.length+2])
	if err != nil {
		return int64(read), err
	}
	text := b[:r.length]
	switch {
	case r.kind == '!':
		r.fail(string(text))
	case r.kind == '=':
		r.add(string(text[min(4, len(text)):])) // after "txt:" or "mkd:"
	case len(b) == len(r.scratch):
		r.add(word(text))
	default:
		r.add(unsafe.String(unsafe.SliceData(text), len(text))) // b was made for this string alone
	}
	return int64(read), r.finish()
}

func (r *reply) finish() error {
	if r.done && r.atEnd != nil {
		return r.atEnd()
	}
	return nil
}

// fail records an error reply. An error inside an array is the error of the whole reply.
func (r *reply) fail(text string) {
	if r.err == nil {
		r.err = driver.NewServerError(text)
	}
	r.add(nil)
}

// add appends v to the innermost array, and completes every array that is now full.
func (r *reply) add(v any) {
	for len(r.nest) > 0 {
		top := &r.nest[len(r.nest)-1]
		top.items = append(top.items, v)
		if top.left--; top.left > 0 {
			return
		}
		v = top.items
		r.nest = r.nest[:len(r.nest)-1]
	}
	r.value, r.done = v, true
}

// words are values of which one reply may have a hundred; sharing them saves two allocations each.
var words = map[string]any{"": "", "OK": "OK", "ok": "ok", "lost": "lost", "queued": "queued", "duplicate": "duplicate"}

func word(text []byte) any {
	if shared, ok := words[string(text)]; ok {
		return shared
	}
	return string(text)
}

// truth returns a RESP3 boolean as the integer that it is in RESP2.
func truth(text []byte) any {
	if string(text) == "t" {
		return int64(1)
	}
	return int64(0)
}

package lua

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
)

// An Ask is one call together with the function that reads its reply, so that several can go in one pipeline.
type Ask[T any] struct {
	// Call is what goes into the pipeline.
	Call driver.Call
	read func(r reader) (T, error)
}

// asking builds an Ask of a script.
func asking[T any](script *driver.Script, keys, args []string, read func(r reader) (T, error)) Ask[T] {
	return Ask[T]{Call: driver.Call{Script: script, Keys: keys, Args: args}, read: read}
}

// Read reads the reply to the Ask's Call. It returns an error in the reply unchanged.
func (a Ask[T]) Read(reply driver.Reply) (T, error) {
	if reply.Err != nil {
		var none T
		return none, reply.Err
	}
	answer, err := a.read(readerOf(reply.Value))
	if err != nil {
		return answer, fmt.Errorf("read the reply of %s: %w", a.Call.Name(), err)
	}
	return answer, nil
}

// Do sends the Ask and reads its reply.
func (a Ask[T]) Do(ctx context.Context, client driver.Client) (T, error) {
	return a.Read(client.Do(ctx, a.Call)[0])
}

// AskEach returns an Ask for each item, and their calls, for one pipeline.
func AskEach[I, T any](items []I, ask func(item I) Ask[T]) ([]Ask[T], []driver.Call) {
	asks := make([]Ask[T], len(items))
	for i, item := range items {
		asks[i] = ask(item)
	}
	return asks, CallsOf(asks)
}

// CallsOf returns the calls of asks, for one pipeline.
func CallsOf[T any](asks []Ask[T]) []driver.Call {
	calls := make([]driver.Call, len(asks), len(asks)+1)
	for i, ask := range asks {
		calls[i] = ask.Call
	}
	return calls
}

// Texts reads the reply to a plain command that returns an array of strings.
func Texts(reply driver.Reply) ([]string, error) {
	if reply.Err != nil {
		return nil, reply.Err
	}
	return readTexts(readerOf(reply.Value))
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func wholeSeconds(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }

// seconds writes a duration as scripts add it to a score.
func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 6, 64) }

func bit(is bool) string {
	if is {
		return "1"
	}
	return "0"
}

// A reader reads the parts of a reply in their order. After a part of a type that the script never returns,
// it reads zero values, and end returns the error.
type reader struct {
	parts []any
	err   error
}

// readerOf reads an array, or a single value as an array of one.
func readerOf(value any) reader {
	if parts, ok := value.([]any); ok {
		return reader{parts: parts}
	}
	return reader{parts: []any{value}}
}

// more reports whether there are parts left to read.
func (r *reader) more() bool { return r.err == nil && len(r.parts) > 0 }

// end returns an error if a part was missing, of a wrong type, or not read.
func (r *reader) end() error {
	if r.more() {
		return fmt.Errorf("unexpected reply: %d parts too many", len(r.parts))
	}
	return r.err
}

func next[T any](r *reader) (value T) {
	if !r.more() {
		if r.err == nil {
			r.err = fmt.Errorf("unexpected reply: a part is missing")
		}
		return value
	}
	value, ok := r.parts[0].(T)
	if !ok {
		r.err = fmt.Errorf("unexpected reply %T", r.parts[0])
	}
	r.parts = r.parts[1:]
	return value
}

func (r *reader) text() string { return next[string](r) }

// textOrNil reads a string; "" for Redis' nil.
func (r *reader) textOrNil() string {
	if r.more() && r.parts[0] == nil {
		r.parts = r.parts[1:]
		return ""
	}
	return r.text()
}

func (r *reader) number() int { return int(next[int64](r)) }

// position reads a Lua position, which counts from 1.
func (r *reader) position() int { return r.number() - 1 }

// list reads an inner array. Call its end after its parts were read.
func (r *reader) list() reader {
	parts := next[[]any](r)
	return reader{parts, r.err}
}

// texts reads all parts that are left, as strings.
func (r *reader) texts() []string {
	texts := make([]string, len(r.parts))
	for i := range texts {
		texts[i] = r.text()
	}
	return texts
}

// numbers reads all parts that are left, as numbers.
func (r *reader) numbers() []int {
	numbers := make([]int, len(r.parts))
	for i := range numbers {
		numbers[i] = r.number()
	}
	return numbers
}

// innerTexts reads an inner array of strings.
func (r *reader) innerTexts() []string {
	list := r.list()
	texts := list.texts()
	r.err = list.end()
	return texts
}

// positions reads an inner array of positions; nil for an empty one.
func (r *reader) positions() (positions []int) {
	list := r.list()
	for list.more() {
		positions = append(positions, list.position())
	}
	r.err = list.end()
	return positions
}

// time reads the seconds and the microseconds of an instant.
func (r *reader) time() time.Time { return time.Unix(int64(r.number()), int64(r.number())*1000) }

func readText(r reader) (string, error) { return r.text(), r.end() }

func readNumber(r reader) (int, error) { return r.number(), r.end() }

func readTexts(r reader) ([]string, error) { return r.texts(), r.end() }

func readNumbers(r reader) ([]int, error) { return r.numbers(), r.end() }

// wordIs returns a function that reports whether the reply is this status word.
func wordIs(want string) func(reader) (bool, error) {
	return func(r reader) (bool, error) { return r.text() == want, r.end() }
}

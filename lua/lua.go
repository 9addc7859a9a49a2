package lua

import (
	"context"
	"embed"
	"fmt"
	"regexp"

	"github.com/belayq/belay/driver"
)

// Bounds of one script call. They keep any call near a millisecond: while a script runs, Redis does nothing
// else.
const (
	// MostItems is how many jobs one call moves or returns.
	MostItems = 256
	// MostBytes is how many bytes of jobs one call moves or returns; the last job may exceed it by its own
	// size.
	MostBytes = 4 << 20
	// MostQueues is how many queues one process may serve: recover declares three keys for each.
	MostQueues = 128
)

//go:embed *.lua shared/*.lua
var files embed.FS

// load reads the script called name. A missing file is a bug of this package that no caller could fix.
func load(name string) *driver.Script {
	return driver.NewScript(name, source(name+".lua"))
}

// source is the text of a file with each line "-- include NAME" replaced by shared/NAME.lua, which includes
// nothing itself.
func source(path string) string {
	text, err := files.ReadFile(path)
	if err != nil {
		panic("lua: " + err.Error())
	}
	return include.ReplaceAllStringFunc(string(text), func(line string) string {
		return source("shared/" + include.FindStringSubmatch(line)[1] + ".lua")
	})
}

var include = regexp.MustCompile(`(?m)^-- include (\w+)\n`)

// An Ask is one script call together with the way to read its reply, so that several can go in one pipeline.
type Ask[T any] struct {
	// Call is what goes into the pipeline.
	Call driver.Call
	read func(value any) (T, error)
}

// asking builds an Ask.
func asking[T any](script *driver.Script, keys, args []string, read func(value any) (T, error)) Ask[T] {
	return Ask[T]{Call: driver.Call{Script: script, Keys: keys, Args: args}, read: read}
}

// Read reads the reply to the Ask's Call. It returns the reply's own error unchanged.
func (a Ask[T]) Read(reply driver.Reply) (T, error) {
	if reply.Err != nil {
		var none T
		return none, reply.Err
	}
	answer, err := a.read(reply.Value)
	if err != nil {
		return answer, fmt.Errorf("read the reply of %s: %w", a.Call.Script.Name(), err)
	}
	return answer, nil
}

// Do sends the Ask and reads its reply.
func (a Ask[T]) Do(ctx context.Context, client driver.Client) (T, error) {
	return a.Read(client.Do(ctx, a.Call)[0])
}

// errShape returns an error for a reply of a type that the script never returns.
func errShape(value any) error { return fmt.Errorf("unexpected reply %T", value) }

// wordOf reads a reply that is one status word.
func wordOf(value any) (string, error) {
	word, ok := value.(string)
	if !ok {
		return "", errShape(value)
	}
	return word, nil
}

// partsOf reads a reply that is an array whose first element is a status word.
func partsOf(value any) (word string, rest []any, err error) {
	parts, ok := value.([]any)
	if !ok || len(parts) == 0 {
		return "", nil, errShape(value)
	}
	word, err = wordOf(parts[0])
	return word, parts[1:], err
}

// numbersOf reads an array of numbers.
func numbersOf(value any) ([]int, error) {
	parts, ok := value.([]any)
	if !ok {
		return nil, errShape(value)
	}
	numbers := make([]int, len(parts))
	for i, part := range parts {
		number, ok := part.(int64)
		if !ok {
			return nil, errShape(part)
		}
		numbers[i] = int(number)
	}
	return numbers, nil
}

// Texts reads the reply to a plain command that answers an array of strings.
func Texts(reply driver.Reply) ([]string, error) {
	if reply.Err != nil {
		return nil, reply.Err
	}
	return textsOf(reply.Value)
}

// textsOf reads an array of strings.
func textsOf(value any) ([]string, error) {
	parts, ok := value.([]any)
	if !ok {
		return nil, errShape(value)
	}
	texts := make([]string, len(parts))
	for i, part := range parts {
		text, ok := part.(string)
		if !ok {
			return nil, errShape(part)
		}
		texts[i] = text
	}
	return texts, nil
}

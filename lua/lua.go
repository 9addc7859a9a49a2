package lua

import (
	"context"
	"embed"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/link"
)

// Bounds of one script call. They keep each call near a millisecond, because Redis does nothing else while a
// script runs.
const (
	// MaxItems is how many jobs one call moves or returns.
	MaxItems = 256
	// MaxBytes is how many bytes of jobs one call moves or returns; the last job may exceed it by its own
	// size.
	MaxBytes = link.MaxPage
	// MaxQueues is how many queues one process may serve: recover declares three keys for each.
	MaxQueues = 128
	// MaxWaits is how many queues one process waits for, with a connection for each. It reads further queues
	// a few times a second. So a process with a queue for each of many tenants needs no more connections
	// than one with few queues.
	MaxWaits = 16
)

//go:embed *.lua shared/*.lua
var files embed.FS

// load reads the script called name. It panics if the file is missing, which is a bug in this package.
func load(name string) *driver.Script { return driver.NewScript(name, source(name+".lua")) }

// NewScript returns a script of another package, which may include what Belay's own scripts share: each line
// "-- include NAME" is replaced by shared/NAME.lua. It panics if there is no such file.
func NewScript(name, text string) *driver.Script { return driver.NewScript(name, expand(text)) }

// source returns the text of a file with all that it includes.
func source(path string) string {
	text, err := files.ReadFile(path)
	if err != nil {
		panic("lua: " + err.Error())
	}
	return expand(string(text))
}

// expand replaces each line "-- include NAME" by shared/NAME.lua, which may include others.
func expand(text string) string {
	return include.ReplaceAllStringFunc(text, func(line string) string {
		return source("shared/" + include.FindStringSubmatch(line)[1] + ".lua")
	})
}

var include = regexp.MustCompile(`(?m)^-- include (\w+)\n`)

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

// Names is a page of a set of names.
type Names struct {
	// Names are in no order.
	Names []string
	// Next is where the page after it begins; LastPage if there is none.
	Next string
}

const (
	// FirstPage is where NamePage begins to read a set.
	FirstPage = "0"
	// LastPage is the Next of the last page.
	LastPage = "0"
)

// NamePage reads the next names of a set, from the Next of the page before on. A name that is in the set all
// the while is on one of the pages, or on several.
func NamePage(set, from string) Ask[Names] {
	return Ask[Names]{Call: driver.Command("SSCAN", set, from, "COUNT", strconv.Itoa(MaxItems)),
		read: func(r reader) (Names, error) {
			page := Names{Next: r.text(), Names: r.innerTexts()}
			return page, r.end()
		}}
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

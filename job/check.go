package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"
)

const (
	// DefaultPayloadLimit is the longest payload a client pushes unless told otherwise, in bytes. Jobs that need more
	// should carry a reference: every job in a queue is held in Redis' memory.
	DefaultPayloadLimit = 1 << 20
	// MaxPayloadLimit is the most a client can be told, in bytes. A few payloads of this length must fit into one
	// answer of Redis.
	MaxPayloadLimit = 2 << 20
	// PayloadSlack is how far a payload may grow beyond the limit while it lives, in bytes: room for an error message of
	// the greatest length, all of it escaped, and for counters. What is longer still is dead on arrival.
	PayloadSlack = 64 << 10

	// maxName bounds the names of classes and queues, in bytes: a name longer than this is a bug, and it would stand in
	// every log line and key.
	maxName = 255
)

// CheckClass says what is wrong with the name of a class for a push, nil when nothing is.
func CheckClass(name string) error { return checkName("class", "Welcome or Mail::Welcome", name) }

// CheckQueue says what is wrong with the name of a queue for a push, nil when nothing is. Any text in valid UTF-8 is
// good that is not empty, has no control characters and is at most 255 bytes; nothing is ever parsed from a key that
// holds it.
func CheckQueue(name string) error { return checkName("queue", "default or mail", name) }

func checkName(what, example, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the name of the %s is empty; give one such as %s", what, example)
	case len(name) > maxName:
		return fmt.Errorf("the name of the %s is %d bytes long; at most %d are allowed", what, len(name), maxName)
	case !utf8.ValidString(name):
		return fmt.Errorf("the name of the %s, %q, is not valid UTF-8", what, name)
	}
	for _, r := range name {
		if unicode.IsControl(r) {
			return fmt.Errorf("the name of the %s, %q, holds a control character (%U); leave it out", what, name, r)
		}
	}
	return nil
}

// CheckExtra says why a field must not be pushed as an extra of a Draft, nil when it may: a name that Draft writes
// itself or that Ruby would stumble over, text that is not JSON, or a type that breaks Ruby's pages or clients.
func CheckExtra(e Edit) error {
	switch e.Name {
	case "":
		return errors.New("a field needs a name")
	case "class", "queue", "args", "jid", "retry", "created_at", "enqueued_at":
		return fmt.Errorf("the field %q cannot be set like this; it has an option of its own", e.Name)
	case "at":
		return errors.New(`the field "at" is never stored; say when the job is due when you push it`)
	}
	if !utf8.ValidString(e.Name) || !utf8.ValidString(e.JSON) {
		return fmt.Errorf("the field %q is not valid UTF-8", e.Name)
	}
	if !json.Valid([]byte(e.JSON)) {
		return fmt.Errorf("the field %q does not hold JSON", e.Name)
	}
	return checkType(e)
}

// longestRetryFor is what Ruby's clients accept. They check it again when they move a job, and lose one that has more.
const longestRetryFor = 1_000_000_000

func checkType(e Edit) error {
	switch e.Name {
	case "tags":
		var tags []string
		if json.Unmarshal([]byte(e.JSON), &tags) != nil {
			return errors.New(`the field "tags" must be an array of strings`)
		}
	case "cattr":
		if c := e.JSON[skipSpace(e.JSON, 0)]; c != '[' && c != '{' && c != 'n' {
			return errors.New(`the field "cattr" must be an array or an object`)
		}
	case "retry_for":
		if n, ok := integer(e.JSON); !ok || n < 0 || n > longestRetryFor {
			return fmt.Errorf(`the field "retry_for" must be a whole number of seconds, at most %d`, longestRetryFor)
		}
	}
	return nil
}

package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// DefaultPayloadLimit is the default maximum length of a pushed payload, in bytes. Larger jobs should
	// carry a reference to their data: Redis keeps every queued job in memory.
	DefaultPayloadLimit = 1 << 20
	// MaxPayloadLimit is the highest limit that can be configured, in bytes. A few payloads of this length
	// must fit into one reply of Redis.
	MaxPayloadLimit = 2 << 20
	// PayloadSlack is how far a payload may grow beyond the limit after its push, in bytes: room for an
	// error message of maximum length, fully escaped, and for counters. Workers move longer payloads to the
	// dead set.
	PayloadSlack = 64 << 10

	// maxName bounds the names of classes and queues, in bytes: a longer name is a bug, and it would be in
	// every log line and key.
	maxName = 255
)

// CheckClass returns an error unless name is valid as the class of a pushed job.
func CheckClass(name string) error { return checkName("class", "Welcome or Mail::Welcome", name) }

// CheckQueue returns an error unless name is valid as the queue of a pushed job: valid UTF-8 of 1 to 255
// bytes without control characters. Belay never parses a key name, so all other characters are allowed.
func CheckQueue(name string) error { return checkName("queue", "default or mail", name) }

// IsPattern reports whether the name of a queue to take from stands for all queues that match it: it has a
// star, and something besides stars. "*" alone is the name of a queue like any other, because a worker that
// took all queues of a keyspace would take the jobs of other programs too.
func IsPattern(name string) bool { return strings.Contains(name, "*") && strings.Trim(name, "*") != "" }

// MatchPattern reports whether a queue matches a pattern. Each star stands for any text, also for none; no
// other character is special.
func MatchPattern(pattern, queue string) bool {
	first, others, starred := strings.Cut(pattern, "*")
	rest, matches := strings.CutPrefix(queue, first)
	for starred && matches && strings.Contains(others, "*") {
		var middle string
		middle, others, _ = strings.Cut(others, "*")
		_, rest, matches = strings.Cut(rest, middle)
	}
	if !starred {
		return matches && rest == ""
	}
	return matches && strings.HasSuffix(rest, others)
}

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

// CheckExtra returns an error if a field must not be an extra of a Draft: a name that Draft writes itself
// or that Ruby misreads, text that is not JSON, or a type that breaks Ruby's pages or clients.
func CheckExtra(e Edit) error {
	switch e.Name {
	case "":
		return errors.New("a field needs a name")
	case "class", "queue", "args", "jid", "retry", "created_at", "enqueued_at":
		return fmt.Errorf("the field %q cannot be set like this; it has an option of its own", e.Name)
	case "at":
		return errors.New(`the field "at" is never stored; give the time when you push the job`)
	}
	if !utf8.ValidString(e.Name) || !utf8.ValidString(e.JSON) {
		return fmt.Errorf("the field %q is not valid UTF-8", e.Name)
	}
	if !json.Valid([]byte(e.JSON)) {
		return fmt.Errorf("the field %q does not hold JSON", e.Name)
	}
	return checkType(e)
}

// maxRetryFor is the maximum that Ruby's clients accept, in seconds. They check it again when they move
// a job, and lose a job above it.
const maxRetryFor = 1_000_000_000

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
		return checkRetryFor(e.JSON)
	}
	return nil
}

func checkRetryFor(text string) error {
	if n, ok := integer(text); !ok || n < 0 || n > maxRetryFor {
		return fmt.Errorf(`the field "retry_for" must be a whole number of seconds, at most %d`, maxRetryFor)
	}
	return nil
}

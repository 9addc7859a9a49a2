package inspect

import (
	"encoding/json"
	"slices"
	"strings"
)

// A Filter chooses jobs by their payloads. A job matches if it matches every field that is set.
type Filter struct {
	// Class is Entry.Class, the class in the payload, or the class that the job wraps, as it is spelled.
	Class string
	// ErrorClass is the class of the last error, as it is spelled.
	ErrorClass string
	// Tag is one of the tags, as it is spelled.
	Tag string
	// Text is the ID of the job, or occurs in the args (in their JSON or in a string of theirs), in the class
	// or the message of the error, or in the tags. It is not a pattern. The case of letters does not matter. In
	// an unreadable entry, any of its bytes are searched. What a Mask or encryption hides is not searched.
	Text string
	// Queue is the queue in which the job waits, from which it was taken, or that its payload names.
	Queue string
	// Unreadable chooses the entries that no worker could run.
	Unreadable bool
}

func (f Filter) none() bool { return f == Filter{} }

// may reports whether a payload is worth parsing: most contain neither the text nor an escape that could hide
// it.
func (f Filter) may(payload string) bool {
	return strings.Contains(payload, `\`) ||
		strings.Contains(payload, f.Class) && strings.Contains(payload, f.ErrorClass) && strings.Contains(payload, f.Tag) &&
			(f.Text == "" || strings.Contains(strings.ToLower(payload), strings.ToLower(f.Text)))
}

func (f Filter) matches(e Entry) bool {
	return (f.Class == "" || e.parsed != nil && slices.Contains([]string{e.Class, e.parsed.Class(), e.parsed.Wrapped()}, f.Class)) &&
		(f.Queue == "" || e.Queue == f.Queue) &&
		(f.ErrorClass == "" || e.ErrorClass == f.ErrorClass) &&
		(f.Tag == "" || slices.Contains(e.tags(), f.Tag)) &&
		(f.Text == "" || f.inText(e)) &&
		(!f.Unreadable || e.Problem != "")
}

// matchesRun compares what Sidekiq reports of a run. Nothing else of the job is known here.
func (f Filter) matchesRun(run Run) bool {
	return (f.Class == "" || f.Class == run.Class) && (f.Queue == "" || f.Queue == run.Queue) && f == (Filter{Class: f.Class, Queue: f.Queue})
}

func (f Filter) inText(e Entry) bool {
	text := strings.ToLower(f.Text)
	if e.parsed == nil {
		_, bytes := e.split()
		return !e.hidden && strings.Contains(strings.ToLower(bytes), text)
	}
	tags, _ := e.parsed.Field("tags")
	args := string(e.Args)
	if e.hidden {
		args = ""
	}
	return strings.EqualFold(e.ID, text) || slices.ContainsFunc([]string{e.ErrorClass, e.ErrorMessage, args, tags}, func(in string) bool {
		return strings.Contains(strings.ToLower(in), text)
	}) || escaped(args, text) || escaped(tags, text)
}

// escaped reports whether a string within a JSON value contains a text in lower case. Encoders differ in what
// they escape, so the JSON itself may not contain it.
func escaped(value, text string) bool {
	var decoded any
	if !strings.Contains(value, `\`) || json.Unmarshal([]byte(value), &decoded) != nil {
		return false
	}
	return inStrings(decoded, text)
}

func inStrings(value any, text string) bool {
	in := func(value any) bool { return inStrings(value, text) }
	switch v := value.(type) {
	case string:
		return strings.Contains(strings.ToLower(v), text)
	case []any:
		return slices.ContainsFunc(v, in)
	case map[string]any:
		for name, member := range v {
			if in(name) || in(member) {
				return true
			}
		}
	}
	return false
}

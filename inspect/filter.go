package inspect

import (
	"encoding/json"
	"slices"
	"strings"
)

// A filter chooses jobs by what their payloads say; see Query.
type filter struct{ jid, class, text, queue string }

func (s Selection) filter() filter { return filter{class: s.Class, text: s.Text, queue: s.Queue} }

func (f filter) none() bool { return f == filter{} }

// may reports whether a payload is worth parsing: most contain neither the text nor an escape that could hide
// it.
func (f filter) may(payload string) bool {
	return strings.Contains(payload, `\`) ||
		(strings.Contains(payload, f.jid) || strings.HasPrefix(f.jid, unreadable)) &&
			strings.Contains(payload, f.class) &&
			(f.text == "" || strings.Contains(strings.ToLower(payload), strings.ToLower(f.text)))
}

func (f filter) matches(e Entry) bool {
	return (f.jid == "" || e.ID == f.jid || e.parsed != nil && e.parsed.JID() == f.jid) &&
		(f.class == "" || e.parsed != nil && slices.Contains([]string{e.Class, e.parsed.Class(), e.parsed.Wrapped()}, f.class)) &&
		(f.queue == "" || e.Queue == f.queue) &&
		(f.text == "" || f.inText(e))
}

func (f filter) inText(e Entry) bool {
	text := strings.ToLower(f.text)
	if e.parsed == nil {
		return strings.Contains(strings.ToLower(e.raw.Bytes), text)
	}
	tags, _ := e.parsed.Field("tags")
	return slices.ContainsFunc([]string{e.ErrorClass, e.ErrorMessage, string(e.Args), tags}, func(in string) bool {
		return strings.Contains(strings.ToLower(in), text)
	}) || escaped(string(e.Args), text) || escaped(tags, text)
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

package oracle

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/belayq/belay/job"
)

// An entry is one copy of a job: a text that lies in one place.
type entry struct {
	text  string
	of    *subject
	score float64 // of a member of a sorted set
}

// A subject is one job: all that has one jid, or, where no jid can be read, one text.
type subject struct {
	jid    string
	named  bool // it has a jid; what has none may lie in several places, for its copies cannot be reported apart
	copies int
	// abroad is set while a foreign program has it: since when, and out of which place.
	abroad *abroad
	trip   *trip // what the present step does to it
	// edge is the way it went last, in the step movedAt; text is what it was then, and score its due time in a
	// set.
	edge    Edge
	movedAt int
	text    string
	score   float64
}

// name is what a subject is called in a report.
func (of *subject) name() string {
	if of.named {
		return of.jid
	}
	return strconv.Quote(cut(of.jid))
}

func cut(text string) string {
	if len(text) > 40 {
		return text[:40] + "..."
	}
	return text
}

// readable reports whether a text is a job that a worker would run. largest is how long it may be.
func readable(text string, largest int) bool {
	if len(text) > largest {
		return false
	}
	parsed, err := job.Parse(text)
	if err != nil {
		return false
	}
	queue := parsed.Queue()
	return queue == "" || job.CheckQueue(queue) == nil
}

// A member is one field of a payload, its value as it is written.
type member struct{ name, value string }

// membersOf reads the fields of a payload that job.Parse has found sound. It is a reader of its own: the one
// that is used to change payloads must not be the one that judges the changes.
func membersOf(text string) []member {
	var found []member
	at := strings.IndexByte(text, '{') + 1
	for {
		at += len(text[at:]) - len(strings.TrimLeft(text[at:], " \t\r\n,"))
		if at >= len(text) || text[at] == '}' {
			return found
		}
		name := text[at:endOfValue(text, at)]
		at += len(name)
		at += strings.IndexByte(text[at:], ':') + 1
		at += len(text[at:]) - len(strings.TrimLeft(text[at:], " \t\r\n"))
		value := text[at:endOfValue(text, at)]
		at += len(value)
		var plain string
		if json.Unmarshal([]byte(name), &plain) != nil {
			plain = name
		}
		found = append(found, member{plain, value})
	}
}

// apart gives every field of a payload a name of its own: the last of a name is what counts and keeps it, and
// those before it are reported apart by their number.
func apart(members []member) []member {
	seen, total := make(map[string]int), make(map[string]int)
	for _, m := range members {
		total[m.name]++
	}
	for i, m := range members {
		if seen[m.name]++; seen[m.name] < total[m.name] {
			members[i].name += "\x00" + strconv.Itoa(seen[m.name])
		}
	}
	return members
}

// endOfValue is where the JSON value that begins at at ends.
func endOfValue(text string, at int) int {
	depth := 0
	for ; at < len(text); at++ {
		switch text[at] {
		case '"':
			for at++; at < len(text) && text[at] != '"'; at++ {
				if text[at] == '\\' {
					at++
				}
			}
			if depth == 0 {
				return at + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return at + 1
			}
			if depth < 0 {
				return at
			}
		case ',', ' ', '\t', '\r', '\n', ':':
			if depth == 0 {
				return at
			}
		}
	}
	return len(text)
}

// A change is one field before and after; "" is a field that is not there.
type change struct{ old, new string }

// moved is the name under which changes tells that fields which stayed do not stand in the order in which they
// stood.
const moved = "\x00order"

// changes compares two payloads field by field. It is nil for equal texts.
func changes(before, after string) map[string]change {
	if before == after {
		return nil
	}
	old, now := apart(membersOf(before)), apart(membersOf(after))
	found := make(map[string]change)
	left := make(map[string]string, len(old))
	for _, m := range old {
		left[m.name] = m.value
	}
	kept := make(map[string]bool, len(now))
	for _, m := range now {
		value, was := left[m.name]
		kept[m.name] = was
		if !was || value != m.value {
			found[m.name] = change{value, m.value}
		}
	}
	var order []string
	for _, m := range old {
		if kept[m.name] {
			order = append(order, m.name)
			continue
		}
		found[m.name] = change{m.value, ""}
	}
	for _, m := range now {
		if !kept[m.name] {
			continue
		}
		if len(order) == 0 || order[0] != m.name {
			found[moved] = change{}
			break
		}
		order = order[1:]
	}
	if len(found) == 0 {
		found[moved] = change{} // white space
	}
	return found
}

// integerOf reads an integer field; absent and null are none.
func integerOf(value string) (n int, ok bool) {
	n, err := strconv.Atoi(value)
	return n, err == nil
}

// valueOf is a field of a payload as it is written, "" when it is not there.
func valueOf(text, name string) string {
	value := ""
	for _, m := range membersOf(text) {
		if m.name == name {
			value = m.value
		}
	}
	return value
}

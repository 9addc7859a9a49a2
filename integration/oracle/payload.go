package oracle

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/belayq/belay/job"
)

// An entry is one copy of a job: a text that lies in one place.
type entry struct {
	text  string
	of    *subject
	score float64 // of a member of a sorted set
	queue string  // of a waiter: where it goes
}

// A subject is one job: all that has one jid, or, where no jid can be read, one text.
type subject struct {
	jid    string
	named  bool // it has a jid; what has none may lie in several places, for its copies cannot be reported apart
	copies int
	// abroad is set while a foreign program has it: since when, and out of which place.
	abroad *abroad
	trip   *trip // what the present step does to it
	// edge is the way it went last, in the step movedAt; text is what it was then, and score its due time in
	// a set.
	edge    Edge
	movedAt int
	text    string
	score   float64
	// left is the hand that the step took it out of, if any; leftBy is whose it was, and leftText the job's
	// text there.
	left             Place
	leftBy, leftText string
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
	d := json.NewDecoder(strings.NewReader(text))
	_, err := d.Token() // the brace
	for err == nil && d.More() {
		name, _ := d.Token()
		plain, _ := name.(string)
		var value json.RawMessage
		if err = d.Decode(&value); err == nil {
			found = append(found, member{plain, string(value)})
		}
	}
	return found
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

// A change is one field before and after; "" is a field that is not there.
type change struct{ old, new string }

// moved is the name under which changes tells that fields which stayed do not stand in the order in which
// they stood.
const moved = "\x00order"

// changes compares two payloads field by field. It is nil for equal texts.
func changes(before, after string) map[string]change {
	if before == after {
		return nil
	}
	old, now := apart(membersOf(before)), apart(membersOf(after))
	found := make(map[string]change)
	was, is := valuesOf(old), valuesOf(now)
	var stood, stand []string // the fields that stay, in their order before and after
	for _, m := range old {
		if is[m.name] != m.value {
			found[m.name] = change{m.value, is[m.name]}
		}
		if is[m.name] != "" {
			stood = append(stood, m.name)
		}
	}
	for _, m := range now {
		if was[m.name] == "" {
			found[m.name] = change{"", m.value}
			continue
		}
		stand = append(stand, m.name)
	}
	if len(found) == 0 || !slices.Equal(stood, stand) { // white space alone counts as the order
		found[moved] = change{}
	}
	return found
}

func valuesOf(members []member) map[string]string {
	values := make(map[string]string, len(members))
	for _, m := range members {
		values[m.name] = m.value
	}
	return values
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

// largeReason matches the members right behind the brace of a payload that died because of its size.
var largeReason = regexp.MustCompile(`^\s*\{("error_class":"Belay::TooLarge","error_message":"too large: (\d+) bytes, limit \d+","failed_at":[0-9.]+,)`)

// original returns the text of a job that died unread, without its reason; tooLarge reports that it died
// because of its size. ok is false for any other text. Like all of the oracle it does not use the product's
// parser.
func original(text string) (raw string, tooLarge, ok bool) {
	if parsed, err := job.Parse(text); err == nil {
		if kept, is := parsed.Kept(); is {
			class, _ := parsed.Text("error_class")
			return kept, class == job.TooLargeClass, true
		}
	}
	at := largeReason.FindStringSubmatchIndex(text)
	if at == nil {
		return "", false, false
	}
	reason := text[at[2]:at[3]]
	raw = text[:at[2]] + text[at[3]:]
	length, _ := strconv.Atoi(text[at[4]:at[5]])
	if len(raw) > length { // it had error fields of its own, so the reason is at its end, too
		if end := strings.LastIndex(raw, ","+strings.TrimSuffix(reason, ",")); end >= 0 {
			raw = raw[:end] + raw[end+len(reason):]
		}
	}
	raw = strings.TrimRight(raw, " ") + text[len(strings.TrimRight(text, " ")):]
	return raw, true, len(raw) == length
}

// diesUnread checks the death of an entry that no worker could run: it must have its reason and all its
// bytes. It counts as a failed run, whatever moved it.
func (c *crossing) diesUnread() bool {
	raw, tooLarge, ok := original(c.after())
	if !ok || c.after() == c.before() {
		return false
	}
	if earlier, _, again := original(c.before()); again && earlier == raw {
		raw = c.before() // it died so before, and an operator retried it
	}
	if raw != c.before() {
		return false
	}
	if readable(c.before(), c.k.largest) {
		c.fail(IllegalEdge, "only an entry that cannot be run moves from %s to %s", c.out.at.place, c.in.at.place)
	}
	if tooLarge && len(raw) <= c.k.largest {
		c.fail(IllegalEdge, "its reason says that it is too large, and it has %d bytes", len(raw))
	}
	c.exits.failed++
	return true
}

package oracle

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/belayq/belay/job"
)

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

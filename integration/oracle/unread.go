package oracle

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/belayq/belay/job"
)

// largeReason is what stands right behind the brace of a payload that died for its size.
var largeReason = regexp.MustCompile(`^\s*\{("error_class":"Belay::TooLarge","error_message":"too large: (\d+) bytes, limit \d+","failed_at":[0-9.]+,)`)

// original is the text of a job that died unread, as it was before it got its reason; tooLarge says that it died for its size. ok is
// false for any other text. It is a reader of its own, as all that judges here.
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
	if len(raw) > length { // it named an error of its own, and the reason stands at its end, too
		if end := strings.LastIndex(raw, ","+strings.TrimSuffix(reason, ",")); end >= 0 {
			raw = raw[:end] + raw[end+len(reason):]
		}
	}
	raw = strings.TrimRight(raw, " ") + text[len(strings.TrimRight(text, " ")):]
	return raw, true, len(raw) == length
}

// diesUnread judges the death of what no worker could run, if that is what it was: it has its reason now, and every byte that it had.
// It counts as a failed run, whatever moved it: nothing dies without a count.
func (c *crossing) diesUnread() bool {
	raw, tooLarge, ok := original(c.after())
	if !ok || c.after() == c.before() {
		return false
	}
	if earlier, _, again := original(c.before()); again && earlier == raw {
		raw = c.before() // it died so before, and somebody sent it round
	}
	if raw != c.before() {
		return false
	}
	if readable(c.before(), c.k.largest) {
		c.fail(IllegalEdge, "from %s to %s goes only what cannot be run", c.out.at.place, c.in.at.place)
	}
	if tooLarge && len(raw) <= c.k.largest {
		c.fail(IllegalEdge, "it is said to be too large, and has %d bytes", len(raw))
	}
	c.exits.failed++
	return true
}

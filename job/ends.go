package job

import "regexp"

// queueMember matches a member named queue, behind another one. Text inside a string cannot match, because its
// quotes are escaped.
var queueMember = regexp.MustCompile(`,\s*"queue"\s*:`)

// QueueInEnds returns the queue of a payload of which only the beginning and the end are known; ok is false if
// neither contains it. Other producers than Belay write it before the args or behind them.
//
// A member in the tail is of the payload's own object if all text behind it reads as the rest of one object.
func QueueInEnds(head, tail string) (queue string, ok bool) {
	texts := []string{head}
	for _, found := range queueMember.FindAllStringIndex(tail, -1) {
		texts = append(texts, "{"+tail[found[0]+1:])
	}
	for i, text := range texts {
		last := ""
		m := members{raw: text}
		for m.next() {
			if unquote(m.text(m.name)) == "queue" {
				last = str(m.text(m.value))
			}
		}
		// The head is cut off, so it never ends well. The last of duplicate names counts.
		if last != "" && (i == 0 || m.why == sound) && CheckQueue(last) == nil {
			queue, ok = last, true
		}
	}
	return queue, ok
}

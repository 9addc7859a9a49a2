package job

import (
	"strconv"
	"time"
)

// An Edit is one change to a payload's envelope.
type Edit struct {
	// Name is the field, as text (it is escaped when it is written).
	Name string
	// JSON is the field's new value: one valid JSON value on one line, which Patch does not check. ""
	// removes the field.
	JSON string
}

// SetString returns the Edit that sets name to the string s. Invalid UTF-8 in s becomes U+FFFD, because one
// bad byte would make the whole payload unreadable.
func SetString(name, s string) Edit { return Edit{name, quote(s)} }

// SetInt returns the Edit that sets name to the integer n.
func SetInt(name string, n int) Edit { return Edit{name, strconv.Itoa(n)} }

// SetStamp returns the Edit that sets name to the instant t, in unit u.
func SetStamp(name string, t time.Time, u TimeUnit) Edit { return Edit{name, Stamp(t, u)} }

// Remove returns the Edit that removes name.
func Remove(name string) Edit { return Edit{Name: name} }

// Patch returns the payload with the edits made and every other byte as it was.
//
// An existing field is changed in place: the last of its name, because JSON readers use that one. A new field
// is added before the closing brace, in the order of the edits. A removal removes every field of the name,
// because an earlier one would count otherwise, and one comma with each. Of two edits of one name the later
// counts. Patch is idempotent: the same edits change nothing in the result.
func (j *Job) Patch(edits ...Edit) string {
	edit, room := make(map[string]int, len(edits)), len(j.raw)
	for i, e := range edits {
		edit[e.Name] = i
		room += len(e.Name) + len(e.JSON) + len(`"":,`)
	}
	last := make([]int32, len(edits)) // the position of the value that an edit changes; 0 for a new field
	found := make([]edited, 0, 32)
	m := members{raw: j.raw}
	for m.next() {
		i, named := edit[unquote(m.text(m.name))]
		if !named {
			i = -1
		} else {
			last[i] = m.value.start
		}
		found = append(found, edited{m.name, m.value, i})
	}
	start, end := int32(m.at), int32(m.at) // of the members
	if len(found) > 0 {
		start, end = found[0].name.start, found[len(found)-1].value.end
	}
	out := append(make([]byte, 0, room), j.raw[:start]...)
	between := span{} // the text before the next member that is kept
	for i, f := range found {
		if f.edit >= 0 && edits[f.edit].JSON == "" {
			continue
		}
		out = append(append(out, m.text(between)...), j.raw[f.name.start:f.value.start]...)
		if f.edit >= 0 && last[f.edit] == f.value.start {
			out = append(out, edits[f.edit].JSON...)
		} else {
			out = append(out, m.text(f.value)...)
		}
		if i+1 < len(found) {
			between = span{f.value.end, found[i+1].name.start}
		}
	}
	for i, e := range edits {
		if e.JSON == "" || edit[e.Name] != i || last[i] != 0 {
			continue
		}
		if len(out) > int(start) {
			out = append(out, ',')
		}
		out = append(appendQuoted(out, e.Name), ':')
		out = append(out, e.JSON...)
	}
	return string(append(out, j.raw[end:]...))
}

// edited is a member of a payload, with the index of the edit of its name; -1 for none.
type edited struct {
	name, value span
	edit        int
}

// IntoQueue returns the edits for an existing job that enters a queue at now, in unit u. Its args do not
// change.
func (j *Job) IntoQueue(now time.Time, u TimeUnit) []Edit {
	edits := []Edit{SetStamp("enqueued_at", now, u)}
	if j.Queue() == "" {
		edits = append(edits, SetString("queue", DefaultQueue))
	}
	if _, ok := j.Field("at"); ok {
		// The job was scheduled by this field before. Ruby would schedule it again.
		edits = append(edits, Remove("at"))
	}
	return edits
}

// IntoSet returns the edits for a failed job that enters a sorted set. They remove "at", because Ruby would
// schedule the job again, or lose it if the value is odd. They also repair fields that make a page of Sidekiq
// fail for all jobs on it, or that make Sidekiq's client refuse a job that Ruby's poller has taken out of the
// set, which loses the job:
//   - a single tag, which becomes an array of one;
//   - a retry_for that is not a whole number of seconds, or above the maximum;
//   - encrypt without an argument that could be encrypted;
//   - wrapped in an ActiveJob without the object that it wraps: no Ruby process could run it. Of other classes
//     it stays: the handler is found by it.
func (j *Job) IntoSet() []Edit {
	edits := []Edit{Remove("at")}
	if tags, _ := j.RareField("tags"); !isAbsent(tags) && tags != "false" && tags[0] != '[' {
		edits = append(edits, Edit{Name: "tags", JSON: "[" + tags + "]"})
	}
	if text := j.text(fieldRetryFor); !isAbsent(text) && checkRetryFor(text) != nil {
		if within, ok := j.RetryFor(); ok && within >= 0 {
			edits = append(edits, SetInt("retry_for", min(int(within/time.Second), maxRetryFor)))
		} else {
			edits = append(edits, Remove("retry_for"))
		}
	}
	args := j.text(fieldArgs)
	first := skipSpace(args, 1)
	if encrypt, _ := j.RareField("encrypt"); !isAbsent(encrypt) && encrypt != "false" && args[first] == ']' {
		edits = append(edits, Remove("encrypt"))
	}
	if wrapped := j.text(fieldWrapped); !isAbsent(wrapped) && wrapped != "false" && args[first] != '{' && j.IsActiveJob() {
		edits = append(edits, Remove("wrapped"))
	}
	return edits
}

// MovedTo returns the edits for a job that an operator moves to another queue. Wherever the payload names a
// queue for a later run, it names the new one: in retry_queue, and for an ActiveJob in its own queue_name, to
// which Ruby's retry_on pushes.
func (j *Job) MovedTo(queue string) []Edit {
	edits := []Edit{SetString("queue", queue)}
	if j.RetryQueue() != "" {
		edits = append(edits, SetString("retry_queue", queue))
	}
	if at, wraps := j.activeMembers(); wraps {
		if name, has := at["queue_name"]; has && isString(j.ArgsJSON()[name.start:name.end]) {
			edits = append(edits, j.inArgs(map[span]string{name: quote(queue)}))
		}
	}
	return edits
}

package job

import (
	"slices"
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
	p := newPatcher(j.raw, edits)
	m := members{raw: j.raw}
	for m.next() {
		p.member(&m)
	}
	return p.finish(m.at)
}

// A patcher copies a payload and applies the edits.
type patcher struct {
	raw   string
	edits []Edit  // one of each name
	last  []int32 // for each edit, the position in raw of the value that it changes; 0 for a new field
	out   []byte
	at    int  // raw is copied up to here
	kept  int  // the end in out of the last member kept (or the start of the first): a superfluous comma may follow
	any   bool // a member has been kept

	separated bool // the text before the next member is copied
}

func newPatcher(raw string, edits []Edit) *patcher {
	p := &patcher{raw: raw, edits: make([]Edit, 0, len(edits))}
	room := len(raw)
	for i, e := range edits {
		if !slices.ContainsFunc(edits[i+1:], func(later Edit) bool { return later.Name == e.Name }) {
			p.edits = append(p.edits, e)
			room += len(e.Name) + len(e.JSON) + len(`"":,`)
		}
	}
	p.out = make([]byte, 0, room)
	// The last member of a name is known only at the end, so the payload is read once to find it.
	p.last = make([]int32, len(p.edits))
	m := members{raw: raw}
	for m.next() {
		if i := p.editOf(&m); i >= 0 {
			p.last[i] = m.value.start
		}
	}
	return p
}

// editOf returns the index of the edit for the current member, -1 for none.
func (p *patcher) editOf(m *members) int {
	name := unquote(m.text(m.name))
	return slices.IndexFunc(p.edits, func(e Edit) bool { return e.Name == name })
}

// member copies the text before a member, then the member, unless it is removed. The text after a removed
// member, up to the next one, is removed with it.
func (p *patcher) member(m *members) {
	if !p.separated {
		p.out = append(p.out, p.raw[p.at:m.name.start]...)
		p.separated = true
	}
	if !p.any {
		p.kept = len(p.out)
	}
	i := p.editOf(m)
	if i >= 0 && p.edits[i].JSON == "" {
		p.at = int(m.value.end)
		return
	}
	if i >= 0 && p.last[i] == m.value.start {
		p.out = append(p.out, p.raw[m.name.start:m.value.start]...)
		p.out = append(p.out, p.edits[i].JSON...)
	} else {
		p.out = append(p.out, p.raw[m.name.start:m.value.end]...)
	}
	p.at, p.kept, p.any, p.separated = int(m.value.end), len(p.out), true, false
}

// finish adds the new fields, then copies the rest; brace is the position of the closing brace.
func (p *patcher) finish(brace int) string {
	p.out = p.out[:p.kept]
	if p.at == 0 { // an object without members
		p.out, p.at = append(p.out, p.raw[:brace]...), brace
	}
	for i, e := range p.edits {
		if e.JSON == "" || p.last[i] != 0 {
			continue
		}
		if p.any {
			p.out = append(p.out, ',')
		}
		p.any = true
		p.out = append(appendQuoted(p.out, e.Name), ':')
		p.out = append(p.out, e.JSON...)
	}
	return string(append(p.out, p.raw[p.at:]...))
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
//   - wrapped without the object that ActiveJob wraps: no Ruby process could run it.
func (j *Job) IntoSet() []Edit {
	edits := []Edit{Remove("at")}
	if tags, _ := j.metaField("tags"); !isAbsent(tags) && tags != "false" && tags[0] != '[' {
		edits = append(edits, Edit{Name: "tags", JSON: "[" + tags + "]"})
	}
	if text := j.text(fieldRetryFor); !isAbsent(text) && checkRetryFor(text) != nil {
		if within, ok := j.RetryFor(); ok && within >= 0 {
			edits = append(edits, SetInt("retry_for", min(int(within/time.Second), longestRetryFor)))
		} else {
			edits = append(edits, Remove("retry_for"))
		}
	}
	args := j.text(fieldArgs)
	first := skipSpace(args, 1)
	if encrypt, _ := j.metaField("encrypt"); !isAbsent(encrypt) && encrypt != "false" && args[first] == ']' {
		edits = append(edits, Remove("encrypt"))
	}
	if wrapped := j.text(fieldWrapped); !isAbsent(wrapped) && wrapped != "false" && args[first] != '{' {
		edits = append(edits, Remove("wrapped"))
	}
	return edits
}

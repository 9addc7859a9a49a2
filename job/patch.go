package job

import (
	"strconv"
	"time"
)

// An Edit is one change to a payload's envelope.
type Edit struct {
	// Name is the field, as text (it is escaped when it is written).
	Name string
	// JSON is the field's new value: one valid JSON value on one line, which Patch does not check. "" removes the field.
	JSON string
}

// SetString is the Edit that makes name the string s. Invalid UTF-8 in s is written as U+FFFD, because one bad byte
// would make the whole payload unreadable.
func SetString(name, s string) Edit { return Edit{name, quote(s)} }

// SetInt is the Edit that makes name the integer n.
func SetInt(name string, n int) Edit { return Edit{name, strconv.Itoa(n)} }

// SetStamp is the Edit that makes name the instant t, in unit u.
func SetStamp(name string, t time.Time, u TimeUnit) Edit { return Edit{name, Stamp(t, u)} }

// Remove is the Edit that takes name away.
func Remove(name string) Edit { return Edit{Name: name} }

// Patch returns the payload with the edits made and every other byte as it was.
//
// A field that stands is changed in place: the last of its name, because that is the one everybody reads. A field that
// does not is put before the closing brace, in the order of the edits. A removal takes every field of the name, lest
// an earlier one come to light, and one comma with each. Of two edits of one name the later counts. The same edits
// made to the result change nothing more.
func (j *Job) Patch(edits ...Edit) string {
	p := newPatcher(j.raw, edits)
	m := members{raw: j.raw}
	for m.next() {
		p.member(&m)
	}
	return p.finish(m.at)
}

// A patcher copies a payload and makes the edits on the way.
type patcher struct {
	raw   string
	edits []Edit  // one of each name
	last  []int32 // for each edit, where in raw the value stands that it changes; 0 when there is none
	out   []byte
	at    int  // raw is done with up to here
	kept  int  // out up to the last member kept (or the first one's place): a separator may follow that separates nothing
	any   bool // a member has been kept

	separated bool // what stands before the next member kept has been copied
}

func newPatcher(raw string, edits []Edit) *patcher {
	p := &patcher{raw: raw, edits: make([]Edit, 0, len(edits))}
	room := len(raw)
	for i, e := range edits {
		if !named(edits[i+1:], e.Name) {
			p.edits = append(p.edits, e)
			room += len(e.Name) + len(e.JSON) + len(`"":,`)
		}
	}
	p.out = make([]byte, 0, room)
	// Which member an edit is for cannot be known before the last one, so the payload is walked once for that.
	p.last = make([]int32, len(p.edits))
	m := members{raw: raw}
	for m.next() {
		if i := p.editOf(&m); i >= 0 {
			p.last[i] = m.value.start
		}
	}
	return p
}

func named(edits []Edit, name string) bool {
	for _, e := range edits {
		if e.Name == name {
			return true
		}
	}
	return false
}

// editOf finds the edit for the member m stands at, -1 for none.
func (p *patcher) editOf(m *members) int {
	name := unquote(m.text(m.name))
	for i := range p.edits {
		if p.edits[i].Name == name {
			return i
		}
	}
	return -1
}

// member copies what stands before a member, then the member, unless it is removed. Of what stands between two
// members, all that follows a removed one goes with it.
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

// finish adds the fields that did not stand yet, then copies the rest; brace is where the object closes.
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

package dedup

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/belayq/belay/job"
)

const (
	// FieldWAL is the payload's field with the positions that the job was pushed with: an object of LSNs by
	// the names of their connections. GitLab's jobs have it, too.
	FieldWAL = "wal_locations"
	// FieldRefusedWAL is the payload's field with the positions of duplicates that were refused for the job's
	// sake. A job that waits has none: they lie with its lock, and come into the payload of a run.
	FieldRefusedWAL = "dedup_wal_locations"

	// MostWAL is how many positions a job carries, and a lock keeps. A program writes to a handful of
	// databases at most, and every refused push reads them all.
	MostWAL = 16
	// maxConnection bounds a connection's name, in bytes. It stands in the lock.
	maxConnection = 64
)

// A WAL is how far the databases must have come that a job reads: positions in their write-ahead logs, by the
// names of their connections, such as "main". nil is no such wish.
//
// A job that is refused as a duplicate was pushed after some write. Its position is left with the lock, so
// that the job which runs in its stead knows of that write, and does not read a replica that has not.
type WAL map[string]LSN

// ParseWAL reads positions by the names of their connections. It names everything that is wrong, at once.
func ParseWAL(texts map[string]string) (WAL, error) {
	w := make(WAL, len(texts))
	var wrong []error
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		position, err := ParseLSN(texts[name])
		if err != nil {
			wrong = append(wrong, fmt.Errorf("the position of connection %.80q: %w", name, err))
			continue
		}
		w[name] = position
	}
	if len(wrong) == 0 {
		wrong = append(wrong, w.Check())
	}
	return w, errors.Join(wrong...)
}

// Check says why a job cannot be pushed with these positions, nil when it can: at most MostWAL of them, none
// of them 0, by names of at most 64 bytes that are UTF-8 without spaces and control characters.
func (w WAL) Check() error {
	if len(w) == 0 {
		return nil // as in nearly every job, and each one is checked
	}
	var wrong []error
	if len(w) > MostWAL {
		wrong = append(wrong, fmt.Errorf("%d positions in write-ahead logs: at most %d are allowed", len(w), MostWAL))
	}
	for _, name := range slices.Sorted(maps.Keys(w)) {
		wrong = append(wrong, checkConnection(name))
		if w[name] == 0 {
			wrong = append(wrong, fmt.Errorf("the position of connection %.80q is none: leave it out", name))
		}
	}
	return errors.Join(wrong...)
}

func checkConnection(name string) error {
	switch {
	case name == "":
		return errors.New("the position of a connection without a name; give one such as main")
	case len(name) > maxConnection:
		return fmt.Errorf("the name of a connection, %.80q, is %d bytes long; at most %d are allowed", name, len(name), maxConnection)
	case !utf8.ValidString(name):
		return fmt.Errorf("the name of a connection, %.80q, is not valid UTF-8", name)
	case strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }):
		return fmt.Errorf("the name of a connection, %.80q, holds a space or a control character", name)
	}
	return nil
}

// Later returns, of each connection, the later one of both positions. Neither is changed.
func (w WAL) Later(other WAL) WAL {
	switch {
	case len(other) == 0:
		return w
	case len(w) == 0:
		return other
	}
	both := maps.Clone(w)
	for name, position := range other {
		both[name] = max(both[name], position)
	}
	return both
}

// Edit writes the positions into a payload, under one of the fields above, by the names' order. That of none
// takes the field away.
func (w WAL) Edit(field string) job.Edit {
	if len(w) == 0 {
		return job.Remove(field)
	}
	text, err := job.Marshal(w.Texts()) // by job, because encoding/json alone escapes <, > and &
	if err != nil {
		return job.Remove(field) // a name that is no text, which Check refuses
	}
	return job.Edit{Name: field, JSON: text}
}

// Texts are the positions as PostgreSQL writes them; nil for none.
func (w WAL) Texts() map[string]string {
	if len(w) == 0 {
		return nil
	}
	texts := make(map[string]string, len(w))
	for name, position := range w {
		texts[name] = position.String()
	}
	return texts
}

// Lines writes the positions as locks keep them: "NAME LSN", one a line, by the names' order. "" is none.
func (w WAL) Lines() string {
	lines := make([]string, 0, len(w))
	for _, name := range slices.Sorted(maps.Keys(w)) {
		lines = append(lines, name+" "+w[name].String())
	}
	return strings.Join(lines, "\n")
}

// WALOfLines reads what Lines wrote, and passes over what is none of it.
func WALOfLines(text string) WAL {
	var w WAL
	for line := range strings.Lines(text) {
		name, position, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		w = w.with(name, position)
	}
	return w
}

// with adds a position, or nothing for what is none, or one too many.
func (w WAL) with(name, text string) WAL {
	position, err := ParseLSN(text)
	if err != nil || checkConnection(name) != nil || (len(w) >= MostWAL && w[name] == 0) {
		return w
	}
	if w == nil {
		w = make(WAL)
	}
	w[name] = max(w[name], position)
	return w
}

// HasWAL says whether a payload may tell of positions, without reading it: those that do not pay one search.
func HasWAL(payload string) bool { return strings.Contains(payload, FieldWAL) }

// ReadWAL returns how far the databases must have come that a job reads, as its payload says: of each
// connection the later one of both fields. What is no position is passed over, and so are connections beyond
// MostWAL: whoever wrote that is no reason not to run the job. Ruby's empty array is none.
func ReadWAL(j *job.Job) WAL {
	if !HasWAL(j.Raw()) { // FieldRefusedWAL holds that name
		return nil
	}
	return fieldWAL(j, FieldWAL).Later(fieldWAL(j, FieldRefusedWAL))
}

// ReadRefusedWAL returns those alone that refused duplicates left.
func ReadRefusedWAL(j *job.Job) WAL {
	if !HasWAL(j.Raw()) {
		return nil
	}
	return fieldWAL(j, FieldRefusedWAL)
}

func fieldWAL(j *job.Job, field string) WAL {
	text, _ := j.Field(field)
	var values map[string]json.RawMessage
	if text == "" || json.Unmarshal([]byte(text), &values) != nil {
		return nil
	}
	var w WAL
	for _, name := range slices.Sorted(maps.Keys(values)) {
		var position string
		if json.Unmarshal(values[name], &position) == nil {
			w = w.with(name, position)
		}
	}
	return w
}

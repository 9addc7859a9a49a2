package dedup

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/belayq/belay/job"
)

const (
	// FieldWAL is the payload's field with the positions that the job was pushed with: an object of LSNs by
	// connection name. GitLab's jobs have it, too.
	FieldWAL = "wal_locations"
	// FieldRefusedWAL is the payload's field with the positions of refused duplicates. Only the payload of a
	// run has it; until then the positions are stored with the lock.
	FieldRefusedWAL = "dedup_wal_locations"

	// MaxWAL is the maximum number of positions of a job and of a lock. A program writes to few databases,
	// and every refused push reads all positions.
	MaxWAL = 16
	// maxConnection is the maximum length of a connection's name, in bytes. The lock stores the name.
	maxConnection = 64
)

// A WAL has the positions that the databases which a job reads must have reached: positions in their
// write-ahead logs, by connection name, such as "main". nil means no requirement.
//
// A refused duplicate was pushed after some write. Its position is left with the lock, so that the job which
// runs instead does not read a replica without that write.
type WAL map[string]LSN

// ParseWAL parses positions by connection name. It returns all errors, joined.
func ParseWAL(texts map[string]string) (WAL, error) {
	w := make(WAL, len(texts))
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		position, err := ParseLSN(texts[name])
		if err != nil {
			errs = append(errs, fmt.Errorf("the position of connection %.80q: %w", name, err))
			continue
		}
		w[name] = position
	}
	if len(errs) == 0 {
		errs = append(errs, w.Check())
	}
	return w, errors.Join(errs...)
}

// Check returns an error unless there are at most MaxWAL positions, none of them 0, and each name is at most
// 64 bytes of UTF-8 without spaces and control characters.
func (w WAL) Check() error {
	if len(w) == 0 {
		return nil // the usual case, and every push checks it
	}
	var errs []error
	if len(w) > MaxWAL {
		errs = append(errs, fmt.Errorf("%d positions in write-ahead logs: at most %d are allowed", len(w), MaxWAL))
	}
	for _, name := range slices.Sorted(maps.Keys(w)) {
		errs = append(errs, checkConnection(name))
		if w[name] == 0 {
			errs = append(errs, fmt.Errorf("the position of connection %.80q is 0: leave it out", name))
		}
	}
	return errors.Join(errs...)
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

// Later returns the later position of each connection. It changes neither operand.
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

// Edit returns the edit that writes the positions into a field of a payload, sorted by name. An empty WAL
// removes the field.
func (w WAL) Edit(field string) job.Edit {
	if len(w) == 0 {
		return job.Remove(field)
	}
	text, err := job.Marshal(w.Texts()) // not json.Marshal, which escapes <, > and &
	if err != nil {
		return job.Remove(field) // a name that is not UTF-8, which Check refuses
	}
	return job.Edit{Name: field, JSON: text}
}

// Texts returns the positions in PostgreSQL's notation, or nil if there are none.
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

// Lines returns the positions as locks store them: one "NAME LSN" per line, sorted by name, "" for none.
func (w WAL) Lines() string {
	if len(w) == 0 {
		return "" // the usual case, and every unique push asks
	}
	lines := make([]string, 0, len(w))
	for _, name := range slices.Sorted(maps.Keys(w)) {
		lines = append(lines, name+" "+w[name].String())
	}
	return strings.Join(lines, "\n")
}

// WALOfLines parses the output of Lines and ignores everything else.
func WALOfLines(text string) WAL {
	var w WAL
	for line := range strings.Lines(text) {
		name, position, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		w = w.with(name, position)
	}
	return w
}

// with adds a position. It ignores invalid ones and those beyond MaxWAL.
func (w WAL) with(name, text string) WAL {
	position, err := ParseLSN(text)
	if err != nil || checkConnection(name) != nil || (len(w) >= MaxWAL && w[name] == 0) {
		return w
	}
	if w == nil {
		w = make(WAL)
	}
	w[name] = max(w[name], position)
	return w
}

// ReadWAL returns the positions that a job's payload requires: for each connection the later one of both
// fields. It ignores invalid positions and connections beyond MaxWAL, because they are no reason not to run
// the job. Ruby's empty array means none.
func ReadWAL(j *job.Job) WAL { return fieldWAL(j, FieldWAL).Later(fieldWAL(j, FieldRefusedWAL)) }

// ReadRefusedWAL returns only the positions that refused duplicates left.
func ReadRefusedWAL(j *job.Job) WAL { return fieldWAL(j, FieldRefusedWAL) }

func fieldWAL(j *job.Job, field string) WAL {
	text, ok := j.RareField(field)
	var values map[string]json.RawMessage
	if !ok || json.Unmarshal([]byte(text), &values) != nil {
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

// An LSN is a position in the write-ahead log of a PostgreSQL database: the number of bytes before it. 0
// means no position.
//
// Positions are compared as numbers, never as text: "10/0" is later than "9/0".
type LSN uint64

// ParseLSN reads a position as PostgreSQL writes a pg_lsn: two hexadecimal numbers of up to eight digits,
// "16/B374D848". It refuses 0/0, with which PostgreSQL means "no position".
func ParseLSN(text string) (LSN, error) {
	high, low, ok := strings.Cut(text, "/")
	h, okHigh := half(high)
	l, okLow := half(low)
	if !ok || !okHigh || !okLow {
		return 0, fmt.Errorf("%.40q is not a position in a write-ahead log; give one such as 16/B374D848", text)
	}
	if h|l == 0 {
		return 0, fmt.Errorf("the position %s means no position", text)
	}
	return LSN(h<<32 | l), nil
}

// half reads one of the two numbers. ParseUint alone would accept a sign and more digits.
func half(digits string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(digits, 16, 32)
	return n, err == nil && len(digits) <= 8
}

// String writes the position as PostgreSQL does, without leading zeros.
func (l LSN) String() string { return fmt.Sprintf("%X/%X", uint64(l)>>32, uint64(l)&0xFFFFFFFF) }

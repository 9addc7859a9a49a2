package job

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// JSON has many spellings of one value, and Ruby writes one of them. Sidekiq's reschedule looks for an
// entry by the text that JSON.generate makes of it; if it does not find that text, it adds a second copy of
// the job. So Belay respells JSON that was written elsewhere before it puts it into a payload, as Ruby
// would write the same value. A payload that exists is never respelled: its floats stay as its producer
// wrote them.
//
// Ruby's json has two spellings of floats that are very small or very large: that of Float#to_s before 2.11,
// and one of its own since 2.15, which Sidekiq 8.1 requires (2.16). The first is Belay's, and that of a payload
// for Sidekiq 8 the second. (Versions between them have a third and a fourth one.)

var (
	errNotJSON = errors.New("not JSON")
	errNotUTF8 = errors.New("a string is not valid UTF-8")
	// Ruby's parser raises at the first half of a pair, its generator at the second. A Ruby process that
	// moves a job with half a pair loses it.
	errHalfPair = errors.New(`a string holds half a surrogate pair (a \uD800 to \uDFFF without its other half), which is no character`)
)

// appendSpelled writes the one JSON value that text holds. goWrote reports that encoding/json wrote it: the
// escape \ufffd is then an error, because it replaces a byte that is not UTF-8, a silent change of the
// user's data. (encoding/json does not escape a real U+FFFD.)
func appendSpelled(out []byte, text string, goWrote bool) ([]byte, error) {
	start := skipSpace(text, 0)
	end, why := skipValue(text, start, 0)
	switch {
	case why == badUTF8:
		return nil, errNotUTF8
	case why == tooDeep:
		return nil, errTooDeep
	case why != sound || skipSpace(text, end) != len(text):
		return nil, errNotJSON
	}
	s := speller{text: text, at: start, out: out, goWrote: goWrote}
	if err := s.value(); err != nil {
		return nil, err
	}
	return s.out, nil
}

type speller struct {
	text    string
	at      int
	out     []byte
	goWrote bool
	members []member // of the open objects; those of the innermost come last
}

// A member is a position in out; its name, with the quotes, ends at name.
type member struct{ start, name, end int }

func (s *speller) value() error {
	switch s.text[s.at] {
	case '{':
		return s.object()
	case '[':
		return s.array()
	case '"':
		return s.string()
	case 't', 'n':
		s.copy(s.at + len("true"))
	case 'f':
		s.copy(s.at + len("false"))
	default:
		return s.number()
	}
	return nil
}

func (s *speller) copy(end int) {
	s.out = append(s.out, s.text[s.at:end]...)
	s.at = end
}

// more steps to the next element or member of a container, and reports whether there is one.
func (s *speller) more(closer byte) bool {
	s.at = skipSpace(s.text, s.at)
	switch s.text[s.at] {
	case closer:
		s.copy(s.at + 1)
		return false
	case ',':
		s.copy(s.at + 1)
		s.at = skipSpace(s.text, s.at)
	}
	return true
}

func (s *speller) array() error {
	s.copy(s.at + 1)
	for s.more(']') {
		if err := s.value(); err != nil {
			return err
		}
	}
	return nil
}

func (s *speller) object() error {
	outer := len(s.members)
	s.copy(s.at + 1)
	for s.more('}') {
		m := member{start: len(s.out)}
		if err := s.string(); err != nil {
			return err
		}
		m.name = len(s.out)
		s.at, _ = skipColon(s.text, s.at)
		s.out = append(s.out, ':')
		if err := s.value(); err != nil {
			return err
		}
		m.end = len(s.out)
		s.members = append(s.members, m)
	}
	s.keepLast(s.members[outer:])
	s.members = s.members[:outer]
	return nil
}

// keepLast merges members with the same name as a Ruby Hash does: the last value, in the place of the
// first. It is called just after their object was closed.
func (s *speller) keepLast(members []member) {
	if len(members) < 2 {
		return
	}
	last := make(map[string]member, len(members))
	for _, m := range members {
		last[string(s.out[m.start:m.name])] = m
	}
	if len(last) == len(members) {
		return
	}
	from := members[0].start
	was := slices.Clone(s.out[from:])
	s.out = s.out[:from]
	for _, m := range members {
		name := string(was[m.start-from : m.name-from])
		if m, first := last[name]; first {
			s.out = append(append(s.out, was[m.start-from:m.end-from]...), ',')
			delete(last, name)
		}
	}
	s.out[len(s.out)-1] = '}' // in place of the last comma
}

func (s *speller) string() error {
	end, _ := skipString(s.text, s.at)
	literal := s.text[s.at:end]
	if !hasEscape(literal) {
		s.copy(end)
		return nil
	}
	s.at = end
	plain, err := jsontext.AppendUnquote(nil, literal)
	switch {
	case err != nil:
		return errHalfPair // the text has no other fault
	case s.goWrote && bytes.Count(plain, []byte("\ufffd")) > strings.Count(literal, "\ufffd"):
		return errNotUTF8
	}
	s.out = appendQuoted(s.out, plain)
	return nil
}

func (s *speller) number() error {
	end, _ := skipNumber(s.text, s.at)
	literal := s.text[s.at:end]
	s.at = end
	if isInteger(literal) {
		if literal == "-0" { // Ruby's Integer has no such zero
			literal = "0"
		}
		s.out = append(s.out, literal...)
		return nil
	}
	f, _ := strconv.ParseFloat(literal, 64) // a number that is too large is an infinity
	if math.IsInf(f, 0) {
		return fmt.Errorf("a number is larger than a float64 can hold (%.2g)", math.MaxFloat64)
	}
	s.out, _ = appendFloat(s.out, f, 64)
	return nil
}

// asJSON216 returns a payload in Belay's spelling with its floats as json 2.15 and newer write them. The two
// spellings differ only in floats that have an exponent here.
func asJSON216(text string) string {
	if !strings.Contains(text, "e-") && !strings.Contains(text, "e+") {
		return text
	}
	out, copied := make([]byte, 0, len(text)), 0
	for at := 0; at < len(text); {
		switch c := text[at]; {
		case c == '"':
			at, _ = skipString(text, at)
		case c == '-' || '0' <= c && c <= '9':
			end, _ := skipNumber(text, at)
			if strings.Contains(text[at:end], "e") {
				f, _ := strconv.ParseFloat(text[at:end], 64)
				out = appendFloat216(append(out, text[copied:at]...), f)
				copied = end
			}
			at = end
		default:
			at++
		}
	}
	return string(append(out, text[copied:]...))
}

// appendFloat216 writes a float that Float#to_s would write with an exponent: from 1e-9 on without one, else
// with no fraction ".0" and no zero before the exponent.
func appendFloat216(out []byte, f float64) []byte {
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
	power, _ := strconv.Atoi(exponent)
	if -10 < power && power < 0 {
		return strconv.AppendFloat(out, f, 'f', -1, 64)
	}
	out = append(append(out, mantissa...), 'e')
	if power > 0 {
		out = append(out, '+')
	}
	return strconv.AppendInt(out, int64(power), 10)
}

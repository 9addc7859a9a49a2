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
// jsontext decides which characters need an escape. Ruby's numbers, and its treatment of duplicate names, are
// written here.
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
	s := speller{text: text, out: out, goWrote: goWrote}
	end, err := s.document(0)
	if err != nil {
		return nil, err
	}
	return append(s.out, s.text[s.copied:end]...), nil
}

// SpellArgs returns args that are JSON as MarshalArgs would write them: text itself, if it is spelled so
// already. It refuses what MarshalArgs refuses, and what is not one array.
func SpellArgs(text string) (string, error) {
	if start := skipSpace(text, 0); start == len(text) || text[start] != '[' {
		return "", errors.New("not a JSON array")
	}
	s := speller{text: text}
	end, err := s.document(1)
	switch {
	case err == errNotJSON: //nolint:errorlint // our own, unwrapped
		return "", errors.New("not a JSON array")
	case err != nil:
		return "", err
	case s.copied == 0:
		return s.text[:end], nil
	}
	return string(append(s.out, s.text[s.copied:end]...)), nil
}

// A speller reads one JSON value and respells only what differs from Ruby's spelling: usually nothing does,
// and then nothing is copied.
type speller struct {
	text    string
	goWrote bool
	out     []byte
	copied  int      // what precedes this offset of text is in out; 0 if nothing was respelled
	names   []string // of the open objects, those of the innermost last
	twice   bool     // an object has two members of one name
}

// document reads all of the text, and returns where the value ends. depth counts the containers around it.
func (s *speller) document(depth int) (end int, err error) {
	begin := len(s.out)
	end, err = s.value(s.space(0), depth)
	if err == nil && skipSpace(s.text, end) != len(s.text) {
		err = errNotJSON
	}
	if err != nil || !s.twice {
		return end, err
	}
	merged, err := keepLast(jsontext.NewDecoder(strings.NewReader(s.text), jsontext.AllowDuplicateNames(true)))
	if err != nil {
		return 0, err // this cannot happen: the text was read before
	}
	s.text, s.out, s.copied, s.twice = string(merged), s.out[:begin], 0, false
	return s.document(depth)
}

// replace respells the text between two offsets.
func (s *speller) replace(start, end int, spelled []byte) {
	s.out = append(append(s.out, s.text[s.copied:start]...), spelled...)
	s.copied = end
}

// space removes white space, and returns where it ends.
func (s *speller) space(at int) int {
	end := skipSpace(s.text, at)
	if end > at {
		s.replace(at, end, nil)
	}
	return end
}

func (s *speller) value(at, depth int) (end int, err error) {
	if at == len(s.text) {
		return at, errNotJSON
	}
	switch c := s.text[at]; {
	case c == '{' || c == '[':
		if depth == MaxDepth {
			return at, errTooDeep
		}
		outer := len(s.names)
		end, err = s.container(at, depth)
		s.names = s.names[:outer]
		return end, err
	case c == '"':
		_, end, err = s.string(at)
		return end, err
	case c == '-' || '0' <= c && c <= '9':
		return s.number(at)
	}
	end, why := skipScalar(s.text, at)
	if why != sound {
		return at, errNotJSON
	}
	return end, nil
}

func (s *speller) container(at, depth int) (end int, err error) {
	object, closer := s.text[at] == '{', s.text[at]+2 // as ASCII has them
	outer, seen := len(s.names), map[string]bool(nil)
	if at = s.space(at + 1); at < len(s.text) && s.text[at] == closer {
		return at + 1, nil
	}
	for {
		if object {
			var name string
			if name, at, err = s.string(at); err != nil {
				return at, err
			}
			seen = s.note(name, s.names[outer:], seen)
			if at = s.space(at); at == len(s.text) || s.text[at] != ':' {
				return at, errNotJSON
			}
			at = s.space(at + 1)
		}
		if at, err = s.value(at, depth+1); err != nil {
			return at, err
		}
		at = s.space(at)
		switch {
		case at < len(s.text) && s.text[at] == closer:
			return at + 1, nil
		case at == len(s.text) || s.text[at] != ',':
			return at, errNotJSON
		}
		at = s.space(at + 1)
	}
}

// fewNames is how many names of an object are compared one by one. With more, a map is faster.
const fewNames = 16

// note records the name of a member, after those of the same object. seen has them too if they are many.
func (s *speller) note(name string, before []string, seen map[string]bool) map[string]bool {
	switch {
	case len(before) < fewNames:
		s.twice = s.twice || slices.Contains(before, name)
	case seen == nil:
		seen = make(map[string]bool)
		for _, earlier := range before {
			seen[earlier] = true
		}
		fallthrough
	default:
		s.twice = s.twice || seen[name]
		seen[name] = true
	}
	if s.names == nil {
		s.names = make([]string, 0, fewNames)
	}
	s.names = append(s.names, name)
	return seen
}

// string reads a string, and returns its characters.
func (s *speller) string(at int) (characters string, end int, err error) {
	end, why := skipString(s.text, at)
	switch {
	case why == badUTF8:
		return "", end, errNotUTF8
	case why != sound:
		return "", end, errNotJSON
	}
	literal := s.text[at:end]
	if !hasEscape(literal) {
		return literal[1 : len(literal)-1], end, nil
	}
	plain, err := jsontext.AppendUnquote(nil, literal)
	switch {
	case err != nil:
		return "", end, errHalfPair // the string has no other fault
	case s.goWrote && bytes.Count(plain, []byte("\ufffd")) > strings.Count(literal, "\ufffd"):
		return "", end, errNotUTF8
	}
	if spelled := appendQuoted(make([]byte, 0, len(literal)), plain); string(spelled) != literal {
		s.replace(at, end, spelled)
	}
	return string(plain), end, nil
}

func (s *speller) number(at int) (end int, err error) {
	end, why := skipNumber(s.text, at)
	if why != sound {
		return at, errNotJSON
	}
	var spelled [32]byte // more than a float has; a longer integer stays as it is
	literal := s.text[at:end]
	if isInteger(literal) && literal != "-0" {
		return end, nil
	}
	number, err := appendNumber(spelled[:0], literal)
	if err == nil && string(number) != literal {
		s.replace(at, end, number)
	}
	return end, err
}

// keepLast reads the next value and returns it with the members of one name merged as a Ruby Hash merges
// them: the last value, in the place of the first.
func keepLast(dec *jsontext.Decoder) ([]byte, error) {
	opener := dec.PeekKind()
	if opener != '{' && opener != '[' {
		value, err := dec.ReadValue()
		return value.Clone(), err
	}
	_, _ = dec.ReadToken()
	parts, places := [][]byte{}, map[string]int{} // the elements or members; the place of each name in them
	for dec.PeekKind() != opener+2 {              // as ASCII has the closers
		place, part := len(parts), []byte(nil)
		if opener == '{' {
			token, err := dec.ReadToken()
			if err != nil {
				return nil, err
			}
			name := token.String()
			if first, twice := places[name]; twice {
				place = first
			}
			places[name] = place
			part = append(appendQuoted(nil, name), ':')
		}
		value, err := keepLast(dec)
		if err != nil {
			return nil, err
		}
		if place == len(parts) {
			parts = append(parts, nil)
		}
		parts[place] = append(part, value...)
	}
	_, err := dec.ReadToken()
	return slices.Concat([]byte{byte(opener)}, bytes.Join(parts, []byte{','}), []byte{byte(opener) + 2}), err
}

// appendNumbers writes valid JSON without changes, but for its numbers, which write spells.
func appendNumbers(out []byte, text string, write func(out []byte, literal string) ([]byte, error)) ([]byte, error) {
	copied := 0
	for at := 0; at < len(text); {
		switch c := text[at]; {
		case c == '"':
			at, _ = skipString(text, at)
		case c == '-' || '0' <= c && c <= '9':
			end, _ := skipNumber(text, at)
			var err error
			if out, err = write(append(out, text[copied:at]...), text[at:end]); err != nil {
				return nil, err
			}
			at, copied = end, end
		default:
			at++
		}
	}
	return append(out, text[copied:]...), nil
}

// appendNumber writes a number as Ruby does: an integer with all its digits, any other number as the nearest
// float64.
func appendNumber(out []byte, literal string) ([]byte, error) {
	switch {
	case literal == "-0": // Ruby's Integer has no such zero
		return append(out, '0'), nil
	case isInteger(literal):
		return append(out, literal...), nil
	}
	f, _ := strconv.ParseFloat(literal, 64) // a number that is too large is an infinity
	if math.IsInf(f, 0) {
		return nil, fmt.Errorf("a number is larger than a float64 can hold (%.2g)", math.MaxFloat64)
	}
	return appendFloat(out, f, 64)
}

// Spelled returns a payload in Belay's spelling with its floats as a Sidekiq of this unit writes them: see
// Draft.Unit.
func Spelled(payload string, unit TimeUnit) string {
	if unit != Millis {
		return payload
	}
	return string(asJSON216([]byte(payload)))
}

// asJSON216 returns a payload in Belay's spelling with its floats as json 2.15 and newer write them. The two
// spellings differ only in floats that have an exponent here.
func asJSON216(text []byte) []byte {
	if !bytes.Contains(text, []byte("e-")) && !bytes.Contains(text, []byte("e+")) {
		return text
	}
	out, _ := appendNumbers(make([]byte, 0, len(text)), string(text), appendNumber216) // which returns no error
	return out
}

// appendNumber216 changes only floats that Float#to_s writes with an exponent: from 1e-9 on they have none,
// else no fraction ".0" and no zero before the exponent.
func appendNumber216(out []byte, literal string) ([]byte, error) {
	if !strings.Contains(literal, "e") {
		return append(out, literal...), nil
	}
	f, _ := strconv.ParseFloat(literal, 64)
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
	power, _ := strconv.Atoi(exponent)
	if -10 < power && power < 0 {
		return strconv.AppendFloat(out, f, 'f', -1, 64), nil
	}
	out = append(append(out, mantissa...), 'e')
	if power > 0 {
		out = append(out, '+')
	}
	return strconv.AppendInt(out, int64(power), 10), nil
}

func quote(s string) string { return string(appendQuoted(make([]byte, 0, len(s)+2), s)) }

// appendQuoted writes s as Ruby writes a string: it escapes only quotes, backslashes and control characters. A
// byte that is not UTF-8 becomes U+FFFD.
func appendQuoted[T string | []byte](out []byte, s T) []byte {
	out, _ = jsontext.AppendQuote(out, s) // its error reports such a byte
	return out
}

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
// jsontext removes white space and needless escapes. Ruby's numbers, and its treatment of duplicate names, are
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
	if AsWritten(text) { // a slice of strings or integers; all that follows would cost more than encoding/json
		return append(out, text...), nil
	}
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
	plain, err := jsontext.AppendFormat(nil, text)
	if errors.Is(err, jsontext.ErrDuplicateName) {
		dec := jsontext.NewDecoder(strings.NewReader(text), jsontext.AllowDuplicateNames(true))
		if plain, err = keepLast(dec); err == nil {
			plain, err = jsontext.AppendFormat(nil, plain)
		}
	}
	switch {
	case err != nil:
		return nil, errHalfPair // the text has no other fault
	case goWrote && bytes.Count(plain, []byte("\ufffd")) > strings.Count(text, "\ufffd"):
		return nil, errNotUTF8
	}
	return appendNumbers(out, string(plain), appendNumber)
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

// asJSON216 returns a payload in Belay's spelling with its floats as json 2.15 and newer write them. The two
// spellings differ only in floats that have an exponent here.
func asJSON216(text string) string {
	if !strings.Contains(text, "e-") && !strings.Contains(text, "e+") {
		return text
	}
	out, _ := appendNumbers(make([]byte, 0, len(text)), text, appendNumber216) // which returns no error
	return string(out)
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

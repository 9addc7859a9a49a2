package dedup

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belayq/belay/job"
)

// A canonical reads JSON and writes its form (see Digest).
//
// The members of an object are sorted after they are written, and a nested object would be moved once for
// each object around it: a payload of many braces could cost a second. So an object is replaced by its hash
// when it closes, and every byte is hashed once.
type canonical struct {
	args    bytes.Buffer
	text    *jsontext.Decoder // of args
	out     []byte
	members []member // of the open objects, those of the innermost last
	decoded []byte   // the string or the digits being read
	number  []byte   // the form of the number being read
}

// A member has the offsets in out of one member's form: text(name) starts at start, the name at name, the value
// at value; the value ends at end.
type member struct{ start, name, value, end int }

// document writes the form of all of the text, which must be one value.
func (c *canonical) document() error {
	c.members = c.members[:0] // an error may have left some
	if err := c.value(); err != nil {
		return err
	}
	if _, err := c.text.ReadToken(); !errors.Is(err, io.EOF) {
		return errNotJSON
	}
	return nil
}

// errNotJSON replaces the errors of jsontext, which quote the arguments.
var errNotJSON = errors.New("the arguments are not JSON")

// value writes the form of the next value.
func (c *canonical) value() error {
	switch c.text.PeekKind() {
	case '{':
		return c.within(c.object)
	case '[':
		return c.within(c.array)
	}
	literal, err := c.text.ReadValue()
	if err != nil {
		return errNotJSON
	}
	switch kind := literal.Kind(); kind {
	case '"':
		c.out = appendText(append(c.out, 's'), c.string(literal))
	case '0':
		number, err := c.decimal(literal)
		c.out = appendText(append(c.out, 'd'), number)
		return err
	default:
		c.out = append(c.out, byte(kind)) // null, true or false
	}
	return nil
}

// within reads the brackets of a container, and its content with read.
func (c *canonical) within(read func() error) error {
	if c.text.StackDepth() == job.MaxDepth-1 { // the payload's own object is around it
		return fmt.Errorf("the arguments are nested deeper than %d", job.MaxDepth)
	}
	if _, err := c.text.ReadToken(); err != nil {
		return errNotJSON
	}
	if err := read(); err != nil {
		return err
	}
	if _, err := c.text.ReadToken(); err != nil {
		return errNotJSON
	}
	return nil
}

func (c *canonical) array() error {
	c.out = append(c.out, '[')
	for c.text.PeekKind() != ']' {
		if err := c.value(); err != nil {
			return err
		}
	}
	c.out = append(c.out, ']')
	return nil
}

func (c *canonical) object() error {
	start, outer := len(c.out), len(c.members)
	for c.text.PeekKind() != '}' {
		m := member{start: len(c.out)}
		literal, err := c.text.ReadValue()
		if err != nil {
			return errNotJSON
		}
		name := c.string(literal)
		c.out = appendText(c.out, name)
		m.value = len(c.out)
		m.name = m.value - len(name)
		if err := c.value(); err != nil {
			return err
		}
		m.end = len(c.out)
		c.members = append(c.members, m)
	}
	sum := c.sum(c.members[outer:])
	c.members = c.members[:outer]
	c.out = append(append(c.out[:start], '{'), sum[:]...)
	return nil
}

// sum hashes the members, sorted by name. Of members with equal names it takes the last.
func (c *canonical) sum(members []member) (sum [sha256.Size]byte) {
	name := func(m member) []byte { return c.out[m.name:m.value] }
	slices.SortFunc(members, func(a, b member) int {
		return cmp.Or(bytes.Compare(name(a), name(b)), cmp.Compare(a.start, b.start))
	})
	hash := sha256.New()
	for i, m := range members {
		if i+1 == len(members) || !bytes.Equal(name(m), name(members[i+1])) {
			_, _ = hash.Write(c.out[m.start:m.end]) // it never fails
		}
	}
	hash.Sum(sum[:0])
	return sum
}

// string decodes a string. The result is valid until the next call.
func (c *canonical) string(literal jsontext.Value) []byte {
	var err error
	if c.decoded, err = jsontext.AppendUnquote(c.decoded[:0], literal); err != nil { // it has half a surrogate pair
		c.decoded = escape.ReplaceAllFunc(literal[1:len(literal)-1], unescape)
	}
	return c.decoded
}

var escape = regexp.MustCompile(`\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.`)

// unescape decodes one escape. Half a surrogate pair keeps its number, or all halves would be equal, and equal
// to U+FFFD.
func unescape(escape []byte) []byte {
	text, err := jsontext.AppendUnquote(nil, `"`+string(escape)+`"`)
	if err == nil {
		return text
	}
	r, _ := strconv.ParseUint(string(escape[len(`\u`):]), 16, 16)
	return []byte{0xe0 | byte(r>>12), 0x80 | byte(r>>6)&0x3f, 0x80 | byte(r)&0x3f}
}

// decimal returns the one form of a number: its digits without zeros at either end, and the power of ten of
// the last digit. The result is valid until the next call. It works on the digits: in a float64, 2^53 and
// 2^53+1 are equal, and a big number would write all digits of 1e400.
func (c *canonical) decimal(literal []byte) ([]byte, error) {
	unsigned, negative := bytes.CutPrefix(literal, []byte("-"))
	mantissa, exponent := unsigned, []byte(nil)
	if e := bytes.IndexAny(unsigned, "eE"); e >= 0 {
		mantissa, exponent = unsigned[:e], unsigned[e+1:]
	}
	whole, fraction, _ := bytes.Cut(mantissa, []byte("."))
	c.decoded = append(append(c.decoded[:0], whole...), fraction...)
	digits := c.decoded
	significant := bytes.TrimRight(digits, "0")
	power := len(digits) - len(significant) - len(fraction)
	significant = bytes.TrimLeft(significant, "0")
	if len(significant) == 0 {
		return []byte("0"), nil
	}
	if len(exponent) > 0 {
		// An exponent beyond int64 becomes the nearest int64, which is out of bounds, too.
		raised, _ := strconv.ParseInt(string(exponent), 10, 64)
		power += int(min(max(raised, -2*maxExponent), 2*maxExponent)) // 2 MiB of digits cannot offset that
	}
	if power > maxExponent || power < -maxExponent {
		return nil, fmt.Errorf("the arguments hold a number with a power of ten beyond ±%d", maxExponent)
	}
	c.number = c.number[:0]
	if negative {
		c.number = append(c.number, '-')
	}
	c.number = strconv.AppendInt(append(append(c.number, significant...), 'e'), int64(power), 10)
	return c.number, nil
}

package dedup

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belayq/belay/job"
)

// A canonical reads valid JSON and writes its form (see Digest).
//
// The members of an object are sorted after they are written, and a nested object would be moved once for
// each object around it: a payload of many braces could cost a second. So an object is replaced by its hash
// when it closes, and every byte is hashed once.
type canonical struct {
	text    []byte
	at      int
	out     []byte
	members []member // of the open objects, those of the innermost last
	decoded []byte   // the string being read
}

// A member has the offsets in out of one member's form: text(name) starts at start, the name at name, the value
// at value; the value ends at end.
type member struct{ start, name, value, end int }

// value writes the form of the next value. depth is the number of containers around it.
func (c *canonical) value(depth int) error {
	c.space()
	switch first := c.text[c.at]; first {
	case '{', '[':
		if depth == job.MaxDepth {
			return fmt.Errorf("the arguments are nested deeper than %d", job.MaxDepth)
		}
		if first == '{' {
			return c.object(depth + 1)
		}
		return c.array(depth + 1)
	case '"':
		c.out = appendText(append(c.out, 's'), c.string())
	case 'n', 't':
		c.word(first, len("null")) // and true
	case 'f':
		c.word(first, len("false"))
	default:
		return c.number()
	}
	return nil
}

func (c *canonical) word(first byte, length int) {
	c.out = append(c.out, first)
	c.at += length
}

// space skips white space, commas and colons: the text is valid, so they are in the right places.
func (c *canonical) space() {
	for c.at < len(c.text) && bytes.IndexByte([]byte(" \t\r\n,:"), c.text[c.at]) >= 0 {
		c.at++
	}
}

// closes skips the end of a container and reports whether there was one.
func (c *canonical) closes(closer byte) bool {
	c.space()
	if c.text[c.at] != closer {
		return false
	}
	c.at++
	return true
}

func (c *canonical) array(depth int) error {
	c.at++
	c.out = append(c.out, '[')
	for !c.closes(']') {
		if err := c.value(depth); err != nil {
			return err
		}
	}
	c.out = append(c.out, ']')
	return nil
}

func (c *canonical) object(depth int) error {
	c.at++
	start, outer := len(c.out), len(c.members)
	for !c.closes('}') {
		m := member{start: len(c.out)}
		name := c.string()
		c.out = appendText(c.out, name)
		m.value = len(c.out)
		m.name = m.value - len(name)
		if err := c.value(depth); err != nil {
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

// string decodes the next string. The result is valid until the next call.
func (c *canonical) string() []byte {
	start := c.at
	for c.at++; c.text[c.at] != '"'; c.at++ {
		if c.text[c.at] == '\\' {
			c.at++
		}
	}
	c.at++
	literal := c.text[start:c.at]
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

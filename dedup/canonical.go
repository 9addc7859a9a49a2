package dedup

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

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
	c.at++
	c.decoded = c.decoded[:0]
	for {
		plain := c.at
		for c.text[c.at] != '"' && c.text[c.at] != '\\' {
			c.at++
		}
		c.decoded = append(c.decoded, c.text[plain:c.at]...)
		c.at++
		if c.text[c.at-1] == '"' {
			return c.decoded
		}
		c.escape()
	}
}

// escape decodes what follows a backslash.
func (c *canonical) escape() {
	letter := c.text[c.at]
	c.at++
	switch letter {
	case 'u':
		c.decoded = appendRune(c.decoded, c.escapedRune())
	case 'b':
		c.decoded = append(c.decoded, '\b')
	case 'f':
		c.decoded = append(c.decoded, '\f')
	case 'n':
		c.decoded = append(c.decoded, '\n')
	case 'r':
		c.decoded = append(c.decoded, '\r')
	case 't':
		c.decoded = append(c.decoded, '\t')
	default: // a quote, a backslash or a slash
		c.decoded = append(c.decoded, letter)
	}
}

// escapedRune reads the four digits after \u, and a second escape if it is the other half of a surrogate
// pair. It returns half a pair as it is.
func (c *canonical) escapedRune() rune {
	r := hex4(c.text[c.at:])
	c.at += 4
	if utf16.IsSurrogate(r) && bytes.HasPrefix(c.text[c.at:], []byte(`\u`)) {
		if whole := utf16.DecodeRune(r, hex4(c.text[c.at+2:])); whole != utf8.RuneError {
			c.at += len(`\uXXXX`)
			return whole
		}
	}
	return r
}

func hex4(digits []byte) rune {
	n, _ := strconv.ParseUint(string(digits[:4]), 16, 16) // valid JSON has four digits here
	return rune(n)
}

// appendRune writes a character in UTF-8. utf8.AppendRune would turn half a surrogate pair into U+FFFD, so
// that all halves were equal, and equal to a real U+FFFD.
func appendRune(out []byte, r rune) []byte {
	if utf16.IsSurrogate(r) {
		return append(out, 0xe0|byte(r>>12), 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f)
	}
	return utf8.AppendRune(out, r)
}

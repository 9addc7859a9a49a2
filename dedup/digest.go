package dedup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/belayq/belay/job"
)

const (
	// form names what is hashed and its version. A change of the form is a change of the name, so that no
	// digest of the one is ever taken for one of the other.
	form = "belay unique v1"
	// digestBytes is how much of the SHA-256 is kept: 128 bits. With a million million locks at a time, one
	// pair in all of them would collide by chance less than once in 10^14 times. The whole would cost every
	// payload and every lock 32 bytes more.
	digestBytes = 16
	// maxExponent bounds the power of ten of a number's last digit. No value that a program works with comes
	// near, and Ruby's decimals can still hold it.
	maxExponent = 999_999_999
)

// Digest returns what two jobs have in common that count as the same: 32 lower-case hexadecimal digits,
// computed from the class, the queue ("" where the queue does not count) and args, any one JSON value.
//
// Two values are the same when they differ only in how they are spelled: the space between tokens, the order
// of an object's members, the escapes of a string, the digits of a number (1, 1.0, 10e-1; -0 is 0). Of
// duplicate names the last counts, as it does for every reader. Everything else tells values apart: "1" and
// 1, null and a member that is missing, integers beyond 2^53, and é as one character or as two, because
// nothing is normalised.
//
// An error says why args have no digest: they are not one JSON value in valid UTF-8, are longer than
// job.MaxPayloadLimit, nest deeper than a payload may, or hold a number whose last digit stands beyond the
// power of ten of ±999,999,999. It quotes nothing of them, which may be secret.
//
// # The form
//
// The digest is the first 16 bytes, in hexadecimal, of the SHA-256 of
//
//	text("belay unique v1")  text(class)  text(queue)  value(args)
//
// where text(s) is the number of bytes of s in decimal, a colon, and the bytes themselves, and value(v) is
//
//	null, true, false   n, t, f
//	a string            s text(its characters in UTF-8)
//	a number            d text(number)
//	an array            [ then the value of each element, in order, then ]
//	an object           { then the 32 bytes of the SHA-256 of: text(name) value(member) for each member, sorted by the
//	                    bytes of the name
//
// without the spaces shown here. A number is "0", or an optional minus, its digits from the first that is not
// 0 to the last that is not 0, "e", and the power of ten of the last of these digits in decimal: 1200 is
// 12e2, -0.50 is -5e-1, 1 is 1e0. A \u escape that is half a surrogate pair and has no other half stands for
// the three bytes that UTF-8 would have for it (ED A0 80 to ED BF BF), which no valid text contains, so that
// it equals nothing but itself.
//
// The JSON value ["x",{"b":1,"a":null}] is thus [s1:x{ and the SHA-256 of 1:an1:bd3:1e0, and then ].
// testdata/vectors.json has digests to test an implementation with, and testdata/digest.rb is one in Ruby.
func Digest(class, queue string, args []byte) (string, error) {
	switch {
	case len(args) > job.MaxPayloadLimit:
		return "", fmt.Errorf("the arguments are longer than %d bytes", job.MaxPayloadLimit)
	case !utf8.Valid(args):
		return "", errors.New("the arguments are not valid UTF-8")
	case !json.Valid(args):
		return "", errors.New("the arguments are not JSON")
	}
	c := canonical{text: args, out: make([]byte, 0, len(form)+len(class)+len(queue)+2*len(args)+32)}
	c.out = appendText(appendText(appendText(c.out, form), class), queue)
	if err := c.value(1); err != nil { // the payload's own object is around it
		return "", err
	}
	sum := sha256.Sum256(c.out)
	return hex.EncodeToString(sum[:digestBytes]), nil
}

// appendText writes a length before the bytes: whatever they are, what follows cannot be mistaken for a part
// of them.
func appendText[T string | []byte](out []byte, s T) []byte {
	out = append(strconv.AppendInt(out, int64(len(s)), 10), ':')
	return append(out, s...)
}

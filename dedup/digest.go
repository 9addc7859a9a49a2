package dedup

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belayq/belay/job"
)

const (
	// form is the name of the hashed form and its version. A new form needs a new name, so that digests of
	// different forms never match.
	form = "belay unique v1"
	// digestBytes is the length of a digest: 128 bits of the SHA-256. Among a million million locks the
	// chance of any collision is below 1 in 10^14. The whole hash would make each payload and each lock 32
	// bytes longer.
	digestBytes = 16
	// maxExponent bounds the power of ten of a number's last digit. Real values are far below, and Ruby's
	// decimals can still hold it.
	maxExponent = 999_999_999
)

// Digest returns the digest of a job: 32 lower-case hexadecimal digits, computed from the class, the queue
// ("" if the queue does not count) and args, any JSON value. Jobs with equal digests are duplicates.
//
// Two values are equal if they differ only in spelling: white space between tokens, the order of an object's
// members, the escapes of a string, the digits of a number (1, 1.0, 10e-1; -0 is 0). Of members with the same
// name the last counts, as in most JSON readers. Everything else is different: "1" and 1, null and a missing
// member, integers beyond 2^53, and é as one character or as two, because nothing is normalised.
//
// Digest returns an error if args are not one JSON value in valid UTF-8, are longer than job.MaxPayloadLimit,
// nest deeper than a payload may, or contain a number whose last digit has a power of ten beyond
// ±999,999,999. The error does not quote args, which may be secret.
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
// 12e2, -0.50 is -5e-1, 1 is 1e0. A \u escape that is half a surrogate pair, without the other half, becomes
// the three bytes that UTF-8 would have for it (ED A0 80 to ED BF BF). No valid text contains them, so it
// equals only itself.
//
// The JSON value ["x",{"b":1,"a":null}] thus becomes [s1:x{, the SHA-256 of 1:an1:bd3:1e0, and ].
// testdata/vectors.json has digests to test an implementation with; contrib/ruby/belay.rb has one in Ruby.
func Digest(class, queue string, args []byte) (string, error) {
	return digest(class, queue, string(args))
}

func digest(class, queue, args string) (string, error) {
	switch {
	case len(args) > job.MaxPayloadLimit:
		return "", fmt.Errorf("the arguments are longer than %d bytes", job.MaxPayloadLimit)
	case !utf8.ValidString(args):
		return "", errors.New("the arguments are not valid UTF-8")
	}
	c, _ := canonicals.Get().(*canonical)
	if len(args) <= maxReused {
		defer canonicals.Put(c)
	}
	c.args.Reset()
	c.args.WriteString(args)
	// Half a surrogate pair and duplicate names are valid.
	c.text.Reset(&c.args, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	c.out = appendText(appendText(appendText(c.out[:0], form), class), queue)
	if err := c.document(); err != nil {
		return "", err
	}
	return digestOf(c.out), nil
}

// digestOf returns the digest of a form.
func digestOf(form []byte) string {
	sum := sha256.Sum256(form)
	var digits [2 * digestBytes]byte
	hex.Encode(digits[:], sum[:digestBytes])
	return string(digits[:])
}

// canonicals are reused, because a decoder and its buffers cost more than the hash of usual arguments. After
// longer ones than maxReused they are dropped.
var canonicals = sync.Pool{New: func() any { return &canonical{text: new(jsontext.Decoder)} }}

const maxReused = 16 << 10

// appendText writes the length before the bytes, so that the text that follows cannot be mistaken for a part
// of them.
func appendText[T string | []byte](out []byte, s T) []byte {
	out = append(strconv.AppendInt(out, int64(len(s)), 10), ':')
	return append(out, s...)
}

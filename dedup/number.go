package dedup

import (
	"bytes"
	"fmt"
	"strconv"
)

// number writes the form of the next number in the text. It works on the digits: in a float64, 2^53 and 2^53+1
// are equal, and a big number would write all digits of 1e400.
func (c *canonical) number() error {
	start := c.at
	for c.at < len(c.text) && bytes.IndexByte([]byte("+-.0123456789eE"), c.text[c.at]) >= 0 {
		c.at++
	}
	number, err := decimal(c.text[start:c.at])
	c.out = appendText(append(c.out, 'd'), number)
	return err
}

// decimal returns the one form of a number: its digits without zeros at either end, and the power of ten of the
// last digit.
func decimal(literal []byte) ([]byte, error) {
	unsigned, negative := bytes.CutPrefix(literal, []byte("-"))
	mantissa, exponent := unsigned, []byte(nil)
	if e := bytes.IndexAny(unsigned, "eE"); e >= 0 {
		mantissa, exponent = unsigned[:e], unsigned[e+1:]
	}
	whole, fraction, _ := bytes.Cut(mantissa, []byte("."))
	digits := append(append(make([]byte, 0, len(literal)+16), whole...), fraction...)
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
	out := make([]byte, 0, len(significant)+16)
	if negative {
		out = append(out, '-')
	}
	return strconv.AppendInt(append(append(out, significant...), 'e'), int64(power), 10), nil
}

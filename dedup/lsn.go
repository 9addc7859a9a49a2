package dedup

import (
	"fmt"
	"strconv"
	"strings"
)

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

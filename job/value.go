package job

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
)

// The functions in this file read one JSON value that the scanner has validated. "" is an absent value.

func isAbsent(text string) bool { return text == "" || text == "null" }

func isString(text string) bool { return text != "" && text[0] == '"' }

func isNumber(text string) bool {
	return text != "" && (text[0] == '-' || '0' <= text[0] && text[0] <= '9')
}

// isInteger checks the literal, as Ruby does: 5.0 and 5e0 are not integers.
func isInteger(text string) bool {
	for i := range len(text) { // no library call: each run of a job reads such literals
		if c := text[i]; c == '.' || c == 'e' || c == 'E' {
			return false
		}
	}
	return isNumber(text)
}

// integer reads an integer literal. A number beyond an int becomes the nearest int.
func integer(text string) (n int, ok bool) {
	if !isInteger(text) {
		return 0, false
	}
	// On a range error ParseInt returns the nearest int, as this function promises.
	wide, _ := strconv.ParseInt(text, 10, strconv.IntSize)
	return int(wide), true
}

func hasEscape(text string) bool { return strings.IndexByte(text, '\\') >= 0 }

// unquote decodes a string literal. Without escapes, the usual case, it copies nothing.
func unquote(text string) string {
	inner := text[1 : len(text)-1]
	if !hasEscape(inner) {
		return inner
	}
	var s string
	// It cannot fail: the scanner has accepted the text, and it has the same grammar as encoding/json.
	_ = json.Unmarshal([]byte(text), &s)
	return s
}

// str decodes a string value; anything else is "".
func str(text string) string {
	if !isString(text) {
		return ""
	}
	return unquote(text)
}

// latestSecond bounds the instants that can be shown. It is far beyond milliseconds read as seconds, which
// Ruby shows as a year around 58,000, and a time.Time can hold it.
const latestSecond = 1e15

// instant reads a payload timestamp by Ruby's rule, which depends on the literal: with a fraction or an
// exponent it is seconds, otherwise milliseconds. An integer that Ruby 8 would read as a day in January
// 1970 is read as the seconds that its producer meant (see millisFrom).
func instant(text string) (time.Time, bool) {
	switch {
	case !isNumber(text):
		return time.Time{}, false
	case isInteger(text):
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n > latestSecond || n < -latestSecond {
			return time.Time{}, false
		}
		if n < millisFrom {
			return time.Unix(n, 0), true
		}
		return time.UnixMilli(n), true
	}
	if at, ok := decimal(text); ok {
		return at, true
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || math.Abs(seconds) > latestSecond {
		return time.Time{}, false
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(part*1e9)), true
}

// decimal reads a time in seconds as programs write it: digits, a point and at most nine digits. It is exact,
// where a float64 is not.
func decimal(text string) (time.Time, bool) {
	whole, part, _ := strings.Cut(text, ".")
	seconds, err := strconv.ParseUint(whole, 10, 36)
	nanoseconds, bad := strconv.ParseUint(part, 10, 32)
	if err != nil || bad != nil || len(part) > 9 {
		return time.Time{}, false
	}
	for range 9 - len(part) {
		nanoseconds *= 10
	}
	return time.Unix(int64(seconds), int64(nanoseconds)), true
}

// millisFrom is the least integer that is read as milliseconds: as milliseconds it is March 1973, as
// seconds the year 5138.
const millisFrom = 1e11

// seconds reads a number of seconds, limited to what a Duration can hold.
func seconds(text string) (time.Duration, bool) {
	if !isNumber(text) {
		return 0, false
	}
	// On a range error ParseFloat returns an infinity, which is limited like any large number.
	s, _ := strconv.ParseFloat(text, 64)
	switch limit := float64(math.MaxInt64 / int64(time.Second)); {
	case s >= limit:
		return math.MaxInt64, true
	case s <= -limit:
		return math.MinInt64, true
	}
	return time.Duration(s * float64(time.Second)), true
}

// A TimeUnit is the unit of a payload's timestamps. Readers recognise it by the literal (see
// Job.CreatedAt), so one payload may contain both.
type TimeUnit int

const (
	// Seconds since 1970 as a float: what Ruby Sidekiq wrote up to 7.3, and what every version reads.
	Seconds TimeUnit = iota
	// Millis since 1970 as an integer: what it has written since 8.0. Older versions read them as the year
	// 58,000.
	Millis
)

// Stamp writes an instant as JSON: milliseconds as an integer, or seconds with a fraction, even if it is
// zero, and never with an exponent. Ruby 8 reads a number without a dot as milliseconds, so "1700000000"
// would be a day in 1970, and a job with retry_for would be past its limit.
func Stamp(t time.Time, u TimeUnit) string {
	var room [24]byte // so that only the result is allocated
	return string(appendStamp(room[:0], t, u))
}

func appendStamp(out []byte, t time.Time, u TimeUnit) []byte {
	if u == Millis {
		return strconv.AppendInt(out, t.UnixMilli(), 10)
	}
	// A float64 holds an instant of this century to a quarter of a microsecond; Ruby's own have that
	// precision.
	start := len(out)
	out = strconv.AppendFloat(out, float64(t.Unix())+float64(t.Nanosecond())/1e9, 'f', -1, 64)
	if bytes.IndexByte(out[start:], '.') < 0 {
		out = append(out, ".0"...)
	}
	return out
}

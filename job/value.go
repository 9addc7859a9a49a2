package job

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
)

// The functions here read one JSON value whose text the scanner has already found sound. "" is an absent value.

func isAbsent(text string) bool { return text == "" || text == "null" }

func isString(text string) bool { return text != "" && text[0] == '"' }

func isNumber(text string) bool {
	return text != "" && (text[0] == '-' || '0' <= text[0] && text[0] <= '9')
}

// isInteger goes by the literal, as Ruby does: 5.0 and 5e0 are no integers.
func isInteger(text string) bool { return isNumber(text) && !strings.ContainsAny(text, ".eE") }

// integer reads an integer literal; one too large for an int becomes the largest (or smallest) int.
func integer(text string) (n int, ok bool) {
	if !isInteger(text) {
		return 0, false
	}
	// On a range error ParseInt answers the nearest int, which is what is wanted.
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
	// It cannot fail: the scanner has accepted the text, and its grammar is encoding/json's.
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

// latestSecond bounds the instants we can show. It lies far beyond milliseconds mistaken for seconds, which Ruby
// shows as a year around 58,000, and well within what time.Time can hold.
const latestSecond = 1e15

// instant reads a payload timestamp by Ruby's rule, which goes by the literal: one with a fraction or an exponent is
// seconds, any other is milliseconds. Where Ruby 8 would then read an integer as a day in January 1970, we take it for
// the seconds its producer meant (see millisFrom).
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
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || math.Abs(seconds) > latestSecond {
		return time.Time{}, false
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(part*1e9)), true
}

// millisFrom is the least integer taken for milliseconds: as such it is March 1973, before Unix had a queue to speak
// of, and as seconds it is the year 5138.
const millisFrom = 1e11

// seconds reads a number of seconds as a duration, cut to what a Duration holds.
func seconds(text string) (time.Duration, bool) {
	if !isNumber(text) {
		return 0, false
	}
	// On a range error ParseFloat answers an infinity, which is cut like any other.
	s, _ := strconv.ParseFloat(text, 64)
	switch limit := float64(math.MaxInt64 / int64(time.Second)); {
	case s >= limit:
		return math.MaxInt64, true
	case s <= -limit:
		return math.MinInt64, true
	}
	return time.Duration(s * float64(time.Second)), true
}

// A TimeUnit is how the payload's timestamps are written. Readers go by the literal (see Job.CreatedAt), so both may
// stand in one payload.
type TimeUnit int

const (
	// Seconds since 1970 as a float: what Ruby Sidekiq wrote up to 7.3, and what every version reads.
	Seconds TimeUnit = iota
	// Millis since 1970 as an integer: what it has written since 8.0. Older ones take them for the year 58,000.
	Millis
)

// Stamp writes an instant as JSON: milliseconds as an integer, or seconds with a fraction even when it is zero, never
// with an exponent. Ruby 8 takes a number without a dot for milliseconds, so "1700000000" would be a day in 1970 and
// a job with retry_for would die of old age.
func Stamp(t time.Time, u TimeUnit) string {
	if u == Millis {
		return strconv.FormatInt(t.UnixMilli(), 10)
	}
	// A float64 holds an instant of this century to a quarter of a microsecond; Ruby's own have that precision.
	seconds := float64(t.Unix()) + float64(t.Nanosecond())/1e9
	text := strconv.FormatFloat(seconds, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

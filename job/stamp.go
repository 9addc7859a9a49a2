package job

import (
	"strconv"
	"strings"
	"time"
)

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

package job

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// UnreadableClass is the class of a job that keeps the text of another that could not be read, so that web
// pages and commands can show it. No worker runs it: it returns to the dead set unchanged.
const UnreadableClass = "Belay::Unreadable"

// TooLargeClass is the error_class of a job that was moved to the dead set because of its size.
const TooLargeClass = "Belay::TooLarge"

const (
	// fieldRaw holds the text as a JSON string; fieldRawBase64 holds a text that is not valid UTF-8,
	// because no JSON string can, or that has tags, because Sidekiq 6 does not escape this field in its page.
	fieldRaw       = "belay_raw"
	fieldRawBase64 = "belay_raw_base64"
)

// KeepUnreadable wraps a text that Parse refuses for the dead set: it returns a valid job of
// UnreadableClass with the reason, and the text in belay_raw (or, if it is not valid UTF-8 or contains <,
// in Base64 in belay_raw_base64). queue is where it was taken from, empty if it was in no queue. A text that
// is already such a job is returned unchanged.
//
// Its "retry" is 0: a Ruby worker does not have the class, so the job returns to the dead set at once.
func KeepUnreadable(raw, queue string, why error, now time.Time, u TimeUnit) string {
	if parsed, err := Parse(raw); err == nil && parsed.Class() == UnreadableClass {
		return raw
	}
	field := SetString(fieldRaw, raw)
	if !utf8.ValidString(raw) || strings.Contains(raw, "<") {
		field = SetString(fieldRawBase64, base64.StdEncoding.EncodeToString([]byte(raw)))
	}
	return "{" + AroundUnreadable(queue) + "," + reason(UnreadableClass, why.Error(), now, u) + "," + written(field) + "}"
}

// TooLargeReason returns the JSON members, without braces, that record that a payload of this many bytes
// was above limit.
func TooLargeReason(bytes, limit int, now time.Time, u TimeUnit) string {
	return reason(TooLargeClass, TooLargeMessage(bytes, limit), now, u)
}

// TooLargeMessage returns the error_message of a payload of this many bytes that was above limit.
func TooLargeMessage(bytes, limit int) string {
	return fmt.Sprintf("too large: %d bytes, limit %d", bytes, limit)
}

// AroundUnreadable returns the JSON members, without braces, that a job of UnreadableClass has besides its
// reason and the text.
func AroundUnreadable(queue string) string {
	return `"retry":0,` + written(SetString("queue", cmp.Or(queue, DefaultQueue))) + `,"class":"` + UnreadableClass + `","args":[],` +
		written(SetString("jid", NewJID()))
}

// Kept returns the text inside a job of UnreadableClass, byte for byte, and whether it is such a job.
func (j *Job) Kept() (raw string, ok bool) {
	if j.Class() != UnreadableClass {
		return "", false
	}
	if raw, ok = j.Text(fieldRaw); ok {
		return raw, true
	}
	packed, ok := j.Text(fieldRawBase64)
	text, err := base64.StdEncoding.DecodeString(packed)
	return string(text), ok && err == nil
}

func reason(class, message string, now time.Time, u TimeUnit) string {
	return written(SetString("error_class", class)) + "," + written(SetString("error_message", message)) + "," + written(SetStamp("failed_at", now, u))
}

// written returns an Edit as a member of an object.
func written(e Edit) string { return quote(e.Name) + ":" + e.JSON }

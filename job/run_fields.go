package job

import (
	"encoding/json"
	"strings"
	"time"
)

// Fields of Belay's own about a run. Few jobs have them, so they are looked for in the payload's text before
// it is scanned a second time.
const (
	// FieldTimeout is the timeout of one job's runs, in milliseconds.
	FieldTimeout = "belay_timeout_ms"
	// FieldMeta is an object of strings that the program added to the job when it pushed it.
	FieldMeta = "meta"
)

// Timeout returns the timeout that the job was pushed with, and whether there is one.
func (j *Job) Timeout() (d time.Duration, ok bool) {
	if !strings.Contains(j.raw, FieldTimeout) {
		return 0, false
	}
	text, _ := j.Field(FieldTimeout)
	ms, ok := integer(text)
	if ok = ok && ms > 0 && int64(ms) < int64(1<<62/time.Millisecond); !ok {
		return 0, false
	}
	return time.Duration(ms) * time.Millisecond, true
}

// Meta returns what Meta was set to at the push; nil if nothing was.
func (j *Job) Meta() map[string]string {
	if !strings.Contains(j.raw, `"`+FieldMeta+`"`) {
		return nil
	}
	text, _ := j.Field(FieldMeta)
	var meta map[string]string
	if json.Unmarshal([]byte(text), &meta) != nil { // another program's field of that name
		return nil
	}
	return meta
}

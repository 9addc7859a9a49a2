package job

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// AsNewActiveJob returns the edit that gives the object in which ActiveJob wraps its arguments this job_id and
// this time of its push; ok is false for a job that is not an ActiveJob. Everything else in the object stays.
func (j *Job) AsNewActiveJob(id string, now time.Time) (edit Edit, ok bool) {
	at, wraps := j.activeMembers()
	if !wraps || len(j.Args()) != 1 {
		return Edit{}, false
	}
	values := map[span]string{at["job_id"]: quote(id)}
	if pushed, has := at["enqueued_at"]; has {
		values[pushed] = quote(now.UTC().Format(time.RFC3339))
	}
	return j.inArgs(values), true
}

// activeMembers returns where the args have the values of the object in which ActiveJob wraps its arguments, by
// their names, the last of duplicate ones; ok is false for a job that is not an ActiveJob.
func (j *Job) activeMembers() (at map[string]span, ok bool) {
	args := j.Args()
	if j.Wrapped() == "" || len(args) == 0 || args[0][0] != '{' {
		return nil, false
	}
	begins := int32(strings.IndexByte(j.ArgsJSON(), '{'))
	at = make(map[string]span)
	m := members{raw: args[0]}
	for m.next() {
		at[unquote(m.text(m.name))] = span{begins + m.value.start, begins + m.value.end}
	}
	_, ok = at["job_id"]
	return at, ok
}

// inArgs returns the edit that replaces these parts of the args.
func (j *Job) inArgs(values map[span]string) Edit {
	args := j.ArgsJSON()
	last := func(a, b span) int { return cmp.Compare(b.start, a.start) } // first, so that the others stay where they are
	for _, at := range slices.SortedFunc(maps.Keys(values), last) {
		args = args[:at.start] + values[at] + args[at.end:]
	}
	return Edit{"args", args}
}

// NewUUID returns a random UUID, version 4, as ActiveJob uses for its ids.
func NewUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

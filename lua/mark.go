package lua

import (
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/driver"
)

var markScript = load("mark")

const (
	// KeepMarks is how long a mark binds. A cancelled job that had failed just before its mark arrived waits in
	// the retry set, and the longest delay of the retry formula is about four days.
	KeepMarks = 30 * 24 * time.Hour
	// MostMarks bounds the marks in Redis; the oldest are removed first. Every process reads all of them, and
	// keeps them in memory, about 100 bytes each.
	MostMarks = 10_000
)

// A Mark cancels the jobs with a jid that were created before the mark was made.
type Mark struct {
	JID string
	// Created, if set, is the text of a job's created_at: the mark cancels this job instead, even if its
	// producer's clock was ahead of Redis'.
	Created string
}

// member returns the mark as it is stored.
func (m Mark) member() string {
	if m.Created == "" {
		return m.JID
	}
	return m.JID + "\n" + m.Created
}

// markOf reads the result of member.
func markOf(member string) Mark {
	jid, created, _ := strings.Cut(member, "\n")
	return Mark{jid, created}
}

// Mark marks jobs as cancelled, and returns Redis' time. The caller keeps within MostItems, and has no empty
// jid and none with a line feed.
func (k Keys) Mark(marks []Mark) Ask[time.Time] {
	args := []string{strconv.FormatInt(KeepMarks.Microseconds(), 10), strconv.Itoa(MostMarks)}
	for _, mark := range marks {
		args = append(args, mark.member())
	}
	return asking(markScript, []string{k.Cancelled()}, args, func(r reader) (time.Time, error) { return r.time(), r.end() })
}

// Unmark removes marks, such as those of jobs that were removed from their queue. Processes that have read them
// keep them.
func (k Keys) Unmark(marks []Mark) driver.Call {
	args := []string{"ZREM", k.Cancelled()}
	for _, mark := range marks {
		args = append(args, mark.member())
	}
	return driver.Command(args...)
}

// CancelIterable asks a process of Sidekiq to stop an iterable job, as Sidekiq's API does. The fields beside
// the request are those of a job that has not begun, which Sidekiq's loader expects.
func (k Keys) CancelIterable(jid string, now time.Time) []driver.Call {
	key := k.Iteration(jid)
	calls := []driver.Call{driver.Command("HSETNX", key, "cancelled", strconv.FormatInt(now.Unix(), 10))}
	for _, field := range []struct{ name, value string }{{"ex", "0"}, {"c", "null"}, {"rt", "0"}} {
		calls = append(calls, driver.Command("HSETNX", key, field.name, field.value))
	}
	return append(calls, driver.Command("EXPIRE", key, wholeSeconds(KeepMarks), "NX"))
}

package lua

import (
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
)

var markScript = load("mark")

const (
	// KeepMarks is how long a mark binds. A cancelled job that had failed just before its mark arrived waits in
	// the retry set, and the longest delay of the retry formula is about four days.
	KeepMarks = 30 * 24 * time.Hour
	// MaxMarks bounds the marks in Redis. Every process reads all of them, and keeps them in memory, about 100
	// bytes each.
	MaxMarks = 10_000
	// FullCode is the code of the error with which Redis refuses a mark beyond MaxMarks.
	FullCode = "FULL"
)

// Members of the sorted set that are no marks. Their scores are those of the newest mark or event, and of the
// last event that took marks back.
const newestMark, unmarkedEvent = "", "\n"

// A Mark cancels the jobs with a jid that were created before the mark was made.
type Mark struct {
	JID string
	// Created, if set, makes it a mark of one job, even if its producer's clock was ahead of Redis': it is
	// the text of the job's created_at and, if an operator has retried the job, a line feed and its
	// FieldUnmarked.
	Created string
}

// MarkOfJob returns the mark that cancels this one job. The next retry by an operator ends it.
func MarkOfJob(j *job.Job) Mark {
	created, _ := j.Field("created_at")
	if unmarked := j.Unmarked(); unmarked > 0 {
		created += "\n" + strconv.FormatInt(unmarked, 10)
	}
	return Mark{j.JID(), created}
}

// BatchMark returns the mark that says that a batch is invalid: members that have not started are dropped.
func BatchMark(id string) Mark { return Mark{Created: "batch\n" + id} }

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

// Mark marks jobs as cancelled, and returns the marks' score as a time: Redis' time, or later if its clock
// was set back. Redis refuses marks beyond MaxMarks with FullCode, and then makes none of these. The caller
// keeps within MaxItems, and has no empty jid and none with a line feed.
func (k Keys) Mark(marks []Mark) Ask[time.Time] {
	args := []string{strconv.FormatInt(KeepMarks.Microseconds(), 10), strconv.Itoa(MaxMarks)}
	return asking(markScript, []string{k.Cancelled()}, appendMarks(args, marks), func(r reader) (time.Time, error) {
		return time.UnixMicro(int64(r.number())), r.end()
	})
}

func appendMarks(args []string, marks []Mark) []string {
	for _, mark := range marks {
		args = append(args, mark.member())
	}
	return args
}

// NewestMark returns the score of the newest mark, also if that was taken back; 0 if there is none.
func (k Keys) NewestMark() Ask[int64] {
	return Ask[int64]{Call: driver.Command("ZSCORE", k.Cancelled(), newestMark), read: func(r reader) (int64, error) {
		score, _ := strconv.ParseInt(r.textOrNil(), 10, 64)
		return score, r.end()
	}}
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

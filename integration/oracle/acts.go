package oracle

import (
	"strconv"
	"strings"
)

// acts is what holds of each way that an operator sends a job. Some are ways that jobs go by themselves as
// well.
var acts map[way]func(c *crossing) Move

func init() {
	acts = map[way]func(c *crossing) Move{
		{Schedule, Queue}: (*crossing).sent,
		{Retry, Queue}:    (*crossing).sent,
		{Dead, Queue}:     (*crossing).sent,

		{Schedule, Dead}:   (*crossing).killed,
		{Retry, Dead}:      (*crossing).killed,
		{Queue, Dead}:      (*crossing).killed,
		{Quarantine, Dead}: (*crossing).killed,

		{Schedule, Nowhere}:   (*crossing).deleted,
		{Retry, Nowhere}:      (*crossing).deleted,
		{Dead, Nowhere}:       (*crossing).deleted,
		{Queue, Nowhere}:      (*crossing).deleted,
		{Quarantine, Nowhere}: (*crossing).deleted,

		{Waiting, Nowhere}: (*crossing).deleted,
		{Waiting, Dead}:    (*crossing).killed,
		{Waiting, Waiting}: (*crossing).moved,
		{Waiting, Queue}:   (*crossing).released,

		{Queue, Queue}:           (*crossing).moved,
		{Quarantine, Quarantine}: (*crossing).moved,
		{Schedule, Schedule}:     (*crossing).rescheduled,
		{Retry, Retry}:           (*crossing).rescheduled,
	}
}

// byHand reports whether it was an operator who moved the job, where it might have been a poller or a worker.
// Of what both would do alike it does not matter which it was.
func (c *crossing) byHand() bool {
	switch {
	case c.out.at == nil: // only its score has changed
		return true
	case c.out.at.place == Dead && c.in.place() == Nowhere:
		return !(c.kills && strings.HasPrefix(c.out.verb, "ZREMRANGE"))
	case c.out.at.place == Waiting:
		return c.out.verb != "RPOP"
	case c.in.place() != Queue || c.out.at.place == Dead || c.out.at.place == Queue:
		return true
	}
	found := c.changed()
	_, counted := found["retry_count"]
	_, crashed := found["interrupted_count"]
	return counted || crashed || c.tooEarly()
}

// tooEarly reports whether a job left a set before its time.
func (c *crossing) tooEarly() bool {
	return !c.At.IsZero() && c.out.entry.score >= float64(c.At.Unix()+1)+early && !c.k.clockMoves
}

// sent is an operator's retry: the job has one more run, and its crashes are forgotten.
func (c *crossing) sent() Move {
	if c.of.named {
		want := valueOf(c.before(), "retry_count")
		if was, ok := integerOf(want); ok && c.out.at.place != Schedule {
			want = strconv.Itoa(was - 1)
		}
		if now := valueOf(c.after(), "retry_count"); now != want {
			c.fail(RetryCount, "retry_count is %q after an operator's retry, not %q", now, want)
		}
		if left := valueOf(c.after(), "interrupted_count"); left != "" {
			c.fail(Interruptions, "interrupted_count is %s after an operator's retry", left)
		}
	}
	c.requireEnqueued(func(name string, ch change) bool {
		return name == "retry_count" || (name == "interrupted_count" || name == "interrupted_at") && ch.new == ""
	})
	return Sent
}

// killed is a job that an operator kills as it is.
func (c *crossing) killed() Move {
	c.requireSameBytes()
	return Killed
}

func (c *crossing) deleted() Move { return Deleted }

// moved is a job in another queue, or one that took the place of a job that left its queue.
func (c *crossing) moved() Move {
	if c.out.at == c.in.at {
		c.requireSameBytes()
	}
	c.requireOnly(c.changed(), func(name string, _ change) bool { return name == "queue" })
	return Moved
}

// rescheduled is a job that waits for another time: the same member of its set with another score.
func (c *crossing) rescheduled() Move { return Rescheduled }

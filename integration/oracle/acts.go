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
	}
}

// byHand reports whether it was an operator who moved the job, where it might have been a poller or a worker.
// Of what both would do alike it does not matter which it was.
func (c *crossing) byHand() bool {
	switch {
	case c.out.at.place == Dead && c.in.place() == Nowhere:
		return !(c.kills && strings.HasPrefix(c.out.verb, "ZREMRANGE"))
	case c.in.place() != Queue || c.out.at.place == Dead:
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
	c.requireEnd(c.in, false)
	found := c.changed()
	if stamp, ok := found["enqueued_at"]; c.of.named && (!ok || !c.isFresh(stamp.new)) {
		c.fail(Bytes, "enqueued_at is not set afresh: %q", stamp.new)
	}
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
	c.requireOnly(found, func(name string, ch change) bool {
		switch name {
		case "enqueued_at", "retry_count":
			return true
		case "queue":
			return ch.new == `"default"`
		case "at", "interrupted_count", "interrupted_at":
			return ch.new == ""
		}
		return false
	})
	if queue := queueOf(c.after()); c.of.named && queue != c.in.at.queue {
		c.fail(IllegalEdge, "its queue is %q, and it came to %q", queue, c.in.at.queue)
	}
	return Sent
}

// killed is a job that an operator kills as it is.
func (c *crossing) killed() Move {
	c.requireSameBytes()
	return Killed
}

func (c *crossing) deleted() Move { return Deleted }

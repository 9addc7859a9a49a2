package oracle

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/job"
)

// before and after are the job's bytes.
func (c *crossing) before() string { return c.out.entry.text }

func (c *crossing) after() string { return c.in.entry.text }

// requireEnd holds at which end of a list the job left it or came into it.
func (c *crossing) requireEnd(l leg, right bool) {
	if !l.at.place.sorted() && l.right != right {
		side := "left"
		if right {
			side = "right"
		}
		c.fail(WrongEnd, "%s on %s: the %s end is meant", l.verb, l.at.key, side)
	}
}

func (c *crossing) requireSameBytes() {
	if c.before() != c.after() {
		c.fail(Bytes, "its bytes changed from %.300s to %.300s", c.before(), c.after())
	}
}

// requireSameQueue holds that a job stays with its queue on its way between two lists.
func (c *crossing) requireSameQueue() {
	if c.out.at.queue != c.in.at.queue {
		c.fail(IllegalEdge, "from queue %q it came to queue %q", c.out.at.queue, c.in.at.queue)
	}
}

func (c *crossing) accepted() Move {
	if c.in.at.place == Queue {
		c.requireEnd(c.in, false)
	}
	if c.of.named && c.k.ended[c.of.jid] {
		c.fail(Again, "it had ended, and is accepted once more")
	}
	c.requireTick()
	return Accepted
}

func (c *crossing) taken() Move {
	c.requireEnd(c.out, true)
	c.requireSameQueue()
	c.requireSameBytes()
	return Taken
}

// takenAlone holds besides that a quarantined job is all that its process has in hand.
func (c *crossing) takenAlone() Move {
	c.requireEnd(c.out, true)
	c.requireSameBytes()
	p := c.k.process(c.in.at.identity)
	if p.quarantineQueue != c.out.at.queue {
		c.fail(NotAlone, "the record of %s names %q as its quarantined job's queue, and it came from %q", p.identity, p.quarantineQueue, c.out.at.queue)
	}
	if c.in.at.len() > 1 {
		c.fail(NotAlone, "%s has another quarantined job in hand", p.identity)
	}
	for _, queue := range p.queues {
		if list := c.k.spots[c.k.keys.Working(queue, p.identity)]; list != nil && list.len() > 0 {
			c.fail(NotAlone, "%s has %d jobs of %q in hand", p.identity, list.len(), queue)
		}
	}
	return Taken
}

// unrunnable accepts a move to the dead set of an entry that no worker would run, with its reason.
func (c *crossing) unrunnable() Move {
	if !c.diesUnread() {
		c.fail(IllegalEdge, "only an entry that cannot be run moves from %s to %s, with its reason", c.out.at.place, c.in.at.place)
	}
	return Unreadable
}

func (c *crossing) ended() Move {
	c.requireNoCursor()
	c.exits.ended++
	return Ended
}

func (c *crossing) retried() Move {
	c.exits.failed++
	c.requireFailure()
	return Retried
}

func (c *crossing) snoozed() Move {
	if !c.of.named {
		c.requireSameBytes()
		return Snoozed
	}
	c.requireOnly(c.changed(), func(name string, ch change) bool {
		return name == leftPositions && ch.new != "" || c.forgives(name, ch)
	})
	return Snoozed
}

// leftPositions is the field in which a run that lives on keeps what refused duplicates left.
const leftPositions = "dedup_wal_locations"

// dies tells apart the three ways to the dead set out of a process' hand: a run that failed for good, what
// could not be read, and a quarantined job whose process crashed once too often. Each counts as a failed run.
func (c *crossing) dies() Move {
	if c.diesUnread() {
		return Unreadable
	}
	found := c.changed()
	_, interrupted := found["interrupted_count"]
	c.exits.failed++
	if interrupted && c.out.at.place == QuarantineRun {
		c.requireInterruption(found)
		return Died
	}
	if found != nil {
		c.requireFailure()
	}
	return Died
}

// changed is what changed in the job's bytes; texts that are no jobs have no fields.
func (c *crossing) changed() map[string]change {
	if !c.of.named {
		c.requireSameBytes()
		return nil
	}
	return changes(c.before(), c.after())
}

// back judges the ways back into the line: a requeue, which changes nothing; a recovery, which counts an
// interruption and is only from the dead; and what is found with the dead after their lists had been empty,
// which was in no process' hand.
func (c *crossing) back() Move {
	p := c.k.process(c.out.at.identity)
	settled := c.settled[p.identity]
	if !settled || c.in.at.place != Quarantine { // a quarantined job that may not start now becomes the last one
		c.requireEnd(c.in, true)
	}
	if c.out.at.place == Working {
		c.requireSameQueue()
	}
	found := c.changed()
	_, interrupted := found["interrupted_count"]
	switch {
	case settled && interrupted:
		c.fail(Interruptions, "%s handed it back itself, and an interruption is counted", p.identity)
		return Requeued
	case settled:
		c.requireOnly(found, func(string, change) bool { return false })
	case found != nil:
		c.requireInterruption(found)
		return Recovered
	}
	if settled || !p.tombstoned {
		if c.out.at.place == Working && c.in.at.place == Quarantine {
			c.fail(IllegalEdge, "from working to quarantined jobs it goes only by a crash")
		}
		return Requeued
	}
	if p.known && !p.emptiedBefore(c.Number) && c.of.named {
		c.fail(Interruptions, "it was recovered from %s, which had it in hand, and that is not counted", p.identity)
	}
	return Found
}

// requireInterruption holds what a recovery may change, and of whom.
func (c *crossing) requireInterruption(found map[string]change) {
	p := c.k.process(c.out.at.identity)
	if !p.tombstoned {
		c.fail(Living, "an interruption is counted, and %s is not dead", p.identity)
	}
	if p.emptiedBefore(c.Number) {
		c.fail(Interruptions, "an interruption is counted, and it was in no process' hand: the lists of %s had been empty", p.identity)
	}
	count := found["interrupted_count"]
	was, _ := integerOf(count.old)
	if now, ok := integerOf(count.new); !ok || now != was+1 {
		c.fail(Interruptions, "interrupted_count went from %q to %q", count.old, count.new)
	}
	c.requireHome(was + 1)
	c.requireOnly(found, func(name string, ch change) bool {
		switch name {
		case "interrupted_count":
			return true
		case "interrupted_at":
			return c.in.at.place == Quarantine && ch.new != ""
		case "error_class", "error_message":
			return c.in.at.place == Dead && ch.new != ""
		}
		return false
	})
}

// requireHome holds where a job goes that was in hand in so many crashes: among quarantined jobs from one
// short of the limit on, and to the dead only from the limit on, when it crashed alone.
func (c *crossing) requireHome(interruptions int) {
	if c.k.crashLimit == 0 {
		return
	}
	home := Queue
	if before := c.k.states[c.of.jid].crashes; before < interruptions {
		interruptions -= before
	}
	switch {
	case c.out.at.place == QuarantineRun && interruptions >= c.k.crashLimit:
		home = Dead
	case c.out.at.place == QuarantineRun || interruptions >= c.k.crashLimit-1:
		home = Quarantine
	}
	if c.in.at.place != home {
		c.fail(IllegalEdge, "with %d interruptions it goes from %s to %s, not to %s", interruptions, c.out.at.place, home, c.in.at.place)
	}
}

// requireFailure holds what a failed run may change, and that it counts.
func (c *crossing) requireFailure() {
	found := c.changed()
	count := found["retry_count"]
	want := "0"
	if was, ok := integerOf(valueOf(c.before(), "retry_count")); ok {
		want = strconv.Itoa(was + 1)
	}
	if count.new != want {
		c.fail(RetryCount, "retry_count went from %q to %q, not to %s", count.old, count.new, want)
	}
	c.requireOnly(found, func(name string, ch change) bool {
		switch name {
		case "retry_count", "error_class", "error_message", "error_backtrace", "retried_at", job.FieldErrors:
			return true
		case leftPositions:
			return ch.new != ""
		case "failed_at":
			_, err := strconv.ParseFloat(ch.old, 64)
			return ch.new != "" && err != nil // the first failure's stays
		case "queue": // the payload may have named another than the one it is retried in
			return sameText(ch.new, c.out.at.queue) || ch.new == valueOf(c.before(), "retry_queue")
		case "retry":
			return ch.old == ""
		case "at":
			return ch.new == ""
		}
		return c.forgives(name, ch)
	})
}

// sameText reports whether a JSON value is a string, and that one.
func sameText(value, text string) bool {
	var read string
	return json.Unmarshal([]byte(value), &read) == nil && read == text
}

const (
	// fresh is how far enqueued_at may be from the second of the step: it goes by a clock that is estimated
	// from beats, and a server that is stopped for a while executes a promotion so much later.
	fresh = time.Minute
	// early is how much, in seconds, a due time may lie beyond the second that is written beside a step: that
	// is the one in which the script began.
	early = 0.01
)

func (c *crossing) promoted() Move {
	if c.tooEarly() {
		c.fail(Early, "due at %f, promoted in the second %d", c.out.entry.score, c.At.Unix())
	}
	if len(c.before()) > c.k.largest {
		c.requireSameBytes() // it was moved unread
		return Promoted
	}
	c.requireEnqueued(func(string, change) bool { return false })
	if c.of.named {
		n, _ := integerOf(valueOf(c.after(), "interrupted_count"))
		c.requireHome(n)
	}
	return Promoted
}

// requireEnqueued holds of a job out of a sorted set that it comes to its own queue, with a new enqueued_at.
// may says what else may change.
func (c *crossing) requireEnqueued(may func(name string, ch change) bool) {
	c.requireEnd(c.in, false)
	found := c.changed()
	if stamp, ok := found["enqueued_at"]; c.of.named && (!ok || !c.isFresh(stamp.new)) {
		c.fail(Bytes, "enqueued_at is not set afresh: %q", stamp.new)
	}
	c.requireOnly(found, func(name string, ch change) bool {
		switch name {
		case "enqueued_at":
			return true
		case "queue":
			return ch.new == `"default"`
		case "at":
			return ch.new == ""
		}
		return may(name, ch)
	})
	if queue := queueOf(c.after()); c.of.named && queue != c.in.at.queue {
		c.fail(IllegalEdge, "its queue is %q, and it came to %q", queue, c.in.at.queue)
	}
}

// isFresh reports whether a stamp, in seconds or milliseconds, is of about now.
func (c *crossing) isFresh(stamp string) bool {
	at, err := strconv.ParseFloat(stamp, 64)
	if err != nil {
		return false
	}
	if !strings.ContainsAny(stamp, ".eE") && at > 1e11 { // whole numbers are milliseconds
		at /= 1000
	}
	return c.At.IsZero() || c.k.clockMoves || math.Abs(at-float64(c.At.Unix())) <= fresh.Seconds()
}

// requireOnly holds that nothing changed in a payload but what may.
func (c *crossing) requireOnly(found map[string]change, may func(name string, ch change) bool) {
	for name, ch := range found {
		switch {
		case name == moved:
			c.fail(Bytes, "its fields do not stand as they stood: %.300s became %.300s", c.before(), c.after())
		case !may(name, ch):
			c.fail(Bytes, "%s changed from %.200q to %.200q on the way from %s to %s", name, ch.old, ch.new, c.out.place(), c.in.place())
		}
	}
}

// queueOf is the queue that a payload names, as pollers read it.
func queueOf(text string) string {
	parsed, err := job.Parse(text)
	if err != nil || parsed.Queue() == "" {
		return "default"
	}
	return parsed.Queue()
}

// trimmed is for what falls out of a dead set that is full: only the step that unrunnable another may do so.
func (c *crossing) trimmed() Move {
	if c.kills && strings.HasPrefix(c.out.verb, "ZREMRANGE") {
		return Trimmed
	}
	c.fail(Lost, "%s took it out of the dead set", c.out.verb)
	return Missing
}

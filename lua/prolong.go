package lua

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
)

// Prolonged is the reply to Keys.Prolong.
type Prolonged struct {
	// Now is Redis' time, and Expiry is when the session lapses without a further heartbeat, by Redis' clock.
	// It is not after Now if the session is dead, has lapsed, or is not known to Redis.
	Now, Expiry time.Time
	// Marked and Subscribed are those of a HeartbeatReply.
	Marked     string
	Subscribed int
	// Calm reports that a Heartbeat would have nothing to report: all watched leases and the record exist,
	// and there are no signals, no lapsed processes, and none of the other watched keys.
	Calm bool
}

// Prolong returns the calls of a heartbeat without a script, in one pipeline, and what reads their replies.
// They prolong the session of identity by this much and look at what a Heartbeat looks at, but at a lease
// only for its existence. now is Redis' time as far as the caller knows; what has lapsed since then is not
// seen. A denied command is an error, also where a Heartbeat does without it.
//
// In a script the same commands cost Redis three times as much. They need no transaction. Only the first one
// writes, and it adds to an expiry. A dead session has 0, so no such calls bring it near the present, however
// late they arrive. What the others read matters only if it is nothing, each for its own instant; anything
// else is for a Heartbeat to read, all at one instant.
func (k Keys) Prolong(identity string, by time.Duration, now time.Time, watched ...Watched) ([]driver.Call, func([]driver.Reply) (Prolonged, error)) {
	leases, _, others := k.apart(identity, watched)
	calls := []driver.Call{
		driver.Command("ZADD", k.Alive(), "XX", "INCR", millis(by), identity),
		AskTime, // after the first, so that the expiry is compared with a later time
		driver.Command("ZCOUNT", k.Alive(), "-inf", strconv.FormatInt(now.UnixMilli(), 10)),
		driver.Command(slices.Concat([]string{"EXISTS", k.Record(identity)}, leases)...),
		driver.Command(append([]string{"EXISTS"}, others...)...),
		driver.Command("ZSCORE", k.Cancelled(), ""),
		driver.Command("PUBSUB", "NUMSUB", k.Presence(identity)),
	}
	return calls, func(replies []driver.Reply) (p Prolonged, err error) {
		expiry, marked, channel := readerOf(replies[0].Value), readerOf(replies[5].Value), readerOf(replies[6].Value)
		for _, reply := range replies {
			err = cmp.Or(err, reply.Err)
		}
		if err == nil {
			p.Now, err = TimeOf(replies[1])
		}
		if err != nil {
			return p, fmt.Errorf("prolong a session: %w", err)
		}
		if score := expiry.textOrNil(); score != "" {
			p.Expiry, err = parseMillis(score)
		}
		p.Marked, _, p.Subscribed = marked.textOrNil(), channel.text(), channel.number()
		lapsed, exist, others := replies[2].Value, replies[3].Value, replies[4].Value
		p.Calm = lapsed == int64(0) && exist == int64(1+len(leases)) && others == int64(0)
		return p, cmp.Or(err, expiry.end(), marked.end(), channel.end())
	}
}

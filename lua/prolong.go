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
	// Subscribed is that of a HeartbeatReply.
	Subscribed int
	// Calm reports that a Heartbeat would have nothing to report: all watched leases and the record exist,
	// and there are no signals, no newer marks, no lapsed processes, and none of the other watched keys.
	Calm bool
}

// Prolong returns the calls of a heartbeat without a script, in one pipeline, and what reads their replies.
// They prolong the session of identity by this much and look at what a Heartbeat looks at, but at a lease
// only for its existence. now is Redis' time as far as the caller knows; what has lapsed since then is not
// seen. marked is what the last Heartbeat has reported. A denied command is an error, also where a Heartbeat
// does without it.
//
// In a script the same commands cost Redis more than twice as much. They need no transaction. Only the first
// one writes, and it adds to an expiry. A dead session has 0, so no such calls bring it near the present,
// however late they arrive. What the others read matters only if it is nothing, each for its own instant;
// anything else is for a Heartbeat to read, all at one instant.
func (k Keys) Prolong(identity string, by time.Duration, now time.Time, marked string, watched ...Watched) ([]driver.Call, func([]driver.Reply) (Prolonged, error)) {
	leases, _, others := k.apart(identity, watched)
	if marked == "" {
		others = append(others, k.Cancelled())
	}
	calls := []driver.Call{
		driver.Command("ZADD", k.Alive(), "XX", "INCR", millis(by), identity),
		AskTime, // after the first, so that the expiry is compared with a later time
		driver.Command("PUBSUB", "NUMSUB", k.Presence(identity)),
		driver.Command("ZCOUNT", k.Alive(), "-inf", strconv.FormatInt(now.UnixMilli(), 10)),
		driver.Command(slices.Concat([]string{"EXISTS", k.Record(identity)}, leases)...),
		driver.Command(append([]string{"EXISTS"}, others...)...),
	}
	calm := []any{int64(0), int64(1 + len(leases)), int64(0)} // what the last ones return
	if marked != "" {
		calls, calm = append(calls, driver.Command("ZSCORE", k.Cancelled(), newestMark)), append(calm, any(marked))
	}
	return calls, func(replies []driver.Reply) (p Prolonged, err error) {
		for _, reply := range replies {
			err = cmp.Or(err, reply.Err)
		}
		if err == nil {
			p.Now, err = TimeOf(replies[1])
		}
		if err != nil {
			return p, fmt.Errorf("prolong a session: %w", err)
		}
		expiry, channel := readerOf(replies[0].Value), readerOf(replies[2].Value)
		if score := expiry.textOrNil(); score != "" {
			p.Expiry, err = parseMillis(score)
		}
		_, p.Subscribed = channel.text(), channel.number()
		p.Calm = slices.EqualFunc(calm, replies[3:], func(want any, reply driver.Reply) bool { return reply.Value == want })
		return p, cmp.Or(err, expiry.end(), channel.end())
	}
}

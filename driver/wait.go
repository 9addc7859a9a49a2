package driver

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// WaitGrace is how much longer than its limit a Wait may read: the reply of a wait that ran to its limit is
// still on its way then, and a server that is a second late is silent. A reply that has begun is read to
// its end unless it pauses for as long: otherwise a payload that takes seconds on a slow link would break
// every wait that returns it.
const WaitGrace = time.Second

// Seconds returns a wait's limit for Redis, at least a millisecond: 0 would mean for ever.
func Seconds(limit time.Duration) string {
	return strconv.FormatFloat(max(limit, time.Millisecond).Seconds(), 'f', 3, 64)
}

// Unblock returns the Call that releases the connection with this id.
func Unblock(id int64) Call {
	return Command("CLIENT", "UNBLOCK", strconv.FormatInt(id, 10))
}

// Released converts the reply to Unblock to the results of Waiter.Release: ErrNoRelease if the server does
// not know the command or denies it.
func Released(reply Reply) (bool, error) {
	var refused *ServerError
	if errors.As(reply.Err, &refused) && (refused.Code == "NOPERM" || strings.Contains(strings.ToLower(refused.Message), "unknown")) {
		return false, ErrNoRelease
	}
	return reply.Value == int64(1), reply.Err
}

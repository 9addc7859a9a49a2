package driver

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// WaitGrace is how much longer than its limit a Wait may read: the answer of a wait that ran to its limit is
// still on its way then, and a server that is a second late is not coming. A reply that has begun is read to
// its end unless it pauses for as long: otherwise a payload that takes seconds on a slow link would break
// every wait that returns it.
const WaitGrace = time.Second

// Seconds spells a wait's limit for Redis. Below a millisecond it is one: 0 would be for ever.
func Seconds(limit time.Duration) string {
	return strconv.FormatFloat(max(limit, time.Millisecond).Seconds(), 'f', 3, 64)
}

// Unblock is the Call that releases the connection that the server calls id.
func Unblock(id int64) Call {
	return Command("CLIENT", "UNBLOCK", strconv.FormatInt(id, 10))
}

// Released reads the answer of Unblock as Waiter.Release gives it: ErrNoRelease when the server does not know
// the command or denies it.
func Released(reply Reply) (bool, error) {
	var refused *ServerError
	if errors.As(reply.Err, &refused) && (refused.Code == "NOPERM" || strings.Contains(strings.ToLower(refused.Message), "unknown")) {
		return false, ErrNoRelease
	}
	return reply.Value == int64(1), reply.Err
}

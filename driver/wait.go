package driver

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"
)

// WaitGrace is how much longer than its limit a Wait may read. At the limit, the reply of a wait that found
// nothing is still on its way; a server that sends nothing for a second more counts as silent. A reply that has
// begun is read to its end unless it pauses for as long: otherwise a payload that takes seconds on a slow link
// would break every wait that returns it.
const WaitGrace = time.Second

// Seconds returns the limit of a wait as BLMOVE takes it: in seconds, and at least a millisecond, because 0
// would mean for ever.
func Seconds(limit time.Duration) string {
	return strconv.FormatFloat(max(limit, time.Millisecond).Seconds(), 'f', 3, 64)
}

// A Releaser is the part of a Waiter that all adapters share.
type Releaser struct {
	Client Client // sends CLIENT UNBLOCK, which cannot use the blocked connection
	// Denied is set when the server has shown that it cannot release a wait.
	Denied atomic.Bool

	waiting atomic.Bool // a Wait runs
}

// Wait implements Waiter.Wait: move sends the BLMOVE, and reads its reply until the deadline.
func (r *Releaser) Wait(
	ctx context.Context, limit time.Duration, move func(deadline time.Time) Reply,
) (payload string, ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return "", false, &NotSentError{Err: err}
	}
	r.waiting.Store(true)
	defer r.waiting.Store(false)
	reply := move(time.Now().Add(limit + WaitGrace))
	payload, ok = reply.Value.(string)
	return payload, ok, reply.Err
}

// Release implements Waiter.Release for a Wait on the connection with this id, 0 if it is not known.
func (r *Releaser) Release(ctx context.Context, id int64) (bool, error) {
	if r.Denied.Load() {
		return false, ErrNoRelease
	}
	if !r.waiting.Load() || id == 0 {
		return false, nil
	}
	reply := r.Client.Do(ctx, Command("CLIENT", "UNBLOCK", strconv.FormatInt(id, 10)))[0]
	if Forbidden(reply.Err) {
		r.Denied.Store(true)
		return false, ErrNoRelease
	}
	return reply.Value == int64(1), reply.Err
}

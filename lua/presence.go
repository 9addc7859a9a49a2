package lua

import (
	"fmt"
	"strconv"
	"time"
)

var presenceScript = load("presence")

// AbsentAfter is how much older than its heartbeat interval the last heartbeat of a session must be, at least,
// before the absence of its subscription declares it dead; two looks must be as far apart. It is short, because
// recovery waits for it, and many times what a process needs to send a heartbeat after its connection was
// reset.
const AbsentAfter = time.Second

// Present is what a look at the subscriptions of the living sessions finds; see Keys.LookAtPresence.
type Present struct {
	// Now is Redis' time.
	Now time.Time
	// Self reports whether the reader itself has its subscription on the server that has answered.
	Self bool
	// Sessions are those that have not lapsed, by the order of their expiry.
	Sessions []PresentSession
}

// PresentSession is one session that has not lapsed.
type PresentSession struct {
	Identity string
	// Subscribed reports whether it has its subscription.
	Subscribed bool
	// Expiry is the instant, by Redis' clock, at which it lapses without a further heartbeat. It is zero if the
	// session has its subscription.
	Expiry time.Time
}

// LookAtPresence reads a page of the living sessions for the process me and skips the first ones: at most
// MaxItems, and fewer only at the end. A reader of consecutive pages may miss sessions that move to an earlier
// page meanwhile.
func (k Keys) LookAtPresence(me string, first int) Ask[Present] {
	return asking(presenceScript, []string{k.Alive()}, []string{k.Presence(""), me, strconv.Itoa(first), strconv.Itoa(MaxItems)}, readPresent)
}

func readPresent(r reader) (present Present, err error) {
	present.Now, present.Self = r.time(), r.number() > 0
	for _, identity := range r.innerTexts() {
		present.Sessions = append(present.Sessions, PresentSession{Identity: identity, Subscribed: true})
	}
	absent, expiries := r.positions(), r.innerTexts()
	for i, at := range absent {
		if at < 0 || at >= len(present.Sessions) || i >= len(expiries) {
			return present, fmt.Errorf("unexpected reply: a session without a name or an expiry")
		}
		expiry, err := parseMillis(expiries[i])
		if err != nil {
			return present, err
		}
		present.Sessions[at].Subscribed, present.Sessions[at].Expiry = false, expiry
	}
	return present, r.end()
}

// parseMillis returns the instant of a score in milliseconds.
func parseMillis(score string) (time.Time, error) {
	millis, err := strconv.ParseFloat(score, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("read an expiry: %w", err)
	}
	return time.UnixMilli(int64(millis)), nil
}

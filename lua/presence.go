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
	// Expiry is the instant, by Redis' clock, at which it lapses without a further heartbeat.
	Expiry time.Time
	// Subscribed reports whether it has its subscription.
	Subscribed bool
}

// LookAtPresence reads a page of the living sessions for the process me and skips the first ones: at most
// MaxItems, and fewer only at the end. A reader of consecutive pages may miss sessions that move to an earlier
// page meanwhile.
func (k Keys) LookAtPresence(me string, first int) Ask[Present] {
	return asking(presenceScript, []string{k.Alive()}, []string{k.Presence(""), me, strconv.Itoa(first), strconv.Itoa(MaxItems)}, readPresent)
}

func readPresent(r reader) (present Present, err error) {
	present.Now, present.Self = r.time(), r.number() > 0
	names, expiries, counts := r.innerTexts(), r.innerTexts(), r.list()
	for i, subscriptions := range counts.numbers() {
		if i >= len(names) || i >= len(expiries) {
			return present, fmt.Errorf("unexpected reply: more numbers of subscriptions than names")
		}
		expiry, err := parseMillis(expiries[i])
		if err != nil {
			return present, err
		}
		present.Sessions = append(present.Sessions, PresentSession{names[i], expiry, subscriptions > 0})
	}
	r.err = counts.end()
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

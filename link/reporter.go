package link

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/logbook"
)

const (
	// lasting is how long calls fail, within an episode after an outage, until that counts as another outage.
	// The failures of an outage may arrive after its end: a call on a dead connection fails at its own
	// deadline, and a server with too few connections serves some callers and not others.
	lasting = 2 * time.Second
	// refusalPeriod is how often a refusal is logged while it lasts.
	refusalPeriod = time.Minute
	// deniedFor is how long a denial counts as current if the caller does not succeed. A denied call is
	// repeated within a few seconds, unless there is nothing more to do: a worker whose processors are all
	// busy takes nothing.
	deniedFor = 10 * time.Second
)

// A Reporter logs once that Redis is away and once that it is back, for all parts of a process: the loop, the
// heartbeat, the poller. Its methods may be called from any goroutine.
type Reporter struct {
	log    *slog.Logger
	bornAt time.Time
	// answeredAt is when Redis last answered a call that was reported here, since bornAt.
	answeredAt atomic.Int64

	mu      sync.Mutex
	away    map[string]bool // callers that have failed and got no reply since
	since   time.Time       // when the first caller failed
	logged  bool            // the outage was
	backAt  time.Time       // when its return was last logged
	refused map[string]time.Time
	denied  map[string]denial // callers that were denied access, and have not succeeded since
	notify  func(call string, err error)
}

// A denial is the last one of a caller.
type denial struct {
	err error
	at  time.Time
}

// anyCaller is the caller named in the log when the password is wrong or Redis is full, which concerns all
// callers.
const anyCaller = "any"

// NewReporter makes a Reporter that writes to log.
func NewReporter(log *slog.Logger) *Reporter {
	return &Reporter{
		log: log, bornAt: time.Now(), away: make(map[string]bool), refused: make(map[string]time.Time),
		denied: make(map[string]denial), notify: func(string, error) {},
	}
}

// Answered records that Redis has just sent a reply, of any kind, on a connection of this process.
func (r *Reporter) Answered() { r.answeredAt.Store(int64(time.Since(r.bornAt))) }

// AnsweredWithin reports whether Redis has answered on any reporting connection within d.
func (r *Reporter) AnsweredWithin(d time.Duration) bool {
	at := time.Duration(r.answeredAt.Load())
	return at > 0 && time.Since(r.bornAt)-at < d
}

// Notify registers f, which is called once for each failure that is logged. f must return at once.
func (r *Reporter) Notify(f func(call string, err error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notify = f
}

// Fail reports a failed call. An outage is logged once. A refusal (a wrong type, a denied command) is logged
// once a minute for each caller while it lasts. Two things concern all callers and are logged once a minute for
// all of them together: a full Redis, which is a refusal, and a wrong or missing password, which is an outage
// that waiting does not end.
func (r *Reporter) Fail(caller string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	denied := driver.Denial(err) != ""
	if denied {
		r.denied[caller] = denial{err, now}
	}
	if !driver.Away(err) {
		r.reachedLocked(caller, now) // a server that refuses a call is reachable
		if driver.OutOfMemory(err) {
			caller = anyCaller
		}
		r.refuseLocked(caller, err, now)
		return
	}
	if len(r.away) == 0 {
		r.since = now
	}
	r.away[caller] = true
	if denied {
		r.logged = r.refuseLocked(anyCaller, err, now) || r.logged
		return
	}
	if r.logged || (now.Sub(r.backAt) < episode && now.Sub(r.since) < lasting) {
		return
	}
	r.logged = true
	r.notify(caller, err)
	r.log.Warn("redis is away; takes suspended, results buffered", "error", err, "call", caller)
}

// Refuse reports an error as a refusal, even one that Fail takes for an outage: a full Redis is reachable.
func (r *Reporter) Refuse(caller string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuseLocked(caller, err, time.Now())
}

// refuseLocked logs a refusal, unless it did so recently, and reports whether it did.
func (r *Reporter) refuseLocked(caller string, err error, now time.Time) bool {
	if now.Sub(r.refused[caller]) < refusalPeriod {
		return false
	}
	r.notify(caller, err)
	r.refused[caller] = now
	if advice := driver.Denial(err); advice != "" {
		r.log.Error("redis denies access; will retry; operator action required", "error", err, "call", caller, "advice", advice)
	} else {
		r.log.Error("redis refuses a call; will retry; operator action required", "error", err, "call", caller)
	}
	return true
}

// Denied returns the error of a recent call that Redis denied for lack of a password or of a permission; nil
// if all callers that were denied have succeeded since, or were denied nothing lately. A password that is right
// again ends the denial of each caller that gets a reply.
func (r *Reporter) Denied() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var last denial
	for _, d := range r.denied {
		if d.at.After(last.at) {
			last = d
		}
	}
	if time.Since(last.at) > deniedFor {
		return nil
	}
	return last.err
}

// Succeed reports that Redis has done what the caller asks for, or that the caller makes no more calls.
func (r *Reporter) Succeed(caller string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.denied, caller)
	r.reachedLocked(caller, time.Now())
}

// Reach reports that Redis has answered the caller, which may still lack a permission for its other calls.
// Redis is back when it has answered all callers that had failed.
func (r *Reporter) Reach(caller string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if driver.Outage(r.denied[caller].err) { // the password is right again
		delete(r.denied, caller)
	}
	r.reachedLocked(caller, time.Now())
}

func (r *Reporter) reachedLocked(caller string, now time.Time) {
	if !r.away[caller] {
		return
	}
	delete(r.away, caller)
	if len(r.away) > 0 || !r.logged {
		return
	}
	r.logged, r.backAt = false, now
	r.log.Info("redis is back", logbook.Millis("away_ms", now.Sub(r.since)))
}

package link

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/logbook"
)

// usualRound is the default round of a Link.
const usualRound = 1500 * time.Millisecond

// episode is how long failures belong together: a slow link is logged again only if no call has failed on it
// for so long, and an outage that begins sooner after the last one usually is no new one (see Reporter).
const episode = time.Minute

// A Link is the connection of one duty, or of one client, to Redis; with Freight it has two. Every call gets
// its own deadline, which fits the size of the call: Do is for calls that carry no jobs, Carry for those that
// do. With one deadline for a whole pass, the last calls of a pass would miss it again and again on a slow
// link. Its methods may be called from any goroutine, but only those of a Patient link by several at once.
type Link struct {
	driver.Client
	// Freight sends the calls that carry jobs, so that smaller ones do not wait behind them. Default: Client.
	Freight driver.Client
	// Round bounds a call without jobs on a healthy link. Default: 1.5 s.
	Round time.Duration
	// Patient is for callers that do not repeat a call after a failure: a program that pushes, or an
	// operator. A call has the deadline of its context, or else as long as the slowest link needs (see
	// Patience).
	Patient bool
	// Largest is the maximum size of one job in bytes.
	Largest int
	// Log gets one line for each episode of a slow link; the line names Duty.
	Log  *slog.Logger
	Duty string

	mu       sync.Mutex // guards all that follows
	pages    Pace
	small    Pace // of calls that carry no jobs: their timeouts grow, too, if a new connection takes long
	underWay int  // bytes of the trips that have not ended

	lost     error     // why a page failed, until a small call gets a reply
	away     bool      // a small call has failed since
	failedAt time.Time // when a page failed last
	certain  bool      // in this episode a page has timed out, or two have failed: not one closed connection
	reported bool      // the slow link was logged, in this episode
}

// A Trip is one pipeline sent over a Link.
type Trip struct {
	Replies []driver.Reply

	client         driver.Client
	calls          []driver.Call
	small          bool // it carries no jobs, so its result does not measure the bandwidth
	patient        bool
	sent, expected int
	begun          time.Time
	allowed, took  time.Duration
	lost           error // why there is no reply; a refusal is a reply
}

// Do sends calls that carry no jobs.
func (l *Link) Do(ctx context.Context, calls ...driver.Call) []driver.Reply {
	return l.over(ctx, l.BeginSmall(calls))
}

// Carry sends calls that carry jobs; expected is the maximum number of bytes of jobs in the replies. Calls
// that were answered before a failure keep their replies.
func (l *Link) Carry(ctx context.Context, expected int, calls ...driver.Call) []driver.Reply {
	return l.over(ctx, l.Begin(expected, calls))
}

func (l *Link) over(ctx context.Context, t *Trip) []driver.Reply {
	t.Send(ctx)
	l.End(t)
	return t.Replies
}

// Begin returns a trip of calls that carry jobs; expected is the maximum number of bytes of jobs in the
// replies. Several trips may be under way: the timeout of each allows for the bytes of all.
func (l *Link) Begin(expected int, calls []driver.Call) *Trip {
	l.mu.Lock()
	defer l.mu.Unlock()
	if expected > 0 && (l.Patient || l.pages.Strained()) {
		expected += l.Largest // a page holds one job at least, whatever its size
	}
	return l.begin(&Trip{client: cmp.Or(l.Freight, l.Client), calls: calls, expected: expected}, &l.pages)
}

// BeginSmall returns a trip of calls that carry no jobs.
func (l *Link) BeginSmall(calls []driver.Call) *Trip {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begin(&Trip{client: l.Client, calls: calls, small: true}, &l.small)
}

func (l *Link) begin(t *Trip, pace *Pace) *Trip {
	t.patient, t.sent, t.begun = l.Patient, sizeOf(t.calls), time.Now()
	l.underWay += t.sent + t.expected
	if round := cmp.Or(l.Round, usualRound); t.patient {
		t.allowed = Patience(round, l.underWay)
	} else {
		t.allowed = pace.Timeout(round, l.underWay)
	}
	return t
}

// Allowed returns how long a Patient link waits for a call that carries this many bytes, beside those that are
// under way.
func (l *Link) Allowed(carried int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Patience(cmp.Or(l.Round, usualRound), l.underWay+carried)
}

// Send sends the calls and waits for their replies, until the deadline of the trip. It may be called from any
// goroutine.
func (t *Trip) Send(ctx context.Context) {
	began := time.Now()
	ends, limited := ctx.Deadline()
	switch {
	case !t.patient:
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.allowed)
		defer cancel()
	case limited:
		t.allowed = time.Until(ends)
	default:
		ctx = driver.Until(ctx, began.Add(t.allowed))
	}
	t.Replies = t.client.Do(ctx, t.calls...)
	t.took = time.Since(began)
	for i, reply := range t.Replies {
		if reply.Err == nil {
			continue
		}
		var refused *driver.ServerError
		isRefused := errors.As(reply.Err, &refused)
		err := reply.Err
		if !t.patient {
			err = fmt.Errorf("%s: %w", t.calls[i].Name(), reply.Err)
		}
		if !isRefused && t.took >= t.allowed {
			err = fmt.Errorf("%s: timed out after %v (%d bytes sent, %d asked for): %w",
				t.calls[i].Name(), t.allowed.Round(time.Millisecond), t.sent, t.expected, reply.Err)
		}
		t.Replies[i].Err = err
		if !isRefused && t.lost == nil {
			t.lost = err
		}
	}
}

// End adapts the Link to the result of a trip that was sent. Several trips that fail in one outage count
// once.
func (l *Link) End(t *Trip) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.underWay -= t.sent + t.expected
	switch {
	case t.patient && t.lost == nil:
		l.pages.Answered(t.sent+t.got(), t.took, t.allowed)
	case t.patient:
		// A trip whose context ended sooner does not measure the link, and trips that were under way together
		// count once.
		if !driver.Certain(t.lost) && t.allowed >= usualRound && t.begun.After(l.failedAt) {
			l.pages.Failed()
			l.failedAt = time.Now()
		}
	case t.small && t.lost == nil:
		l.small.Eased(t.took, t.allowed)
		l.pages.Answered(0, t.took, t.allowed)
		l.answered()
	case t.small:
		l.away = true // Redis is away, or a new connection takes longer than this
		if t.took >= t.allowed {
			l.small.Failed()
		}
	case t.lost == nil:
		l.pages.Answered(t.sent+t.got(), t.took, t.allowed)
	case l.lost == nil && !driver.Certain(t.lost):
		l.pages.Failed()
		if time.Since(l.failedAt) > episode {
			l.reported, l.certain, l.failedAt = false, false, time.Time{}
		}
		l.certain = l.certain || t.took >= t.allowed || !l.failedAt.IsZero()
		l.lost, l.failedAt = t.lost, time.Now()
	}
}

// got returns how many bytes the replies have.
func (t *Trip) got() (bytes int) {
	for _, reply := range t.Replies {
		bytes += driver.Size(reply.Value)
	}
	return bytes
}

// answered records that a small call was answered. If the last page failed and no small call, the link is
// slow, which is logged once in an episode; not after a single closed connection, which may have another
// cause.
func (l *Link) answered() {
	if l.lost != nil && l.certain && !l.reported && !l.away {
		l.reported = true
		logbook.OrDiscard(l.Log).Warn("slow link: smaller pages, longer timeouts", "error", l.lost, "duty", l.Duty, "bytes", l.pages.Page())
	}
	l.lost, l.away = nil, false
}

// Check distinguishes a slow link from one that is down when the last page failed, and costs nothing
// otherwise. It returns an error if a small call fails too.
func (l *Link) Check(ctx context.Context) error {
	if !l.Unchecked() {
		return nil
	}
	l.Do(ctx, driver.Command("PING"))
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// Excused returns err, or nil for an outage that may only mean that a page was too large for the link:
// Check finds that out before the next page, which is smaller.
func (l *Link) Excused(err error) error {
	if l.Unchecked() && driver.Outage(err) {
		return nil
	}
	return err
}

// Unchecked reports whether the last page failed and no small call has been answered since.
func (l *Link) Unchecked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost != nil
}

// RoundTrip returns how long calls with few bytes take; zero before the first one.
func (l *Link) RoundTrip() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pages.round
}

// Page returns the maximum number of bytes of jobs that the next calls may ask for, all together.
func (l *Link) Page() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pages.Page()
}

package lua

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belayq/belay/driver"
)

// usualRound is the round of a Link that names none.
const usualRound = 1500 * time.Millisecond

// episode is for how long after its last failed call a link counts as slow: its owner reports it once in that time.
const episode = time.Minute

// A Link is one duty's way to Redis. Every call gets a deadline of its own, which fits what the call carries: Do is for
// calls that carry no jobs, Carry for those that do. Any other deadline of a pass would be missed again and again on a
// slow link, by whatever stands at its end. It is for one goroutine at a time.
type Link struct {
	driver.Client
	// Round is what a call may take on a healthy link that carries no jobs. 1.5 s.
	Round time.Duration
	// Largest is how large one job may be in bytes.
	Largest int

	pages Pace
	small Pace // of calls that carry no jobs: their waits grow too where a new connection takes long

	lost     error     // why the last page did not come, until Check tells
	failedAt time.Time // when a page failed last
	certain  bool      // in this episode a page has timed out, or two have failed: not a connection that somebody closed
	told     bool      // Check has returned that the link is slow, in this episode
}

// Do is for calls that carry no jobs.
func (l *Link) Do(ctx context.Context, calls ...driver.Call) []driver.Reply {
	allowed := l.small.Timeout(l.round(), 0)
	replies, took, err := l.send(ctx, allowed, 0, calls)
	switch {
	case err == nil:
		l.small.Eased(took, allowed)
		l.pages.Answered(0, took, allowed)
	case took >= allowed:
		l.small.Failed()
	}
	return replies
}

// Check tells a slow link from one that is down, when the last page did not come: the error is that a small call is not
// answered either. slow is why the page did not come although small calls are answered. It is nil for one page whose
// connection ended, which somebody may have closed, and where it has been returned in this episode. Otherwise Check costs
// nothing.
func (l *Link) Check(ctx context.Context) (slow, err error) {
	if l.lost == nil {
		return nil, nil
	}
	var refused *driver.ServerError
	if err := l.Do(ctx, driver.Command("PING"))[0].Err; err != nil && !errors.As(err, &refused) {
		return nil, err
	}
	slow, l.lost = l.lost, nil
	if l.told || !l.certain {
		return nil, nil
	}
	l.told = true
	return slow, nil
}

// Unchecked reports whether the last page did not come and Check has not told why.
func (l *Link) Unchecked() bool { return l.lost != nil }

// Page is how many bytes of jobs the next calls may ask for in all.
func (l *Link) Page() int { return l.pages.Page() }

// Carry is for calls that carry jobs, and may bring so many bytes of them. What came before a failure has been executed
// and keeps its answers.
func (l *Link) Carry(ctx context.Context, expected int, calls ...driver.Call) []driver.Reply {
	sent := Carried(calls...)
	if expected > 0 && l.pages.Strained() {
		expected += l.Largest // a page holds one job at least, whatever its size
	}
	allowed := l.pages.Timeout(l.round(), sent+expected)
	replies, took, err := l.send(ctx, allowed, expected, calls)
	switch {
	case err == nil:
		got := 0
		for _, reply := range replies {
			got += Brought(reply.Value)
		}
		l.pages.Answered(sent+got, took, allowed)
	case !driver.Certain(err):
		l.pages.Failed()
		if time.Since(l.failedAt) > episode {
			l.told, l.certain, l.failedAt = false, false, time.Time{}
		}
		l.certain = l.certain || took >= allowed || !l.failedAt.IsZero()
		l.lost, l.failedAt = err, time.Now()
	}
	return replies
}

func (l *Link) round() time.Duration {
	if l.Round == 0 {
		return usualRound
	}
	return l.Round
}

// send sends calls with a deadline and answers how long they took, and why they brought no answer, if they did not: a
// refusal is an answer.
func (l *Link) send(ctx context.Context, allowed time.Duration, expected int, calls []driver.Call) ([]driver.Reply, time.Duration, error) {
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, allowed)
	defer cancel()
	replies := l.Client.Do(bounded, calls...)
	took := time.Since(began)
	var lost error
	for i, reply := range replies {
		var refused *driver.ServerError
		if reply.Err == nil || errors.As(reply.Err, &refused) {
			continue
		}
		replies[i].Err = fmt.Errorf("%s: %w", calls[i].Name(), reply.Err)
		if took >= allowed {
			replies[i].Err = fmt.Errorf("%s: timed out after %v (%d bytes sent, %d asked for): %w",
				calls[i].Name(), allowed.Round(time.Millisecond), Carried(calls...), expected, reply.Err)
		}
		if lost == nil {
			lost = replies[i].Err
		}
	}
	return replies, took, lost
}

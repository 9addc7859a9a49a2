package lua

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/belayq/belay/driver"
)

// usualRound is the default round of a Link.
const usualRound = 1500 * time.Millisecond

// episode is how long a link counts as slow after its last failed call. Its owner reports it once in that
// time.
const episode = time.Minute

// A Link is the connection of one duty to Redis. Every call gets its own deadline, which fits the size of the
// call: Do is for calls that carry no jobs, Carry for those that do. With one deadline for a whole pass, the
// last calls of a pass would miss it again and again on a slow link. A Link must not be used concurrently.
type Link struct {
	driver.Client
	// Round is what a call may take on a healthy link that carries no jobs. 1.5 s.
	Round time.Duration
	// Largest is how large one job may be in bytes.
	Largest int
	// Log gets one line for each episode of a slow link, and names its Duty.
	Log  zerolog.Logger
	Duty string

	pages Pace
	small Pace // of calls that carry no jobs: their waits grow too where a new connection takes long

	lost     error     // why the last page failed, until Check reports it
	failedAt time.Time // when a page failed last
	certain  bool      // in this episode a page has timed out, or two have failed: not just one closed connection
	reported bool      // Check has logged that the link is slow, in this episode
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

// Check distinguishes a slow link from one that is down when the last page failed, and costs nothing
// otherwise. It returns an error if a small call fails too. If small calls succeed, it logs the error of
// the page, once in an episode; not after a single closed connection, which may have another cause.
func (l *Link) Check(ctx context.Context) error {
	if l.lost == nil {
		return nil
	}
	var refused *driver.ServerError
	if err := l.Do(ctx, driver.Command("PING"))[0].Err; err != nil && !errors.As(err, &refused) {
		return err
	}
	if l.certain && !l.reported {
		l.reported = true
		LogSlowLink(l.Log, l.Duty, l.Page(), l.lost)
	}
	l.lost = nil
	return nil
}

// LogSlowLink logs that a call that carries jobs failed with err while small calls succeed, and how many
// bytes of jobs the next call of this duty asks for.
func LogSlowLink(log zerolog.Logger, duty string, bytes int, err error) {
	log.Warn().Err(err).Str("duty", duty).Int("bytes", bytes).Msg("slow link: the next calls ask for less and wait longer")
}

// Excused returns err, or nil for an outage that may only mean that a page was too large for the link:
// Check finds that out before the next page, which is smaller.
func (l *Link) Excused(err error) error {
	if l.Unchecked() && driver.Outage(err) {
		return nil
	}
	return err
}

// Unchecked reports whether the last page failed and Check has not been called since.
func (l *Link) Unchecked() bool { return l.lost != nil }

// Page is how many bytes of jobs the next calls may ask for in all.
func (l *Link) Page() int { return l.pages.Page() }

// Carry is for calls that carry jobs, and may bring so many bytes of them. What came before a failure has
// been executed and keeps its answers.
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
			l.reported, l.certain, l.failedAt = false, false, time.Time{}
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

// send sends calls with a deadline and answers how long they took, and why they brought no answer, if they
// did not: a refusal is an answer.
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

package fetch

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/belayq/belay/driver"
)

const (
	firstRest   = 50 * time.Millisecond
	longestRest = 2 * time.Second // so that work resumes well within five seconds of Redis' return
)

// jobs is what the Fetcher is called in reports.
const jobs = "jobs"

// outage is what is remembered of Redis being away: since when, and until when to leave it alone.
type outage struct {
	since, until time.Time
	rest         time.Duration
}

func (o *outage) resting(now time.Time) bool { return now.Before(o.until) }

// fail notes a failed call. Several of one instant (a pipeline's) lengthen the rest once.
func (f *Fetcher) fail(what string, err error) {
	now, o := time.Now(), &f.outage
	f.look = true // what was lost on the way lies in our lists, and the look is what tries Redis again
	f.cfg.Reporter.Fail(jobs, fmt.Errorf("%s: %w", what, err))
	if driver.TooManyClients(err) {
		f.Crowded()
	}
	if o.since.IsZero() {
		o.since = now
	}
	if o.resting(now) {
		return
	}
	o.rest = min(max(2*o.rest, firstRest), longestRest)
	// Half fixed, half drawn: a fleet must not come back in step.
	o.until = now.Add(o.rest/2 + rand.N(o.rest/2))
}

// succeed notes that Redis answers.
func (f *Fetcher) succeed() {
	f.cfg.Reporter.Answered()
	if f.outage.since.IsZero() {
		f.outage.rest = 0
		return
	}
	f.cfg.Reporter.Succeed(jobs)
	f.outage = outage{}
	f.look, f.dry = true, false
}

// probed records that Redis answered a call without jobs. If the next call with jobs fails again, the pause
// grows; only a successful call with jobs resets it.
func (f *Fetcher) probed(now time.Time) {
	rest := f.outage.rest
	f.succeed()
	f.outage.rest = rest
	f.look = false // the probe has just done it
	if f.lastFailure != nil && now.Sub(f.slowAt) >= sayAgain {
		f.slowAt = now
		f.cfg.Log.Warn().Err(f.lastFailure).Int("page_bytes", f.pace.Page()).
			Msg("a call that carries jobs got no answer though redis is there: the next one asks for less and waits longer")
	}
	f.lastFailure = nil
}

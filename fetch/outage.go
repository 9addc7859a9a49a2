package fetch

import (
	"fmt"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

const (
	firstRest   = 50 * time.Millisecond
	longestRest = 2 * time.Second // so that work resumes well within five seconds of Redis' return
)

// jobs is the loop's name in reports.
const jobs = "jobs"

// An outage is what is remembered of a Redis that is away: since when, and until when it is left alone.
type outage struct {
	since, until time.Time
	rest         lua.Backoff
}

func (o *outage) resting(now time.Time) bool { return now.Before(o.until) }

// fail records a failed call. Several of one instant (a pipeline's) lengthen the rest once.
func (k *keyspace) fail(what string, err error) {
	now, o := time.Now(), &k.outage
	k.reconcile.due = true // what was lost on the way lies in our lists, and reading their lengths is what tries Redis again
	k.cfg.Reporter.Fail(jobs, fmt.Errorf("%s: %w", what, err))
	k.tooManyClients = k.tooManyClients || driver.TooManyClients(err)
	if o.since.IsZero() {
		o.since = now
	}
	if o.resting(now) {
		return
	}
	o.until = now.Add(o.rest.Next(firstRest, longestRest))
}

// succeed records that Redis answers.
func (k *keyspace) succeed() {
	k.cfg.Reporter.Answered()
	if k.outage.since.IsZero() {
		k.outage.rest.Reset()
		return
	}
	k.cfg.Reporter.Succeed(jobs)
	k.outage = outage{}
	k.reconcile.due = true
	k.notDry()
}

// probed records that Redis answered a call without jobs. If the next call with jobs fails again, the rest
// grows; only a successful call with jobs resets it.
func (k *keyspace) probed(now time.Time) {
	rest := k.outage.rest
	k.succeed()
	k.outage.rest = rest
	k.reconcile.due = false // the probe has just read the lengths
	if k.lastFailure != nil && now.Sub(k.slowAt) >= sayAgain {
		k.slowAt = now
		lua.LogSlowLink(k.cfg.Log, jobs, k.pace.Page(), k.lastFailure)
	}
	k.lastFailure = nil
}

package fetch

import (
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/link"
)

// jobs is the loop's name in reports.
const jobs = "jobs"

// An outage holds since when Redis is away, and until when the loop sends it nothing.
type outage struct {
	since, until time.Time
	rest         link.Backoff
}

func (o *outage) resting(now time.Time) bool { return now.Before(o.until) }

// fail records a failed call. Several failures at one instant (of a pipeline) lengthen the rest once.
func (k *Keyspace) fail(err error) {
	now, o := time.Now(), &k.outage
	k.reconcile.due = true // to find jobs of a lost reply, and because this reading tries Redis again
	k.cfg.Reporter.Fail(jobs, err)
	k.tooManyClients = k.tooManyClients || driver.TooManyClients(err)
	if o.since.IsZero() {
		o.since = now
	}
	if o.resting(now) {
		return
	}
	o.until = now.Add(o.rest.Next())
}

// succeed records that Redis answers.
func (k *Keyspace) succeed() {
	k.cfg.Reporter.Answered()
	if k.outage.since.IsZero() {
		k.outage.rest.Reset()
		return
	}
	k.cfg.Reporter.Succeed(jobs)
	k.outage = outage{}
	k.reconcile.due = true
	k.readQueuesAgain()
}

// probed records that Redis answered a call that carries no jobs. Only a call with jobs that succeeds resets
// the rest; if the next one fails again, the rest grows.
func (k *Keyspace) probed() {
	rest := k.outage.rest
	k.succeed()
	k.outage.rest = rest
	k.reconcile.due = false // the probe has just read the lengths
}

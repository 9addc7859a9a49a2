package lua

import (
	"strconv"
	"time"

	"github.com/belayq/belay/job"
)

var tickScript = load("tick")

// MaxRuns is how many of a periodic job's last ticks are remembered: nearly a month of nightly ones.
const MaxRuns = 25

// A PlanState says in which state a periodic job's plan must be for a change of it.
type PlanState string

const (
	// PlanRunning is of a job that is not paused and whose last tick is the expected one.
	PlanRunning PlanState = "running"
	// PlanPaused is of a paused job.
	PlanPaused PlanState = "paused"
	// PlanAny is any state.
	PlanAny PlanState = "any"
)

// PlanNow stands for this instant, by Redis' clock, as the last tick or as the time of the next one.
const PlanNow = "now"

// PlanNever is the time of the next tick of a paused job.
const PlanNever = "+inf"

// A Plan is a change of a periodic job's plan.
type Plan struct {
	Name string
	// Digest is the digest of the definition in force.
	Digest string
	State  PlanState
	// Expected is the last tick that PlanRunning expects, as PeriodicLast holds it.
	Expected string
	// Last is the new last tick: a nominal time, PlanNow, or "" for no change.
	Last string
	// Next is the time of the next tick (see NextTick), PlanNow, PlanNever, or "" for no change.
	Next string
}

// NextTick writes the time of a tick as Plan.Next.
func NextTick(at time.Time) string { return job.Stamp(at, job.Seconds) }

// A TickJob is the job of a tick.
type TickJob struct {
	// DueAt is when the job may be stored at the earliest, by Redis' clock. It is not compared if zero.
	DueAt time.Time
	// Nominal is the tick's time as the history shows it, without spaces.
	Nominal    string
	Queue, JID string
	Bytes      string
	// Lock is the lock that the job must get to be stored; nil for none.
	Lock *Lock
	// WaitsBefore says that the tick waits for a job that took the lock before the tick was due, and WaitsAfter
	// for one that took it later. Else the job is refused.
	WaitsBefore, WaitsAfter bool
}

// The results of a tick.
const (
	TickEnqueued = "enqueued"
	TickRefused  = "refused" // as a duplicate: another job holds the lock
	TickWaits    = "waits"   // for the end of the job that holds the lock: it stays due
	TickPlanned  = "planned" // without a job
	TickEarly    = "early"   // nothing was written
	TickStale    = "stale"   // nothing was written
)

// A Ticked is the result of a Tick. Holder is the jid of the job that holds the lock, for TickRefused and
// TickWaits.
type Ticked struct{ Word, Holder string }

// Tick changes a periodic job's plan, and stores the job of a tick together with it, unless j is nil.
func (k Keys) Tick(plan Plan, j *TickJob) Ask[Ticked] {
	keys := []string{k.Periodic(), k.PeriodicDefinitions(), k.PeriodicLast()}
	args := []string{plan.Name, plan.Digest, string(plan.State), plan.Expected, plan.Last, plan.Next}
	if j != nil {
		keys = append(keys, k.PeriodicRuns(plan.Name), k.Queues(), k.Queue(j.Queue), k.Unique(), k.Refusals())
		due := "0"
		if !j.DueAt.IsZero() {
			due = job.Stamp(j.DueAt, job.Seconds)
		}
		args = append(args, due, j.Nominal, strconv.Itoa(MaxRuns), j.Queue, j.Bytes, j.JID)
		if j.Lock != nil {
			keys = append(keys, k.Lock(j.Lock.Digest))
			args = append(args, j.Lock.Digest, j.Lock.Owner, millis(j.Lock.Hold), bit(j.WaitsBefore), bit(j.WaitsAfter))
		}
	}
	return asking(tickScript, keys, args, func(r reader) (Ticked, error) {
		return Ticked{r.text(), r.text()}, r.end()
	})
}

package inspect

import "slices"

// An Action is what Act does to jobs. ActionsIn lists those that are possible in a place.
type Action string

const (
	// Retry moves jobs to the backs of their queues, as Sidekiq's pages do. It decrements their retry_count,
	// so that they get one more run (except for scheduled and quarantined jobs, whose last run has not failed),
	// and clears their count of crashes, so that quarantined jobs need not run alone. It ends earlier
	// cancellations of a job, and its expiry and its deadline: it will run. A unique job that is dead
	// takes its lock again; if another job holds the lock, Retry refuses it, unless its class stores
	// duplicates. It also refuses unreadable entries, and jobs that died because of their size and still
	// exceed Selection.PayloadLimit.
	Retry Action = "retry"
	// Reschedule lets scheduled jobs and retries wait until Task.At instead, and prolongs the unique locks
	// that they hold. With Task.Later, jobs that wait for a later time stay as they are. Each job of a task
	// waits a microsecond longer than the one before it: Ruby's pages take all jobs of one time out of their
	// set to act on one of them, and a Ruby process that is killed there loses them.
	Reschedule Action = "reschedule"
	// Move moves jobs of a queue, or its quarantined jobs, to the back of the queue Task.To; quarantined jobs
	// stay quarantined. Jobs that wait at a gate go to the back of Task.To too, where they line up anew;
	// without a Task.To each goes to its own queue, unchanged. They keep their order, except for jobs that are
	// chosen among many and lie deep in a long queue. Jobs of a set stay where they are, and go to that queue
	// when they run. Only names of queues change (see job.Job.MovedTo); they keep their unique locks.
	// Unreadable entries are refused, because the name cannot be changed.
	Move Action = "move"
	// Kill moves jobs to the dead set unchanged. Like Delete, it releases the locks of unique jobs in the
	// same step, and pushes the extra run for refused duplicates (see dedup.Rule.RescheduleOnce). A full dead
	// set loses its oldest jobs to these: see WithDeadLimits.
	Kill Action = "kill"
	// Delete removes jobs for good.
	Delete Action = "delete"
)

// An actionRow describes one action.
type actionRow struct {
	action   Action
	past     string
	destroys bool
	places   []Place // where it is possible
}

// actionTable has all actions, in the order in which programs offer them. Act refuses what it does not
// have, and the command line and the dashboard offer what it has.
var actionTable = []actionRow{
	// Jobs of a queue and of a gate wait to run already.
	{Retry, "retried", false, []Place{PlaceQuarantined, PlaceScheduled, PlaceRetry, PlaceDead}},
	// Only these jobs wait for a time.
	{Reschedule, "rescheduled", false, []Place{PlaceScheduled, PlaceRetry}},
	{Move, "moved", false, []Place{PlaceQueue, PlaceQuarantined, PlaceWaiting, PlaceScheduled, PlaceRetry, PlaceDead}},
	{Kill, "killed", true, []Place{PlaceQueue, PlaceQuarantined, PlaceWaiting, PlaceScheduled, PlaceRetry}},
	{Delete, "deleted", true, []Place{PlaceQueue, PlaceQuarantined, PlaceWaiting, PlaceScheduled, PlaceRetry, PlaceDead}},
}

// ActionsIn returns the actions that are possible in at least one of these places, in the order in which
// programs offer them.
func ActionsIn(places ...Place) (actions []Action) {
	for _, row := range actionTable {
		if slices.ContainsFunc(places, row.action.PossibleIn) {
			actions = append(actions, row.action)
		}
	}
	return actions
}

// PossibleIn reports whether the action is possible for jobs in a place.
func (a Action) PossibleIn(place Place) bool { return slices.Contains(a.row().places, place) }

// Past returns the past participle of the action, such as "retried"; empty if there is no such action.
func (a Action) Past() string { return a.row().past }

// Destroys reports whether the jobs end, so that a mistake loses them: programs ask first.
func (a Action) Destroys() bool { return a.row().destroys }

// row returns the action's row of the table; a row without places if there is no such action.
func (a Action) row() actionRow {
	for _, row := range actionTable {
		if row.action == a {
			return row
		}
	}
	return actionRow{}
}

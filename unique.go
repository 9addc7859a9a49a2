package belay

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
)

// Until is when the lock of a Unique job ends: UntilExecuting, UntilExecuted or UntilExpired.
type Until = dedup.Until

const (
	// UntilExecuting locks from the push until the job starts: while a job waits, an equal one is refused,
	// and a push after its start is accepted.
	UntilExecuting = dedup.UntilExecuting
	// UntilExecuted locks from the push until the job has ended, through all its retries: done, discarded or
	// dead.
	UntilExecuted = dedup.UntilExecuted
	// UntilExpired locks from the push until the TTL has passed, though the job is done by then: one job is
	// accepted in each period, and it is the first.
	UntilExpired = dedup.UntilExpired
)

// UniqueOpts are the options of Unique. The zero value is the default.
type UniqueOpts struct {
	// Fields are the names of the fields of T, the arguments, that make jobs equal. A push of the class by
	// belay push --unique, which compares all arguments, is never a duplicate of these jobs. Fields needs a
	// Definition, and excludes UniqueBy. Default: the Fields of the class, or UniqueBy, or all arguments.
	Fields []string
	// TTL is when the lock expires unless it is released or renewed, in whole milliseconds. With UntilExpired
	// it is the period, and only an operator releases the lock before its end. For a scheduled job or a retry
	// it counts from when the job may run. While the job runs, each heartbeat of its process renews the lock
	// for at least as long as the process counts as alive. Default: six hours.
	//
	// A TTL shorter than the longest wait in the queue allows a second job. Without RescheduleOnce, a TTL
	// shorter than two heartbeats may even expire between the take of the job and the first renewal.
	TTL time.Duration
	// IncludingScheduled makes scheduled jobs, pushed by In or At, unique too. Without it a scheduled job is
	// accepted even if another job holds the lock. When it is due, it takes the lock if the lock is free; in
	// any case it goes to its queue and runs. UntilExpired always includes scheduled jobs.
	IncludingScheduled bool
	// RescheduleOnce runs the job once more after its end if a duplicate was refused after it had started,
	// because the run may not have seen the change that the duplicate was pushed for. Any number of refused
	// duplicates leads to one more run. It requires UntilExecuted, and excludes MarkDuplicates, which refuses
	// no push.
	//
	// The rule is stored in the job that holds the lock. So every refused duplicate triggers the rerun, even
	// if it was pushed without RescheduleOnce, such as by an older version of the program. A job that was
	// pushed before its class had RescheduleOnce is not run once more. A second push with the jid of the job
	// itself, after its start, is a refused duplicate too.
	//
	// The ExpiresIn of the job begins anew for the extra run. Its Deadline, which counts from the push, does
	// not hold for the extra run, so that one may start and run later than that.
	RescheduleOnce bool
	// PerQueue makes jobs in different queues unequal. Without it the queue is ignored.
	PerQueue bool
	// MarkDuplicates stores duplicates without the lock instead of refusing them, and marks them: the payload
	// field duplicate-of and the receipt's Holder are the jid of the job that holds the lock. (A scheduled job
	// that does not use the lock yet is not marked.) Use it for classes whose duplicates must run too, but
	// should be visible.
	MarkDuplicates bool
}

// Unique refuses a job while an equal job holds their common lock, which ends as until says: UntilExecuting,
// UntilExecuted or UntilExpired. Jobs are equal if they have the same class and the same arguments;
// UniqueOpts.Fields and UniqueBy compare less. A refusal is not an error: the receipt has StatusDuplicate,
// and its Holder is the jid of the job that holds the lock. A job may also have a Key.
//
// Unique decides which pushes are accepted. An accepted job runs at least once, even if it loses its lock: a
// retry or a recovery does not need the lock. The lock ends after its TTL at the latest if it is not renewed,
// so it is not a mutex: see "Unique jobs" in the package's documentation. The lock of a payload that is too
// large for a worker is released when a worker moves that job to the dead set.
//
// Like every JobOption it can be applied to a RawJob: belay.Unique(belay.UntilExecuted)(&raw).
func Unique(until Until, opts ...UniqueOpts) JobOption {
	rule := dedup.Rule{Until: until}
	for _, o := range opts {
		rule = dedup.Rule{
			Until: until, TTL: o.TTL, IncludingScheduled: o.IncludingScheduled, RescheduleOnce: o.RescheduleOnce,
			MarkDuplicates: o.MarkDuplicates, PerQueue: o.PerQueue, Fields: o.Fields,
		}
	}
	return func(i *RawJob) {
		own := rule // of each job: a middleware may change it
		i.Unique, i.NotUnique = &own, false
		if len(opts) > 1 {
			i.Fail(errors.New("Unique has several UniqueOpts; give one"))
		}
	}
}

// NotUnique pushes a job without a lock, even if its class is Unique or its client has DeduplicateIdempotent.
// Otherwise it has no effect.
func NotUnique() JobOption { return func(i *RawJob) { i.Unique, i.NotUnique = nil, true } }

// UniqueBy makes jobs of a Unique class equal if identity returns the same value for their arguments. The
// value may be of any type that can be written as JSON. identity is called at each push, with the arguments
// that will be stored, which middleware may have changed. A value that contains a struct without JSON
// members, such as one without exported fields, fails the push.
//
// A push of the class by belay push --unique, or from another language, compares all arguments. So it is never
// a duplicate of these jobs, unless it computes dedup.Digest of the same value.
func UniqueBy[T any](identity func(args T) any) DefineOption {
	return definitionOption(func(def *definition) {
		switch {
		case identity == nil:
			def.problems = append(def.problems, errors.New("the function of UniqueBy is nil"))
			return
		case def.uniqueBy != nil:
			def.problems = append(def.problems, errors.New("UniqueBy is given twice; give it once"))
		case def.of != reflect.TypeFor[T]():
			def.problems = append(def.problems, fmt.Errorf("UniqueBy wants a %v, and the arguments are a %v", reflect.TypeFor[T](), def.of))
		}
		def.uniqueBy = func(argsJSON string) (string, error) {
			list, err := job.SplitArgs(argsJSON)
			if err != nil {
				return "", err
			}
			var args T
			if err := def.shape.Fill(reflect.ValueOf(&args).Elem(), list); err != nil {
				return "", err
			}
			text, err := job.Marshal(identity(args))
			if err != nil {
				err = fmt.Errorf("the answer of UniqueBy: %w", err)
			}
			return text, err
		}
	})
}

// identify completes the Unique of the class, after all its options are known.
func (d *definition) identify() {
	rule := d.item.Unique
	switch {
	case d.shape == nil:
		d.item.Unique = nil // T is wrong enough
	case rule == nil && d.uniqueBy != nil:
		d.problems = append(d.problems, errors.New("UniqueBy has no effect without Unique; add Unique"))
	case rule != nil && rule.Fields != nil && d.uniqueBy != nil:
		d.problems = append(d.problems, errors.New("both UniqueBy and the Fields of Unique say which jobs are equal; give one of them"))
	case rule != nil && rule.Fields != nil:
		d.resolve(&d.item)
		d.positions = d.item.Unique.Positions
	}
}

// resolve sets in the rule of a job of the class which arguments identify it: its Fields, or else what the
// class compares, unless the rule says it in another way.
func (d *definition) resolve(item *RawJob) {
	if item.Unique == nil {
		return
	}
	rule := *item.Unique // the definition's own is shared by all its jobs
	switch {
	case rule.Fields != nil:
		rule.Positions = nil
		for _, name := range rule.Fields {
			position, err := d.shape.Position(name)
			switch {
			case err != nil:
				item.Fail(fmt.Errorf("the Fields of Unique: %w", err))
			case slices.Contains(rule.Positions, position):
				item.Fail(fmt.Errorf("the Fields of Unique name %s twice", name))
			}
			rule.Positions = append(rule.Positions, position)
		}
		if len(rule.Fields) == 0 {
			item.Fail(errors.New("the Fields of Unique are empty; leave them out to compare all arguments"))
		}
		rule.Fields = nil
	case rule.By == nil && rule.Positions == nil:
		rule.By, rule.Positions = d.uniqueBy, d.positions
	}
	item.Unique = &rule
}

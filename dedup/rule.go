package dedup

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/belayq/belay/job"
)

// Until is when a job's lock ends, as payloads and command lines spell it.
type Until string

const (
	// UntilExecuting locks from the push until the job starts: while one job waits, another would add
	// nothing. A push during the run is accepted, because the run may already have read its data. A started
	// job that waits again (after a failure or a crash) holds no lock.
	UntilExecuting Until = "until_executing"
	// UntilExecuted locks from the push until the job has ended, through all its retries: done, discarded or
	// dead.
	UntilExecuted Until = "until_executed"
	// UntilExpired locks from the push until the TTL has passed, whatever becomes of the job: one job is
	// accepted in each period. The payload does not name the lock, so nothing releases or renews it but an
	// operator.
	UntilExpired Until = "until_expired"
)

const (
	// DefaultTTL is when a lock expires unless it is released or renewed. Most jobs wait for less time in
	// their queue, and an operator who waits for the expiry waits for less than a working day.
	DefaultTTL = 6 * time.Hour
	// MaxTTL is the longest TTL of a rule. A longer one is probably a mistaken unit.
	MaxTTL = 10 * 365 * 24 * time.Hour
)

// A Rule configures the unique jobs of a class. Check refuses the zero Rule.
type Rule struct {
	// Until is when the lock ends.
	Until Until
	// TTL is when the lock expires unless it is released or renewed, in whole milliseconds. Default:
	// DefaultTTL.
	TTL time.Duration
	// IncludingScheduled makes jobs that are pushed for later unique too; their locks last longer by their
	// delay. Without it such a job is always accepted. When it comes due it takes the lock if it is free, and
	// runs in any case. UntilExpired always includes them.
	IncludingScheduled bool
	// RescheduleOnce runs the job once more after its end if a duplicate was refused after its start: the
	// change that the duplicate was pushed for may have been too late for the run. Any number of refused
	// duplicates leads to one more run. The run itself serves duplicates refused before its start. It
	// requires UntilExecuted.
	//
	// The rule is stored in the job that holds the lock; the rejected push's rule is ignored.
	RescheduleOnce bool
	// MarkDuplicates stores a duplicate without the lock and marks it with the field DuplicateOf, so it
	// excludes RescheduleOnce. Without it duplicates are refused.
	MarkDuplicates bool
	// PerQueue makes jobs in different queues unequal. Without it the queue is ignored, because a job may
	// change its queue: retries may have a queue of their own, and a push to another queue asks for the same
	// work.
	PerQueue bool
	// Positions are the arguments that identify a job, counted from 1, in this order. An empty list means all
	// arguments. A missing argument counts as null.
	Positions []int
	// Fields are the names of these arguments instead, in a struct of which only a belay.Definition knows: it
	// replaces them by Positions.
	Fields []string
	// By returns a JSON value that identifies a job with these args (a JSON array). If By is set, Positions
	// must be empty. It is called at the push, on the caller's goroutine.
	By func(argsJSON string) (string, error)
}

// Check returns all errors of the rule, joined, or nil.
func (r Rule) Check() error {
	var errs []error
	switch {
	case r.Until == "":
		errs = append(errs, fmt.Errorf("unique until when? Set %s, %s or %s", UntilExecuting, UntilExecuted, UntilExpired))
	case !r.Until.known():
		errs = append(errs, fmt.Errorf("unique until %q: it must be %s, %s or %s", r.Until, UntilExecuting, UntilExecuted, UntilExpired))
	case r.RescheduleOnce && r.Until == UntilExpired:
		errs = append(errs, fmt.Errorf("reschedule once requires %s: with %s, the job is accepted once in each TTL", UntilExecuted, r.Until))
	case r.RescheduleOnce && r.Until != UntilExecuted:
		errs = append(errs, fmt.Errorf("reschedule once requires %s: with %s, a push after the start is accepted and runs anyway", UntilExecuted, r.Until))
	}
	if r.RescheduleOnce && r.MarkDuplicates {
		errs = append(errs, errors.New("reschedule once applies to refused duplicates, and mark duplicates refuses none: "+
			"choose one"))
	}
	if r.TTL != 0 {
		errs = append(errs, CheckTTL(r.TTL))
	}
	if r.By != nil && len(r.Positions) > 0 {
		errs = append(errs, errors.New("both By and Positions say which arguments identify a job; set one"))
	}
	if r.Fields != nil {
		errs = append(errs, fmt.Errorf("the fields %q identify no job without a Definition, which knows their order", r.Fields))
	}
	for i, position := range r.Positions {
		switch {
		case position < 1:
			errs = append(errs, fmt.Errorf("argument %d identifies no job: arguments are counted from 1", position))
		case slices.Contains(r.Positions[:i], position):
			errs = append(errs, fmt.Errorf("argument %d is named twice among those that identify a job", position))
		}
	}
	return errors.Join(errs...)
}

func (u Until) known() bool { return u == UntilExecuting || u == UntilExecuted || u == UntilExpired }

// CheckTTL returns an error unless the TTL is above 0, at most MaxTTL, and a whole number of milliseconds,
// the unit of Redis. It is not rounded, so that two programs cannot disagree about it.
func CheckTTL(ttl time.Duration) error {
	switch {
	case ttl <= 0:
		return fmt.Errorf("a lock for %v holds nothing: its TTL must be above 0", ttl)
	case ttl > MaxTTL:
		return fmt.Errorf("a lock for %v: its TTL must be at most %v; was a unit mistaken?", ttl, MaxTTL)
	case ttl%time.Millisecond != 0:
		return fmt.Errorf("a lock for %v: its TTL must be a whole number of milliseconds", ttl)
	}
	return nil
}

// Lock returns the lock of a job with this rule. It returns the errors of Check, By and Digest; a job with
// such an error must not be pushed, because it would not be unique. The draft must have its JID, which
// identifies the holder.
func (r Rule) Lock(d job.Draft) (Lock, error) {
	if err := r.Check(); err != nil {
		return Lock{}, err
	}
	if d.JID == "" {
		return Lock{}, errors.New("a lock needs the jid of its job")
	}
	identity, err := r.identity(d.ArgsJSON)
	if err != nil {
		return Lock{}, fmt.Errorf("find what identifies the job: %w", err)
	}
	queue := ""
	if r.PerQueue {
		queue = d.Queue
	}
	digest, err := digest(d.Class, queue, identity)
	if err != nil {
		return Lock{}, fmt.Errorf("find what identifies the job: %w", err)
	}
	return Lock{
		Digest: digest, JID: d.JID, Until: r.Until, TTL: cmp.Or(r.TTL, DefaultTTL),
		Rerun: r.RescheduleOnce, Scheduled: r.IncludingScheduled || r.Until == UntilExpired, Mark: r.MarkDuplicates,
	}, nil
}

// identity returns the JSON that identifies a job among those of its class.
func (r Rule) identity(argsJSON string) (string, error) {
	argsJSON = cmp.Or(argsJSON, "[]") // as job.Draft writes it
	switch {
	case r.By != nil:
		return r.By(argsJSON)
	case len(r.Positions) > 0:
		return pick(argsJSON, r.Positions)
	}
	return argsJSON, nil
}

// pick returns the JSON array of the arguments at these positions.
func pick(argsJSON string, positions []int) (string, error) {
	args, err := job.SplitArgs(argsJSON)
	if err != nil {
		return "", err
	}
	out := []byte{'['}
	for i, position := range positions {
		if i > 0 {
			out = append(out, ',')
		}
		if position > len(args) {
			out = append(out, "null"...)
			continue
		}
		out = append(out, args[position-1]...)
	}
	return string(append(out, ']')), nil
}

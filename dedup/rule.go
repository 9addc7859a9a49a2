package dedup

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/belayq/belay/job"
)

// Until names the end of a job's lock, as payloads and command lines spell it.
type Until string

const (
	// UntilExecuting locks from the push until the job is started: while one waits, another adds nothing. One
	// that is pushed during the run is accepted, because the run may have read its data already. A started
	// job that waits again (a retry, a crash) holds no lock any more.
	UntilExecuting Until = "until_executing"
	// UntilExecuted locks from the push until the job has ended, through all its retries: done, discarded or
	// dead.
	UntilExecuted Until = "until_executed"
)

const (
	// DefaultTTL is how long a lock stands at most that nobody releases or renews. It is longer than most
	// queues are, and an operator who has to wait for it waits for less than a working day.
	DefaultTTL = 6 * time.Hour
	// MaxTTL bounds what a rule may say. Beyond it lies a mistaken unit, not a plan.
	MaxTTL = 10 * 365 * 24 * time.Hour
)

// An Option changes a Rule. An Until is one.
type Option interface{ Apply(rule *Rule) }

// Apply sets when the lock ends.
func (u Until) Apply(rule *Rule) { rule.Until = u }

// A Rule is what a class says about its unique jobs. The zero Rule is none; Check refuses it.
type Rule struct {
	// Until is when the lock ends.
	Until Until
	// TTL is how long the lock stands at most if nobody releases or renews it, in whole milliseconds.
	// DefaultTTL.
	TTL time.Duration
	// IncludingScheduled makes jobs that are pushed for later unique too; their locks stand for their delay
	// longer. Without it such a job is accepted whoever holds the lock. When its time has come it takes the
	// lock if that is free, and is run in any case.
	IncludingScheduled bool
	// RescheduleOnce runs the job once more when it has ended, if any other was refused after its start: what
	// that one was pushed for may have come too late for the run. However many were refused, they are one
	// more run. Those refused before the start are served by the run itself. It goes with UntilExecuted
	// alone.
	//
	// It travels with the job that has the lock: what the refused one's own rule says does not count.
	RescheduleOnce bool
	// MarkDuplicates stores a duplicate without the lock and marks it with the field DuplicateOf, so it
	// excludes RescheduleOnce. Without it duplicates are refused.
	MarkDuplicates bool
	// PerQueue makes jobs in different queues different. Without it the queue does not count, because a job
	// moves: retries have a queue of their own, and a push to another queue asks for the same work.
	PerQueue bool
	// Positions are the arguments that identify a job, counted from 1, in this order. None is all arguments.
	// One that a job lacks counts as null.
	Positions []int
	// By answers what identifies a job with these args (a JSON array), as any JSON value. With it, Positions
	// must be empty. It is called at the push, on the caller's goroutine.
	By func(argsJSON string) (string, error)
}

// Check says what is wrong with the rule, all of it at once, nil when nothing is.
func (r Rule) Check() error {
	var wrong []error
	switch {
	case r.Until == "":
		wrong = append(wrong, fmt.Errorf("unique until when? Say %s or %s", UntilExecuting, UntilExecuted))
	case !r.Until.known():
		wrong = append(wrong, fmt.Errorf("unique until %q: it is %s or %s", r.Until, UntilExecuting, UntilExecuted))
	case r.RescheduleOnce && r.Until != UntilExecuted:
		wrong = append(wrong, fmt.Errorf("reschedule once goes with %s alone: with %s, what is pushed after the start is accepted "+
			"and runs anyway", UntilExecuted, r.Until))
	}
	if r.RescheduleOnce && r.MarkDuplicates {
		wrong = append(wrong, errors.New("reschedule once applies to refused duplicates, and mark duplicates refuses none: "+
			"choose one"))
	}
	if r.TTL != 0 {
		wrong = append(wrong, CheckTTL(r.TTL))
	}
	if r.By != nil && len(r.Positions) > 0 {
		wrong = append(wrong, errors.New("both By and Positions say which arguments identify a job; set one"))
	}
	for i, position := range r.Positions {
		switch {
		case position < 1:
			wrong = append(wrong, fmt.Errorf("argument %d identifies no job: arguments are counted from 1", position))
		case slices.Contains(r.Positions[:i], position):
			wrong = append(wrong, fmt.Errorf("argument %d is named twice among those that identify a job", position))
		}
	}
	return errors.Join(wrong...)
}

func (u Until) known() bool { return u == UntilExecuting || u == UntilExecuted }

// CheckTTL says why a lock cannot have this TTL, nil when it can: it is above 0, at most MaxTTL, and a whole
// number of milliseconds, which is what Redis counts in. Rounding one would let two programs disagree about
// it.
func CheckTTL(ttl time.Duration) error {
	switch {
	case ttl <= 0:
		return fmt.Errorf("a lock for %v holds nothing: its TTL is above 0", ttl)
	case ttl > MaxTTL:
		return fmt.Errorf("a lock for %v: its TTL is at most %v; was a unit mistaken?", ttl, MaxTTL)
	case ttl%time.Millisecond != 0:
		return fmt.Errorf("a lock for %v: its TTL is a whole number of milliseconds", ttl)
	}
	return nil
}

// Lock returns what a job of this rule carries. Its errors are Check's, those of By, and Digest's; with any
// of them the job must not be pushed, because it would not be unique. The draft must have its JID already:
// the lock's holder is known by it.
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
	digest, err := Digest(d.Class, queue, []byte(identity))
	if err != nil {
		return Lock{}, fmt.Errorf("find what identifies the job: %w", err)
	}
	ttl := r.TTL
	if ttl == 0 {
		ttl = DefaultTTL
	}
	return Lock{Digest: digest, JID: d.JID, Until: r.Until, TTL: ttl, Again: r.RescheduleOnce, Scheduled: r.IncludingScheduled, Mark: r.MarkDuplicates}, nil
}

// identity is what identifies a job among those of its class, as JSON.
func (r Rule) identity(argsJSON string) (string, error) {
	if argsJSON == "" {
		argsJSON = "[]" // as job.Draft writes it
	}
	switch {
	case r.By != nil:
		return r.By(argsJSON)
	case len(r.Positions) > 0:
		return pick(argsJSON, r.Positions)
	}
	return argsJSON, nil
}

// pick is the array of the arguments at these positions.
func pick(argsJSON string, positions []int) (string, error) {
	var args []json.RawMessage
	if err := json.Unmarshal([]byte(argsJSON), &args); err != nil {
		return "", errors.New("the arguments are not a JSON array")
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

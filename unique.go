package belay

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/job/args"
)

type (
	// Until says when a unique job's lock ends: UntilExecuting or UntilExecuted.
	Until = dedup.Until
	// UniqueRule is what Unique makes of its options, for an Item of a class that has no Definition here. Its fields:
	// go doc github.com/belayq/belay/dedup.Rule.
	UniqueRule = dedup.Rule
)

const (
	// UntilExecuting locks from the push until the job starts: while one waits, another adds nothing.
	UntilExecuting = dedup.UntilExecuting
	// UntilExecuted locks from the push until the job has ended, through all its retries: done, discarded or dead.
	UntilExecuted = dedup.UntilExecuted
	// StatusDuplicate is the status of a push that was refused because another job holds the lock. It is no error.
	StatusDuplicate = client.StatusDuplicate
)

// A UniqueOption configures Unique. UntilExecuting and UntilExecuted are two.
type UniqueOption = dedup.Option

type uniqueOption func(*UniqueRule)

// Apply implements UniqueOption.
func (o uniqueOption) Apply(rule *UniqueRule) { o(rule) }

// Unique refuses a job while another job that counts as the same holds their lock: one of the same class with the same
// arguments, or with the same of what UniqueByFields or UniqueBy compare. A refusal is no error: the receipt has StatusDuplicate,
// and its Holder is the jid of the job that holds the lock. Whether the class is Idempotent makes no difference; see
// MarkDuplicates for duplicates that should run all the same.
//
// The lock ends as UntilExecuting or UntilExecuted says. Without either it is UntilExecuting: while one such job waits, another
// adds nothing, and a push after its start is accepted.
//
// What is unique is the accepted push. A job that was accepted runs at least once, as any other, whatever happens to its lock: a
// retry or a recovery does not need it. The lock ends after its LockTTL at the latest if it is not renewed, so it is not a mutex:
// see "Unique jobs" in the package's documentation. The lock of a payload that is too large for a worker is released when a worker
// moves that job to the dead set.
func Unique(options ...UniqueOption) JobOption {
	var rule UniqueRule
	var wrong []error
	said := false
	for _, option := range options {
		if option == nil {
			wrong = append(wrong, errNilOption)
			continue
		}
		before := rule.Until
		option.Apply(&rule)
		if _, isUntil := option.(Until); isUntil && said && rule.Until != before {
			wrong = append(wrong, fmt.Errorf("unique until %s and until %s: choose one", before, rule.Until))
		} else if isUntil {
			said = true
		}
	}
	if !said && rule.Until == "" {
		rule.Until = UntilExecuting
	}
	return func(i *Item) {
		own := rule // of each job: a middleware may change it
		i.Unique, i.NotUnique = &own, false
		for _, err := range wrong {
			i.Fail(err)
		}
	}
}

// NotUnique pushes a job whether or not the lock is held, and without taking it, though its class is Unique or its client has
// DeduplicateIdempotent. For a class that is neither it changes nothing.
func NotUnique() JobOption { return func(i *Item) { i.Unique, i.NotUnique = nil, true } }

// MarkDuplicates has duplicates stored instead of refused, as jobs without the lock, and marked: the field duplicate-of of the
// payload, and the Holder of the receipt, are the jid of the job that holds the lock. (A job for later that neither takes nor meets
// the lock yet is not marked.) It is for classes of which each push must run, and whose duplicates only should be seen.
func MarkDuplicates() UniqueOption {
	return uniqueOption(func(r *UniqueRule) { r.MarkDuplicates = true })
}

// LockTTL is how long a lock stands at most that nobody releases or renews, in whole milliseconds: six hours without it. For a
// job that waits, for its time or a retry, it counts from when the job may run; while the job runs it is renewed at each beat of its
// process (1.5 s, see Heartbeat), for at least as long as the process would count as alive.
//
// One that is shorter than the longest wait in the queue lets a second job in. One of less than two beats may, without
// RescheduleOnce, even lapse between the take of the job and the first renewal.
func LockTTL(d time.Duration) UniqueOption {
	if d == 0 {
		d = -1 // or it would be taken for "not said"
	}
	return uniqueOption(func(r *UniqueRule) { r.TTL = d })
}

// IncludingScheduled makes jobs unique too that are pushed for later, by In or At. Without it such a job is accepted whoever
// holds the lock, and takes it when its time has come, if it is free then.
func IncludingScheduled() UniqueOption {
	return uniqueOption(func(r *UniqueRule) { r.IncludingScheduled = true })
}

// RescheduleOnce runs the job once more when it has ended, if any other was refused after it had started: what that one was
// pushed for may have come too late for the run. However many were refused, they are one more run. It goes with
// UntilExecuted alone, and not with MarkDuplicates, which refuses none.
//
// The rule travels with the job that has the lock. So whoever is refused is run for, also one that was pushed without it, such as by
// an older version of the program; and a job that was pushed before RescheduleOnce was said of its class is not run once more.
// A push under the jid of the job itself, once that has started, is refused and run for like any other.
func RescheduleOnce() UniqueOption {
	return uniqueOption(func(r *UniqueRule) { r.RescheduleOnce = true })
}

// PerQueue makes jobs in different queues different. Without it the queue does not count.
func PerQueue() UniqueOption {
	return uniqueOption(func(r *UniqueRule) { r.PerQueue = true })
}

// UniqueByFields has the jobs of a Unique class count as the same when these fields of their arguments are equal, instead
// of all arguments. A push of the class by belay push --unique, which compares all arguments, counts as the same as none of these.
func UniqueByFields(names ...string) DefineOption {
	return definitionOption(func(def *definition) {
		def.identify(func(shape *args.Shape, _ reflect.Type, rule *UniqueRule) error {
			var wrong []error
			if len(names) == 0 {
				wrong = append(wrong, errors.New("UniqueByFields names none"))
			}
			for _, name := range names {
				position, err := shape.Position(name)
				switch {
				case err != nil:
					wrong = append(wrong, fmt.Errorf("UniqueByFields: %w", err))
				case slices.Contains(rule.Positions, position):
					wrong = append(wrong, fmt.Errorf("UniqueByFields names field %s twice", name))
				}
				rule.Positions = append(rule.Positions, position)
			}
			return errors.Join(wrong...)
		})
	})
}

// UniqueBy has the jobs of a Unique class count as the same when identity answers the same for their arguments: any value
// that has JSON. It is called at each push, with the arguments as they are to be stored, which OnPush may have changed. An answer
// that holds a struct of which nothing is written, such as one without exported fields, fails the push.
//
// A push of the class by belay push --unique, or by another language, counts as the same as none of these: that compares all
// arguments, unless it computes dedup.Digest of the same answer.
func UniqueBy[T any](identity func(args T) any) DefineOption {
	return definitionOption(func(def *definition) {
		def.identify(func(shape *args.Shape, of reflect.Type, rule *UniqueRule) error {
			switch {
			case identity == nil:
				return errors.New("the function of UniqueBy is nil")
			case of != reflect.TypeFor[T]():
				return fmt.Errorf("UniqueBy wants a %v, and the arguments are a %v", reflect.TypeFor[T](), of)
			}
			rule.By = func(argsJSON string) (string, error) {
				var texts []json.RawMessage
				if err := json.Unmarshal([]byte(argsJSON), &texts); err != nil {
					return "", errors.New("the arguments are not a JSON array")
				}
				list := make([]string, len(texts))
				for i, text := range texts {
					list[i] = string(text)
				}
				var args T
				if err := shape.Fill(reflect.ValueOf(&args).Elem(), list); err != nil {
					return "", err
				}
				return marshalIdentity(identity(args))
			}
			return nil
		})
	})
}

// marshalIdentity refuses an answer that would make all jobs of the class one: they would be dropped without a word.
func marshalIdentity(answer any) (string, error) {
	text, err := job.Marshal(answer)
	if err != nil {
		return "", err
	}
	if err := args.Lossless(answer); err != nil {
		return "", fmt.Errorf("the answer of UniqueBy: %w", err)
	}
	return text, nil
}

// An identification says in a rule what identifies jobs whose arguments are of this shape and type.
type identification func(shape *args.Shape, of reflect.Type, rule *UniqueRule) error

func (d *definition) identify(by identification) {
	if d.identification != nil {
		d.wrong = append(d.wrong, errors.New("it is said twice what makes its jobs the same; say UniqueBy or UniqueByFields once"))
	}
	d.identification = by
}

// resolveIdentity finds out what identifies the class' jobs, now that all its options are known.
func (d *definition) resolveIdentity(shape *args.Shape, of reflect.Type) {
	if d.identification == nil || shape == nil { // a T without a shape is wrong enough
		return
	}
	if d.item.Unique == nil {
		d.wrong = append(d.wrong, errors.New("it is said what makes its jobs the same, and not that they are Unique"))
	}
	if err := d.identification(shape, of, &d.identity); err != nil {
		d.wrong = append(d.wrong, err)
	}
}

// withIdentity returns the rule of one job of the class, with what identifies the class' jobs unless the rule says that itself.
func (d *definition) withIdentity(rule *UniqueRule) *UniqueRule {
	if rule == nil {
		return nil
	}
	own := *rule
	if rule.By == nil && rule.Positions == nil {
		own.By, own.Positions = d.identity.By, d.identity.Positions
	}
	return &own
}

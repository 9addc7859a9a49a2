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
	// UniqueRule holds the options of Unique, for a RawJob of a class that has no Definition here. Its fields:
	// go doc github.com/belayq/belay/dedup.Rule.
	UniqueRule = dedup.Rule
)

const (
	// UntilExecuting locks from the push until the job starts: while a job waits, an equal one is refused.
	UntilExecuting = dedup.UntilExecuting
	// UntilExecuted locks from the push until the job has ended, through all its retries: done, discarded or
	// dead.
	UntilExecuted = dedup.UntilExecuted
	// StatusDuplicate is the status of a push that was refused because another job holds the lock. It is not
	// an error.
	StatusDuplicate = client.StatusDuplicate
)

// A UniqueOption configures Unique. UntilExecuting and UntilExecuted are UniqueOptions.
type UniqueOption = dedup.Option

type uniqueOption func(*UniqueRule)

// Apply implements UniqueOption.
func (o uniqueOption) Apply(rule *UniqueRule) { o(rule) }

// Unique refuses a job while an equal job holds their common lock. Jobs are equal if they have the same class
// and the same arguments, or the same key if the class has UniqueByFields or UniqueBy. A refusal is not an
// error: the receipt has StatusDuplicate, and its Holder is the jid of the job that holds the lock. Use
// MarkDuplicates if duplicates should run anyway.
//
// UntilExecuting and UntilExecuted set when the lock ends. The default is UntilExecuting: while a job waits,
// an equal one is refused, and a push after its start is accepted.
//
// Unique decides which pushes are accepted. An accepted job runs at least once, even if it loses its lock: a
// retry or a recovery does not need the lock. The lock ends after its LockTTL at the latest if it is not
// renewed, so it is not a mutex: see "Unique jobs" in the package's documentation. The lock of a payload that
// is too large for a worker is released when a worker moves that job to the dead set.
func Unique(options ...UniqueOption) JobOption {
	var rule UniqueRule
	var errs []error
	given := false
	for _, option := range options {
		if option == nil {
			errs = append(errs, errNilOption)
			continue
		}
		before := rule.Until
		option.Apply(&rule)
		if _, isUntil := option.(Until); isUntil && given && rule.Until != before {
			errs = append(errs, fmt.Errorf("unique until %s and until %s: choose one", before, rule.Until))
		} else if isUntil {
			given = true
		}
	}
	if !given && rule.Until == "" {
		rule.Until = UntilExecuting
	}
	return func(i *RawJob) {
		own := rule // of each job: a middleware may change it
		i.Unique, i.NotUnique = &own, false
		for _, err := range errs {
			i.Fail(err)
		}
	}
}

// NotUnique pushes a job without a lock, even if its class is Unique or its client has DeduplicateIdempotent.
// Otherwise it has no effect.
func NotUnique() JobOption { return func(i *RawJob) { i.Unique, i.NotUnique = nil, true } }

// MarkDuplicates stores duplicates without the lock instead of refusing them, and marks them: the payload
// field duplicate-of and the receipt's Holder are the jid of the job that holds the lock. (A scheduled job
// that does not use the lock yet is not marked.) Use it for classes whose duplicates must run too, but should
// be visible.
func MarkDuplicates() UniqueOption {
	return uniqueOption(func(r *UniqueRule) { r.MarkDuplicates = true })
}

// LockTTL sets when a lock expires unless it is released or renewed, in whole milliseconds. Default: six
// hours. For a scheduled job or a retry it counts from when the job may run. While the job runs, each
// heartbeat of its process (every 1.5 s, see ServerConfig.Heartbeat) renews the lock for at least as long as
// the process counts as alive.
//
// A TTL shorter than the longest wait in the queue allows a second job. Without RescheduleOnce, a TTL shorter
// than two heartbeats may even expire between the take of the job and the first renewal.
func LockTTL(d time.Duration) UniqueOption {
	if d == 0 {
		d = -1 // 0 would mean "not set"
	}
	return uniqueOption(func(r *UniqueRule) { r.TTL = d })
}

// IncludingScheduled makes scheduled jobs, pushed by In or At, unique too. Without it a scheduled job is
// accepted even if another job holds the lock. When its time has come, it takes the lock if it is free then.
func IncludingScheduled() UniqueOption {
	return uniqueOption(func(r *UniqueRule) { r.IncludingScheduled = true })
}

// RescheduleOnce runs the job once more after its end if a duplicate was refused after it had started,
// because the run may not have seen the change that the duplicate was pushed for. Any number of refused
// duplicates leads to one more run. It requires UntilExecuted, and excludes MarkDuplicates, which refuses no
// push.
//
// The rule is stored in the job that holds the lock. So every rejected duplicate triggers the rerun, even if
// it was pushed without RescheduleOnce, such as by an older version of the program. A job that was pushed
// before its class had RescheduleOnce is not run once more. A push under the jid of the job itself, after its
// start, is a duplicate like any other.
func RescheduleOnce() UniqueOption {
	return uniqueOption(func(r *UniqueRule) { r.RescheduleOnce = true })
}

// PerQueue makes jobs in different queues unequal. Without it the queue is ignored.
func PerQueue() UniqueOption {
	return uniqueOption(func(r *UniqueRule) { r.PerQueue = true })
}

// UniqueByFields makes jobs of a Unique class equal if these fields of their arguments are equal, instead of
// all arguments. A push of the class by belay push --unique, which compares all arguments, is never a
// duplicate of these jobs.
func UniqueByFields(names ...string) DefineOption {
	return definitionOption(func(def *definition) {
		def.identify(func(shape *args.Shape, _ reflect.Type, rule *UniqueRule) error {
			var errs []error
			if len(names) == 0 {
				errs = append(errs, errors.New("UniqueByFields names none"))
			}
			for _, name := range names {
				position, err := shape.Position(name)
				switch {
				case err != nil:
					errs = append(errs, fmt.Errorf("UniqueByFields: %w", err))
				case slices.Contains(rule.Positions, position):
					errs = append(errs, fmt.Errorf("UniqueByFields names field %s twice", name))
				}
				rule.Positions = append(rule.Positions, position)
			}
			return errors.Join(errs...)
		})
	})
}

// UniqueBy makes jobs of a Unique class equal if identity returns the same value for their arguments. The
// value may be of any type that can be written as JSON. identity is called at each push, with the arguments
// that will be stored, which middleware may have changed. A value that contains a struct without JSON
// members, such as one without exported fields, fails the push.
//
// A push of the class by belay push --unique, or from another language, compares all arguments. So it is never
// a duplicate of these jobs, unless it computes dedup.Digest of the same value.
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
				text, err := job.Marshal(identity(args))
				if err != nil {
					err = fmt.Errorf("the answer of UniqueBy: %w", err)
				}
				return text, err
			}
			return nil
		})
	})
}

// An identification sets in a rule which arguments identify the jobs of this shape and type.
type identification func(shape *args.Shape, of reflect.Type, rule *UniqueRule) error

func (d *definition) identify(by identification) {
	if d.identification != nil {
		d.wrong = append(d.wrong, errors.New("UniqueBy or UniqueByFields is given twice; give one of them once"))
	}
	d.identification = by
}

// resolveIdentity computes what identifies the class' jobs, after all its options are known.
func (d *definition) resolveIdentity(shape *args.Shape, of reflect.Type) {
	if d.identification == nil || shape == nil { // a T without a shape is wrong enough
		return
	}
	if d.item.Unique == nil {
		d.wrong = append(d.wrong, errors.New("UniqueBy and UniqueByFields have no effect without Unique; add Unique"))
	}
	if err := d.identification(shape, of, &d.identity); err != nil {
		d.wrong = append(d.wrong, err)
	}
}

// withIdentity returns the rule of one job of the class, with the class' identity unless the rule has its
// own.
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

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

// A UniqueOption says something to Unique.
type UniqueOption func(*UniqueRule)

// Unique has a job refused while another that counts as the same holds their lock: one of the same class and the same
// arguments, or whatever UniqueBy or UniqueByFields compare instead. A refusal is no error: the receipt says StatusDuplicate, and its
// Holder is the jid of the job that the lock belongs to.
//
// Two pushes of a class that is NotIdempotent are two effects, so none of them is refused: a duplicate is stored as any other
// job, without the lock, and marked by the field duplicate-of of its payload and the Holder of its receipt. (One for later that neither
// takes nor meets the lock yet is not marked.)
//
// What is unique is the accepted push. A job that was accepted runs, at least once as any other, whatever becomes of its lock:
// a retry or a recovery asks nobody. The lock ends after its LockTTL at the latest if nobody renews it, so it is no
// mutual exclusion: see "Unique jobs" in the package's documentation. A payload that is too large for a worker is buried unread, and
// its lock stands until then.
func Unique(until Until, options ...UniqueOption) JobOption {
	rule := UniqueRule{Until: until}
	for _, option := range options {
		option(&rule)
	}
	return func(i *Item) {
		own := rule // of each job: a middleware may change it
		i.Unique = &own
	}
}

// NotUnique pushes one job whoever holds the lock, and without taking it, though its class says Unique.
func NotUnique() JobOption { return func(i *Item) { i.Unique = nil } }

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
	return func(r *UniqueRule) { r.TTL = d }
}

// IncludingScheduled makes jobs unique too that are pushed for later, by In or At. Without it such a job is accepted whoever
// holds the lock, and takes it when its time has come, if it is free then.
func IncludingScheduled() UniqueOption { return func(r *UniqueRule) { r.IncludingScheduled = true } }

// RescheduleOnce runs the job once more when it has ended, if any other was refused after it had started: what that one was
// pushed for may have come too late for the run. However many were refused, they are one more run. It goes with
// UntilExecuted alone, and not with NotIdempotent, which refuses none.
//
// The rule travels with the job that has the lock. So whoever is refused is run for, also one that was pushed without it, such as by
// an older version of the program; and a job that was pushed before RescheduleOnce was said of its class is not run once more.
// A push under the jid of the job itself, once that has started, is refused and run for like any other.
func RescheduleOnce() UniqueOption { return func(r *UniqueRule) { r.RescheduleOnce = true } }

// PerQueue makes jobs in different queues different. Without it the queue does not count.
func PerQueue() UniqueOption { return func(r *UniqueRule) { r.PerQueue = true } }

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

// withIdentity is the rule of one job of the class, which says also what identifies it, and what becomes of its duplicates.
func (d *definition) withIdentity(rule *UniqueRule) *UniqueRule {
	if rule == nil {
		return nil
	}
	own := *rule
	if rule.By == nil && rule.Positions == nil {
		own.By, own.Positions = d.identity.By, d.identity.Positions
	}
	own.MarkDuplicates = rule.MarkDuplicates || d.idempotence.Reason != ""
	return &own
}

package belay

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/limit"
	"github.com/belayq/belay/retry"
)

type (
	// Limit says how many jobs may run at once in the fleet, how fast they may start, or both: its fields are
	// Name, Concurrency and Rate. Limited and LimitedTo give a class a limit.
	Limit = limit.Limit
	// Rate is how many jobs may start in a time: Window and Leaky make it.
	Rate = limit.Rate
)

// Window returns a Rate of at most n starts in any span of per, such as 100 in a minute: the minute before each
// start counts, not the minute of the clock. n is at most 1,000, and per is in whole milliseconds, at most 31
// days.
func Window(n int, per time.Duration) Rate { return limit.Window(n, per) }

// Leaky returns a Rate of n starts at once and then one in each n-th part of per. So up to twice n jobs may
// start in a span of per, if none has started for a while before it; Window counts exactly. n is at most
// 1,000,000, and per is in whole milliseconds, at most 31 days.
func Leaky(n int, per time.Duration) Rate { return limit.Leaky(n, per) }

// Limited limits the runs of the class: of all jobs with the same key, such as those of one tenant, at most
// Limit.Concurrency run at once in the fleet, and they start no faster than Limit.Rate. A job that may not
// start yet waits in Redis, in order, and occupies no processor; it starts when another one ends, or when the
// rate allows it. A limit with both is for both. LimitedTo is for one limit for the whole class.
//
// key is called when a worker has taken a job, with the job's arguments, in the goroutine that takes jobs: it
// must return at once, the same text for the same job, and must not change what it is given. A key may be any
// text; a long one is stored as a digest, and each of an Encrypted class as that of Keys.LimitKey. If key
// panics, or if the arguments do not fit T, the job counts as one with an empty key. A key of *Job instead of T
// gets the job itself, also with HandleRaw.
//
// The limit holds among the workers that declare it: those of another language, and of an older version of the
// program, run jobs without it. Give a limited class a queue of its own, because a job that has waited goes to
// the back of its queue when its turn comes. docs/limits.md has all promises, and what a limit costs.
func Limited[T any](l Limit, key func(args T) string) DefineOption {
	return definitionOption(func(d *definition) {
		if key == nil {
			d.limit(l, errors.New("the key of Limited is nil; LimitedTo is for one limit for the class"), nil)
			return
		}
		if ofJob, raw := any(key).(func(*Job) string); raw {
			d.limit(l, nil, func(j *Job) (string, error) { return ofJob(j), nil })
			return
		}
		var problem error
		if d.of != reflect.TypeFor[T]() {
			problem = fmt.Errorf("the key of Limited wants a %v, and the arguments are a %v", reflect.TypeFor[T](), d.of)
		}
		d.limit(l, problem, func(j *Job) (string, error) {
			args, err := argsOf[T](d, j)
			if err != nil {
				return "", err
			}
			return key(args), nil
		})
	})
}

// LimitedTo limits the runs of the class, all of them together, as Limited does for jobs with the same key. It
// can be given to HandleRaw too.
func LimitedTo(l Limit) DefineOption {
	return definitionOption(func(d *definition) {
		d.limit(l, nil, func(*Job) (string, error) { return "", nil })
	})
}

// limit sets the limit of the class, and keeps what is wrong with it.
func (d *definition) limit(l Limit, problem error, key func(*Job) (string, error)) {
	if err := errors.Join(problem, l.Check()); err != nil {
		d.problems = append(d.problems, err)
	}
	if d.about.Limit != nil {
		d.problems = append(d.problems, errors.New("the class has two limits; a job waits for one at most"))
	}
	d.about.Limit = &launcher.ClassLimit{Limit: l, Key: key}
}

// sealedKey replaces the key of a limit by that of Keys.LimitKey: a key is a part of names in Redis, and may be
// what the class encrypts. Workers, and producers with shards, have it from one ClassLimit.
func sealedKey(keys Keys, key func(*Job) (string, error)) func(*Job) (string, error) {
	return func(j *Job) (string, error) {
		plain, err := key(j)
		if err != nil {
			return "", err
		}
		return keys.LimitKey(plain)
	}
}

// RateLimited returns an error that a handler returns when a service has refused it because of too many
// requests. The run does not count as failed and uses up no retry. The job waits first in the line of its
// limit and key, none of whose jobs starts for d; so the others do not run into the same refusal. For a job
// without a limit it is Snooze(d).
func RateLimited(d time.Duration) error { return retry.RateLimited(d) }

// ErrOverLimit is the error of Do if no slot was free in time. A handler that returns it has its job snoozed,
// as in Sidekiq Enterprise: five minutes longer each time, 20 times at most, and then the run has failed. A
// rule for this error, such as KillOn, goes before that.
var ErrOverLimit = client.ErrOverLimit

// ErrLimitLost is the context.Cause in a function of Do whose slot may belong to another caller: Redis has not
// answered for 20 seconds.
var ErrLimitLost = client.ErrLimitLost

// A DoOption says how Do waits: Skip, or what WaitUpTo returns.
type DoOption func(o *doOptions)

type doOptions struct {
	wait  time.Duration
	wrong error
}

// Skip makes Do return ErrOverLimit at once if no slot is free.
func Skip(o *doOptions) { o.wait = 0 }

// WaitUpTo sets how long Do waits for a slot. Default: five seconds.
func WaitUpTo(d time.Duration) DoOption {
	return func(o *doOptions) {
		if o.wait = d; d < 0 {
			o.wrong = fmt.Errorf("WaitUpTo(%v): it must not be negative", d)
		}
	}
}

// Do calls fn with a slot of a limit, in a handler or anywhere else: the call counts as a run of the limit's
// gate with this key, and uses a permit of its rate. Do waits until there is room and no job waits, for five
// seconds; then it returns an error that wraps ErrOverLimit. WaitUpTo and Skip change how long it waits. If the
// next permit of the rate comes later than that, or the limit is stopped for longer by RateLimited, Do returns
// the error at once. Otherwise it returns fn's error. It panics if c or fn is nil.
//
// Unlike Limited, Do occupies its caller while it waits, and callers get slots in no order. Use it for a part
// of a handler, or for code that is no job. Do not use it in a handler whose class has the same limit: such
// handlers would wait for each other's slots until Do gives up.
//
// The slot is held for 30 seconds and renewed every ten. If the process dies, the slot is free after that. If
// Redis does not answer for 20 seconds, fn's context ends with the cause ErrLimitLost.
func Do(ctx context.Context, c *Client, l Limit, key string, fn func(ctx context.Context) error, options ...DoOption) error {
	open(c, "Do")
	if fn == nil {
		panic("belay: Do: the function is nil")
	}
	o := doOptions{wait: client.DefaultDoWait}
	for _, option := range options {
		if option == nil {
			return fmt.Errorf("belay: Do: %w", errNilOption)
		}
		option(&o)
	}
	if o.wrong != nil {
		return fmt.Errorf("belay: Do: %w", o.wrong)
	}
	return c.Do(ctx, l, key, o.wait, fn)
}

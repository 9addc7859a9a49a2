package retry

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/belayq/belay/job"
)

// DefaultMaxRetries is how often a failed job is retried by default, as in Sidekiq: for about three weeks,
// with its formula.
const DefaultMaxRetries = 25

// A Policy is a worker's configuration for failures. The zero Policy is Sidekiq's default.
type Policy struct {
	// Formula computes the delays before retries.
	Formula Formula
	// MaxRetries is the number of retries of jobs that set none: 0 means DefaultMaxRetries, and below 0 means
	// no retries (such jobs die at the first failure).
	MaxRetries int
	// Unit is the unit of failed_at and retried_at.
	Unit job.TimeUnit
	// PayloadLimit is the limit at the push, in bytes. A failed job may exceed it by job.PayloadSlack: the
	// texts of its error are cut to fit. 0 means job.DefaultPayloadLimit.
	PayloadLimit int
	// Rules are the rules for errors of every class, after the class' own.
	Rules []ErrorRule
}

// An EndedRun is a run of a job that has ended.
type EndedRun struct {
	Job *job.Job
	// Queue is the queue that the job was taken from, which may differ from the queue in its payload.
	Queue string
	// Err is what the handler returned, or a PanicError, ErrGoexit or ErrUnregistered.
	Err error
	// Now is Redis' time.
	Now time.Time
	// Rand(n) returns an integer from 0 to n-1. nil means no jitter.
	Rand func(n int) int
	// Backoff is the class' own; it may be nil.
	Backoff BackoffFunc
	// Rules are the class' own rules for errors, in order: the first that matches decides, and none of those
	// of the Policy is asked then. What the handler asks for itself goes before all rules.
	Rules []ErrorRule
	// KeepErrors is how many errors of failed runs the class' jobs keep in their payload; 0 is none.
	KeepErrors int
	// Ours reports that Belay itself cancelled the run (shutdown, ownership lost), so its error says nothing
	// about the job. A run that exceeded its own timeout is not ours: it failed.
	Ours bool
	// Gated reports that the run has a gate, in whose waiting list its job can wait.
	Gated bool
}

// A Verdict is the decision about the job of a run.
type Verdict struct {
	Outcome job.Outcome
	// Exhausted reports that the job has no retries or no time left, or was killed, so that its class'
	// callback for that must be called. It is false for a job that is never retried.
	Exhausted bool
	// Reason is a short phrase for the log.
	Reason string
	// Ruled reports that an ErrorRule decided, or the rule for ErrOverLimit.
	Ruled bool
	// Panic is what the class' Backoff did instead of returning; nil if it returned. The formula's delay was
	// used then.
	Panic *PanicError
}

// Decide returns the decision about a job whose run has ended. It never panics, whatever the methods of the
// error do.
//
//	the run ended with               the job is                counted as          exhausted
//	no error                         done                      processed
//	any error, by our own cancel     requeued, unchanged       -
//	Snooze                           snoozed, unchanged        -
//	Requeue                          requeued, unchanged       -
//	RateLimited, with a gate         waits there, unchanged    -
//	RateLimited, without one         snoozed, unchanged        -
//	Discard                          discarded                 processed, failed*
//	Kill                             dead**                    processed, failed   yes
//	an error with an ErrorRule       as the rule says, with the error as the cause; if that is to snooze,
//	                                 it waits as long as a retry would
//	ErrOverLimit, at most 20 times   snoozed, with the number of times
//	any other error, and the job
//	  has "retry": false             discarded***              processed, failed
//	  has no retry or time left      dead**                    processed, failed   yes
//	  has one left                   retried, after In's delay, else its class', else the formula's
//
// * failed only with a cause. ** Discarded if it has "dead": false. *** Dead** if its class has no handler
// here: it is worse to drop a job that never ran than to keep one too many.
//
// With retry_for a retry is left until that long after the first failure, regardless of the number of
// retries. Without it, n retries are n+1 failed runs.
func Decide(p Policy, r EndedRun) Verdict {
	if r.Err == nil {
		return Verdict{Outcome: job.Done(), Reason: "done"}
	}
	if r.Ours {
		return Verdict{Outcome: job.Requeued(), Reason: "cancelled by us"}
	}
	ask, ruled := r.ask(p)
	f := newFailure(p, r)
	if ask.Ask == 0 {
		if verdict, over := f.overLimit(); over {
			return verdict
		}
	}
	verdict := f.verdict(ask, ruled)
	verdict.Ruled = ruled
	return verdict
}

// ask returns what the handler asks for or, if it asks for nothing, what the first matching rule does; ruled
// reports the latter.
func (r EndedRun) ask(p Policy) (ask AskError, ruled bool) {
	if ask = AskOf(r.Err); ask.Ask != 0 {
		return ask, false
	}
	ask = askOfRules(r.Err, r.Rules, p.Rules)
	return ask, ask.Ask != 0
}

func (f *failure) verdict(ask AskError, ruled bool) Verdict {
	by, r := "its handler", f.run
	if ruled {
		by = "a rule for its error"
	}
	switch never := r.Job.RetryRule().Kind == job.RetryNever; {
	case ask.Ask == AskRateLimited && r.Gated:
		return Verdict{Outcome: job.Waits(min(ask.After, maxDelay)), Reason: "rate limited, says its handler"}
	case ask.Ask == AskSnooze || ask.Ask == AskRateLimited:
		after := min(ask.After, maxDelay)
		if ruled {
			after = f.delay(AskError{})
		}
		return Verdict{Outcome: job.Snoozed(r.Job.Raw(), after), Reason: "snoozed by " + by, Panic: f.panicked}
	case ask.Ask == AskRequeue:
		return Verdict{Outcome: job.Requeued(), Reason: "requeued by " + by}
	case ask.Ask == AskDiscard:
		return Verdict{Outcome: job.Discarded(ask.Cause != nil), Reason: "discarded by " + by}
	case ask.Ask == AskKill:
		return f.dies("killed by "+by, true)
	case never && Is(r.Err, ErrUnregistered) && Panicked(r.Err) == nil:
		return f.dies("class unknown, and not to be retried", false)
	case never:
		return Verdict{Outcome: job.Discarded(true), Reason: "not to be retried"}
	}
	if reason, over := f.exhausted(); over {
		return f.dies(reason, true)
	}
	return f.retries(ask)
}

// A failure is a failed run on its way to the retry set or the dead set.
type failure struct {
	policy   Policy
	run      EndedRun
	count    int         // the retry_count it will have
	again    bool        // it had failed before
	failedAt time.Time   // when it first failed
	stamped  bool        // failedAt is in the payload and can be read
	panicked *PanicError // of the class' backoff
}

func newFailure(p Policy, r EndedRun) *failure {
	f := &failure{policy: p, run: r}
	// The job has failed before if there is any count: an operator's retry changes a 0 to -1.
	if n, ok := r.Job.RetryCount(); ok {
		f.count, f.again = min(n, math.MaxInt-1)+1, true
		f.failedAt, f.stamped = r.Job.FailedAt()
	}
	if !f.stamped {
		f.failedAt = r.Now
	}
	return f
}

// limit is how many retries the job has, when it is counted.
func (f *failure) limit() int { return f.policy.retries(f.run.Job) }

func (p Policy) retries(j *job.Job) int {
	switch rule := j.RetryRule(); rule.Kind {
	case job.RetryNever:
		return 0
	case job.RetryLimit:
		return rule.Limit
	}
	return max(cmp.Or(p.MaxRetries, DefaultMaxRetries), 0)
}

// MaxAttempts returns how many failed runs a job may have: its retries and one. 0 means that its retries are
// limited by time instead (retry_for).
func (p Policy) MaxAttempts(j *job.Job) int {
	if _, byTime := j.RetryFor(); byTime {
		return 0
	}
	return p.retries(j) + 1
}

// MaxAttempts is Policy.MaxAttempts for a reader that does not know the workers' Policy: of a job that sets no
// retries it uses the limit of the worker whose run failed last, and until a run has failed DefaultMaxRetries.
func MaxAttempts(j *job.Job) int {
	var p Policy
	if retries, ok := j.WorkerRetries(); ok {
		p.MaxRetries = cmp.Or(retries, -1)
	}
	return p.MaxAttempts(j)
}

// exhausted reports whether no retry is left, with the reason. For a job with retry_for only time counts, as in
// Sidekiq since 8.1.
func (f *failure) exhausted() (reason string, over bool) {
	if within, ok := f.run.Job.RetryFor(); ok {
		return fmt.Sprintf("not done within %v", within), f.failedAt.Add(within).Before(f.run.Now)
	}
	return fmt.Sprintf("all %d retries failed", max(f.limit(), 0)), f.count >= f.limit()
}

// dies ends the job. It goes to the dead set unless it has "dead": false.
func (f *failure) dies(reason string, exhausted bool) Verdict {
	if !f.run.Job.KeepDead() {
		return Verdict{Outcome: job.Discarded(true), Exhausted: exhausted, Reason: reason + "; not kept"}
	}
	payload, _ := f.payload()
	return Verdict{Outcome: job.Died(payload), Exhausted: exhausted, Reason: reason}
}

func (f *failure) retries(ask AskError) Verdict {
	payload, fits := f.payload()
	if !fits {
		// The next worker would move it to the dead set because of its size, without its error. Here it keeps
		// the error.
		return f.dies("its payload has no room for another retry", true)
	}
	reason := fmt.Sprintf("retry %d of %d", f.count+1, f.limit())
	if within, ok := f.run.Job.RetryFor(); ok {
		reason = fmt.Sprintf("retry %d within %v", f.count+1, within)
	}
	delay := f.delay(ask)
	return Verdict{Outcome: job.Retried(payload, delay), Reason: reason, Panic: f.panicked}
}

func (f *failure) delay(ask AskError) time.Duration {
	if ask.Ask == AskRetryIn {
		return min(ask.After, maxDelay)
	}
	if own := f.ownBackoff(); own > 0 {
		return min(own, maxDelay)
	}
	return f.policy.Formula.Delay(f.count, f.run.Rand)
}

// ownBackoff returns the delay of the class' Backoff; 0 if there is none. If that panics, the panic is kept for
// the log.
func (f *failure) ownBackoff() (d time.Duration) {
	if f.run.Backoff != nil {
		f.panicked = Contain(func() { d = f.run.Backoff(f.count, f.run.Err, f.run.Job) })
	}
	return d
}

// DefaultMaxInterruptions is the default number of crashes after which a job is moved to the dead set.
// MinInterruptions is the smallest number that can be configured.
const (
	DefaultMaxInterruptions = 3
	MinInterruptions        = 2
)

// A CrashPolicy decides what happens to the jobs that were running when their process crashed. A crash does
// not show which of them caused it, so it costs no retry. After one crash less than allowed, a job is
// quarantined: it runs alone from then on. Only the crash of a process that runs nothing else shows that the
// job is the cause.
type CrashPolicy struct {
	// Most is the number of crashes after which a job dies. Default: DefaultMaxInterruptions.
	Most int
}

func (p CrashPolicy) limit() int { return cmp.Or(p.Most, DefaultMaxInterruptions) }

// Quarantines reports whether a job that was running in this many crashes is quarantined.
func (p CrashPolicy) Quarantines(interruptions int) bool { return interruptions >= p.limit()-1 }

// Kills reports whether a job dies that was running in this many crashes, and was running alone in the last
// one.
func (p CrashPolicy) Kills(interruptions int) bool { return interruptions >= p.limit() }

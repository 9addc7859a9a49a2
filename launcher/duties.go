package launcher

import (
	"cmp"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/janitor"
	"github.com/belayq/belay/link"
	"github.com/belayq/belay/lua"
)

// A duty is a background task of the process. A pass neither loops nor sleeps; it may ask for the next pass
// sooner or later than the duty's period.
type duty struct {
	name   string
	period time.Duration
	// first delays the first pass.
	first time.Duration
	pass  func(ctx context.Context) (next time.Duration, err error)
	// intake marks a duty that brings in work; it ends when the process becomes quiet.
	intake bool
	// now, if set, starts a pass before its time.
	now trigger
	// leave, if set, ends a duty of intake when the process becomes quiet. Its calls have deadlines of their
	// own.
	leave func(ctx context.Context) error
	// rest is the maximum delay after failures. Default: link.MaxRest.
	rest time.Duration
	// calls marks a duty whose calls each have a deadline of their own. Any other pass makes one or two calls
	// and has one deadline for all.
	calls bool
	// pace adapts the deadline to the link. Default: one of its own.
	pace *link.Pace
	// steady counts the period from the beginning of one pass to the beginning of the next, however long the
	// reply takes.
	steady bool
	// offline marks a duty that has passes while Redis is away: the one that finds out when it is back (see
	// recording), and one that works without Redis. The others wait.
	offline bool
}

// A trigger starts a pass of a duty before its time.
type trigger chan struct{}

func newTrigger() trigger { return make(trigger, 1) }

// pull starts a pass, or another one if there is one under way. It does not wait.
func (t trigger) pull() {
	select {
	case t <- struct{}{}:
	default:
	}
}

// A contact records whether Redis answers heartbeats. The zero contact is one that does.
type contact struct {
	mu   sync.Mutex
	back chan struct{} // closed when Redis is back; nil while it is not away
}

// record takes down what the last heartbeat found.
func (c *contact) record(away bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case away && c.back == nil:
		c.back = make(chan struct{})
	case !away && c.back != nil:
		close(c.back)
		c.back = nil
	}
}

// wait waits until Redis is not away, and reports false if ctx ends before.
func (c *contact) wait(ctx context.Context) bool {
	c.mu.Lock()
	back := c.back
	c.mu.Unlock()
	if back == nil {
		return true
	}
	select {
	case <-ctx.Done():
		return false
	case <-back:
		return true
	}
}

const (
	// announceEvery is how often the process record for Sidekiq's readers is written.
	announceEvery = 5 * time.Second
	// announceIdleEvery is how often an idle process writes it that has not changed. Readers keep a process for
	// a minute, so two may be lost.
	announceIdleEvery = 4 * announceEvery
)

// tickLocksEvery is how often the poller's process looks at locks of ticks that are hours old.
const tickLocksEvery = 10 * time.Minute

// refusedRest is the delay after each refusal of a reachable Redis.
const refusedRest = 500 * time.Millisecond

// duties returns the table of the background duties of a process that it has in each shard.
func (s *shard) duties() []duty {
	duties := []duty{
		// The rest is so short that several attempts fit into one TTL: a short outage must not end the
		// session. The duty is steady because a round trip may be as long as a heartbeat interval: if each
		// heartbeat waited for the reply to the one before, they would come half as often, and the gaps would
		// look as if the process had lost contact with Redis.
		{
			name: "beat", period: s.cfg.Beat, pass: each(s.recording(s.beat)),
			rest: s.launcher.vitalsDeadline(), pace: &s.heartPace, steady: true, offline: true, now: s.beatNow,
		},
		// An operator who quiets a process must see at once that it is quiet.
		{name: "announce", period: announceEvery, pass: each(s.announce), now: s.changed},
		{
			name: "statistics", period: statisticsEvery, first: statisticsEvery,
			pass: each(func(ctx context.Context) error { return s.writeStatistics(ctx, s.lanes.chores) }),
		},
		{name: "cancel", period: marksEvery, pass: s.readMarks, now: s.marked},
		// Four times in a heartbeat interval, because a janitor waits for a random fraction of one. A pass
		// without a victim does nothing.
		{
			name: "janitor", period: s.cfg.Beat / 4, calls: true, now: s.absent,
			pass: each(func(ctx context.Context) error { return s.janitor.Pass(ctx, s.identity()) }),
		},
		{name: "presence", period: janitor.LookEvery, pass: s.watchPresence, calls: true, steady: true, now: s.watchNow},
		{name: "sweep", period: s.cfg.Beat, pass: s.sweep, calls: true, now: s.sweepNow},
		{
			name: "quarantine", period: time.Minute, calls: true,
			pass: each(s.remind),
		},
		{name: "queues", period: queuesEvery, pass: s.followQueues, calls: true, intake: true, now: s.queues.changed},
		{
			name: "poll", period: s.cfg.Poll, first: s.cfg.PollWait + rand.N(s.cfg.PollWait/2+1),
			pass:   func(ctx context.Context) (time.Duration, error) { return s.poller.Pass(ctx, s.identity()) },
			intake: true, calls: true, now: s.pollNow,
			leave: func(ctx context.Context) error { return s.poller.Leave(ctx, s.identity()) },
		},
		// The first sample comes soon, so that a new fleet has a plot. It may read large jobs, which must not
		// delay the poller.
		{
			name: "sample", period: lua.SampleEvery, first: statisticsEvery, calls: true, steady: true,
			pass: s.asPoller(func(ctx context.Context, me string) error { return s.statisticsError(s.sampler.Pass(ctx, me)) }),
		},
		// It may search all of Redis, which must not delay the poller.
		{
			name: "tick locks", period: tickLocksEvery, first: tickLocksEvery, calls: true,
			pass: s.asPoller(s.tickLocks.Pass),
		},
	}
	if len(s.launcher.limits) > 0 {
		duties = append(duties, duty{name: "limits", period: registerEvery, pass: each(s.registerLimits), intake: true, calls: true})
	}
	if len(s.launcher.periodic) > 0 && s == s.launcher.shards[s.cfg.Home] {
		duties = append(duties, duty{name: "periodic", period: registerEvery, pass: s.registerPeriodic, intake: true, calls: true})
	}
	return duties
}

// remind is the pass of the duty that reports quarantined jobs that have waited for long. An idle process would
// have taken such a job.
func (s *shard) remind(ctx context.Context) error {
	if s.space.Idle() {
		return nil
	}
	return s.janitor.Remind(ctx, s.launcher.Queues())
}

// sweep is the pass of the duty that sweeps.
func (s *shard) sweep(ctx context.Context) (time.Duration, error) {
	if s.janitor.SweepLater(s.identity()) {
		return 0, nil
	}
	return s.janitor.Sweep(ctx, s.identity())
}

// each adapts a pass that keeps its duty's period.
func each(pass func(context.Context) error) func(context.Context) (time.Duration, error) {
	return func(ctx context.Context) (time.Duration, error) { return 0, pass(ctx) }
}

// asPoller adapts a pass of which the process that polls makes something. The pass checks again whether this is
// the one; the other processes of a large fleet ask for nothing.
func (s *shard) asPoller(pass func(ctx context.Context, me string) error) func(context.Context) (time.Duration, error) {
	return each(func(ctx context.Context) error {
		if me := s.identity(); s.poller.Polls(me) {
			return pass(ctx, me)
		}
		return nil
	})
}

// recording adapts a pass by which the other duties know whether Redis is away.
func (s *shard) recording(pass func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := pass(ctx)
		s.contact.record(driver.Outage(err))
		return err
	}
}

// repeat runs a duty until ctx ends.
func (s *shard) repeat(ctx context.Context, d duty) {
	timer := time.NewTimer(d.first)
	defer timer.Stop()
	backoff := link.Backoff{Max: d.rest}
	pace := cmp.Or(d.pace, &link.Pace{})
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-d.now:
		}
		if !d.offline && !s.contact.wait(ctx) {
			return
		}
		if d.intake && s.launcher.quiet.Load() {
			if d.leave != nil {
				// A stop that follows at once waits for it, or it might give up a lease and wake no other
				// process. After an error what it gives up expires soon.
				_ = d.leave(context.WithoutCancel(ctx))
			}
			s.report.Succeed(d.name) // it makes no more calls, so an outage must not wait for it to succeed
			return
		}
		began := time.Now()
		next, err := s.bounded(ctx, d, pace)
		if next == 0 {
			next = d.period
		}
		if d.steady {
			next = max(next-time.Since(began), 0)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.report.Fail(d.name, err)
			if driver.TooManyClients(err) {
				s.tooManyClients(d.name == "beat")
			}
			next = d.restAfter(err, &backoff)
		default:
			s.report.Succeed(d.name)
			backoff.Reset()
		}
		timer.Reset(next)
	}
}

// bounded runs one pass of a duty with a deadline. A stop waits for the pass, so none of its calls outlives
// the process.
func (s *shard) bounded(ctx context.Context, d duty, pace *link.Pace) (next time.Duration, err error) {
	if goneAt := s.launcher.goneAt.Load(); goneAt != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, goneAt.Add(-fetch.Goodbye))
		defer cancel()
	}
	if d.calls {
		return d.pass(ctx)
	}
	err = pace.Within(ctx, max(s.launcher.vitalsDeadline(), minPass), func(ctx context.Context) error {
		next, err = d.pass(ctx)
		return err
	})
	return next, err
}

// minPass is the minimum deadline of a pass, however short the TTL.
const minPass = 100 * time.Millisecond

// restAfter returns how long the duty leaves Redis alone after an error. A refusal stops only a part of the
// duty, so the other parts do not wait longer and longer for it.
func (d duty) restAfter(err error, backoff *link.Backoff) time.Duration {
	switch {
	case !driver.Away(err): // a full Redis moves due jobs, as promptly as it can
		return link.Jitter(min(refusedRest, cmp.Or(d.rest, link.MaxRest)))
	case driver.Denial(err) != "":
		return backoff.Last()
	}
	return backoff.Next()
}

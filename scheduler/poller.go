package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/link"
	"github.com/belayq/belay/logbook"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/retry"
)

const (
	// soonest and latest bound the poller's sleep. Ruby schedules jobs without a notification, so such a job
	// may be late by latest. With less than a millisecond, the poller would spin.
	soonest = time.Millisecond
	latest  = 100 * time.Millisecond
	// hold is how long the lease of the poller lasts. The next heartbeat of any other process finds out that a
	// poller has died, so it is replaced within hold and a heartbeat.
	hold = 2 * time.Second
)

// Config configures a Poller.
type Config struct {
	// Client is for calls that carry no jobs, which must not wait behind jobs. Freight is for the others.
	// Default: Client.
	Client, Freight driver.Client
	Keys            lua.Keys
	Clock           *lua.Clock
	Log             *slog.Logger
	// Unit is the unit of enqueued_at.
	Unit job.TimeUnit
	// Largest is the maximum size in bytes of an entry that is read. Larger ones are moved unread.
	Largest int
	// Off leaves due jobs to Ruby's poller; periodic jobs fire nevertheless.
	Off bool
	// Queues returns the queues that this process takes. Default: none.
	Queues func() []string
	// Round bounds a call without jobs on a healthy link. Default: 1.5 s.
	Round time.Duration
	// Every is the maximum time between two polls. Default: 100 ms.
	Every time.Duration
	// Crashes decides which jobs are quarantined.
	Crashes retry.CrashPolicy
	// Marks are the jobs that are cancelled: they are dropped when they come due. Default: none.
	Marks *lua.Marks
}

// A Poller promotes due jobs, fires periodic ones and admits jobs that wait at a gate. Only Polls may be called
// concurrently.
type Poller struct {
	cfg  Config
	link *link.Link
	// heldAs is the identity under which this process got the lease of the poller, the last time at heldAt;
	// "" if it does not have the lease. A process that polls for a moment after it has lost the lease does no
	// harm: script promote moves each job once.
	heldAs atomic.Value // a string
	heldAt time.Time
	// apart reports whether the sets are read in separate round trips.
	apart bool
	// skip is how many jobs of each set the next pass skips: the last pass, which was incomplete, could not
	// move them.
	skip  map[string]int
	ticks ticks
	gates gates
	taken taken
	// bare reports that the last renewal of the lease found no periodic job, no waiter at a gate, and nothing
	// that may lapse.
	bare bool
}

// New returns a Poller.
func New(cfg Config) *Poller {
	cfg.Log = logbook.OrDiscard(cfg.Log)
	if cfg.Every == 0 {
		cfg.Every = latest
	}
	if cfg.Marks == nil {
		cfg.Marks = &lua.Marks{}
	}
	return &Poller{
		cfg: cfg, skip: make(map[string]int), ticks: newTicks(),
		link: &link.Link{Client: cfg.Client, Freight: cfg.Freight, Round: cfg.Round, Largest: cfg.Largest, Log: cfg.Log, Duty: "poll"},
	}
}

// Pass promotes due jobs, fires periodic ones and admits jobs that wait at a gate if this process, whose
// identity is me, is the poller, and returns the time until the next Pass. After an error, the next pass moves
// the jobs that this one did not. If nothing is due, a pass of the poller takes one round trip. Each call has
// a deadline of its own.
func (p *Poller) Pass(ctx context.Context, me string) (next time.Duration, err error) {
	if err := p.link.Check(ctx); err != nil {
		return p.cfg.Every, err
	}
	if !p.Polls(me) {
		// It does not read due jobs with the same call: most processes do not get the lease.
		lease := lua.Lease(p.cfg.Keys.Poller(), me, hold)
		now := time.Now()
		if held, err := p.ask(now, me, lease, p.link.Do(ctx, lease.Call)[0]); !held {
			return lua.StandBy, err
		}
		p.ticks.nextAt, p.gates.nextAt = now, now // the previous poller may have left ticks and waiters
	}
	next, err = p.promoteAll(ctx, me)
	if !p.Polls(me) {
		return lua.StandBy, err
	}
	p.apart = p.apart || err != nil || p.link.Unchecked()
	if !p.link.Unchecked() && !driver.Outage(err) {
		tick, fireErr := p.fire(ctx)
		gate, gateErr := p.openGates(ctx)
		next, err = min(next, tick, gate), errors.Join(err, fireErr, gateErr)
	}
	return max(next, soonest), p.link.Excused(err)
}

// Lease returns the lease of the poller.
func Lease(keys lua.Keys) lua.Watched { return lua.Watched{Key: keys.Poller(), Hold: hold} }

// Polls reports whether the process with the identity me had the lease of the poller the last time it asked.
func (p *Poller) Polls(me string) bool { return p.heldAs.Load() == me }

// Leave gives up the lease of the poller, if this process has it as me, so that another one polls at once.
func (p *Poller) Leave(ctx context.Context, me string) error {
	if !p.Polls(me) {
		return nil
	}
	p.heldAs.Store("")
	return GiveUp(ctx, p.link, p.cfg.Keys, me)
}

// GiveUp gives up the lease of the poller, if the process with the identity me has it, and wakes the processes
// that stand by. In the same round trip it gives up the leases at the keys others, so that a process that
// stops leaves none of its duties to an expiry.
func GiveUp(ctx context.Context, client driver.Client, keys lua.Keys, me string, others ...string) error {
	asks, calls := lua.AskEach(append([]string{keys.Poller()}, others...), func(key string) lua.Ask[bool] { return lua.GiveUpLease(key, me) })
	held, err := asks[0].Read(client.Do(ctx, calls...)[0])
	if held { // only then: a process that is woken asks for the lease at once
		err = client.Do(ctx, driver.Command("PUBLISH", keys.PollerLeft(), ""))[0].Err
	}
	if err != nil {
		return fmt.Errorf("give up the lease of the poller: %w", err)
	}
	return nil
}

// carry sends calls that carry jobs. If half of the lease is over, the same round trip renews it: so one lost
// reply, or a slow page, does not lose the lease. With the renewal it reads which periodic jobs are due, and
// which gates have waiters; or only whether there are any, if there were none.
func (p *Poller) carry(ctx context.Context, me string, calls ...driver.Call) ([]driver.Reply, error) {
	now := time.Now()
	if now.Sub(p.heldAt) < hold/2 {
		return p.link.Carry(ctx, p.link.Page()/2, calls...), nil
	}
	lease := lua.Lease(p.cfg.Keys.Poller(), me, hold)
	plan, look := p.readPlan(), p.readGates()
	own := []driver.Call{lease.Call, plan.Call, look.waiting.Call, look.lapsing}
	if p.bare {
		keys := p.cfg.Keys
		own = []driver.Call{lease.Call, driver.Command("EXISTS", keys.Periodic(), keys.Waiting(), keys.Admitted(), keys.Leases())}
	}
	replies := p.link.Carry(ctx, p.link.Page()/2, append(own, calls...)...)
	_, err := p.ask(now, me, lease, replies[0])
	if p.bare {
		if p.bare = replies[1].Value == int64(0); p.bare {
			p.ticks.lookedAt = now
		} else {
			p.ticks.nextAt, p.gates.nextAt = now, now // this pass reads them
		}
		return replies[len(own):], err
	}
	_, planErr := p.ticks.plan(now, plan, replies[1])
	_, p.gates.err = p.gates.plan(now, p.cfg.Clock.Now(), look, replies[2:])
	p.bare = planErr == nil && p.gates.err == nil && p.ticks.nextAt.IsZero() && p.gates.nextAt.IsZero() && !p.gates.lapsing
	return replies[len(own):], errors.Join(err, planErr)
}

// ask records the reply to a request for the lease, which was sent at now.
func (p *Poller) ask(now time.Time, me string, lease lua.Ask[bool], reply driver.Reply) (held bool, err error) {
	held, err = lease.Read(reply)
	switch {
	case err != nil:
		return false, fmt.Errorf("ask to be the poller: %w", err)
	case held:
		p.heldAs.Store(me)
		p.heldAt = now
	default:
		p.heldAs.Store("")
	}
	return held, nil
}

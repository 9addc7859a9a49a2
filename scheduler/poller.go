package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/retry"
)

const (
	// soonest and latest bound the poller's sleep. What Ruby schedules tells nobody, so the poller looks this often at
	// least, and a job is this late at most; sooner than a millisecond would be a spin.
	soonest = time.Millisecond
	latest  = 100 * time.Millisecond
	// hold is how long the poller is the poller without saying so again, understudy how often the others ask, if they are
	// not very many. A poller that dies is replaced within their sum.
	hold       = 2 * time.Second
	understudy = 2 * time.Second
	// mostPages bounds one pass; the next one goes on at once.
	mostPages = 32
)

// Config is what a Poller needs to know.
type Config struct {
	// Client is the poller's own: a page of jobs must delay no beat.
	Client driver.Client
	Keys   lua.Keys
	Clock  *lua.Clock
	Log    zerolog.Logger
	// Unit is how enqueued_at is written.
	Unit job.TimeUnit
	// Largest is how large an entry may be, in bytes, to be promoted; larger ones go to the dead set.
	Largest int
	// Every bounds the sleep between two looks. 100 ms.
	Every time.Duration
	// Blame says which jobs run alone.
	Blame retry.Blame
	// Processes is how many there are, any of which might be the poller. One.
	Processes func() int
}

// A Poller promotes due jobs. It is for one goroutine at a time.
type Poller struct {
	cfg Config
	// heldAs is the name under which this process was the poller when it last asked, at heldAt; empty when it was not.
	// One that is the poller no more and does not know it yet harms nobody: promote moves each job once.
	heldAs string
	heldAt time.Time
	// skip is how many jobs of a set to pass over, because a pass that came to no end could not move them.
	skip map[string]int
}

// New makes a Poller.
func New(cfg Config) *Poller {
	if cfg.Every == 0 {
		cfg.Every = latest
	}
	if cfg.Processes == nil {
		cfg.Processes = func() int { return 1 }
	}
	return &Poller{cfg: cfg, skip: make(map[string]int)}
}

// Pass promotes what is due, if this process, called me, is the poller, and answers when it wants to be called again. A
// pass that fails has moved some jobs or none; the next one finds the rest. A pass of the poller that finds nothing due is
// one round trip.
func (p *Poller) Pass(ctx context.Context, me string) (next time.Duration, err error) {
	lease := lua.Lease(p.cfg.Keys.Poller(), me, hold)
	if p.heldAs != me {
		// Alone: an understudy has no use for what is due.
		if held, err := p.ask(time.Now(), me, lease, p.cfg.Client.Do(ctx, lease.Call)[0]); !held {
			return p.rest(), err
		}
	}
	// Retries first, as Ruby does.
	looks := []look{p.at(p.cfg.Keys.Retry()), p.at(p.cfg.Keys.Schedule())}
	calls := []driver.Call{looks[0].Call, looks[1].Call}
	now := time.Now()
	// At half of it, so that one answer that is lost does not cost the lease.
	prolong := now.Sub(p.heldAt) >= hold/2
	if prolong {
		calls = append(calls, lease.Call)
	}
	replies := p.cfg.Client.Do(ctx, calls...)
	if prolong {
		if held, err := p.ask(now, me, lease, replies[len(looks)]); !held {
			return p.rest(), err
		}
	}
	next = p.cfg.Every
	var wrong error
	for i, look := range looks {
		until, err := p.drain(ctx, look, replies[i])
		wrong = errors.Join(wrong, err)
		next = min(next, until)
	}
	return max(next, soonest), wrong
}

// rest is how long an understudy leaves the lease alone.
func (p *Poller) rest() time.Duration { return lua.LeaseRest(understudy, p.cfg.Processes()) }

// ask reads the answer to a lease that was asked for at now, and remembers it.
func (p *Poller) ask(now time.Time, me string, lease lua.Ask[bool], reply driver.Reply) (held bool, err error) {
	held, err = lease.Read(reply)
	switch {
	case err != nil:
		return false, fmt.Errorf("ask to be the poller: %w", err)
	case held:
		p.heldAs, p.heldAt = me, now
	default:
		p.heldAs = ""
	}
	return held, nil
}

// A look is what is asked of one set: a page of its due jobs.
type look struct {
	lua.Ask[lua.Due]
	set string
}

func (p *Poller) at(set string) look {
	return look{p.cfg.Keys.Due(set, p.skip[set], p.cfg.Largest), set}
}

// drain promotes the due jobs of one set, of which the first page has been answered, and says how long it is until the
// next one's time.
func (p *Poller) drain(ctx context.Context, first look, reply driver.Reply) (time.Duration, error) {
	var wrong error
	set := first.set
	skip := p.skip[set] // jobs that cannot be moved, which must not hold up those behind them
	p.skip[set] = 0
	due, err := first.Read(reply)
	for range mostPages {
		if err != nil {
			return p.cfg.Every, errors.Join(wrong, fmt.Errorf("read what is due: %w", err))
		}
		stuck, refused := p.killLarge(ctx, set, due.Large)
		if driver.Outage(refused) {
			return p.cfg.Every, refused
		}
		skip, wrong = skip+stuck, errors.Join(wrong, refused)
		if len(due.Jobs) == 0 && len(due.Large) == 0 {
			if due.Next < 0 {
				return p.cfg.Every, wrong
			}
			return due.Next, wrong
		}
		// One queue a call: one whose key is broken stops only its own jobs.
		for _, group := range p.sort(set, due.Jobs) {
			_, err := p.cfg.Keys.Promote(set, []lua.Promotions{group}).Do(ctx, p.cfg.Client)
			switch {
			case err == nil:
			case driver.Outage(err):
				return p.cfg.Every, fmt.Errorf("promote: %w", err)
			default:
				skip += len(group.Jobs)
				wrong = errors.Join(wrong, fmt.Errorf("promote jobs to %q: %w", group.Queue, err))
			}
		}
		due, err = p.cfg.Keys.Due(set, skip, p.cfg.Largest).Do(ctx, p.cfg.Client)
	}
	p.skip[set] = skip
	return soonest, errors.Join(wrong, err)
}

// sort says where each due job goes, in the order in which they are due.
func (p *Poller) sort(set string, jobs []string) []lua.Promotions {
	now := p.cfg.Clock.Now()
	var sorted []lua.Promotions
	type home struct {
		queue         string
		suspect, bury bool
	}
	index := make(map[home]int)
	add := func(to home, promotion lua.Promotion) {
		at, ok := index[to]
		if !ok {
			at = len(sorted)
			index[to] = at
			sorted = append(sorted, lua.Promotions{Queue: to.queue, Suspect: to.suspect, Bury: to.bury})
		}
		sorted[at].Jobs = append(sorted[at].Jobs, promotion)
	}
	for _, raw := range jobs {
		parsed, err := job.Parse(raw)
		if err == nil {
			err = job.CheckQueue(parsed.QueueOrDefault())
		}
		if err != nil {
			p.cfg.Log.Error().Err(err).Int("bytes", len(raw)).Msg("buried: a due job cannot be read")
			add(home{bury: true}, lua.Promotion{Old: raw, New: job.KeepUnreadable(raw, "", err, now, p.cfg.Unit)})
			continue
		}
		to := home{queue: parsed.QueueOrDefault(), suspect: p.cfg.Blame.Suspect(parsed.InterruptedCount())}
		promotion := lua.Promotion{Old: raw, New: parsed.Patch(parsed.IntoQueue(now, p.cfg.Unit)...)}
		if set == p.cfg.Keys.Schedule() {
			promotion.Lock = lockToTake(parsed)
		}
		add(to, promotion)
	}
	return sorted
}

// lockToTake is the lock that a unique job takes now, which did not when it was scheduled; nil for any other job. One that
// has been in a queue before, and was snoozed, is not asked again: what its start has freed stays free.
func lockToTake(j *job.Job) *lua.Lock {
	lock, err := dedup.Read(j)
	if err != nil || !lock.Meets() {
		return nil
	}
	if enqueued, ok := j.Field("enqueued_at"); ok && enqueued != "null" {
		return nil
	}
	return &lua.Lock{Digest: lock.Digest, Owner: lua.OwnerOf(lock.JID, j.Class()), Hold: lock.Lifetime(0)}
}

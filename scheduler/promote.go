package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// maxPages bounds the pages of one set in one pass; the next pass follows at once.
const maxPages = 32

// promoteAll promotes the due jobs of both sets, retries first as in Ruby, and returns the time until the next
// job is due. While nothing is due, it reads both sets in one round trip. After it has found due jobs, it reads
// each set in a round trip of its own: a job of each may be more than the server's output buffer holds.
func (p *Poller) promoteAll(ctx context.Context, me string) (next time.Duration, errs error) {
	sets := []string{p.cfg.Keys.Retry(), p.cfg.Keys.Schedule()}
	atOnce := len(sets)
	if p.apart {
		atOnce = 1
	}
	p.apart = false
	next = p.cfg.Every
	if p.cfg.Off {
		if time.Since(p.heldAt) >= hold/2 {
			_, errs = p.carry(ctx, me) // keeps the lease
		}
		return next, errs
	}
	for together := range slices.Chunk(sets, atOnce) {
		looks, calls := lua.AskEach(together, func(set string) lua.Ask[lua.Due] { return p.page(set, p.skip[set], len(together)) })
		replies, err := p.carry(ctx, me, calls...)
		if err != nil {
			return next, errors.Join(errs, err)
		}
		for i, set := range together {
			until, err := p.drain(ctx, me, set, looks[i], replies[i])
			errs = errors.Join(errs, err)
			next = min(next, until)
			if !p.Polls(me) || p.link.Unchecked() {
				return next, errs
			}
		}
	}
	return next, errs
}

// page returns the call that reads the due jobs of a set after the first skip of them. sharing is the number of
// such calls in one round trip. The page is at most half of what the link carries, because promote sends each
// job back twice, as old and new payload.
func (p *Poller) page(set string, skip, sharing int) lua.Ask[lua.Due] {
	return p.cfg.Keys.Due(set, skip, p.link.Page()/2/sharing, p.cfg.Largest)
}

// drain promotes the due jobs of one set, whose first page is in reply, and returns the time until the next job
// is due.
func (p *Poller) drain(ctx context.Context, me, set string, first lua.Ask[lua.Due], reply driver.Reply) (time.Duration, error) {
	var errs error
	skip := p.skip[set] // jobs that cannot be moved, which must not block the jobs after them
	p.skip[set] = 0
	due, err := first.Read(reply)
	if err != nil {
		err = p.link.Excused(fmt.Errorf("read what is due: %w", err))
		return p.cfg.Every, err
	}
	p.apart = p.apart || len(due.Jobs) > 0
	for range maxPages {
		stuck, refused := p.promoteLarge(ctx, set, due.Large)
		if driver.Outage(refused) {
			return p.cfg.Every, errors.Join(errs, refused)
		}
		skip, errs = skip+stuck, errors.Join(errs, refused)
		if len(due.Jobs) == 0 && len(due.Large) == 0 {
			if due.Next < 0 {
				return p.cfg.Every, errs
			}
			return due.Next, errs
		}
		var stay int
		due.Jobs, stay, refused, err = p.dropCancelled(ctx, set, due.Jobs)
		skip, errs = skip+stay, errors.Join(errs, refused)
		if err != nil {
			return p.cfg.Every, errors.Join(errs, p.link.Excused(err))
		}
		due, stay, refused, err = p.promote(ctx, me, set, skip, due.Jobs)
		errs = errors.Join(errs, refused)
		if err == nil && stay > 0 {
			skip += stay
			due, _, _, err = p.promote(ctx, me, set, skip, nil)
		}
		if err != nil || !p.Polls(me) {
			return p.cfg.Every, errors.Join(errs, p.link.Excused(err))
		}
	}
	p.skip[set] = skip
	return soonest, errs
}

// promoteLarge moves due entries that are too large to be read, the last one first, so that the positions of
// the others stay valid. An entry goes to its queue, which its first or last bytes contain. If they do not,
// or if workers of Belay take the queue, it goes to the dead set. stuck is how many entries Redis refused to
// move.
func (p *Poller) promoteLarge(ctx context.Context, set string, entries []lua.Large) (stuck int, lastErr error) {
	for _, entry := range slices.Backward(entries) {
		queue, known := job.QueueInEnds(entry.Head, entry.Tail)
		dead, err := !known, error(nil)
		if known {
			dead, err = p.takenByBelay(ctx, queue)
		}
		switch {
		case err != nil:
		case dead:
			err = p.killLarge(ctx, set, entry)
		default:
			_, err = p.cfg.Keys.PromoteLarge(set, queue, entry).Do(ctx, p.link)
		}
		if err != nil {
			err = fmt.Errorf("move a due job of %d bytes: %w", entry.Bytes, err)
		}
		switch {
		case driver.Outage(err):
			return stuck, err
		case err != nil:
			stuck, lastErr = stuck+1, err
		}
	}
	return stuck, lastErr
}

func (p *Poller) killLarge(ctx context.Context, set string, entry lua.Large) error {
	large := dedup.TooLarge(entry, set, "", p.cfg.Largest, p.cfg.Clock.Now(), p.cfg.Unit)
	large.Sorted = true
	calls, read := p.cfg.Keys.EndLarge(large, p.cfg.Log)
	_, err := read(p.link.Do(ctx, calls...)[0])
	return err
}

// promote moves due jobs, and reads the next page in the same round trip. It returns how many jobs stay because
// Redis refused to move them: the next page was read as if they had been moved. Without jobs it only reads.
func (p *Poller) promote(ctx context.Context, me, set string, skip int, jobs []string) (due lua.Due, stay int, refused, err error) {
	now := p.cfg.Clock.Now()
	groups, err := p.sort(ctx, set, jobs, now)
	if err != nil {
		return due, 0, nil, err
	}
	asks, calls := p.promoting(set, groups, now)
	next := p.page(set, skip, 1)
	replies, err := p.carry(ctx, me, append(calls, next.Call)...)
	if err != nil {
		return due, 0, nil, err
	}
	stay, ordinary, refused, err := p.promoted(groups, asks, replies)
	if err == nil && len(ordinary) > 0 {
		asks, calls := p.promoting(set, ordinary, now)
		again, carryErr := p.carry(ctx, me, calls...)
		if carryErr != nil {
			return due, 0, refused, carryErr
		}
		var still int
		still, _, _, err = p.promoted(ordinary, asks, again)
		stay += still
	}
	if err != nil {
		return due, 0, refused, err
	}
	due, err = next.Read(replies[len(groups)])
	return due, stay, refused, err
}

// promoting returns one call for each destination: a queue with a broken key stops only its own jobs.
func (p *Poller) promoting(set string, groups []destination, now time.Time) ([]lua.Ask[int], []driver.Call) {
	return lua.AskEach(groups, func(group destination) lua.Ask[int] {
		return p.cfg.Keys.Promote(set, []lua.Promotions{group.Promotions}, now)
	})
}

// promoted reads the replies to the calls of promoting. It returns how many jobs stay because Redis refused to
// move them, and why; err is an outage.
//
// Of the jobs of a refused call, those without a lock are returned, to be tried once more: the locks are the
// only keys that not all jobs of a call need. The unique jobs stay. They are not tried one by one, because a
// key of any type can become a lock (see script promote), and a user has one permission for all locks.
func (p *Poller) promoted(groups []destination, asks []lua.Ask[int], replies []driver.Reply) (
	stay int, ordinary []destination, refused, err error,
) {
	for i, group := range groups {
		moved, err := asks[i].Read(replies[i])
		switch {
		case err == nil:
			p.logPromoted(group, moved)
			continue
		case driver.Outage(err):
			return stay, nil, refused, fmt.Errorf("promote: %w", err)
		}
		refused = errors.Join(refused, fmt.Errorf("promote jobs to %q: %w", group.Queue, err))
		stay += len(group.Jobs)
		if others := group.ordinary(); len(others) > 0 && len(others) < len(group.Jobs) {
			stay -= len(others)
			group.Jobs = others
			ordinary = append(ordinary, group)
		}
	}
	return stay, ordinary, refused, nil
}

// A destination is where due jobs go, with the jobs.
type destination struct {
	lua.Promotions
	// unreadable are the errors of the jobs, if they go to the dead set.
	unreadable []error
}

// ordinary returns the jobs that take no lock, in their order.
func (d destination) ordinary() (jobs []lua.Promotion) {
	for _, promotion := range d.Jobs {
		if promotion.Lock == nil {
			jobs = append(jobs, promotion)
		}
	}
	return jobs
}

// logPromoted logs the jobs that were moved. If some were gone, only their number is known; then those of the
// dead set are all named, because none may get there without a line.
func (p *Poller) logPromoted(group destination, moved int) {
	switch {
	case moved == 0:
	case group.Dead:
		for i, why := range group.unreadable {
			p.cfg.Log.Error("moved to the dead set: unreadable due job", "error", why, "bytes", len(group.Jobs[i].Old))
		}
	case !p.cfg.Log.Enabled(context.Background(), slog.LevelDebug):
	case moved < len(group.Jobs):
		p.cfg.Log.Debug("promoted due jobs", "queue", group.Queue, "jobs", moved, "due", len(group.Jobs))
	default:
		for _, promotion := range group.Jobs {
			if parsed, err := job.Parse(promotion.New); err == nil {
				p.cfg.Log.Debug("promoted", "jid", parsed.JID(), "class", parsed.DisplayClass(), "queue", group.Queue)
			}
		}
	}
}

// sort returns the due jobs by their destination, in the order in which they are due.
//
// The poller also moves jobs of queues that only other programs take. It decides about the quarantine only for
// jobs that workers of Belay run, and about the dead set only for what names no queue.
func (p *Poller) sort(ctx context.Context, set string, jobs []string, now time.Time) (sorted []destination, err error) {
	add := func(to lua.Promotions, promotion lua.Promotion) *destination {
		at := slices.IndexFunc(sorted, func(d destination) bool {
			return d.Queue == to.Queue && d.Quarantine == to.Quarantine && d.Dead == to.Dead
		})
		if at < 0 {
			at, sorted = len(sorted), append(sorted, destination{Promotions: to})
		}
		sorted[at].Jobs = append(sorted[at].Jobs, promotion)
		return &sorted[at]
	}
	for _, raw := range jobs {
		parsed, err := job.ParseToMove(raw)
		to, new := lua.Promotions{}, raw
		if err == nil {
			to.Queue = parsed.QueueOrDefault()
			if parsed.CheckToRun() == nil { // else it moves as it is: a worker knows what ends with it
				new = parsed.Patch(parsed.IntoQueue(now, p.cfg.Unit)...)
				if p.cfg.Crashes.Quarantines(parsed.InterruptedCount()) {
					// Other programs count interruptions in this field too, and read no quarantine.
					taken, failed := p.takenByBelay(ctx, to.Queue)
					if failed != nil {
						return nil, failed
					}
					to.Quarantine = taken
				}
			}
		}
		if err != nil {
			dead := add(lua.Promotions{Dead: true}, lua.Promotion{Old: raw, New: job.KeepUnreadable(raw, "", err, now, p.cfg.Unit)})
			dead.unreadable = append(dead.unreadable, err)
			continue
		}
		promotion := lua.Promotion{Old: raw, New: new}
		if set == p.cfg.Keys.Schedule() {
			promotion.Lock = lockToTake(parsed)
		}
		add(to, promotion)
	}
	return sorted, nil
}

// lockToTake returns the lock that a unique job takes now because it did not take it when it was scheduled; nil
// for any other job. A snoozed job, which has been in a queue before, does not take a lock that its start has
// freed.
func lockToTake(j *job.Job) *lua.Lock {
	lock, err := dedup.Read(j)
	if err != nil || !lock.Meets() {
		return nil
	}
	if enqueued, ok := j.Field("enqueued_at"); ok && enqueued != "null" {
		return nil
	}
	return lock.Stored(j.Class())
}

package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

const (
	// upkeepEvery is how often the poller looks at all periodic jobs: for those whose last tick lies in the
	// future, because a clock was set, and for those that no process registers any more.
	upkeepEvery = 10 * time.Second
	// orphanedAfter is how long a fleet may run while no process registers a periodic job. Then the job is
	// removed, unless an operator added it.
	orphanedAfter = 24 * time.Hour
	// lateFor is how long ticks may still be late after a time in which no process has polled.
	lateFor = 2 * time.Second
	// unusableFor is how long a periodic job that cannot be fired is put off, until it is tried again.
	unusableFor = 5 * time.Second
	// maxRounds bounds one pass; the next pass follows at once.
	maxRounds = 32
)

// ticks is the state of a Poller for periodic jobs. The Poller reads their plan with each renewal of its lease,
// about once a second. Without periodic jobs, there is no other cost.
type ticks struct {
	// nextAt is when the next tick is due, by this process' clock; zero if none is known.
	nextAt time.Time
	// upkeepAt is when the last upkeep was.
	upkeepAt time.Time
	// known are the definitions that were read, by name.
	known map[string]*Periodic
	// lookedAt is when the plan was last read, by this process' clock. beganAt is since when it has been read
	// all the time, by Redis' clock; zero before the first read of the definitions.
	lookedAt, beganAt time.Time
	// waiting are the ticks that wait for the job of an earlier one, by name.
	waiting map[string]time.Time
}

func newTicks() ticks {
	return ticks{known: make(map[string]*Periodic), waiting: make(map[string]time.Time)}
}

// plan records the reply to readPlan, and returns the names of the periodic jobs that are due.
func (t *ticks) plan(askedAt time.Time, look lua.Ask[lua.Due], reply driver.Reply) (names []string, err error) {
	due, err := look.Read(reply)
	if err == nil {
		if askedAt.Sub(t.lookedAt) > hold {
			t.beganAt = time.Time{}
		}
		t.lookedAt = askedAt
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("read which periodic jobs are due: %w", err)
	case len(due.Jobs) > 0:
		t.nextAt = askedAt
	case due.Next < 0:
		t.nextAt = time.Time{}
	default:
		t.nextAt = askedAt.Add(due.Next)
	}
	return due.Jobs, nil
}

// until returns the time until the next tick, and whether a next tick is known.
func (t *ticks) until(now time.Time) (time.Duration, bool) {
	return max(t.nextAt.Sub(now), 0), !t.nextAt.IsZero()
}

// readPlan returns the call that reads which periodic jobs are due.
func (p *Poller) readPlan() lua.Ask[lua.Due] {
	return p.cfg.Keys.Due(p.cfg.Keys.Periodic(), 0, lua.MaxBytes, lua.MaxDefinition)
}

// fire fires the ticks that are due, and returns the time until the next one.
func (p *Poller) fire(ctx context.Context) (next time.Duration, err error) {
	next = p.cfg.Every
	until, ok := p.ticks.until(time.Now())
	if !ok {
		return next, nil
	}
	for range maxRounds {
		if until > 0 {
			return min(next, until), p.upkeep(ctx)
		}
		look, askedAt := p.readPlan(), time.Now()
		names, err := p.ticks.plan(askedAt, look, p.link.Do(ctx, look.Call)[0])
		if err != nil {
			return next, err
		}
		moved, err := p.fireAll(ctx, names, false)
		if until, ok = p.ticks.until(time.Now()); err != nil || !ok || moved == 0 && len(names) > 0 {
			return next, err
		}
	}
	return soonest, nil
}

// fireAll fires one tick of each of these periodic jobs, and returns how many it moved. With resets it only
// resets the jobs whose last tick lies in the future.
func (p *Poller) fireAll(ctx context.Context, names []string, resets bool) (moved int, errs error) {
	for chunk := range slices.Chunk(names, lua.MaxDefinitions) {
		now, jobs, unusable, err := p.readPeriodic(ctx, chunk)
		if err != nil {
			return moved, errors.Join(errs, err)
		}
		var asks []lua.Ask[lua.Ticked]
		for _, periodic := range jobs {
			if resets && !periodic.step.reset {
				continue
			}
			ask, err := p.tick(periodic, now)
			if err != nil {
				unusable = append(unusable, unusableJob{periodic.Name, err})
				continue
			}
			jobs[len(asks)], asks = periodic, append(asks, ask)
		}
		var replies []driver.Reply
		if len(asks) > 0 {
			replies = p.link.Carry(ctx, 0, lua.CallsOf(asks)...)
		}
		for i, reply := range replies {
			ticked, err := asks[i].Read(reply)
			switch {
			case driver.Outage(err):
				return moved, errors.Join(errs, fmt.Errorf("fire a periodic job: %w", err))
			case err != nil:
				unusable = append(unusable, unusableJob{jobs[i].Name, fmt.Errorf("fire the periodic job %q: %w", jobs[i].Name, err)})
			case ticked.Word == lua.TickWaits:
				moved++ // its plan, by a moment
				p.ticks.waiting[jobs[i].Name] = jobs[i].step.fire
			case ticked.Word != lua.TickEarly && ticked.Word != lua.TickStale:
				moved++
				delete(p.ticks.waiting, jobs[i].Name)
				p.logTick(jobs[i], ticked)
			}
		}
		if !resets {
			errs = errors.Join(errs, p.putOff(ctx, unusable, now))
		}
	}
	return moved, errs
}

// An unusableJob is a periodic job that cannot be fired, with the reason.
type unusableJob struct {
	name string
	err  error
}

// putOff puts off periodic jobs that cannot be fired, so that they do not block the others. Their ticks are
// caught up with later.
func (p *Poller) putOff(ctx context.Context, jobs []unusableJob, now time.Time) error {
	if len(jobs) == 0 {
		return nil
	}
	var errs error
	calls := make([]driver.Call, len(jobs))
	for i, unusable := range jobs {
		errs = errors.Join(errs, unusable.err)
		calls[i] = p.cfg.Keys.PutOffPeriodic(unusable.name, now.Add(unusableFor))
	}
	for _, reply := range p.link.Do(ctx, calls...) {
		errs = errors.Join(errs, reply.Err)
	}
	return errs
}

// A planned is a periodic job as it is stored, with its next action.
type planned struct {
	*Periodic
	lastText string
	step     step
}

// readPeriodic reads the definitions and the last ticks of some periodic jobs, and names those that cannot be
// used.
func (p *Poller) readPeriodic(ctx context.Context, names []string) (now time.Time, jobs []planned, unusable []unusableJob, err error) {
	read, up := p.cfg.Keys.PeriodicStored(names), p.cfg.Keys.UpSince()
	replies := p.link.Carry(ctx, len(names)*lua.MaxDefinition, append(read, up.Call)...)
	now, stored, err := lua.ReadPeriodicStored(names, replies)
	since, upErr := up.Read(replies[len(read)])
	if err = cmp.Or(err, upErr); err != nil {
		return now, nil, nil, fmt.Errorf("read periodic jobs: %w", err)
	}
	if p.ticks.beganAt.IsZero() {
		p.ticks.beganAt = now
	}
	for _, s := range stored {
		periodic, err := p.known(s)
		if err != nil {
			unusable = append(unusable, unusableJob{s.Definition.Name, fmt.Errorf("the periodic job %q: %w", s.Definition.Name, err)})
			continue
		}
		next := step{reset: true} // if the last tick was deleted or overwritten
		if last, err := ReadLastTick(s.Last); err == nil {
			next = periodic.step(last, now, since)
		}
		jobs = append(jobs, planned{Periodic: periodic, lastText: s.Last, step: next})
	}
	return now, jobs, unusable, nil
}

// known reads a stored definition, unless it was read before.
func (p *Poller) known(s lua.StoredDefinition) (*Periodic, error) {
	was := p.ticks.known[s.Definition.Name]
	if was != nil && was.digest == s.Definition.Digest {
		return was, nil
	}
	periodic, err := ReadPeriodic(s.Definition)
	if err != nil {
		return nil, err
	}
	if was != nil && (was.Cron != periodic.Cron || was.Zone != periodic.Zone) {
		p.logLeftOut(was.Name)
	}
	p.ticks.known[periodic.Name] = periodic
	return periodic, nil
}

// logLeftOut logs that the tick that waited for the job of an earlier one, if any, is left out, because the
// schedule has changed. A new schedule does not wait for that job: with OverlapQueue a tick may wait at any
// time.
func (p *Poller) logLeftOut(name string) {
	if tick, waited := p.ticks.waiting[name]; waited {
		delete(p.ticks.waiting, name)
		p.cfg.Log.Info("tick that waited is left out: the schedule has changed", "periodic", name, "tick", tick)
	}
}

// tick returns the call for the action of a periodic job now.
func (p *Poller) tick(periodic planned, now time.Time) (ask lua.Ask[lua.Ticked], err error) {
	s := periodic.step
	plan := lua.Plan{Name: periodic.Name, Digest: periodic.digest, State: lua.PlanRunning, Expected: periodic.lastText}
	if s.reset {
		plan.Last, plan.Next = lua.PlanNow, lua.PlanNow
		return p.cfg.Keys.Tick(plan, nil), nil
	}
	plan.Next = lua.NextTick(s.next)
	if !s.last.IsZero() {
		plan.Last = s.last.Format(time.RFC3339)
	}
	var j *lua.TickJob
	if !s.fire.IsZero() {
		if j, err = periodic.TickJob(s.fire, now, p.cfg.Unit); err != nil {
			return ask, err
		}
		// While an earlier tick waited, others of OverlapQueue that came due are refused. Of ticks that came
		// due while no process polled, or a moment later, each waits for the one before it, whose job was
		// late too.
		j.WaitsBefore = periodic.lock != "" && periodic.Overlap == OverlapQueue
		j.WaitsAfter = periodic.lock != "" && j.DueAt.Before(p.ticks.beganAt.Add(lateFor))
	}
	return p.cfg.Keys.Tick(plan, j), nil
}

// logTick logs the result of a tick.
func (p *Poller) logTick(periodic planned, ticked lua.Ticked) {
	s := periodic.step
	if s.reset {
		why := "last tick lies in the future, because a clock was set; ticks count from now on"
		if _, err := ReadLastTick(periodic.lastText); err != nil {
			why = "last tick is missing or unreadable; ticks count from now on"
		}
		p.cfg.Log.Warn(why, "periodic", periodic.Name, "last", periodic.lastText)
	}
	if s.passed {
		p.cfg.Log.Info("ticks that passed are left out",
			"periodic", periodic.Name, "last", periodic.lastText, "catch_up", string(periodic.CatchUp), "tick", s.last,
			"fired", !s.fire.IsZero())
	}
	if !s.fire.IsZero() {
		p.cfg.Log.Debug("tick",
			"periodic", periodic.Name, "tick", s.fire, "class", periodic.Class(), "queue", periodic.Queue(),
			"outcome", ticked.Word, "holder", ticked.Holder)
	}
}

// upkeep resets periodic jobs whose last tick lies in the future, and removes those that no process
// registers, once in upkeepEvery.
func (p *Poller) upkeep(ctx context.Context) error {
	now := time.Now()
	gone := now.Sub(p.ticks.upkeepAt)
	if gone < upkeepEvery {
		return nil
	}
	p.ticks.upkeepAt = now
	if err := p.removeOrphans(ctx, min(gone, 2*upkeepEvery)); err != nil {
		return err
	}
	for first := 0; ; first += lua.MaxDefinitions {
		names, err := plannedNames(ctx, p.link, p.cfg.Keys, first)
		if err != nil || len(names) == 0 {
			return err
		}
		if _, err := p.fireAll(ctx, names, true); err != nil {
			return err
		}
	}
}

// removeOrphans removes periodic jobs that no process has registered for orphanedAfter. It counts only time
// in which the fleet runs; gone is how much has passed since the last call.
func (p *Poller) removeOrphans(ctx context.Context, gone time.Duration) error {
	reply := p.link.Do(ctx, p.cfg.Keys.CountUptime(gone))[0]
	if reply.Err != nil {
		return fmt.Errorf("count the uptime: %w", reply.Err)
	}
	uptime, _ := reply.Value.(int64)
	latest := uptime - int64(orphanedAfter/time.Second)
	names, err := lua.Texts(p.link.Do(ctx, driver.Command("ZRANGEBYSCORE", p.cfg.Keys.PeriodicSeen(), "-inf", strconv.FormatInt(latest, 10),
		"LIMIT", "0", strconv.Itoa(lua.MaxDefinitions)))[0])
	if err != nil {
		return fmt.Errorf("list periodic jobs that no process registers: %w", err)
	}
	for _, name := range names {
		done, err := p.cfg.Keys.UndefineOrphan(name, latest).Do(ctx, p.link)
		if err != nil {
			return fmt.Errorf("remove the periodic job %q: %w", name, err)
		}
		if done == lua.UndefineRemoved {
			delete(p.ticks.known, name)
			p.cfg.Log.Info("removed: for a day no process has registered it", "periodic", name)
		}
	}
	return nil
}

package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/scheduler"
)

// A Periodic is a periodic job as it is stored. Its text is untrusted.
type Periodic struct {
	Name string `json:"name"`
	// Cron and Zone are its schedule; an empty zone is UTC.
	Cron string `json:"cron"`
	Zone string `json:"zone"`
	// CatchUp is skip, once or all, and Overlap skip, queue or allow.
	CatchUp string  `json:"catch_up"`
	Overlap string  `json:"overlap"`
	Jitter  Seconds `json:"jitter_seconds"`
	// Class, Queue and Args are those of the job of each tick.
	Class string          `json:"class"`
	Queue string          `json:"queue"`
	Args  json.RawMessage `json:"args"`
	// Masked reports whether a Mask hides arguments.
	Masked bool `json:"-"`
	// Process is the identity of the process whose definition is in force; "" for one that an operator added.
	Process string `json:"process"`
	Paused  bool   `json:"paused"`
	// LastAt is the nominal time of the last tick; nil if there was none since the schedule was stored.
	LastAt *time.Time `json:"last_at"`
	// NextAt is when the next tick is due, with its jitter; nil if it is paused.
	NextAt *time.Time `json:"next_at"`
	// LastRun is its last tick or run by hand; nil for none.
	LastRun *PeriodicRun `json:"last_run"`
	// Problem says why the definition cannot be used by this version; "" if it can.
	Problem string `json:"problem,omitempty"`
}

// A PeriodicRun is one tick of a periodic job.
type PeriodicRun struct {
	// TickAt is the tick's nominal time; nil for a run that an operator asked for.
	TickAt *time.Time `json:"tick_at"`
	// At is when the tick's job was enqueued or refused, by Redis' clock.
	At time.Time `json:"at"`
	// Outcome is refused if the tick was skipped, because the job of an earlier one held the lock; else the
	// state of the job as a tracked one: running, retrying, done, dead, discarded, cancelled or expired; or
	// enqueued if no worker has reported it.
	Outcome string `json:"outcome"`
	// EndedAt is when the job ended, by Redis' clock; nil before.
	EndedAt *time.Time `json:"ended_at"`
	// JID is that of the job, or of the one that held the lock.
	JID string `json:"jid"`
}

var (
	// ErrNoPeriodic is the error about a periodic job that does not exist.
	ErrNoPeriodic = scheduler.ErrNoPeriodic
	// ErrRegistered is the error of RemovePeriodic for a job that a live process has in its code.
	ErrRegistered = scheduler.ErrRegistered
)

const (
	// maxPeriodic bounds the list: a program that makes up names must not fill an operator's memory.
	maxPeriodic = 10_000
	// maxPeriodicNames is how many bytes the names of so many have at most, if clients stored them.
	maxPeriodicNames = 2 << 20
)

// Periodic returns the periodic jobs, the next one to be due first and paused ones last; at most ten
// thousand.
func (i *Inspector) Periodic(ctx context.Context) (all []Periodic, err error) {
	// All names at one instant: each tick moves its job behind others, so that pages of names would skip some.
	names, err := lua.Texts(i.link.Carry(ctx, maxPeriodicNames, driver.Command("ZRANGE", i.keys.Periodic(), "0", strconv.Itoa(maxPeriodic-1)))[0])
	if err != nil {
		return nil, fmt.Errorf("list periodic jobs: %w", err)
	}
	for some := range slices.Chunk(names, lua.MaxDefinitions) {
		page, err := i.readPeriodic(ctx, some)
		if err != nil {
			return all, err
		}
		// One that is neither planned nor paused was removed meanwhile.
		page = slices.DeleteFunc(page, func(entry periodicEntry) bool { return entry.NextAt == nil && !entry.Paused })
		last := make([]*PeriodicRun, len(page))
		for n := range page {
			last[n] = page[n].LastRun
		}
		if err := i.readOutcomes(ctx, last); err != nil {
			return all, err
		}
		for _, entry := range page {
			all = append(all, entry.Periodic)
		}
	}
	return all, nil
}

// A periodicEntry is a Periodic with what an act on it needs.
type periodicEntry struct {
	Periodic
	digest     string
	definition *scheduler.Periodic // nil with a Problem
	now        time.Time
	gone       bool
}

func (i *Inspector) readPeriodic(ctx context.Context, names []string) ([]periodicEntry, error) {
	calls := i.keys.PeriodicStored(names)
	fixed := len(calls)
	for _, name := range names {
		calls = append(calls, driver.Command("ZSCORE", i.keys.Periodic(), name))
	}
	for _, name := range names {
		calls = append(calls, driver.Command("LRANGE", i.keys.PeriodicRuns(name), "0", "0"))
	}
	replies := i.link.Carry(ctx, len(names)*lua.MaxDefinition, calls...)
	now, stored, err := lua.ReadPeriodicStored(names, replies[:fixed])
	if err != nil {
		return nil, fmt.Errorf("read periodic jobs: %w", err)
	}
	all := make([]periodicEntry, len(names))
	for n, s := range stored {
		score, scoreErr := scoreOf(replies[fixed+n])
		runs, err := runsOf(replies[fixed+len(names)+n])
		if err = cmp.Or(scoreErr, err); err != nil {
			return nil, fmt.Errorf("read periodic jobs: %w", err)
		}
		all[n] = periodicEntryOf(s, score, now)
		i.maskPeriodic(&all[n])
		if len(runs) > 0 {
			all[n].LastRun = &runs[0]
		}
	}
	return all, nil
}

// scoreOf reads the reply to ZSCORE; "" is of no member.
func scoreOf(reply driver.Reply) (string, error) {
	if reply.Err != nil {
		return "", reply.Err
	}
	score, _ := reply.Value.(string)
	return strings.ToLower(strings.TrimPrefix(score, "+")), nil
}

func periodicEntryOf(s lua.StoredDefinition, score string, now time.Time) periodicEntry {
	entry := periodicEntry{digest: s.Definition.Digest, now: now, gone: score == "" || s.Definition.Digest == ""}
	entry.Name, entry.Process, entry.Paused, entry.Args = s.Definition.Name, s.By.Identity, score == "inf", json.RawMessage("[]")
	if seconds, err := strconv.ParseFloat(score, 64); err == nil && !entry.Paused {
		entry.NextAt = new(time.UnixMicro(int64(seconds * 1e6)).UTC())
	}
	definition, err := scheduler.ReadPeriodic(s.Definition)
	if err != nil {
		entry.Problem = err.Error()
		return entry
	}
	entry.definition = definition
	entry.Cron, entry.Zone, entry.CatchUp, entry.Overlap = definition.Cron, definition.Zone, string(definition.CatchUp), string(definition.Overlap)
	entry.Jitter, entry.Class, entry.Queue = Seconds{definition.Jitter}, definition.Class(), definition.Queue()
	entry.Args = json.RawMessage(definition.ArgsJSON())
	if last, err := scheduler.ReadLastTick(s.Last); err == nil && last.Ticked {
		entry.LastAt = &last.At
	}
	if entry.NextAt != nil && !entry.NextAt.After(now) {
		// The poller is about to plan it, and will store this time.
		if next := definition.Schedule().Next(now.Add(-time.Second)); !next.IsZero() {
			entry.NextAt = new(next.UTC())
		}
	}
	return entry
}

func (i *Inspector) findPeriodic(ctx context.Context, name string) (periodicEntry, error) {
	all, err := i.readPeriodic(ctx, []string{name})
	if err != nil {
		return periodicEntry{}, err
	}
	if all[0].gone {
		return all[0], fmt.Errorf("%w: %q", ErrNoPeriodic, name)
	}
	return all[0], nil
}

// AddPeriodic stores a periodic job, as client.Client.SetPeriodic does.
func (i *Inspector) AddPeriodic(ctx context.Context, p *scheduler.Periodic) (changed bool, err error) {
	return scheduler.Store(ctx, i.link, scheduler.Config{Keys: i.keys, Unit: i.unit}, p)
}

// RemovePeriodic removes a periodic job. Its jobs that were enqueued stay. The error is ErrNoPeriodic if
// there is none, and ErrRegistered for one that a live process has in its code. If an operator's periodic job
// had replaced one in code, the one in code is in force again.
func (i *Inspector) RemovePeriodic(ctx context.Context, name string) error {
	return scheduler.Remove(ctx, i.driver, i.keys, name)
}

// PausePeriodic pauses a periodic job until ResumePeriodic, whatever new versions of its definition are
// registered. Ticks that pass meanwhile are not fired later. It reports whether it was not paused before.
func (i *Inspector) PausePeriodic(ctx context.Context, name string) (changed bool, err error) {
	return i.changePeriodic(ctx, name, lua.Plan{State: lua.PlanAny, Next: lua.PlanNever}, func(entry *periodicEntry) bool { return entry.Paused })
}

// ResumePeriodic ends a pause. Ticks count from now on. It reports whether the job was paused.
func (i *Inspector) ResumePeriodic(ctx context.Context, name string) (changed bool, err error) {
	return i.changePeriodic(ctx, name, lua.Plan{State: lua.PlanPaused, Last: lua.PlanNow, Next: lua.PlanNow},
		func(entry *periodicEntry) bool { return !entry.Paused })
}

// changePeriodic changes a plan, unless it is so already.
func (i *Inspector) changePeriodic(ctx context.Context, name string, plan lua.Plan, already func(*periodicEntry) bool) (changed bool, err error) {
	err = i.tickPeriodic(ctx, name, func(entry *periodicEntry) (done bool, err error) {
		if already(entry) {
			return true, nil
		}
		plan.Name, plan.Digest = name, entry.digest
		ticked, err := i.keys.Tick(plan, nil).Do(ctx, i.driver)
		if err != nil {
			return false, fmt.Errorf("change the periodic job %q: %w", name, err)
		}
		changed = ticked.Word == lua.TickPlanned
		return changed, nil
	})
	return changed, err
}

// tickPeriodic reads a periodic job and acts on it. Another definition may come in between; then it looks
// again.
func (i *Inspector) tickPeriodic(ctx context.Context, name string, act func(*periodicEntry) (done bool, err error)) error {
	for range maxAttempts {
		entry, err := i.findPeriodic(ctx, name)
		if err != nil {
			return err
		}
		if done, err := act(&entry); done || err != nil {
			return err
		}
	}
	return fmt.Errorf("the periodic job %q changes all the time; try again", name)
}

// maxAttempts bounds how often an act on a periodic job looks again.
const maxAttempts = 5

// RunPeriodic enqueues a periodic job's job now, also if it is paused; its ticks stay as they are. The run is
// refused, with the holder's jid, while a job of an earlier tick holds the lock; see Overlap.
func (i *Inspector) RunPeriodic(ctx context.Context, name string) (run PeriodicRun, err error) {
	err = i.tickPeriodic(ctx, name, func(entry *periodicEntry) (done bool, err error) {
		if entry.definition == nil {
			return false, errors.New(entry.Problem)
		}
		j, err := entry.definition.TickJob(time.Time{}, entry.now, i.unit)
		if err != nil {
			return false, err
		}
		ticked, err := i.keys.Tick(lua.Plan{Name: name, Digest: entry.digest, State: lua.PlanAny}, j).Do(ctx, i.driver)
		switch {
		case err != nil:
			return false, fmt.Errorf("run the periodic job %q: %w", name, err)
		case ticked.Word == lua.TickEnqueued:
			run = PeriodicRun{At: entry.now, Outcome: ticked.Word, JID: j.JID}
			return true, nil
		case ticked.Word == lua.TickRefused:
			run = PeriodicRun{At: entry.now, Outcome: ticked.Word, JID: ticked.Holder}
			return true, nil
		}
		return false, nil
	})
	return run, err
}

// PeriodicHistory returns a periodic job and its last runs, the newest first.
func (i *Inspector) PeriodicHistory(ctx context.Context, name string) (Periodic, []PeriodicRun, error) {
	entry, err := i.findPeriodic(ctx, name)
	if err != nil {
		return entry.Periodic, nil, err
	}
	runs, err := runsOf(i.driver.Do(ctx, driver.Command("LRANGE", i.keys.PeriodicRuns(name), "0", strconv.Itoa(lua.MaxRuns-1)))[0])
	if err != nil {
		return entry.Periodic, nil, fmt.Errorf("read the history of the periodic job %q: %w", name, err)
	}
	last := []*PeriodicRun{entry.LastRun}
	for n := range runs {
		last = append(last, &runs[n])
	}
	return entry.Periodic, runs, i.readOutcomes(ctx, last)
}

// readOutcomes reads the outcomes of the jobs of ticks; nil is no outcome. The jobs are tracked for as long as
// the history has them.
func (i *Inspector) readOutcomes(ctx context.Context, runs []*PeriodicRun) error {
	runs = slices.DeleteFunc(runs, func(run *PeriodicRun) bool { return run == nil || run.Outcome != lua.TickEnqueued })
	asks, calls := lua.AskEach(runs, func(run *PeriodicRun) lua.Ask[lua.Tracked] { return i.keys.ReadTracked(run.JID) })
	for n, reply := range i.do(ctx, calls) {
		tracked, err := asks[n].Read(reply)
		if err != nil {
			return fmt.Errorf("read the outcome of a periodic job: %w", err)
		}
		if tracked.State != lua.TrackWaiting {
			runs[n].Outcome = string(tracked.State)
		}
		if !tracked.EndedAt.IsZero() {
			runs[n].EndedAt = &tracked.EndedAt
		}
	}
	return nil
}

// runsOf reads entries of a history as the script tick writes them.
func runsOf(reply driver.Reply) ([]PeriodicRun, error) {
	entries, err := lua.Texts(reply)
	if err != nil {
		return nil, err
	}
	runs := make([]PeriodicRun, 0, len(entries))
	for _, entry := range entries {
		words := strings.SplitN(entry, " ", 4)
		if len(words) < 4 {
			continue
		}
		ms, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil {
			continue
		}
		run := PeriodicRun{At: time.UnixMilli(ms).UTC(), Outcome: words[2], JID: words[3]}
		if at, err := time.Parse(time.RFC3339, words[0]); err == nil {
			run.TickAt = &at
		}
		runs = append(runs, run)
	}
	return runs, nil
}

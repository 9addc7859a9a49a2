package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/scheduler"
)

// Package belay exports these types. They are aliases, because it imports no engine.
type (
	// CatchUp sets what happens to ticks that passed while no process could fire them.
	CatchUp = scheduler.CatchUp
	// Overlap sets what happens at a tick while the job of an earlier tick waits or runs.
	Overlap = scheduler.Overlap
)

// The values of CatchUp and Overlap.
const (
	CatchUpOnce  = scheduler.CatchUpOnce
	CatchUpSkip  = scheduler.CatchUpSkip
	CatchUpAll   = scheduler.CatchUpAll
	OverlapSkip  = scheduler.OverlapSkip
	OverlapQueue = scheduler.OverlapQueue
	OverlapAllow = scheduler.OverlapAllow
)

// A Periodic is a job that is enqueued at the times of a schedule; Server.Schedule accepts it,
// and Client.SetPeriodic stores it.
//
//	belay.Periodic{Name: "nightly", Cron: "0 3 * * *", Zone: "Europe/Berlin", Job: Report.Job(ReportArgs{})}
//
// Only Name, Cron and Job are required.
type Periodic struct {
	// Name identifies it in the whole fleet: every server may schedule it, and each tick is enqueued once.
	Name string
	// Cron has five fields, minute, hour, day of the month, month and day of the week, or it is a name such as
	// @hourly, @daily, @weekly or @monthly, or "@every 90s" with whole seconds, which count from 1970. A time
	// that is skipped when clocks are set forward is due at the instant of the change; a time that comes twice
	// is due the first time. A schedule for every hour, such as "*/30 * * * *", follows real time through both
	// changes.
	Cron string
	// Job is the job of each tick: of Definition.Job, with options such as Queue, Retries and Meta. In, At, JID
	// and PushOnce are errors; with shards also a limit or a ShardKey of another shard than that of the
	// periodic jobs. Push middleware does not run for these jobs, because the process that polls enqueues them.
	Job RawJob
	// Zone is the time zone of Cron by its name in the IANA database, which the program contains, such as
	// Europe/Berlin. Default: UTC.
	Zone string
	// Jitter delays each tick by less than this, in whole milliseconds, and never beyond the next tick, so that
	// schedules with the same time do not all fire at once. The delay of a tick is the same in all processes,
	// and does not change the TickAt of Info. Default: none.
	Jitter time.Duration
	// CatchUp sets which of the ticks that passed while no server ran are fired late. Default: CatchUpOnce.
	CatchUp CatchUp
	// Overlap sets what happens at a tick while the job of an earlier tick waits or runs. A job that is Unique
	// itself needs no Overlap: its own lock decides. Default: OverlapSkip.
	Overlap Overlap
}

// SetPeriodic stores a periodic job at run time, as belay periodic add does. It replaces one of the same name,
// even one that programs have in their code (Server.Schedule), and stays until RemovePeriodic. If the schedule
// changes, what is due by the old one is enqueued first, and ticks count from now; other changes move no tick.
// A pause lasts. SetPeriodic reports whether it changed anything; with the same definition it does nothing. The
// error names everything that is wrong with p, and then nothing was sent.
//
// Workers enqueue the ticks: without a running Server nothing fires. The Redis user needs the rights of an
// operator.
func (c *Client) SetPeriodic(ctx context.Context, p Periodic) (changed bool, err error) {
	definition, err := p.DefinitionFor(c)
	if err != nil {
		return false, fmt.Errorf("belay: periodic job %q: %w", p.Name, err)
	}
	home := c.spaces[c.Home()]
	if err := home.admit(ctx); err != nil {
		return false, fmt.Errorf("belay: %w", home.of(err))
	}
	if changed, err = scheduler.Store(ctx, home.link, scheduler.Config{Keys: home.keys, Unit: c.cfg.Unit}, definition); err != nil {
		return false, fmt.Errorf("belay: %w", err)
	}
	return changed, nil
}

// RemovePeriodic removes a periodic job, and reports whether there was one. Its jobs that were enqueued stay.
// If it had replaced one in the code of a running program, that one is in force again. It is an error to remove
// one that is only in the code of a running program, which would register it again.
func (c *Client) RemovePeriodic(ctx context.Context, name string) (removed bool, err error) {
	home := c.spaces[c.Home()]
	switch err := scheduler.Remove(ctx, home.driver, home.keys, name); {
	case errors.Is(err, scheduler.ErrNoPeriodic):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("belay: %w", err)
	}
	return true, nil
}

// tickJID is the placeholder for the jid in a periodic job's definition. Each tick has a jid of its own.
const tickJID = "tick"

// Definition returns what is stored of p: its schedule and the payload of its jobs, checked and complete. The
// error names everything that is wrong.
func (p Periodic) Definition() (*scheduler.Periodic, error) {
	j := p.Job
	j.finish()
	var errs []error
	refuse := func(is bool, why string) {
		if is {
			errs = append(errs, errors.New(why))
		}
	}
	refuse(j.In != 0 || !j.At.IsZero(), "In and At: its schedule says when a periodic job is enqueued")
	refuse(j.JID != "", "JID: each tick has a jid of its own")
	refuse(j.PushOnce, "PushOnce: each tick is enqueued once in any case")
	refuse(j.Encrypt != nil, "Encrypted: its arguments are in the program's code, and a new nonce would make it a new "+
		"definition at each start; enqueue the encrypted job from the handler of a periodic one")
	refuse(j.Key != "", "Key: it would be the key of every tick")
	refuse(j.Unique != nil && j.Unique.Until == dedup.UntilExpired, "UntilExpired: its schedule says how often a periodic job is enqueued")
	refuse(j.Replicas != 0, "Replicas: workers enqueue its ticks, and do not wait for replicas")
	refuse(j.Batch != nil, "Batch: it would be over before most of the ticks")
	refuse(len(j.Then) > 0, "Then: its next jobs would have the same ids at each tick; push the sequence from the handler of a periodic job")
	refuse(len(j.WAL) > 0, "WAL: a tick has no position")
	refuse(j.Unique != nil && p.Overlap != "", "both Unique and an Overlap: choose one")
	refuse(j.Unique != nil && j.Unique.MarkDuplicates, "MarkDuplicates: a tick is enqueued or left out; use OverlapAllow")
	switch {
	case j.Unique != nil && j.Unique.Until == dedup.UntilExecuting:
		p.Overlap = scheduler.OverlapQueue
	case j.Unique != nil:
		p.Overlap = scheduler.OverlapSkip
	case j.NotUnique && p.Overlap == "" && !j.wraps(): // an ActiveJob is never unique by its arguments
		p.Overlap = scheduler.OverlapAllow
	}
	if j.Unique == nil && p.Overlap != scheduler.OverlapAllow {
		rule := scheduler.OverlapRule(p.Name)
		j.Unique = &rule
	}
	var w writer
	j.setDefaults(&w)
	j.JID = tickJID
	var d draft
	if err := j.draft(&w, time.Unix(0, 0), &d); err != nil { // scheduler.Periodic.TickJob adds the time of the tick to its limits
		return nil, errors.Join(append(errs, err)...)
	}
	definition := &scheduler.Periodic{
		Name: p.Name, Cron: p.Cron, Zone: p.Zone, CatchUp: p.CatchUp, Jitter: p.Jitter, Overlap: p.Overlap, Job: d.encode(&w),
	}
	if parsed, err := job.Parse(definition.Job); err == nil {
		// Each tick has an id and a time of its own, and the definition must be the same after a restart.
		if edit, ok := parsed.AsNewActiveJob(tickJID, time.Unix(0, 0)); ok {
			definition.Job = parsed.Patch(edit)
		}
	}
	if err := errors.Join(append(errs, j.checkPayload(definition.Job), definition.Check())...); err != nil {
		return nil, err
	}
	return definition, nil
}

// DefinitionFor returns the Definition. It is an error if the job would not be on the shard of its ShardKey or
// of its limit: a client with shards has the ticks on one of them.
func (p Periodic) DefinitionFor(c *Client) (*scheduler.Periodic, error) {
	definition, err := p.Definition()
	if err != nil || c.place == nil {
		return definition, err
	}
	var key boundKey
	switch {
	case p.Job.ShardKey != "":
		key = boundKey{boundShard, p.Job.ShardKey}
	case p.Job.gate != nil:
		key = boundKey{boundGate, p.Job.gate(definition.Job)}
	default:
		return definition, nil
	}
	if at, home := c.place.of(key.text), c.Home(); at != home {
		return nil, fmt.Errorf("%s is on shard %q, and ticks are enqueued on shard %q: enqueue the job from the handler of a periodic one",
			key.kind, c.spaces[at].name, c.spaces[home].name)
	}
	return definition, nil
}

// wraps reports whether the job is an ActiveJob.
func (j RawJob) wraps() bool {
	return slices.ContainsFunc(j.Extra, func(edit job.Edit) bool { return edit.Name == "wrapped" })
}

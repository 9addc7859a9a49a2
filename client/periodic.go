package client

import (
	"errors"
	"slices"
	"time"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/scheduler"
)

// Package belay exports these types. They are aliases, because it imports no engine.
type (
	// Periodic is a periodic job; see package scheduler.
	Periodic = scheduler.Periodic
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

// tickJID is the placeholder for the jid in a periodic job's definition. Each tick has a jid of its own.
const tickJID = "tick"

// Periodic returns p with the job's payload, checked and complete. The error names everything that is wrong.
// Middleware does not run for the jobs of ticks, because the process that polls enqueues them.
func (j RawJob) Periodic(p Periodic) (*Periodic, error) {
	var errs []error
	refuse := func(is bool, why string) {
		if is {
			errs = append(errs, errors.New(why))
		}
	}
	refuse(j.In != 0 || !j.At.IsZero(), "In and At: its schedule says when a periodic job is enqueued")
	refuse(j.JID != "", "JID: each tick has a jid of its own")
	refuse(j.PushOnce, "PushOnce: each tick is enqueued once in any case")
	refuse(j.Key != "", "Key: it would be the key of every tick")
	refuse(j.Unique != nil && j.Unique.Until == dedup.UntilExpired, "UntilExpired: its schedule says how often a periodic job is enqueued")
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
	j = j.withDefaults()
	j.JID = tickJID
	d, err := j.draft(time.Unix(0, 0)) // Periodic.TickJob adds the time of the tick to its limits
	if err != nil {
		return nil, errors.Join(append(errs, err)...)
	}
	p.Job = d.Encode()
	if parsed, err := job.Parse(p.Job); err == nil {
		// Each tick has an id and a time of its own, and the definition must be the same after a restart.
		if edit, ok := parsed.AsNewActiveJob(tickJID, time.Unix(0, 0)); ok {
			p.Job = parsed.Patch(edit)
		}
	}
	if err := errors.Join(append(errs, j.checkPayload(p.Job), p.Check())...); err != nil {
		return nil, err
	}
	return &p, nil
}

// wraps reports whether the job is an ActiveJob.
func (j RawJob) wraps() bool {
	return slices.ContainsFunc(j.Extra, func(edit job.Edit) bool { return edit.Name == "wrapped" })
}

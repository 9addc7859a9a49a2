package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// A CancelResult is what Cancel did about a job.
type CancelResult string

// The results. Their names will not change.
const (
	// CancelRemoved means that the job waited and was removed. It will not run.
	CancelRemoved CancelResult = "removed"
	// CancelStopping means that a process has the job. The process does not start it or, if it runs, ends its
	// context within a heartbeat. The job ends without a retry; if its handler returns nil all the same, it
	// is done.
	CancelStopping CancelResult = "stopping"
	// CancelMarked means that the job was not found, perhaps because a worker has dropped it meanwhile, or
	// that its process cannot stop it (see Cancellation.Process). A worker that takes it later drops it. A
	// worker reads the mark after its next heartbeat, so one that takes the job within a few seconds may run it
	// for as long, and then ends its context.
	CancelMarked CancelResult = "marked"
	// CancelDone means that the job had ended before: it is in the dead set, or it is a tracked job whose
	// state Redis still has. It was not changed.
	CancelDone CancelResult = "done"
)

// A Cancellation describes what Cancel did about one job.
type Cancellation struct {
	JID    string       `json:"jid"`
	Result CancelResult `json:"result"`
	// Place is where the job was found.
	Place Place  `json:"state"`
	Class string `json:"class,omitempty"`
	Queue string `json:"queue,omitempty"`
	// Process is the identity of the process that has the job. With CancelMarked it is a worker of a version
	// without cancelling, which ignores the mark, or a process of Sidekiq, which stops only iterable jobs.
	Process string `json:"process,omitempty"`
	// Unseen says why the search for a job that was not found was incomplete; empty if it was complete.
	Unseen string `json:"unseen,omitempty"`
}

// cancelTime bounds the search of Cancel if its context has no deadline: enough for a million jobs on a near
// Redis.
const cancelTime = 10 * time.Second

// Cancel cancels the jobs with these jids, wherever they are, and returns what it did about each, in the given
// order. A job that waits is removed as by Delete. A job that runs ends without a retry.
//
// Cancel marks the jobs first, and looks for them afterwards: a job that it does not find is dropped by the
// worker that takes it, from the worker's next heartbeat on and for thirty days. A job that is created after
// the call is not affected, even if it has the same jid, and neither is one that an operator retries after it.
// The search ends before the deadline of ctx, or after ten seconds.
//
// At most 10,000 jobs that were not found, or have not ended yet, are marked at a time; beyond them Cancel
// returns an error. If it returns an error, it may be called again. The results say what was done before: the
// Result of a job is empty if nothing was done, and CancelMarked with Unseen if the search failed before it
// found the job.
func (i *Inspector) Cancel(ctx context.Context, jids ...string) ([]Cancellation, error) {
	results := make([]Cancellation, len(jids))
	var errs []error
	for n, jid := range jids {
		results[n] = Cancellation{JID: jid, Place: PlaceNotFound}
		if jid == "" || len(jid) > maxJID || strings.ContainsFunc(jid, func(r rune) bool { return r < ' ' }) {
			errs = append(errs, fmt.Errorf("%.40q is not a jid", jid))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("cancel: %w", err)
	}
	ends := time.Now().Add(cancelTime)
	if deadline, limited := ctx.Deadline(); limited {
		ends = time.Now().Add(time.Until(deadline) * 9 / 10) // no call is interrupted
	}
	for chunk := range slices.Chunk(results, lua.MaxItems) {
		c := &cancelling{i: i, ends: ends, results: make(map[string]*Cancellation), open: make(map[string]bool)}
		for n := range chunk {
			c.results[chunk[n].JID], c.open[chunk[n].JID] = &chunk[n], true
		}
		err := c.run(ctx)
		for n := range chunk {
			chunk[n] = *c.results[chunk[n].JID] // a jid may be given twice
		}
		if err != nil {
			return results, fmt.Errorf("cancel: %w", err)
		}
	}
	return results, nil
}

// maxJID is the length of the longest jid that clients push.
const maxJID = 255

// cancelling is the work on one page of jids.
type cancelling struct {
	i        *Inspector
	ends     time.Time
	markedAt time.Time
	results  map[string]*Cancellation
	open     map[string]bool // jids without a result
	place    string          // where the search is, for people
	unseen   []string
}

// run marks the jobs, and then looks for them where jobs pass through, in their order. It looks twice,
// because a job may move against that order.
func (c *cancelling) run(ctx context.Context) error {
	var marks []lua.Mark
	for jid := range c.open {
		marks = append(marks, lua.Mark{JID: jid})
	}
	var err error
	if c.markedAt, err = c.i.keys.Mark(marks).Do(ctx, c.i.driver); err != nil {
		return marking(err)
	}
	for jid := range c.open {
		c.results[jid].Result = CancelMarked
	}
	// What runs comes first: a worker that has read the mark ends the run, and then it cannot be found.
	err = c.look(ctx, PlaceRunning)
	for pass := 0; pass < 2 && err == nil && !c.over(); pass++ {
		c.unseen = nil
		err = c.search(ctx)
	}
	switch {
	case err != nil:
		c.unseen = append(c.unseen, "it failed: "+err.Error())
	case c.late() && len(c.open) > 0:
		c.unseen = append(c.unseen, "it took too long: stopped in "+c.place)
	}
	for jid := range c.open {
		c.results[jid].Unseen = strings.Join(c.unseen, "; ")
	}
	return cmp.Or(err, c.unmark(ctx))
}

// marking returns the error of a call that marks jobs.
func marking(err error) error {
	if refused, ok := errors.AsType[*driver.ServerError](err); ok && refused.Code == lua.FullCode {
		return fmt.Errorf("%d jobs are marked as cancelled and have not ended or been found since, which is the maximum; "+
			"a mark ends after %d days", lua.MaxMarks, lua.KeepMarks/(24*time.Hour))
	}
	return fmt.Errorf("mark the jobs: %w", err)
}

func (c *cancelling) late() bool { return !time.Now().Before(c.ends) }

func (c *cancelling) over() bool { return len(c.open) == 0 || c.late() }

func (c *cancelling) search(ctx context.Context) error {
	if err := c.remove(ctx, Scheduled()); err != nil {
		return err
	}
	if err := c.removeFrom(ctx, gateLists); err != nil {
		return err
	}
	if err := c.removeFrom(ctx, queueLists); err != nil {
		return err
	}
	if err := c.look(ctx, PlaceRunning); err != nil {
		return err
	}
	if err := c.remove(ctx, Retries()); err != nil {
		return err
	}
	if err := c.look(ctx, PlaceDead); err != nil {
		return err
	}
	return c.completed(ctx)
}

// removeFrom removes jobs from the lists of all gates, or of all queues.
func (c *cancelling) removeFrom(ctx context.Context, of lists) error {
	for home, err := range c.i.withJobs(ctx, of, "", "", &c.unseen) {
		if err == nil {
			err = c.remove(ctx, home)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// completed looks for tracked jobs that had ended before they were marked.
func (c *cancelling) completed(ctx context.Context) error {
	for jids := range slices.Chunk(slices.Collect(maps.Keys(c.open)), trackedAtOnce) {
		if c.late() {
			return nil
		}
		read, err := c.i.trackedJobs(ctx, jids)
		if err != nil {
			return err
		}
		for _, job := range read {
			if job.State.Ended() && job.Payload != "" && job.EndedAt.Before(c.markedAt) {
				c.found(CancelDone, c.i.completedJob(job))
			}
		}
	}
	return nil
}

func (c *cancelling) remove(ctx context.Context, home Home) error {
	if c.over() {
		return nil
	}
	c.place = home.String()
	a, err := c.i.start(ctx, Task{Home: home, Action: Delete, Selection: Selection{IDs: slices.Collect(maps.Keys(c.open))}}, "", true)
	a.moved = func(e Entry) { c.found(CancelRemoved, e.Found()) }
	for err == nil && !a.ended && !c.late() {
		err = a.next(ctx)
	}
	c.unseen = append(c.unseen, a.counts.Problems...)
	if refused, ok := errors.AsType[*driver.ServerError](err); ok && refused.Code == "WRONGTYPE" && home.Name() != "" {
		c.unseen = append(c.unseen, home.String()+" is not a list")
		return nil
	}
	return err
}

func (c *cancelling) found(result CancelResult, f Found) {
	*c.results[f.JID] = Cancellation{JID: f.JID, Result: result, Place: f.Place, Class: f.Class, Queue: f.Queue, Process: f.Process}
	delete(c.open, f.JID)
}

// look looks for jobs where they cannot be removed.
func (c *cancelling) look(ctx context.Context, place Place) error {
	if c.over() {
		return nil
	}
	var found []Found
	s := c.i.search(Query{IDs: slices.Collect(maps.Keys(c.open)), Places: []Place{place}})
	s.pageEnd = c.late
	s.visit = func(f Found) bool {
		found = append(found, f)
		return false
	}
	_, err := s.run(ctx)
	c.place, c.unseen = s.place, append(c.unseen, s.unseen...)
	if err != nil {
		return err
	}
	if place == PlaceDead {
		for _, f := range found {
			c.found(CancelDone, f)
		}
		return nil
	}
	return c.stop(ctx, found)
}

// stop records the results of jobs that processes have. A worker of Belay stops a job by its mark, unless it is
// too old to know marks. A job whose producer's clock is ahead of Redis', or that an operator has just retried,
// gets a mark of its own.
func (c *cancelling) stop(ctx context.Context, found []Found) error {
	var calls []driver.Call
	var marks []lua.Mark
	for _, f := range found {
		calls = append(calls, driver.Command("HGET", c.i.keys.Record(f.Process), "protocol"))
		if f.Entry == nil || f.Entry.parsed == nil {
			continue
		}
		if !lua.BindsAt(f.Entry.parsed, c.markedAt) {
			marks = append(marks, lua.MarkOfJob(f.Entry.parsed))
		}
	}
	replies := c.i.do(ctx, calls)
	if len(marks) > 0 {
		if _, err := c.i.keys.Mark(marks).Do(ctx, c.i.driver); err != nil {
			return marking(err)
		}
	}
	for n, f := range found {
		result := CancelMarked
		if replies[n].Err != nil {
			return fmt.Errorf("read the protocol of %s: %w", f.Process, replies[n].Err)
		}
		text, recorded := replies[n].Value.(string)
		if protocol, _ := strconv.Atoi(text); protocol >= lua.CancelProtocol {
			result = CancelStopping
		}
		if f.Entry == nil && !recorded {
			if err := c.stopIterable(ctx, f.JID); err != nil {
				return err
			}
		}
		c.found(result, f)
	}
	return nil
}

// stopIterable asks a process of Sidekiq to stop an iterable job, as Sidekiq's own API does.
func (c *cancelling) stopIterable(ctx context.Context, jid string) error {
	for _, reply := range c.i.do(ctx, c.i.keys.CancelIterable(jid, c.markedAt)) {
		if reply.Err != nil {
			return fmt.Errorf("cancel an iterable job of sidekiq: %w", reply.Err)
		}
	}
	return nil
}

// unmark takes back the marks of jobs that have ended, so that the number of marks says how many jobs are
// still to be stopped. A job that is in the dead set may run again, so processes must not keep its mark: a
// retry in Sidekiq's pages does not end it, as one of ours does.
func (c *cancelling) unmark(ctx context.Context) error {
	var marks []lua.Mark
	tell := false
	for jid, result := range c.results {
		if result.Result == CancelRemoved || result.Result == CancelDone {
			marks = append(marks, lua.Mark{JID: jid})
			tell = tell || result.Result == CancelDone
		}
	}
	if len(marks) == 0 {
		return nil
	}
	if _, err := c.i.keys.Unmark(marks, c.markedAt, tell).Do(ctx, c.i.driver); err != nil {
		return fmt.Errorf("take back the marks of jobs that have ended: %w", err)
	}
	return nil
}

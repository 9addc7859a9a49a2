package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/link"
	"github.com/belayq/belay/logbook"
	"github.com/belayq/belay/lua"
)

// oldLock is how long the job of a tick holds its lock before TickLocks looks for the job: as long as the lock
// of any other unique job lasts. Most jobs end long before, and the search may read all of Redis.
const oldLock = dedup.DefaultTTL

// TickLocks frees the locks of ticks whose jobs do not exist any more: a process of Ruby has run or deleted
// them, or an operator has deleted a key. Without that, such a lock would stop its periodic job for years.
// TickLocks must not be used concurrently.
type TickLocks struct {
	keys lua.Keys
	link link.Link
}

// NewTickLocks returns a TickLocks.
func NewTickLocks(cfg Config) *TickLocks {
	cfg.Log = logbook.OrDiscard(cfg.Log)
	return &TickLocks{keys: cfg.Keys, link: link.Link{Client: cfg.Client, Freight: cfg.Freight, Round: cfg.Round, Largest: cfg.Largest, Log: cfg.Log, Duty: "tick locks"}}
}

// Pass looks for the job of each old lock, if this process, whose identity is me, is the poller.
func (l *TickLocks) Pass(ctx context.Context, me string) error {
	if err := l.link.Check(ctx); err != nil {
		return err
	}
	if polls, err := isPoller(ctx, &l.link, l.keys, me); !polls {
		return err
	}
	for first := 0; ; first += lua.MaxDefinitions {
		names, err := plannedNames(ctx, &l.link, l.keys, first)
		if err != nil || len(names) == 0 {
			return err
		}
		if err := l.check(ctx, names); err != nil {
			return err
		}
	}
}

// plannedNames returns a page of the names of the periodic jobs that are not paused.
func plannedNames(ctx context.Context, link *link.Link, keys lua.Keys, first int) ([]string, error) {
	names, err := lua.Texts(link.Do(ctx, driver.Command("ZRANGEBYSCORE", keys.Periodic(), "-inf", "(+inf",
		"LIMIT", strconv.Itoa(first), strconv.Itoa(lua.MaxDefinitions)))[0])
	if err != nil {
		return nil, fmt.Errorf("list periodic jobs: %w", err)
	}
	return names, nil
}

// check frees the locks of some periodic jobs whose holders are gone.
func (l *TickLocks) check(ctx context.Context, names []string) error {
	read := l.keys.PeriodicStored(names)
	now, stored, err := lua.ReadPeriodicStored(names, l.link.Carry(ctx, len(names)*lua.MaxDefinition, read...))
	if err != nil {
		return fmt.Errorf("read periodic jobs: %w", err)
	}
	for _, s := range stored {
		periodic, err := ReadPeriodic(s.Definition)
		if err != nil || periodic.lock == "" {
			continue // the poller logs what is wrong
		}
		value, err := lua.Texts(l.link.Do(ctx, driver.Command("MGET", l.keys.Lock(periodic.lock)))[0])
		if err != nil {
			return fmt.Errorf("read the lock of the periodic job %q: %w", periodic.Name, err)
		}
		holder, held := lua.HolderOf(strings.Join(value, ""))
		if !held || holder.Kept || now.Sub(holder.Since) < oldLock {
			continue // a kept lock stays though its job has ended
		}
		exists, err := l.exists(ctx, holder.JID)
		if err != nil {
			return fmt.Errorf("look for the job %s of the periodic job %q: %w", holder.JID, periodic.Name, err)
		}
		if exists {
			continue
		}
		freed, err := l.keys.ReleaseFrom(periodic.lock, value[0]).Do(ctx, &l.link)
		if err != nil {
			return fmt.Errorf("free the lock of the periodic job %q: %w", periodic.Name, err)
		}
		if freed.Held {
			l.link.Log.Warn("lock of a tick freed: its job is in no place", "periodic", periodic.Name, "jid", holder.JID, "since", holder.Since)
		}
	}
	return nil
}

// exists reports whether a job with this jid waits or runs. It searches twice, because a job may move from a
// place that is not searched yet to one that was. Package inspect has a search for operators, which also
// filters, pages and reads what Ruby's processes report; the two share the scripts that read pages.
func (l *TickLocks) exists(ctx context.Context, jid string) (bool, error) {
	for range 2 {
		for _, look := range []func(context.Context, string) (bool, error){l.inSets, l.inGates, l.inQueues, l.inWorking} {
			if found, err := look(ctx, jid); found || err != nil {
				return found, err
			}
		}
	}
	return false, nil
}

func (l *TickLocks) inSets(ctx context.Context, jid string) (bool, error) {
	for _, set := range []string{l.keys.Schedule(), l.keys.Retry()} {
		found, err := l.pages(ctx, set, func(page []lua.Entry) bool { return slices.ContainsFunc(page, isJob(jid)) })
		if found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// isJob returns a function that reports whether an entry is the job with this jid. It also returns true for an
// unreadable entry that contains the jid.
func isJob(jid string) func(lua.Entry) bool {
	return func(entry lua.Entry) bool {
		if !strings.Contains(entry.Bytes, jid) {
			return false
		}
		parsed, err := job.Parse(entry.Bytes)
		return err != nil || parsed.JID() == jid
	}
}

// inGates searches the jobs that wait until a limit lets them start.
func (l *TickLocks) inGates(ctx context.Context, jid string) (bool, error) {
	is := isJob(jid)
	isWaiter := func(entry lua.Entry) bool { return is(lua.Entry{Bytes: lua.ParseWaiter(entry.Bytes).Bytes}) }
	var found bool
	var searchErr error
	_, err := l.pages(ctx, l.keys.Waiting(), func(page []lua.Entry) bool {
		lists := make([]string, len(page))
		for i, entry := range page {
			lists[i] = l.keys.WaitingList(entry.Bytes)
		}
		found, searchErr = l.inLists(ctx, lists, isWaiter)
		return found || searchErr != nil
	})
	return found, errors.Join(err, searchErr)
}

// pages passes a sorted set to end, a page at a time, until end returns true.
func (l *TickLocks) pages(ctx context.Context, set string, end func(page []lua.Entry) bool) (ended bool, err error) {
	walk := lua.Cursor{From: "-inf", To: "+inf"}
	for {
		ask := l.keys.PageAfter(set, walk)
		page, err := ask.Read(l.link.Carry(ctx, lua.MaxBytes, ask.Call)[0])
		if err != nil || len(page) == 0 || end(page) {
			return err == nil && len(page) > 0, err
		}
		for _, entry := range page {
			walk.Passed(entry, true)
		}
	}
}

// inQueues searches all queues, because operators move jobs.
func (l *TickLocks) inQueues(ctx context.Context, jid string) (bool, error) {
	for from := lua.FirstPage; ; {
		page, err := lua.NamePage(l.keys.Queues(), from).Do(ctx, &l.link)
		if err != nil {
			return false, err
		}
		lists := slices.Concat(l.keys.QuarantineLists(page.Names), l.keys.QueueLists(page.Names))
		if found, err := l.inLists(ctx, lists, isJob(jid)); found || err != nil {
			return found, err
		}
		if from = page.Next; from == lua.LastPage {
			return false, nil
		}
	}
}

// inWorking searches the lists of all processes. It reads the processes by their expiry, not by rank as
// takenByBelay does: it must not miss one while others send heartbeats.
func (l *TickLocks) inWorking(ctx context.Context, jid string) (bool, error) {
	var found bool
	var searchErr error
	_, err := l.pages(ctx, l.keys.Alive(), func(page []lua.Entry) bool {
		identities := make([]string, len(page))
		for i, entry := range page {
			identities[i] = entry.Bytes
		}
		found, searchErr = l.inListsOf(ctx, identities, jid)
		return found || searchErr != nil
	})
	return found, errors.Join(err, searchErr)
}

// inListsOf searches the lists of these processes.
func (l *TickLocks) inListsOf(ctx context.Context, identities []string, jid string) (bool, error) {
	records, unread, err := l.keys.ReadRecords(ctx, &l.link, identities)
	for _, unreadErr := range unread {
		err = errors.Join(err, unreadErr) // the job may be in the lists of that process
	}
	if err != nil {
		return false, err
	}
	for identity, record := range records {
		if found, err := l.inLists(ctx, l.keys.ListsOf(record.Queues, identity), isJob(jid)); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// inLists reads lists from the end at which jobs arrive, until one of them is the sought one. Jobs leave at the
// other end, so none moves past the reader.
func (l *TickLocks) inLists(ctx context.Context, lists []string, is func(lua.Entry) bool) (bool, error) {
	for chunk := range slices.Chunk(lists, lua.MaxQueues) {
		ask := lua.Lengths(chunk)
		lengths, err := ask.Read(l.link.Do(ctx, ask.Call)[0])
		if err != nil {
			return false, err
		}
		for i, list := range chunk {
			for skip := 0; skip < lengths[i]; {
				room := l.link.Page()
				ask := l.keys.Page(list, lua.OrderYoungest, skip, lua.MaxItems, room)
				page, err := ask.Read(l.link.Carry(ctx, room, ask.Call)[0])
				if err != nil || slices.ContainsFunc(page.Entries, is) {
					return err == nil, err
				}
				if len(page.Entries) == 0 {
					break
				}
				skip += len(page.Entries)
			}
		}
	}
	return false, nil
}

package janitor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

const (
	// tombstoneStands is the minimum age at which a tombstone is deleted. If a server is stopped (SIGSTOP), it
	// executes a blocking move of a dead process when it continues. Servers are not stopped for a day.
	tombstoneStands = 24 * time.Hour
	// sweptLists is how many lists one pass reads: that costs Redis about a tenth of a millisecond.
	sweptLists = 256
	// sweptTombstones bounds the records that one pass reads to find that many lists.
	sweptTombstones = 64
	// forgotten is the maximum number of tombstones that one pass deletes.
	forgotten = 16
	// sweeperBeats is how many heartbeats the lease of the sweeping process lasts.
	sweeperBeats = 3
	// sweepPatience bounds how long a sweep waits while other processes have lapsed: a process that cannot be
	// recovered stays lapsed.
	sweepPatience = 5 * time.Second
	// unlistEvery is the time between two searches for expired locks in their index. Expired entries do no
	// harm in the meantime.
	unlistEvery = time.Minute
	// unlistPages is how many pages of expired locks one sweep removes in one round trip, which takes Redis
	// about two milliseconds. While more are left, the next sweep follows after unlistRest, so that Redis can
	// serve others.
	unlistPages = 8
	unlistRest  = 20 * time.Millisecond
	// dropEvery is the time between two searches for expired batches: no program waits for it, because they
	// have been over for a day, or without a push for a month. dropped is how many one sweep deletes, which
	// takes Redis about a millisecond. While more are left, the next sweep follows after unlistRest: a fleet
	// may make hundreds of batches a second, and all of them expire.
	dropEvery = time.Minute
	dropped   = 32
	// lapsedFor is how long ago a lock must have expired before it is removed from the index: Redis may decide
	// whether a key has expired by a time that it read a moment earlier.
	lapsedFor = time.Second
)

// Sweep searches the lists of dead processes for entries that arrived after the lists were found empty: one
// page of processes in a call, the latest deaths first. Such a job was never running, so it goes to the head
// of its queue unchanged. From time to time, Sweep also removes expired locks from the index of locks, and
// deletes expired batches. Only one process at a time sweeps; me is this process' identity. next is the time
// until the next call; 0 means the usual period.
func (j *Janitor) Sweep(ctx context.Context, me string) (next time.Duration, err error) {
	j.passing.Lock()
	defer j.passing.Unlock()
	if err := j.link.Check(ctx); err != nil {
		return 0, err
	}
	lease := lua.Lease(j.cfg.Keys.Sweeper(), me, j.SweepLease().Hold)
	// While no process has died, a sweep takes this one round trip.
	early := (j.locksLeft || j.batchesLeft) && time.Since(j.sweptAt) < j.cfg.Beat
	calls := []driver.Call{lease.Call}
	if !early {
		// A page of tombstones, the latest deaths first, and a few that are old enough to be deleted.
		before := strconv.FormatInt(j.now().Add(-tombstoneStands).UnixMilli(), 10)
		calls = append(calls,
			driver.Command("ZREVRANGE", j.cfg.Keys.Tombstones(), strconv.Itoa(j.sweepAt), strconv.Itoa(j.sweepAt+sweptTombstones-1)),
			driver.Command("ZRANGEBYSCORE", j.cfg.Keys.Tombstones(), "-inf", before, "LIMIT", strconv.Itoa(j.forgetAt), strconv.Itoa(forgotten)))
	}
	replies := j.link.Do(ctx, calls...)
	held, err := lease.Read(replies[0])
	if err != nil {
		return 0, err
	}
	if !held {
		return lua.StandBy, nil
	}
	var errs error
	if !early {
		j.sweptAt = time.Now()
		errs = errors.Join(j.sweepTombstones(ctx, replies[1]), j.forgetOld(ctx, replies[2]))
	}
	errs = errors.Join(errs, j.dropBatches(ctx))
	if err := j.unlistLocks(ctx); err != nil || errs != nil {
		return 0, errors.Join(errs, err)
	}
	if j.locksLeft || j.batchesLeft {
		return unlistRest, nil
	}
	return 0, nil
}

// SweptAll reports whether the last Sweep reached the last of the dead processes.
func (j *Janitor) SweptAll() bool {
	j.passing.Lock()
	defer j.passing.Unlock()
	return j.sweepAt == 0
}

// SweepLater reports whether a sweep should wait because processes have lapsed: the Pass that recovers their
// jobs must not wait for the round trips of a sweep. A sweep waits for sweepPatience at most.
func (j *Janitor) SweepLater(me string) bool {
	j.passing.Lock()
	defer j.passing.Unlock()
	if time.Since(j.sweptAt) >= sweepPatience {
		return false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for identity, s := range j.lapsed {
		if identity != me && !s.empty {
			return true
		}
	}
	return false
}

// SweepLease returns the lease of the process that sweeps.
func (j *Janitor) SweepLease() lua.Watched {
	return lua.Watched{Key: j.cfg.Keys.Sweeper(), Hold: sweeperBeats * j.cfg.Beat}
}

// unlistLocks removes some of the expired locks from the index of locks.
func (j *Janitor) unlistLocks(ctx context.Context) error {
	if !j.locksLeft && !j.unlistedAt.IsZero() && time.Since(j.unlistedAt) < unlistEvery {
		return nil
	}
	j.unlistedAt, j.locksLeft = time.Now(), false
	ask := j.cfg.Keys.Unlist(lapsedFor)
	calls := slices.Repeat([]driver.Call{ask.Call}, unlistPages)
	for _, reply := range j.link.Do(ctx, calls...) {
		removed, err := ask.Read(reply)
		if err != nil {
			return fmt.Errorf("look for expired locks: %w", err)
		}
		j.locksLeft = removed == lua.MaxItems
	}
	return nil
}

// dropBatches deletes some of the batches that have expired. Those that Redis refuses to delete must not block
// the others: the next page begins after them, until the last page was read.
func (j *Janitor) dropBatches(ctx context.Context) error {
	if !j.batchesLeft && !j.droppedAt.IsZero() && time.Since(j.droppedAt) < dropEvery {
		return nil
	}
	j.droppedAt, j.batchesLeft = time.Now(), false
	ids, err := j.cfg.Keys.ExpiredBatches(ctx, &j.link, j.now(), j.dropAt, dropped)
	if err != nil {
		return fmt.Errorf("look for expired batches: %w", err)
	}
	read, errs, err := j.cfg.Keys.ReadEachBatch(ctx, &j.link, ids)
	if err != nil {
		return fmt.Errorf("read expired batches: %w", err)
	}
	stay := len(errs)
	if readable := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return errs[id] != nil }); len(readable) > 0 {
		asks, calls := lua.AskEach(readable, func(id string) lua.Ask[lua.DropWord] { return j.cfg.Keys.DropBatch(id, read[id], true) })
		for i, reply := range j.link.Do(ctx, calls...) {
			word, err := asks[i].Read(reply)
			switch {
			case driver.Outage(err):
				return fmt.Errorf("delete expired batches: %w", err)
			case err != nil:
				stay, errs[readable[i]] = stay+1, fmt.Errorf("delete the batch %s: %w", readable[i], err)
			case word == lua.DropKept:
				stay++
			}
		}
	}
	j.dropAt += stay
	if j.batchesLeft = len(ids) == dropped; !j.batchesLeft {
		j.dropAt = 0
	}
	return all(errs)
}

// sweepTombstones searches the lists of a page of dead processes. After the last page it begins anew.
func (j *Janitor) sweepTombstones(ctx context.Context, page driver.Reply) error {
	names, err := lua.Texts(page)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		j.sweepAt = 0
		return nil
	}
	records, unread, err := j.cfg.Keys.ReadRecords(ctx, &j.link, names)
	if err != nil {
		return err
	}
	swept, lists := 0, make([]string, 0, sweptLists)
	for _, name := range names {
		record := records[name]
		if len(lists) > 0 && len(lists)+len(record.Queues)+1 > sweptLists {
			break
		}
		lists = append(lists, j.cfg.Keys.ListsOf(record.Queues, name)...)
		swept++
	}
	j.sweepAt += swept
	if swept == len(names) && len(names) < sweptTombstones {
		j.sweepAt = 0 // this was the last page
	}
	formers, err := j.formerVictims(ctx, names[:swept], records)
	if err != nil {
		return err
	}
	lengths, ledgers, err := j.readSwept(ctx, names[:swept], lists)
	if err != nil {
		return err
	}
	var victims []*victim
	for _, name := range names[:swept] {
		record := records[name]
		count := len(record.Queues) + 1
		if slices.ContainsFunc(lengths[:count], func(length int) bool { return length > 0 }) {
			victims = append(victims, &victim{identity: name, record: record, lists: j.cfg.Keys.ListsOf(record.Queues, name)})
		}
		lengths = lengths[count:]
	}
	// The process that recovered one of them may have died before it came to the former identity.
	outage := j.moveJobs(ctx, "", append(slices.Collect(maps.Values(formers)), victims...))
	errs := errors.Join(all(unread), j.link.Excused(outage))
	for _, v := range formers {
		errs = errors.Join(errs, v.err)
	}
	for _, v := range victims {
		if v.moved > 0 {
			j.cfg.Log.Warn("recovered late entries of a dead process", "dead", v.identity, "jobs", v.moved)
		}
		// A process that cannot be recovered must not stop the others.
		errs = errors.Join(errs, v.err)
	}
	return errors.Join(errs, j.freeSlots(ctx, ledgers, records))
}

// readSwept reads the lengths of these lists, and which of the dead processes still have slots.
func (j *Janitor) readSwept(ctx context.Context, names, lists []string) (lengths []int, ledgers []string, err error) {
	read := lua.Lengths(lists)
	calls := []driver.Call{read.Call}
	for _, name := range names {
		calls = append(calls, driver.Command("EXISTS", j.cfg.Keys.Slots(name)))
	}
	replies := j.link.Do(ctx, calls...)
	lengths, err = read.Read(replies[0])
	for i, reply := range replies[1:] {
		if err = cmp.Or(err, reply.Err); reply.Value == int64(1) {
			ledgers = append(ledgers, names[i])
		}
	}
	return lengths, ledgers, err
}

// freeSlots frees the slots of dead processes that have no job any more: a janitor of a version without limits
// has recovered their jobs.
func (j *Janitor) freeSlots(ctx context.Context, names []string, records map[string]lua.Record) (errs error) {
	for _, name := range names {
		freed, err := j.cfg.Keys.FreeSlots(name, records[name].Queues).Do(ctx, &j.link)
		switch {
		case driver.Outage(err):
			return errors.Join(errs, err)
		case err != nil:
			errs = errors.Join(errs, fmt.Errorf("free the slots of %s: %w", name, err))
		case freed > 0: // else a recovery of this version has freed them since they were read
			j.cfg.Log.Warn("freed slots that a dead process has left", "dead", name, "slots", freed)
		}
	}
	return errs
}

// forgetOld deletes these tombstones, except those that the script finds too young by Redis' clock, or with a
// list that is not empty. The next sweep continues after those that stay.
func (j *Janitor) forgetOld(ctx context.Context, page driver.Reply) error {
	names, err := lua.Texts(page)
	if err != nil {
		return err
	}
	if len(names) < forgotten {
		defer func() { j.forgetAt = 0 }() // this was the last page
	}
	records, errs, err := j.cfg.Keys.ReadRecords(ctx, &j.link, names)
	if err != nil {
		return err
	}
	for _, name := range names {
		gone, err := false, errs[name]
		if err == nil {
			gone, err = j.cfg.Keys.Forget(name, records[name].Queues, tombstoneStands).Do(ctx, &j.link)
		}
		switch {
		case driver.Outage(err):
			return err
		case err != nil:
			errs[name] = err
		}
		if !gone {
			j.forgetAt++
		}
	}
	return all(errs)
}

// all joins these errors; nil for none.
func all(errs map[string]error) error { return errors.Join(slices.Collect(maps.Values(errs))...) }

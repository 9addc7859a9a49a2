package janitor

import (
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
	// tombstoneStands is how long a tombstone stays at least. A blocked move of a process that is gone can
	// still be executed while it lies in the socket of a stopped server, and servers are not stopped for a
	// day.
	tombstoneStands = 24 * time.Hour
	// sweptLists is how many lists one pass looks at: what it costs Redis is about a tenth of a millisecond.
	sweptLists = 256
	// sweptTombstones bounds the records that one pass reads to find so many lists.
	sweptTombstones = 64
	// forgotten is how many tombstones one pass takes away at most.
	forgotten = 16
	// sweeperBeats is for how many beats the one that sweeps holds its lease, and the others do not ask for
	// it, or longer where they are many: hundreds that ask at each beat cost Redis as much as their beats.
	sweeperBeats = 3
	// sweepPatience bounds how long a sweep waits while other processes have lapsed: some cannot be recovered
	// and stay.
	sweepPatience = 5 * time.Second
	// unlistEvery is the time between two looks at the index of locks, by the one process that sweeps:
	// expired entries are harmless for that long.
	unlistEvery = time.Minute
	// unlistPages is how many pages of locks one sweep removes in one round trip: about two milliseconds of
	// Redis. While more are left, the next sweep follows after unlistRest, so that Redis can serve others.
	unlistPages = 8
	unlistRest  = 20 * time.Millisecond
	// lapsedFor is for how long a lock has run out when it is taken out of the index. Redis reads its clock
	// once for all that it does in a moment.
	lapsedFor = time.Second
)

// Sweep looks through the lists of the dead for what arrived there after they had been found empty, newest
// tombstones first, a page a call. What it finds after an end that left nothing was never running: it goes
// to the head of its queue byte for byte. And now and then it takes out of the index of locks what has run
// out. One process at a time sweeps; me is our identity. next is when it must be called again; 0 is the
// usual period.
func (j *Janitor) Sweep(ctx context.Context, me string) (next time.Duration, err error) {
	j.passing.Lock()
	defer j.passing.Unlock()
	if err := j.link.Check(ctx); err != nil {
		return 0, err
	}
	hold := sweeperBeats * j.cfg.Beat
	held, err := lua.Lease(j.cfg.Keys.Sweeper(), me, hold).Do(ctx, &j.link)
	if err != nil {
		return 0, err
	}
	if !held {
		return lua.LeaseRest(hold, j.Processes()), nil
	}
	var wrong error
	if early := j.locksLeft && time.Since(j.sweptAt) < j.cfg.Beat; !early {
		j.sweptAt = time.Now()
		wrong = errors.Join(j.sweepTombstones(ctx), j.forgetOld(ctx))
	}
	if err := j.unlistLocks(ctx); err != nil || wrong != nil {
		return 0, errors.Join(wrong, err)
	}
	if j.locksLeft {
		return unlistRest, nil
	}
	return 0, nil
}

// SweepLater reports whether a sweep should wait because processes have lapsed. A Pass recovers their jobs
// and must not wait for the round trips of a sweep. sweepPatience after the last sweep it reports false
// again.
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

// Processes is how many processes there are, according to our last heartbeat reply; 0 before it.
func (j *Janitor) Processes() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last.Processes
}

// unlistLocks removes expired locks from the index of locks, some at a time.
func (j *Janitor) unlistLocks(ctx context.Context) error {
	if !j.locksLeft && !j.unlistedAt.IsZero() && time.Since(j.unlistedAt) < unlistEvery {
		return nil
	}
	j.unlistedAt, j.locksLeft = time.Now(), false
	ask := j.cfg.Keys.Unlist(lapsedFor)
	calls := slices.Repeat([]driver.Call{ask.Call}, unlistPages)
	for _, reply := range j.link.Do(ctx, calls...) {
		taken, err := ask.Read(reply)
		if err != nil {
			return fmt.Errorf("look for locks that ran out: %w", err)
		}
		j.locksLeft = taken == lua.MostItems
	}
	return nil
}

func (j *Janitor) sweepTombstones(ctx context.Context) error {
	names, err := j.tombstones(ctx)
	if err != nil || len(names) == 0 {
		return err
	}
	records, unread, err := j.records(ctx, names)
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
	formers, err := j.formerVictims(ctx, names[:swept], records)
	if err != nil {
		return err
	}
	lengths, err := lua.Lengths(lists).Do(ctx, &j.link)
	if err != nil {
		return err
	}
	var victims []*victim
	for _, name := range names[:swept] {
		record := records[name]
		hands := len(record.Queues) + 1
		if slices.ContainsFunc(lengths[:hands], func(length int) bool { return length > 0 }) {
			victims = append(victims, &victim{identity: name, record: record, lists: j.cfg.Keys.ListsOf(record.Queues, name)})
		}
		lengths = lengths[hands:]
	}
	// A process that recovered one of them may have died before it reached the earlier identity of the dead
	// process.
	outage := j.moveJobs(ctx, "", append(slices.Collect(maps.Values(formers)), victims...))
	wrong := errors.Join(all(unread), j.link.Excused(outage))
	for _, v := range formers {
		wrong = errors.Join(wrong, v.err)
	}
	for _, v := range victims {
		if v.moved > 0 {
			j.cfg.Log.Warn().Str("dead", v.identity).Int("jobs", v.moved).
				Msg("recovered latecomers: jobs that reached the lists of a dead process after its end")
		}
		// One that cannot be recovered must not cost the others their turn.
		wrong = errors.Join(wrong, v.err)
	}
	return wrong
}

// forgetOld takes away a few of the tombstones whose time has come, and goes on behind those that had to
// stay. The script asks Redis' clock again.
func (j *Janitor) forgetOld(ctx context.Context) error {
	before := strconv.FormatInt(j.now().Add(-tombstoneStands).UnixMilli(), 10)
	names, err := lua.Texts(j.link.Do(ctx, driver.Command("ZRANGEBYSCORE", j.cfg.Keys.Tombstones(), "-inf", before,
		"LIMIT", strconv.Itoa(j.forgetAt), strconv.Itoa(forgotten)))[0])
	if err != nil {
		return err
	}
	if len(names) < forgotten {
		defer func() { j.forgetAt = 0 }() // this was the last page
	}
	records, wrong, err := j.records(ctx, names)
	if err != nil {
		return err
	}
	for _, name := range names {
		gone, err := false, wrong[name]
		if err == nil {
			gone, err = j.cfg.Keys.Forget(name, records[name].Queues, tombstoneStands).Do(ctx, &j.link)
		}
		switch {
		case driver.Outage(err):
			return err
		case err != nil:
			wrong[name] = err
		}
		if !gone {
			j.forgetAt++
		}
	}
	return all(wrong)
}

// tombstones reads the names of the next page, beginning anew with the newest after the last page.
func (j *Janitor) tombstones(ctx context.Context) ([]string, error) {
	for range 2 {
		names, err := lua.Texts(j.link.Do(ctx, driver.Command("ZREVRANGE", j.cfg.Keys.Tombstones(),
			strconv.Itoa(j.sweepAt), strconv.Itoa(j.sweepAt+sweptTombstones-1)))[0])
		if err != nil {
			return nil, err
		}
		if len(names) > 0 || j.sweepAt == 0 {
			return names, nil
		}
		j.sweepAt = 0
	}
	return nil, nil
}

// records reads the records of these identities; those that have none are missing from the answer. Why one
// cannot be read, since something else is in its place, is in unread: it must not stop the others.
func (j *Janitor) records(ctx context.Context, names []string) (records map[string]lua.Record, unread map[string]error, err error) {
	if len(names) == 0 {
		return nil, nil, nil
	}
	calls := make([]driver.Call, len(names))
	for i, name := range names {
		calls[i] = j.cfg.Keys.ReadRecord(name)
	}
	records, unread = make(map[string]lua.Record, len(names)), make(map[string]error)
	for i, reply := range j.link.Do(ctx, calls...) {
		record, ok, err := lua.RecordOf(reply)
		switch {
		case driver.Outage(err):
			return nil, nil, err
		case err != nil:
			unread[names[i]] = fmt.Errorf("read the record of %s: %w", names[i], err)
		case ok:
			records[names[i]] = record
		}
	}
	return records, unread, nil
}

// all is one error for all of these, nil for none.
func all(wrong map[string]error) error { return errors.Join(slices.Collect(maps.Values(wrong))...) }

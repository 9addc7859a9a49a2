package inspect

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// orderly is how far from the oldest end of a queue an act leaves the other jobs where they are: Redis compares
// each job before the one that leaves, in about a hundred nanoseconds. Twice as far would make an act on each
// third job of a queue four times as long.
const orderly = 8 << 10

// maxCompared bounds the entries that all searches of one script compare, about four milliseconds. Entries
// that came in meanwhile are not counted: they are rare, and a queue of any length must be cleared in few
// scripts.
const maxCompared = 40 << 10

// maxDeep is how many jobs deep in a list one script moves. Each takes a few steps through the nodes of the
// list, which are 30,000 for a million small jobs.
const maxDeep = 16

// A batch is the content of one script call.
type batch struct {
	source lua.Source
	group  lua.ActGroup
	picks  []*pick // of the group's jobs
	bytes  int
}

// ended returns the jids of its tracked jobs, if they end.
func (p *batch) ended() (jids []string) {
	for _, promotion := range p.group.Jobs {
		if promotion.State != nil && p.group.Destination != lua.DestinationQueue {
			jids = append(jids, promotion.State.JID)
		}
	}
	return jids
}

// pack distributes the chosen jobs over calls of bounded size. Each call serves one queue, so that a key of a
// wrong type stops only the jobs of its own queue, and has either jobs that need their lock or jobs that do
// not. Jobs that cannot be sent at all are refused.
func (a *act) pack(chosen []*pick) (batches []*batch) {
	type kind struct {
		queue string
		need  bool
	}
	open := make(map[kind]*batch)
	for _, pick := range chosen {
		group, jobs, why := a.destination(pick.Entry)
		if why != nil {
			a.refuse(fmt.Sprintf("%s: %v", pick.ID, why), pick)
			continue
		}
		of := kind{group.Queue, group.Need}
		p := open[of]
		size := len(jobs.Old) + len(jobs.New) + jobs.Size()
		if p == nil || len(p.picks) == a.maxIn(p) || p.bytes+size > lua.MaxBytes || pick.index-p.source.Near >= lua.MaxItems {
			p = &batch{source: a.sourceOf(pick.index), group: group}
			open[of] = p
			batches = append(batches, p)
		}
		p.group.Jobs, p.picks = append(p.group.Jobs, jobs), append(p.picks, pick)
		a.spread++
		p.bytes += size
	}
	return batches
}

// sourceOf returns the source of jobs of the home from this index on.
func (a *act) sourceOf(index int) lua.Source {
	source := lua.Source{Key: a.Home.key(a.i.keys), Waiting: a.Home.place == PlaceWaiting}
	if !a.Home.sorted() {
		source.List, source.Near, source.Orderly = true, index, a.i.orderly
	}
	return source
}

// maxIn returns how many jobs a batch may have.
func (a *act) maxIn(p *batch) int {
	switch near := p.source.Near; {
	case !p.source.List:
		return lua.MaxItems
	case near >= p.source.Orderly:
		return maxDeep
	default:
		return min(maxCompared/(near+lua.MaxItems), lua.MaxItems)
	}
}

// destination returns the destination and the new bytes of one job, or why it cannot be sent.
func (a *act) destination(e Entry) (group lua.ActGroup, jobs lua.Promotion, why error) {
	jobs = lua.Promotion{Old: e.raw.Bytes, Owned: lua.Owned{Lock: a.lockOf(e), State: a.stateOf(e), Member: a.memberOf(e)}}
	if a.Home.place == PlaceWaiting {
		jobs.Waits = &lua.Waits{Gate: a.Home.gate}
	}
	switch a.Action {
	case Kill:
		return lua.ActGroup{Destination: lua.DestinationDead}, jobs, nil
	case Delete:
		return lua.ActGroup{Destination: lua.DestinationNone}, jobs, nil
	case Reschedule:
		return lua.ActGroup{Destination: lua.DestinationTime, Score: strconv.FormatFloat(float64(a.At.UnixMicro()+int64(a.spread))/1e6, 'f', -1, 64)}, jobs, nil
	case Move:
		queue, bytes := e.split()
		to := cmp.Or(a.To, queue)
		if err := job.CheckQueue(to); err != nil {
			return group, jobs, err
		}
		switch {
		case to == queue && a.Home.place == PlaceWaiting:
			jobs.New = bytes
		case e.parsed == nil:
			return group, jobs, fmt.Errorf("%s: its queue cannot be changed", e.Problem)
		default:
			jobs.New = e.parsed.Patch(e.parsed.MovedTo(a.To)...)
		}
		if a.Home.sorted() {
			return lua.ActGroup{Destination: lua.DestinationSame}, jobs, nil
		}
		return lua.ActGroup{Destination: lua.DestinationQueue, Queue: to, Quarantined: a.Home.place == PlaceQuarantined}, jobs, nil
	}
	parsed := e.parsed
	if kept, ok := e.kept(); ok {
		// This version may be able to read an entry that an older worker could not.
		parsed, _ = job.Parse(kept)
	}
	if parsed == nil {
		return group, jobs, fmt.Errorf("%s: no worker could run it", e.Problem)
	}
	limit := cmp.Or(a.Selection.PayloadLimit, job.DefaultPayloadLimit)
	if e.ErrorClass == job.TooLargeClass && e.Bytes > limit+job.PayloadSlack {
		return group, jobs, fmt.Errorf("%s; it would die again: workers take up to %d bytes (--payload-limit %d)",
			e.ErrorMessage, limit+job.PayloadSlack, limit)
	}
	queue := parsed.QueueOrDefault()
	if err := job.CheckQueue(queue); err != nil {
		return group, jobs, err
	}
	group = lua.ActGroup{Destination: lua.DestinationQueue, Queue: queue, Need: a.Home == Dead() && !stored(parsed), Unmarked: &a.unmarked}
	jobs.New = a.renewed(parsed)
	return group, jobs, nil
}

// stored reports whether every push of the job's class is stored, duplicates too, so that no push waits for a
// lock.
func stored(j *job.Job) bool {
	_, marked := j.Field(dedup.DuplicateOf) // in older payloads only duplicates have a mark
	lock, _ := dedup.Read(j)
	return marked || lock.Mark
}

// stateOf returns what this act means for the state of a tracked job; nil if it changes nothing.
func (a *act) stateOf(e Entry) *lua.JobState {
	switch {
	case e.parsed == nil:
	case a.Action == Delete && a.Home != Dead():
		return lua.EndedState(e.parsed, lua.TrackCancelled, a.clock.Now())
	case a.Action == Kill:
		return lua.EndedState(e.parsed, lua.TrackDead, a.clock.Now())
	case a.Action == Retry && a.Home == Dead():
		return lua.RevivedState(e.parsed)
	}
	return nil
}

// memberOf returns what this act means for the batch of a job; nil if it changes nothing there.
func (a *act) memberOf(e Entry) *lua.Member {
	switch {
	case e.parsed == nil:
	case a.Action == Delete:
		return lua.MemberOf(e.parsed, lua.MemberRemoved)
	case a.Action == Kill:
		return lua.MemberOf(e.parsed, lua.MemberDied)
	case a.Action == Retry && a.Home == Dead():
		return lua.MemberOf(e.parsed, lua.MemberRevived)
	}
	return nil
}

// lockOf returns the lock that this act takes or releases for a unique job; nil if there is none or it stays
// as it is.
func (a *act) lockOf(e Entry) *lua.Lock {
	if e.parsed == nil {
		return nil
	}
	lock, err := dedup.Read(e.parsed)
	if err != nil || lock.None() { // a lock that cannot be read expires by itself
		return nil
	}
	held := lock.Stored(e.parsed.Class())
	switch {
	case a.Action == Reschedule:
		held.Hold = lock.Lifetime(a.At.Sub(a.clock.Now()))
	case a.Action == Kill || a.Action == Delete:
		queue, _ := e.split()
		return lock.Ending(e.parsed, cmp.Or(queue, e.parsed.QueueOrDefault()), a.clock.Now(), unitOf(e.parsed))
	case a.Action == Retry && (a.Home == Dead() || a.Home == Scheduled() && lock.Meets()):
	default:
		return nil // the job was accepted and keeps its lock
	}
	return held
}

// renewed returns the payload of a job that an operator retries. The args do not change. The operator's wish is
// newer than the cancellations before it and than the limits from the job's push, so these end: a worker would
// drop the job.
func (a *act) renewed(j *job.Job) string {
	edits := j.IntoQueue(a.clock.Now(), unitOf(j))
	if n, failed := j.RetryCount(); failed && (a.Home == Retries() || a.Home == Dead()) && n > math.MinInt {
		edits = append(edits, job.SetInt("retry_count", n-1))
	}
	if a.unmarked > 0 {
		edits = append(edits, job.SetInt(job.FieldUnmarked, int(a.unmarked)))
	}
	for _, ends := range []string{
		job.FieldExpiry, job.FieldExpiresIn, job.FieldDeadline,
		"interrupted_count", "interrupted_at", // with its crashes kept it would be quarantined
	} {
		edits = append(edits, job.Remove(ends))
	}
	return j.Patch(edits...)
}

// unitOf returns the unit of a payload's timestamps. The oldest reader in a fleet decides the unit, and the
// producer was configured for it.
func unitOf(j *job.Job) job.TimeUnit {
	for _, name := range []string{"created_at", "enqueued_at", "failed_at"} {
		text, ok := j.Field(name)
		if ok && !strings.ContainsAny(text, ".eE") && len(text) >= len("100000000000") {
			return job.Millis
		}
	}
	return job.Seconds
}

// readClock reads Redis' time and, for a retry, the score of the newest mark.
func (a *act) readClock(ctx context.Context) error {
	newest := a.i.keys.NewestMark()
	calls := []driver.Call{lua.AskTime, newest.Call}
	if a.Action != Retry {
		calls = calls[:1]
	}
	sent := time.Now()
	replies := a.i.driver.Do(ctx, calls...)
	received := time.Now()
	var r reading
	now := r.time(replies[0])
	if r.err == nil {
		a.clock.Saw(now, sent, received)
	}
	if r.err == nil && a.Action == Retry {
		a.unmarked, _ = newest.Read(replies[1]) // the script answers with it if this is not the newest
	}
	return r.err
}

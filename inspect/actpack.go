package inspect

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

const (
	// mostSearched bounds how many entries of a list one script looks at, though it takes one job out at least: to find it
	// Redis searches from an end, at some seventy nanoseconds an entry of ordinary size. So this is about a millisecond.
	mostSearched = 16 << 10
)

// A parcel is one script call, and the positions of its jobs among the chosen ones.
type parcel struct {
	ask lua.Ask[lua.Acted]
	at  []int
}

// A batch is what one parcel will hold.
type batch struct {
	errand lua.Errand
	at     []int
	bytes  int
}

// pack puts the chosen jobs at these positions into as many calls as bounds ask for. One queue a call: one whose key is broken stops only
// its own jobs. Those that need their lock and those that do not go apart. left are those that cannot be sent at all.
func (a *act) pack(source lua.Source, chosen []Entry, which []int) (parcels []parcel, left []int) {
	most := mostOf(source)
	type kind struct {
		queue string
		need  bool
	}
	open := make(map[kind]*batch)
	var order []*batch
	for _, n := range which {
		entry := chosen[n]
		errand, jobs, why := a.send(entry)
		if why != nil {
			left = append(left, n)
			a.refuse(1, fmt.Sprintf("%s: %v", entry.ID, why))
			continue
		}
		of := kind{errand.Queue, errand.Need}
		b := open[of]
		size := len(jobs.Old) + len(jobs.New)
		if jobs.Lock != nil && jobs.Lock.Again != nil {
			size += len(jobs.Lock.Again.Bytes)
		}
		if b == nil || len(b.at) == most || b.bytes+size > lua.MostBytes {
			b = &batch{errand: errand}
			open[of] = b
			order = append(order, b)
		}
		b.errand.Jobs, b.at = append(b.errand.Jobs, jobs), append(b.at, n)
		b.bytes += size
	}
	for _, b := range order {
		parcels = append(parcels, parcel{a.i.keys.Act(source, []lua.Errand{b.errand}), b.at})
	}
	return parcels, left
}

// mostOf is how many jobs one call may take out of a source.
func mostOf(source lua.Source) int {
	switch {
	case source.End == "":
		return lua.MostItems
	case source.Search == 0:
		return 1
	}
	return max(mostSearched/source.Search, 1)
}

// send is what becomes of one job; why says that it cannot be sent there.
func (a *act) send(e Entry) (errand lua.Errand, jobs lua.Promotion, why error) {
	switch a.action {
	case Kill:
		return lua.Errand{Fate: lua.FateDead}, lua.Promotion{Old: e.raw.Bytes, Lock: a.lockOf(e)}, nil
	case move:
		return a.sendOn(e)
	case Delete:
		return lua.Errand{Fate: lua.FateGone}, lua.Promotion{Old: e.raw.Bytes, Lock: a.lockOf(e)}, nil
	}
	parsed := e.parsed
	if kept, ok := e.kept(); ok {
		// This version may be able to read an entry that the worker could not.
		parsed, _ = job.Parse(kept)
	}
	if parsed == nil {
		return errand, jobs, fmt.Errorf("%s: nothing could run it", e.Problem)
	}
	limit := cmp.Or(a.selection.PayloadLimit, job.DefaultPayloadLimit)
	if e.ErrorClass == job.TooLargeClass && e.Bytes > limit+job.PayloadSlack {
		return errand, jobs, fmt.Errorf("%s; it would die again: workers take up to %d bytes (--payload-limit %d)",
			e.ErrorMessage, limit+job.PayloadSlack, limit)
	}
	queue := parsed.QueueOrDefault()
	if err := job.CheckQueue(queue); err != nil {
		return errand, jobs, err
	}
	errand = lua.Errand{Fate: lua.FateQueue, Queue: queue, Need: a.home == Dead() && !stored(parsed)}
	return errand, lua.Promotion{Old: e.raw.Bytes, New: a.afresh(parsed), Lock: a.lockOf(e)}, nil
}

// stored says that the job is of a class of which every push is stored, marked or not: none waits for another's end.
func stored(j *job.Job) bool {
	_, marked := j.Field(dedup.DuplicateOf) // as older payloads say it, of all but the first
	lock, _ := dedup.Read(j)
	return marked || lock.Mark
}

// lockOf is the lock of a unique job that this act takes or frees; nil for a job that has none, or keeps it.
func (a *act) lockOf(e Entry) *lua.Lock {
	if e.parsed == nil {
		return nil
	}
	lock, err := dedup.Read(e.parsed)
	if err != nil || lock.None() { // unreadable: whatever it may hold lapses
		return nil
	}
	ends := a.action != Retry
	switch {
	case ends, a.home == Dead():
	case a.home == Scheduled() && lock.Meets():
	default:
		return nil // it was accepted, and lives on
	}
	held := lock.Stored(e.parsed.Class())
	if ends && lock.Again {
		queue := cmp.Or(e.Queue, job.DefaultQueue)
		held.Again = dedup.Again(e.parsed, queue, a.clock.Now(), unitOf(e.parsed))
	}
	return held
}

// afresh is a job as it goes to its queue by an operator's word. Its args are not touched.
func (a *act) afresh(j *job.Job) string {
	edits := j.IntoQueue(a.clock.Now(), unitOf(j))
	if n, failed := j.RetryCount(); failed && a.home != Scheduled() && n > math.MinInt {
		edits = append(edits, job.SetInt("retry_count", n-1))
	}
	// Whoever runs it by hand answers for it, and a suspect would wait.
	return j.Patch(append(edits, job.Remove("interrupted_count"), job.Remove("interrupted_at"))...)
}

// unitOf is how a payload's timestamps are written: the oldest reader of a fleet decides that, and its producer knew.
func unitOf(j *job.Job) job.TimeUnit {
	for _, name := range []string{"created_at", "enqueued_at", "failed_at"} {
		text, ok := j.Field(name)
		if ok && !strings.ContainsAny(text, ".eE") && len(text) >= len("100000000000") {
			return job.Millis
		}
	}
	return job.Seconds
}

// readClock asks Redis for its time, by which jobs are stamped.
func (a *act) readClock(ctx context.Context) error {
	sent := time.Now()
	reply := a.i.driver.Do(ctx, lua.AskTime)[0]
	received := time.Now()
	var r reading
	now := r.time(reply)
	if r.err == nil {
		a.clock.Saw(now, sent, received)
	}
	return r.err
}

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

// mostSearched bounds how many entries of a list one script compares, unless it takes out a single job. Redis
// searches from an end, at about seventy nanoseconds per entry of ordinary size, so this is about a
// millisecond.
const mostSearched = 16 << 10

// A parcel is the content of one script call.
type parcel struct {
	errand lua.Errand
	picks  []*pick // of the errand's jobs
	bytes  int
}

// pack distributes the chosen jobs over calls of bounded size. Each call serves one queue, so that a key of a
// wrong type stops only the jobs of its own queue, and has either jobs that need their lock or jobs that do
// not. Jobs that cannot be sent at all are refused.
func (a *act) pack(source lua.Source, chosen []*pick) (parcels []*parcel) {
	most := mostOf(source)
	type kind struct {
		queue string
		need  bool
	}
	open := make(map[kind]*parcel)
	for _, pick := range chosen {
		errand, jobs, why := a.send(pick.Entry)
		if why != nil {
			a.refuse(fmt.Sprintf("%s: %v", pick.ID, why), pick)
			continue
		}
		of := kind{errand.Queue, errand.Need}
		p := open[of]
		size := len(jobs.Old) + len(jobs.New)
		if jobs.Lock != nil && jobs.Lock.Again != nil {
			size += len(jobs.Lock.Again.Bytes)
		}
		if p == nil || len(p.picks) == most || p.bytes+size > lua.MostBytes {
			p = &parcel{errand: errand}
			open[of] = p
			parcels = append(parcels, p)
		}
		p.errand.Jobs, p.picks = append(p.errand.Jobs, jobs), append(p.picks, pick)
		p.bytes += size
	}
	return parcels
}

func mostOf(source lua.Source) int {
	switch {
	case source.End == "":
		return lua.MostItems
	case source.Search == 0:
		return 1
	}
	return max(mostSearched/source.Search, 1)
}

// send returns the destination and the new bytes of one job, or why it cannot be sent.
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
		// This version may be able to read an entry that an older worker could not.
		parsed, _ = job.Parse(kept)
	}
	if parsed == nil {
		return errand, jobs, fmt.Errorf("%s: no worker could run it", e.Problem)
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

// stored reports whether every push of the job's class is stored, duplicates too, so that no push waits for a
// lock.
func stored(j *job.Job) bool {
	_, marked := j.Field(dedup.DuplicateOf) // in older payloads only duplicates have a mark
	lock, _ := dedup.Read(j)
	return marked || lock.Mark
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
	ends := a.action != Retry
	switch {
	case ends, a.home == Dead():
	case a.home == Scheduled() && lock.Meets():
	default:
		return nil // the job was accepted and keeps its lock
	}
	held := lock.Stored(e.parsed.Class())
	if ends && lock.Again {
		queue := cmp.Or(e.Queue, job.DefaultQueue)
		held.Again = dedup.Again(e.parsed, queue, a.clock.Now(), unitOf(e.parsed))
	}
	return held
}

// afresh returns the payload of a job that an operator puts into its queue. The args do not change.
func (a *act) afresh(j *job.Job) string {
	edits := j.IntoQueue(a.clock.Now(), unitOf(j))
	if n, failed := j.RetryCount(); failed && a.home != Scheduled() && n > math.MinInt {
		edits = append(edits, job.SetInt("retry_count", n-1))
	}
	// The operator wants it to run now; with its crashes kept it would be quarantined.
	return j.Patch(append(edits, job.Remove("interrupted_count"), job.Remove("interrupted_at"))...)
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

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
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// mostSearched bounds how many entries of a list one script compares. Redis searches from an end, at about a
// hundred nanoseconds per entry of ordinary size, and twice, so this is about three milliseconds.
const mostSearched = 16 << 10

// mostCompared bounds the entries that all searches of one script compare, about five milliseconds. Jobs that
// came in meanwhile are not counted: they are rare, and a queue of any length must be cleared in few scripts.
const mostCompared = 24 << 10

// shifted is how many entries may come in at the oldest end after a page was read and before an act on it:
// requeued and recovered jobs.
const shifted = 1024

// sourceOf returns the source of a job of a home that was at index, counted from the oldest in a list. A job
// deep in a long list is removed by its position.
func (a *act) sourceOf(index int) lua.Source {
	source := lua.Source{Key: a.Home.key(a.i.keys)}
	if a.Home.sorted() {
		return source
	}
	// The jobs of a page have one Search.
	source.End, source.Search = lua.OrderOldest, index-index%lua.MostItems+2*lua.MostItems+shifted
	if source.Search > mostSearched {
		source.End, source.Search = lua.OrderAt, index
	}
	return source
}

// A batch is the content of one script call.
type batch struct {
	source lua.Source
	errand lua.Errand
	picks  []*pick // of the errand's jobs
	bytes  int
}

// ended returns the jids of its tracked jobs, if they end.
func (p *batch) ended() (jids []string) {
	for _, promotion := range p.errand.Jobs {
		if promotion.State != nil && p.errand.Fate != lua.FateQueue {
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
		source lua.Source
		queue  string
		need   bool
	}
	open := make(map[kind]*batch)
	for _, pick := range chosen {
		errand, jobs, why := a.destination(pick.Entry)
		if why != nil {
			a.refuse(fmt.Sprintf("%s: %v", pick.ID, why), pick)
			continue
		}
		source := a.sourceOf(pick.index)
		of := kind{source, errand.Queue, errand.Need}
		p := open[of]
		size := len(jobs.Old) + len(jobs.New)
		if jobs.State != nil {
			size += len(jobs.Old)
		}
		if jobs.Lock != nil && jobs.Lock.Again != nil {
			size += len(jobs.Lock.Again.Bytes)
		}
		if p == nil || len(p.picks) == mostOf(source) || p.bytes+size > lua.MostBytes {
			p = &batch{source: source, errand: errand}
			open[of] = p
			batches = append(batches, p)
		}
		p.errand.Jobs, p.picks = append(p.errand.Jobs, jobs), append(p.picks, pick)
		p.bytes += size
	}
	return batches
}

func mostOf(source lua.Source) int {
	switch source.End {
	case "":
		return lua.MostItems
	case lua.OrderAt:
		return 1
	}
	return max(mostCompared/(source.Search-shifted), 1)
}

// destination returns the destination and the new bytes of one job, or why it cannot be sent.
func (a *act) destination(e Entry) (errand lua.Errand, jobs lua.Promotion, why error) {
	jobs = lua.Promotion{Old: e.raw.Bytes, Lock: a.lockOf(e), State: a.stateOf(e)}
	switch a.Action {
	case Kill:
		return lua.Errand{Fate: lua.FateDead}, jobs, nil
	case Delete:
		return lua.Errand{Fate: lua.FateGone}, jobs, nil
	case Reschedule:
		return lua.Errand{Fate: lua.FateLater, Score: strconv.FormatFloat(float64(a.At.UnixMicro())/1e6, 'f', -1, 64)}, jobs, nil
	case Move:
		if e.parsed == nil {
			return errand, jobs, fmt.Errorf("%s: its queue cannot be changed", e.Problem)
		}
		jobs.New = e.parsed.Patch(job.SetString("queue", a.To))
		if a.Home.sorted() {
			return lua.Errand{Fate: lua.FateHere}, jobs, nil
		}
		return lua.Errand{Fate: lua.FateQueue, Queue: a.To, Quarantined: a.Home.kind == homeQuarantined}, jobs, nil
	}
	parsed := e.parsed
	if kept, ok := e.kept(); ok {
		// This version may be able to read an entry that an older worker could not.
		parsed, _ = job.Parse(kept)
	}
	if parsed == nil {
		return errand, jobs, fmt.Errorf("%s: no worker could run it", e.Problem)
	}
	limit := cmp.Or(a.Selection.PayloadLimit, job.DefaultPayloadLimit)
	if e.ErrorClass == job.TooLargeClass && e.Bytes > limit+job.PayloadSlack {
		return errand, jobs, fmt.Errorf("%s; it would die again: workers take up to %d bytes (--payload-limit %d)",
			e.ErrorMessage, limit+job.PayloadSlack, limit)
	}
	queue := parsed.QueueOrDefault()
	if err := job.CheckQueue(queue); err != nil {
		return errand, jobs, err
	}
	errand = lua.Errand{Fate: lua.FateQueue, Queue: queue, Need: a.Home == Dead() && !stored(parsed)}
	jobs.New = a.renewed(parsed)
	return errand, jobs, nil
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
		return lock.Ending(e.parsed, cmp.Or(e.Queue, job.DefaultQueue), a.clock.Now(), unitOf(e.parsed))
	case a.Action == Retry && (a.Home == Dead() || a.Home == Scheduled() && lock.Meets()):
	default:
		return nil // the job was accepted and keeps its lock
	}
	return held
}

// renewed returns the payload of a job that an operator puts into its queue. The args do not change.
func (a *act) renewed(j *job.Job) string {
	edits := j.IntoQueue(a.clock.Now(), unitOf(j))
	if n, failed := j.RetryCount(); failed && (a.Home == Retries() || a.Home == Dead()) && n > math.MinInt {
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

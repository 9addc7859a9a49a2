package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/belayq/belay/client"
)

// A Shard is the Inspector of one of several keyspaces.
type Shard struct {
	// Name is that of the shard in the configuration of clients.
	Name string
	*Inspector
}

// A Fleet reads several keyspaces over which jobs are spread, and acts on the jobs of all of them. A keyspace
// whose Redis is away is a problem in the answers, not an error about the others. Its methods are safe for
// concurrent use.
type Fleet struct{ shards []Shard }

// FleetOf returns the Fleet of a client's keyspaces: of one, without a name, if it has no shards. It sends
// nothing, and uses the client's connections. It panics when the client is nil.
func FleetOf(c *client.Client) *Fleet {
	if c == nil || c.Driver() == nil {
		panic("inspect: the client is nil; check the error of Open")
	}
	var shards []Shard
	for _, space := range c.Spaces() {
		i := &Inspector{client: c, keys: space.Keys, unit: c.Config().Unit, orderly: orderly}
		shards = append(shards, Shard{space.Name, i.WithDriver(space.Driver)})
	}
	return NewFleet(shards...)
}

// With returns a Fleet of the same shards with the Inspectors that change returns.
func (f *Fleet) With(change func(*Inspector) *Inspector) *Fleet {
	shards := slices.Clone(f.shards)
	for n := range shards {
		shards[n].Inspector = change(shards[n].Inspector)
	}
	return &Fleet{shards: shards}
}

// Lane returns a Fleet of the same shards with connections of its own, at most that many to each, and the
// function that closes them.
func (f *Fleet) Lane(connections int) (lane *Fleet, closeLane func() error, err error) {
	shards, closes := slices.Clone(f.shards), make([]func() error, 0, len(f.shards))
	closeLane = func() error {
		var errs []error
		for _, closeOne := range closes {
			errs = append(errs, closeOne())
		}
		return errors.Join(errs...)
	}
	for n, shard := range shards {
		own, err := shard.driver.Lane(connections)
		if err != nil {
			_ = closeLane()
			return nil, nil, fmt.Errorf("open connections: %w", err)
		}
		shards[n].Inspector, closes = shard.WithDriver(own), append(closes, own.Close)
	}
	return &Fleet{shards: shards}, closeLane, nil
}

// whole returns the Inspector of a Fleet of one keyspace without a name: its answers are those of the Fleet.
func (f *Fleet) whole() (i *Inspector, is bool) {
	return f.shards[0].Inspector, f.shards[0].Name == ""
}

// NewFleet returns a Fleet of these shards, in their order. It sends nothing. It panics without a shard, and if
// two have one name.
func NewFleet(shards ...Shard) *Fleet {
	if len(shards) == 0 {
		panic("inspect: NewFleet: no shard")
	}
	for i, shard := range shards {
		if slices.ContainsFunc(shards[:i], func(other Shard) bool { return other.Name == shard.Name }) {
			panic(fmt.Sprintf("inspect: NewFleet: two shards have the name %q", shard.Name))
		}
	}
	return &Fleet{shards: slices.Clone(shards)}
}

// Shards returns the shards of the fleet.
func (f *Fleet) Shards() []Shard { return slices.Clone(f.shards) }

// Shard returns the Inspector of a shard.
func (f *Fleet) Shard(name string) (i *Inspector, found bool) {
	if at := f.index(name); at >= 0 {
		return f.shards[at].Inspector, true
	}
	return nil, false
}

func (f *Fleet) index(name string) int {
	return slices.IndexFunc(f.shards, func(s Shard) bool { return s.Name == name })
}

// failed is the error of an answer in which these shards are missing: nil if any shard is there. An error that
// is nil is of no shard.
func (f *Fleet) failed(errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) < len(f.shards) {
		return nil
	}
	return errors.Join(errs...)
}

// atOnce calls do for each shard, with its index, and returns when all calls have: a shard that is away delays
// no other one.
func (f *Fleet) atOnce(do func(n int, shard Shard)) {
	var calls sync.WaitGroup
	for n, shard := range f.shards {
		calls.Go(func() { do(n, shard) })
	}
	calls.Wait()
}

// of names the shard in an error about it.
func (s Shard) of(err error) error { return fmt.Errorf("shard %s: %w", s.Name, err) }

// A FleetStatus is the sum of the overviews of all shards that answered. Its lists are those of the shards
// joined: one entry for each name of a queue and for each process, each list at most 1,000. At is the time of
// the first shard that answered. A queue is Paused if it is in each shard that has it. A shard with more than
// 1,000 queues adds nothing to those that it does not list, which have the fewest jobs there.
type FleetStatus struct {
	Status
	// Shards has the overview of each; empty without shards.
	Shards []ShardStatus `json:"shards,omitempty"`
}

// A ShardStatus is the overview of one shard.
type ShardStatus struct {
	Name string `json:"name"`
	// Problem says why the shard could not be read; empty if it was read. Then Status is empty.
	Problem string `json:"problem,omitempty"`
	Status
}

// Status reads the overview of each shard, all at once, and adds them up. It fails only if no shard can be
// read.
func (f *Fleet) Status(ctx context.Context) (FleetStatus, error) {
	return f.status(ctx, (*Inspector).Status)
}

// Sizes is Status without processes, as Inspector.Sizes.
func (f *Fleet) Sizes(ctx context.Context) (FleetStatus, error) {
	return f.status(ctx, (*Inspector).Sizes)
}

func (f *Fleet) status(ctx context.Context, read func(*Inspector, context.Context) (Status, error)) (FleetStatus, error) {
	if i, is := f.whole(); is {
		status, err := read(i, ctx)
		return FleetStatus{Status: status}, err
	}
	shards, errs := make([]ShardStatus, len(f.shards)), make([]error, len(f.shards))
	f.atOnce(func(n int, shard Shard) {
		status, err := read(shard.Inspector, ctx)
		shards[n] = ShardStatus{Name: shard.Name, Status: status}
		if err != nil {
			errs[n] = shard.of(err)
			shards[n] = ShardStatus{Name: shard.Name, Problem: err.Error(), Status: Status{Queues: []Queue{}, Processes: []Process{}, Problems: []string{}}}
		}
	})
	sum := FleetStatus{Shards: shards, Status: Status{Queues: []Queue{}, Processes: []Process{}, Problems: []string{}}}
	for n, shard := range shards {
		if errs[n] != nil {
			sum.addProblem(errs[n].Error())
		} else {
			sum.add(shard)
		}
	}
	sum.QueueCount = max(sum.QueueCount, int64(len(sum.Queues)))
	sum.Queues = mostJobs(sum.Queues)
	sum.Processes = sum.Processes[:min(len(sum.Processes), maxShown)]
	return sum, f.failed(errs)
}

// mostJobs returns as many queues as are listed, those with the most jobs, by name.
func mostJobs(queues []Queue) []Queue {
	slices.SortFunc(queues, func(a, b Queue) int {
		return cmp.Or(cmp.Compare(b.Size+b.Quarantined, a.Size+a.Quarantined), cmp.Compare(a.Name, b.Name))
	})
	queues = queues[:min(len(queues), maxShown)]
	slices.SortFunc(queues, func(a, b Queue) int { return cmp.Compare(a.Name, b.Name) })
	return queues
}

// add adds the overview of a shard. Shards have the same queues, so their number is that of the largest.
func (s *FleetStatus) add(shard ShardStatus) {
	if s.At.IsZero() {
		s.At = shard.At
	}
	s.Processed, s.Failed, s.Duplicates = s.Processed+shard.Processed, s.Failed+shard.Failed, s.Duplicates+shard.Duplicates
	s.Enqueued, s.Quarantined, s.HeldByDead = s.Enqueued+shard.Enqueued, s.Quarantined+shard.Quarantined, s.HeldByDead+shard.HeldByDead
	s.Waiting, s.Batches = s.Waiting+shard.Waiting, s.Batches+shard.Batches
	s.Scheduled, s.Retries, s.Dead = s.Scheduled+shard.Scheduled, s.Retries+shard.Retries, s.Dead+shard.Dead
	s.QueueCount, s.ProcessCount = max(s.QueueCount, shard.QueueCount), s.ProcessCount+shard.ProcessCount
	for _, queue := range shard.Queues {
		at := slices.IndexFunc(s.Queues, func(other Queue) bool { return other.Name == queue.Name })
		if at < 0 {
			s.Queues = append(s.Queues, queue)
		} else {
			s.Queues[at].add(queue)
		}
	}
	for _, process := range shard.Processes {
		at := slices.IndexFunc(s.Processes, process.isOf)
		if at < 0 {
			process.Queues, process.Running = slices.Clone(process.Queues), slices.Clone(process.Running)
			s.Processes = append(s.Processes, process)
		} else {
			s.Processes[at].add(process)
			s.ProcessCount--
		}
	}
	for _, problem := range shard.Problems {
		s.addProblem("shard " + shard.Name + ": " + problem)
	}
	s.QueuesErr, s.ProcessesErr = errors.Join(s.QueuesErr, shard.QueuesErr), errors.Join(s.ProcessesErr, shard.ProcessesErr)
}

func (s *FleetStatus) addProblem(problem string) {
	if len(s.Problems) < maxProblems {
		s.Problems = append(s.Problems, problem)
	}
}

// add adds the queue of the same name in another shard.
func (q *Queue) add(other Queue) {
	q.Size, q.Quarantined, q.Waiting = q.Size+other.Size, q.Quarantined+other.Quarantined, q.Waiting+other.Waiting
	q.HeldByDead += other.HeldByDead
	q.Latency.Duration = max(q.Latency.Duration, other.Latency.Duration)
	q.QuarantinedFor.Duration = max(q.QuarantinedFor.Duration, other.QuarantinedFor.Duration)
	q.Paused, q.NoConsumer = q.Paused && other.Paused, q.NoConsumer || other.NoConsumer
	q.Rate, q.FailedRate = q.Rate+other.Rate, q.FailedRate+other.FailedRate
}

// isOf reports whether the two are sessions of one process.
func (p Process) isOf(other Process) bool { return p.Process != "" && p.Process == other.Process }

// add adds the session of the same process in another shard.
func (p *Process) add(other Process) {
	if other.State == StateAlive {
		p.State = StateAlive
	}
	p.Busy, p.Quiet, p.RSS = p.Busy+other.Busy, p.Quiet || other.Quiet, max(p.RSS, other.RSS)
	p.Queues = sorted(append(p.Queues, other.Queues...))
	p.Running = append(p.Running, other.Running...)
	if p.BeatAge == nil || other.BeatAge != nil && other.BeatAge.Duration < p.BeatAge.Duration {
		p.BeatAge = other.BeatAge
	}
}

// A ShardFound is where a job is.
type ShardFound struct {
	// Shard is the name of its shard; empty if the job was not found.
	Shard string `json:"shard,omitempty"`
	Found
}

// FindAll is Inspector.FindAll in all shards at once, until each ID is found. Of a job that was not found,
// Unseen also names the shards that could not be searched. It fails only if none could be.
func (f *Fleet) FindAll(ctx context.Context, query Query, progress func(looked int, place string)) ([]ShardFound, error) {
	all := make([]ShardFound, len(query.IDs))
	if i, is := f.whole(); is {
		found, err := i.FindAll(ctx, query, progress)
		for n := range found {
			all[n].Found = found[n]
		}
		return all[:len(found)], err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	results, errs := make([][]Found, len(f.shards)), make([]error, len(f.shards))
	var mutex sync.Mutex // guards all below, and bounds progress to one call at a time
	looks, looked, open := make([]int, len(f.shards)), 0, make(map[string]bool)
	for _, id := range query.IDs {
		open[id] = true
	}
	f.atOnce(func(n int, shard Shard) {
		found, err := shard.FindAll(ctx, query, func(sofar int, place string) {
			mutex.Lock()
			defer mutex.Unlock()
			looked, looks[n] = looked+sofar-looks[n], sofar
			if progress != nil {
				progress(looked, "shard "+shard.Name+", "+place)
			}
		})
		if results[n] = found; err != nil {
			errs[n] = shard.of(err)
		}
		mutex.Lock()
		defer mutex.Unlock()
		for _, one := range found {
			if one.Place != PlaceNotFound {
				delete(open, one.JID)
			}
		}
		if len(open) == 0 {
			stop() // what the other shards would find is known
		}
	})
	for n, id := range query.IDs {
		all[n].Found = Found{JID: id, Place: PlaceNotFound}
		for at, shard := range f.shards {
			switch {
			case all[n].Place != PlaceNotFound:
			case errs[at] != nil:
				all[n].Unseen = join(all[n].Unseen, errs[at].Error())
			case results[at][n].Place != PlaceNotFound:
				all[n] = ShardFound{Shard: shard.Name, Found: results[at][n]}
			case results[at][n].Unseen != "":
				all[n].Unseen = join(all[n].Unseen, "shard "+shard.Name+": "+results[at][n].Unseen)
			}
		}
		all[n].Looked = looked
	}
	return all, f.failed(errs)
}

func join(a, b string) string {
	return strings.Join(slices.DeleteFunc([]string{a, b}, func(s string) bool { return s == "" }), "; ")
}

// FleetResults are some of the jobs that match a Query.
type FleetResults struct {
	Found  []ShardFound `json:"found"`
	Looked int          `json:"looked"`
	// Next is the Cursor of the next search; empty at the end.
	Next string `json:"next,omitempty"`
	// Unseen describes shards and places that could not be searched.
	Unseen []string `json:"unseen,omitempty"`
}

// Search is Inspector.Search, shard after shard: all that it finds in the first one comes first. The bounds of
// the query are those of one call, but a shard that fails uses up nothing of Query.Time, and at most half of
// the time that is left to the deadline of ctx. It fails if its cursor is none, or if no shard can be searched.
//
// The shards are not searched at once: the cursor continues in one shard, so what was found in those after it
// would be thrown away and searched for again in each call.
func (f *Fleet) Search(ctx context.Context, query Query) (FleetResults, error) {
	results := FleetResults{Found: []ShardFound{}}
	if i, is := f.whole(); is {
		found, err := i.Search(ctx, query)
		for _, one := range found.Found {
			results.Found = append(results.Found, ShardFound{Found: one})
		}
		results.Looked, results.Next, results.Unseen = found.Looked, found.Next, found.Unseen
		return results, err //nolint:wrapcheck // as Inspector.Search
	}
	at, cursor, err := f.readCursor(query.Cursor)
	if err != nil {
		return results, err
	}
	limit, ends := min(cmp.Or(max(query.Limit, 0), defaultFound), maxFound), time.Now().Add(cmp.Or(query.Time, searchTime))
	var errs []error
	for n, shard := range f.shards[at:] {
		if n > 0 && (len(results.Found) >= limit || !time.Now().Before(ends)) {
			results.Next = f.cursor(shard, "")
			break
		}
		query.Cursor, query.Limit, query.Time = cursor, limit-len(results.Found), max(time.Until(ends), 1)
		cursor = ""
		begun := time.Now()
		found, err := shard.searchPart(ctx, query, at+n == len(f.shards)-1)
		if errors.Is(err, ErrCursor) {
			return results, err //nolint:wrapcheck // as Inspector.Search
		}
		results.Looked += found.Looked
		for _, one := range found.Found {
			results.Found = append(results.Found, ShardFound{Shard: shard.Name, Found: one})
		}
		for _, unseen := range found.Unseen {
			results.Unseen = append(results.Unseen, "shard "+shard.Name+": "+unseen)
		}
		if err != nil {
			errs = append(errs, shard.of(err))
			results.Unseen = append(results.Unseen, shard.of(err).Error())
			ends = ends.Add(time.Since(begun))
		}
		if found.Next != "" {
			results.Next = f.cursor(shard, found.Next)
			break
		}
	}
	return results, f.failed(errs)
}

// searchPart searches one shard. Unless it is the last one, it has half of the time to the deadline of ctx: a
// frozen shard leaves the rest to those after it, and a slow link has more than an equal share.
func (s Shard) searchPart(ctx context.Context, query Query, last bool) (Results, error) {
	if deadline, limited := ctx.Deadline(); limited && !last {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, time.Until(deadline)/2)
		defer end()
	}
	return s.Search(ctx, query)
}

// cursor returns the cursor of a shard's cursor. It begins with the shard's name, which has no colon.
func (f *Fleet) cursor(shard Shard, cursor string) string { return shard.Name + ":" + cursor }

// readCursor returns the index of the shard of a cursor, and the cursor there.
func (f *Fleet) readCursor(cursor string) (at int, rest string, err error) {
	if cursor == "" {
		return 0, "", nil
	}
	name, rest, found := strings.Cut(cursor, ":")
	if at = f.index(name); !found || at < 0 {
		return 0, "", ErrCursor
	}
	return at, rest, nil
}

// FleetCounts counts what an act has done in all shards.
type FleetCounts struct {
	ActCounts
	Shards []ShardCounts `json:"shards,omitempty"`
}

// ShardCounts counts what an act has done in one shard.
type ShardCounts struct {
	Name string `json:"name"`
	ActCounts
	// Problem says why the act did not end in this shard; empty if it did.
	Problem string `json:"problem,omitempty"`
}

// Act is Inspector.Act in all shards at once. Problems has the shards in which it failed, and Missing the IDs
// that none of the others had. It makes one call of progress at a time, with the counts of all shards so far.
// It fails if the task is impossible, or if it failed in every shard.
func (f *Fleet) Act(ctx context.Context, task Task, progress func(FleetCounts)) (FleetCounts, error) {
	var sum FleetCounts
	if i, is := f.whole(); is {
		counts, err := i.Act(ctx, task, func(counts ActCounts) {
			if progress != nil {
				progress(FleetCounts{ActCounts: counts})
			}
		})
		return FleetCounts{ActCounts: counts}, err
	}
	if err := task.Check(); err != nil {
		return sum, err
	}
	var mutex sync.Mutex // guards all below, and bounds progress to one call at a time
	counts, failures := make([]*ActCounts, len(f.shards)), make([]error, len(f.shards))
	add := func() (sum FleetCounts) {
		for n, shard := range f.shards {
			if counts[n] != nil {
				sum = sum.with(shard, *counts[n], failures[n])
			}
		}
		return sum
	}
	f.atOnce(func(n int, shard Shard) {
		done, err := shard.Act(ctx, task, func(sofar ActCounts) {
			if progress == nil {
				return
			}
			sofar.Locked = maps.Clone(sofar.Locked) // the act goes on while others read it
			mutex.Lock()
			defer mutex.Unlock()
			counts[n] = &sofar
			progress(add())
		})
		mutex.Lock()
		defer mutex.Unlock()
		counts[n], failures[n] = &done, err
	})
	sum = add()
	var errs []error
	missing := make(map[string]int)
	for n, shard := range f.shards {
		if failures[n] != nil {
			errs = append(errs, shard.of(failures[n]))
			continue
		}
		for _, id := range counts[n].Missing {
			missing[id]++
		}
	}
	for _, id := range slices.Concat(task.Selection.IDs, task.Selection.Refs) {
		if missing[id] > 0 && missing[id] == len(f.shards)-len(errs) {
			sum.Missing = append(sum.Missing, id)
		}
	}
	return sum, f.failed(errs)
}

// with returns the counts with those of another shard. It changes neither.
func (c FleetCounts) with(shard Shard, counts ActCounts, err error) FleetCounts {
	sum := FleetCounts{Shards: append(slices.Clip(c.Shards), ShardCounts{Name: shard.Name, ActCounts: counts})}
	sum.Add(c.ActCounts)
	named := counts
	named.Problems, named.Missing = nil, nil
	for _, problem := range counts.Problems {
		named.addProblem("shard " + shard.Name + ": " + problem)
	}
	if err != nil {
		sum.Shards[len(c.Shards)].Problem = err.Error()
		named.addProblem(shard.of(err).Error())
	}
	sum.Add(named)
	return sum
}

// A ShardCancellation describes what Cancel did about one job.
type ShardCancellation struct {
	// Shard is the name of the shard where the job is or was; empty if it was not found.
	Shard string `json:"shard,omitempty"`
	Cancellation
}

// cancelled orders what Cancel can have done about one job in several shards: only one of them has the job.
var cancelled = []CancelResult{"", CancelMarked, CancelDone, CancelStopping, CancelRemoved}

// betterThan reports whether the result is that of the shard that has the job, and the other one is not.
func (c ShardCancellation) betterThan(other ShardCancellation) bool {
	if c.Result == other.Result {
		return c.Shard != "" && other.Shard == "" // its process cannot stop it
	}
	return slices.Index(cancelled, c.Result) > slices.Index(cancelled, other.Result)
}

// Cancel is Inspector.Cancel in all shards at once: each marks the jobs and looks for them. Unseen of a job
// that was not found also names the shards in which Cancel failed. It fails only if it failed in all of them.
func (f *Fleet) Cancel(ctx context.Context, jids ...string) ([]ShardCancellation, error) {
	all := make([]ShardCancellation, len(jids))
	if i, is := f.whole(); is {
		results, err := i.Cancel(ctx, jids...)
		for n := range results {
			all[n].Cancellation = results[n]
		}
		return all[:len(results)], err
	}
	for n, jid := range jids {
		all[n].Cancellation = Cancellation{JID: jid, Place: PlaceNotFound}
	}
	results, errs := make([][]Cancellation, len(f.shards)), make([]error, len(f.shards))
	f.atOnce(func(n int, shard Shard) {
		var err error
		if results[n], err = shard.Cancel(ctx, jids...); err != nil {
			errs[n] = shard.of(err)
		}
	})
	unseen := make([]string, len(jids))
	for at, shard := range f.shards {
		for n := range all {
			if errs[at] != nil {
				unseen[n] = join(unseen[n], errs[at].Error())
			}
			if len(results[at]) == 0 { // it failed before it began
				continue
			}
			result := ShardCancellation{Shard: shard.Name, Cancellation: results[at][n]}
			if errs[at] == nil && result.Unseen != "" {
				unseen[n] = join(unseen[n], "shard "+shard.Name+": "+result.Unseen)
			}
			if result.Unseen = ""; result.Place == PlaceNotFound {
				result.Shard = ""
			}
			if result.betterThan(all[n]) {
				all[n] = result
			}
		}
	}
	for n := range all {
		if all[n].Place == PlaceNotFound {
			all[n].Unseen = unseen[n]
		}
	}
	return all, f.failed(errs)
}

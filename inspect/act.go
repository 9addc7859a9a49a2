package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// An Action is what Act does to jobs.
type Action string

const (
	// Retry moves jobs to the backs of their queues, as Sidekiq's pages do. It decrements their retry_count,
	// so that they get one more run (except for scheduled and quarantined jobs, whose last run has not failed),
	// and clears their count of crashes, so that quarantined jobs need not run alone. A unique job that is dead
	// takes its lock again; if another job holds the lock, Retry refuses it, unless its class stores
	// duplicates. It also refuses unreadable entries, and jobs that died because of their size and still
	// exceed Selection.PayloadLimit.
	Retry Action = "retry"
	// Kill moves jobs to the dead set unchanged. Like Delete, it releases the locks of unique jobs in the
	// same step, and pushes the extra run for refused duplicates (see dedup.Rule.RescheduleOnce).
	Kill Action = "kill"
	// Delete removes jobs for good.
	Delete Action = "delete"
	// Move moves jobs of a queue, or its quarantined jobs, to the back of the queue Task.To, where they
	// keep their order; quarantined jobs stay quarantined. Jobs of a set stay where they are, and go to that
	// queue when they run. Only the name of their queue changes; they keep their unique locks. Unreadable
	// entries are refused, because the name cannot be changed.
	Move Action = "move"
	// Reschedule lets scheduled jobs and retries wait until Task.At instead, and prolongs the unique locks
	// that they hold. With Task.Later, jobs that wait for a later time stay as they are.
	Reschedule Action = "reschedule"
)

// A Task describes an act on jobs of one home.
type Task struct {
	Home      Home
	Action    Action
	Selection Selection
	To        string    // the target queue of Move
	At        time.Time // the time of Reschedule, by Redis' clock (see Inspector.Now)
	Later     bool      // Reschedule makes no job run earlier
}

// A Selection chooses jobs of a home: all of them, those that IDs or Refs name, the unreadable entries, or
// those that match the filter, which is Class, Text and Queue together. The zero Selection chooses none.
type Selection struct {
	All bool
	// IDs are Entry.ID. Of several entries with one ID, the first that is found is chosen. All jobs may have
	// to be read.
	IDs []string
	// Refs are Entry.Ref. Only the entries near that place are read.
	Refs []string
	// Class is Entry.Class, or the class in the payload.
	Class string
	// Text occurs in the args, the error or the tags, see Query.
	Text string
	// Queue is Entry.Queue, for the jobs of a set: the queue to which they go when they run.
	Queue string
	// Unreadable chooses the entries that no worker could run.
	Unreadable bool
	// PayloadLimit is the limit of the workers in bytes. Retry refuses jobs that died because of their size
	// and exceed it, because they would die again. Default: job.DefaultPayloadLimit.
	PayloadLimit int
}

// A Tally counts what an act has done so far.
type Tally struct {
	// Moved counts jobs that reached their destination.
	Moved int `json:"moved"`
	// Gone counts jobs that were read and had left before they could be moved: a worker or another operator
	// took them.
	Gone int `json:"gone"`
	// Refused counts jobs that cannot be moved and stay where they are. Problems has the reasons of the first
	// 20.
	Refused  int      `json:"refused"`
	Problems []string `json:"problems,omitempty"`
	// Missing are IDs of the Selection that were not found or have left.
	Missing []string `json:"missing,omitempty"`
}

// Add adds what a later step of the same task did. Missing becomes that of the later step.
func (t *Tally) Add(step Tally) {
	t.Moved, t.Gone, t.Refused = t.Moved+step.Moved, t.Gone+step.Gone, t.Refused+step.Refused
	t.Missing = step.Missing
	for _, why := range step.Problems {
		t.addProblem(why)
	}
}

func (t *Tally) addProblem(why string) {
	if len(t.Problems) < mostProblems && !slices.Contains(t.Problems, why) {
		t.Problems = append(t.Problems, why)
	}
}

// Act does a task, a page at a time, and calls progress, unless nil, after each page. Each job moves in one
// step, so of several operators and workers only one gets it. Act covers the jobs that were there when it
// began: it skips jobs that enter a set meanwhile, such as a job that was retried and died again, and deletes
// no more jobs from a queue than it held.
//
// After an error, the jobs that have moved stay moved, and Act may be called again. If a reply of Redis was
// lost, up to 256 more jobs than the Tally says may have moved.
func (i *Inspector) Act(ctx context.Context, task Task, progress func(Tally)) (Tally, error) {
	a, err := i.start(ctx, task, "")
	for err == nil && !a.ended {
		if err = a.next(ctx); err == nil && progress != nil {
			progress(a.tally)
		}
	}
	a.missing()
	return a.tally, err
}

// A Step is a part of a task.
type Step struct {
	// Tally counts what this step did. If the task has a next step, Missing has the IDs and Refs that remain.
	Tally
	// Looked is how many entries the step read.
	Looked int `json:"looked"`
	// Next continues the task; empty at its end.
	Next string `json:"next,omitempty"`
}

// stepPages is how many pages a Step reads at most, about 30 ms on a near Redis.
const stepPages = 8

// Step does a bounded part of a task, at most 2,048 entries, for programs that report progress or cannot wait:
// the first part with an empty cursor, and each later one with Step.Next. All parts together are one Act.
// Between them, a Selection by IDs or Refs may be reduced to Step.Missing. A cursor is not secret and
// reserves nothing: if the caller dies, the rest of the jobs are where they were.
func (i *Inspector) Step(ctx context.Context, task Task, cursor string) (Step, error) {
	a, err := i.start(ctx, task, cursor)
	for page := 0; err == nil && !a.ended && page < stepPages; page++ {
		err = a.next(ctx)
	}
	a.missing()
	step := Step{Tally: a.tally, Looked: a.looked}
	if !a.ended {
		step.Next = cursorOf(a.pager.position())
	}
	return step, err
}

type act struct {
	i *Inspector
	Task
	wanted map[string]bool // IDs and Refs not found yet
	clock  lua.Clock
	pager  pager
	ended  bool
	// refused are entries of the last page that were refused and are read again.
	refused map[string]bool
	looked  int
	tally   Tally
	// moved is called for each job that was moved.
	moved func(Entry)
}

// start begins a task, or continues it at a cursor.
func (i *Inspector) start(ctx context.Context, task Task, cursor string) (*act, error) {
	a := &act{i: i, Task: task, wanted: make(map[string]bool), ended: true, moved: func(Entry) {}}
	for _, name := range a.names() {
		a.wanted[name] = true
	}
	var at position
	if err := cmp.Or(a.possible(), readCursor(cursor, &at)); err != nil || a.done() {
		return a, err
	}
	err := a.readClock(ctx)
	if err == nil && cursor == "" {
		err = a.direct(ctx)
	}
	if err == nil && !a.done() {
		a.pager, err = i.pager(ctx, a.Home, a.Home.key(i.keys), at)
		a.ended = a.pager == nil
	}
	return a, a.wrap(err)
}

func (a *act) names() []string { return slices.Concat(a.Selection.Refs, a.Selection.IDs) }

func (a *act) possible() error {
	switch a.Action {
	case Retry:
		if a.Home.kind == homeQueue {
			return fmt.Errorf("retry: jobs in %s already wait to run", a.Home)
		}
	case Kill:
		if a.Home == Dead() {
			return errors.New("kill: already in the dead set")
		}
	case Delete:
	case Move:
		if a.Home.queue == a.To {
			return errors.New("move: the two queues are the same")
		}
		if err := job.CheckQueue(a.To); err != nil {
			return fmt.Errorf("move: %w", err)
		}
	case Reschedule:
		if a.Home != Scheduled() && a.Home != Retries() {
			return fmt.Errorf("reschedule: jobs in %s do not wait for a time", a.Home)
		}
		if a.At.Unix() <= 0 || a.At.After(latest) {
			return errors.New("reschedule: give a time between 1970 and the year 9999")
		}
	default:
		return fmt.Errorf("there is no action %q", a.Action)
	}
	return nil
}

func (a *act) direct(ctx context.Context) error {
	for _, ref := range a.Selection.Refs {
		if !a.wanted[ref] { // named twice
			continue
		}
		entry, found, err := a.i.Get(ctx, a.Home, ref)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		delete(a.wanted, ref)
		if a.waits(entry) {
			continue
		}
		if err := a.send(ctx, []*pick{{Entry: entry, name: ref}}); err != nil {
			return err
		}
	}
	return nil
}

func (a *act) next(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return a.wrap(err)
	}
	page, err := a.pager.next(ctx)
	a.ended = err == nil && len(page) == 0
	if err == nil && !a.ended {
		err = a.page(ctx, page)
		a.ended = err == nil && a.done()
	}
	return a.wrap(err)
}

// done reports whether all names were found, and nothing else is selected.
func (a *act) done() bool {
	s := a.Selection
	return !s.All && !s.Unreadable && s.filter().none() && len(a.wanted) == 0
}

// missing records the names that were not found.
func (a *act) missing() {
	for _, name := range a.names() {
		if a.wanted[name] {
			delete(a.wanted, name)
			a.tally.Missing = append(a.tally.Missing, name)
		}
	}
}

func (a *act) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s in %s: %w", a.Action, a.Home, err)
}

// A pick is one entry, and whether it stays where it is.
type pick struct {
	Entry
	name    string // the ID or Ref that selected it, if one did
	stays   bool
	refused bool
}

// page acts on the selected entries of a page, and tells the pager which entries stayed.
func (a *act) page(ctx context.Context, page []lua.Entry) error {
	a.looked += len(page)
	picks := make([]pick, len(page))
	var chosen []*pick
	first := a.pager.position().Left
	for n, raw := range page {
		p := &picks[n]
		p.Entry = newEntry(a.Home, raw)
		p.index = first + n
		if p.stays = !a.selects(p); !p.stays {
			chosen = append(chosen, p)
		}
	}
	if err := a.send(ctx, chosen); err != nil {
		return err
	}
	a.pass(page, picks)
	return nil
}

// pass tells the pager which entries stayed. Where a job left a deep place, another took it, which is read
// next.
func (a *act) pass(page []lua.Entry, picks []pick) {
	hole := false
	again := make(map[string]bool)
	for n, raw := range page {
		p := &picks[n]
		hole = hole || !p.stays && a.sourceOf(p.index).End == lua.OrderAt
		if !hole || !p.stays {
			a.pager.passed(raw, p.stays)
		} else if p.refused {
			again[raw.Bytes] = true
		}
	}
	a.refused = again
}

func (a *act) selects(p *pick) bool {
	s := a.Selection
	switch {
	case a.refused[p.raw.Bytes]:
		return false
	case a.wanted[p.ID]:
		delete(a.wanted, p.ID)
		p.name = p.ID
		return true
	case a.waits(p.Entry), a.Action == Reschedule && p.At.Equal(a.At.Truncate(time.Microsecond)), // perhaps by this act
		a.Action == Move && p.Queue == a.To:
		return false
	}
	return s.All || s.Unreadable && p.Problem != "" || !s.filter().none() && s.filter().matches(p.Entry)
}

// waits reports whether a job that is only to be postponed waits for a later time already.
func (a *act) waits(e Entry) bool { return a.Action == Reschedule && a.Later && e.At.After(a.At) }

// send sends jobs to the action's destination.
func (a *act) send(ctx context.Context, chosen []*pick) error {
	lost, err := a.sendBatches(ctx, chosen)
	for try := 0; err == nil && len(lost) > 0 && try < tries; try++ {
		var moved []*pick
		if moved, lost, err = a.search(ctx, lost); err != nil {
			break
		}
		var again []*pick
		again, err = a.sendBatches(ctx, moved)
		lost = append(lost, again...)
	}
	a.tally.Gone += len(lost)
	for _, p := range lost {
		if p.name != "" {
			a.tally.Missing = append(a.tally.Missing, p.name)
		}
	}
	return err
}

// tries is how often a job that has moved within its list is searched for.
const tries = 3

// search finds jobs of a list that were not where they had been read: workers took jobs before them, or brought
// some back. An act on all entries reads them again with the next page.
func (a *act) search(ctx context.Context, lost []*pick) (moved, gone []*pick, err error) {
	if a.Home.sorted() || a.Selection.All {
		return nil, lost, nil
	}
	at := make(map[string]int)
	note := func(index int, raw lua.Entry) bool {
		at[raw.Bytes] = index
		return false
	}
	err = a.i.near(ctx, a.Home.key(a.i.keys), float64(lost[0].index), note)
	for _, p := range lost {
		if index, there := at[p.raw.Bytes]; there {
			p.index = index
			moved = append(moved, p)
		} else {
			gone = append(gone, p)
		}
	}
	return moved, gone, err
}

// sendBatches sends the chosen jobs, and returns those that were not found. It marks those that cannot be sent
// as staying.
func (a *act) sendBatches(ctx context.Context, chosen []*pick) (lost []*pick, err error) {
	batches := a.pack(chosen)
	atOnce := max(len(batches), 1)
	if !a.Home.sorted() {
		atOnce = 1 // Redis executes a pipeline without a break, and each of these calls is a search
	}
	for some := range slices.Chunk(batches, atOnce) {
		var ended []string
		asks, calls := lua.AskEach(some, func(p *batch) lua.Ask[lua.Acted] {
			ended = append(ended, p.ended()...)
			return a.i.keys.Act(p.source, []lua.Errand{p.errand})
		})
		if len(ended) > 0 {
			calls = append(calls, a.i.keys.AnnounceEnded(ended))
		}
		for n, reply := range a.i.do(ctx, calls)[:len(some)] {
			picks := some[n].picks
			acted, wrong := asks[n].Read(reply)
			switch {
			case wrong == nil:
				for _, position := range acted.Gone {
					lost = append(lost, picks[position])
				}
				for _, held := range acted.Held {
					p := picks[held.Position]
					a.refuse(fmt.Sprintf("%s: it is a duplicate of %s, which has the lock", p.ID, held.Holder), p)
				}
				for _, p := range picks {
					if !p.refused && !slices.Contains(lost, p) {
						a.tally.Moved++
						a.moved(p.Entry)
					}
				}
			case driver.Outage(wrong):
				err = cmp.Or(err, wrong)
			default: // one key has a wrong type: only the jobs for that key stay
				a.refuse(wrong.Error(), picks...)
			}
		}
		if err != nil {
			break
		}
	}
	return lost, err
}

func (a *act) refuse(why string, picks ...*pick) {
	for _, p := range picks {
		p.stays, p.refused = true, true
	}
	a.tally.Refused += len(picks)
	a.tally.addProblem(why)
}

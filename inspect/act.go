package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// An Action is what an operator does to jobs.
type Action string

const (
	// Retry sends jobs to the backs of their queues, now, as Sidekiq's pages do: their retry_count goes down by one (but not
	// that of scheduled jobs, which have not failed), so that they have one more run, and their crashes are forgotten. A unique
	// job that is dead takes its lock again, and is refused if another job holds that lock, unless its class
	// refuses no push. Unreadable entries are refused, and so are jobs that died because of their size and
	// still exceed Selection.PayloadLimit.
	Retry Action = "retry"
	// Kill sends jobs to the dead set as they are. With it, as with Delete, unique jobs free their locks in the same step; one
	// that promised a duplicate one more run (see dedup.Rule.RescheduleOnce) is followed by that.
	Kill Action = "kill"
	// Delete ends jobs for good.
	Delete Action = "delete"
)

// A Selection says which jobs of a home are meant. Its fields are alternatives: All, else those that any of the others
// names. The zero Selection is nothing.
type Selection struct {
	All bool
	// IDs are Entry.ID. Of several entries with one ID the first that is found is meant.
	IDs []string
	// Class is Entry.Class, or the class that stands in the payload.
	Class string
	// Unreadable are the jobs that nothing could run.
	Unreadable bool
	// PayloadLimit is the limit of the workers in bytes. Retry refuses jobs that died because of their size
	// and exceed it, because they would die again. Default: job.DefaultPayloadLimit.
	PayloadLimit int
}

// A Tally is what came of an act, so far.
type Tally struct {
	// Moved is how many jobs are now where they were sent.
	Moved int `json:"moved"`
	// Gone is how many were read and had left when their turn came: somebody else got them.
	Gone int `json:"gone"`
	// Refused is how many could not be sent there and are where they were; Problems say why, of the first 20.
	Refused  int      `json:"refused"`
	Problems []string `json:"problems,omitempty"`
	// Missing are IDs of the Selection that are not there, or not any more.
	Missing []string `json:"missing,omitempty"`
}

// Act does something to the selected jobs of a home, a page at a time, and tells progress after each; each job is moved in
// one step, and of all who reach for it one gets it. progress may be nil. It means the jobs that were there when it began: what comes into a set
// meanwhile, such as a job that was retried and died again, is left alone, and no more are deleted from a queue than lay in it.
//
// Its error says that it did not get to the end: what had been done stays done, and it may be called again. If Redis' answer
// was lost, a page of up to 256 jobs more than the Tally says may have been moved.
func (i *Inspector) Act(ctx context.Context, home Home, action Action, selection Selection, progress func(Tally)) (Tally, error) {
	a := &act{i: i, home: home, action: action, selection: selection}
	if err := a.possible(); err != nil {
		return a.tally, err
	}
	return a.do(ctx, progress)
}

// do does what is possible.
func (a *act) do(ctx context.Context, progress func(Tally)) (Tally, error) {
	selection := a.selection
	a.wanted = make(map[string]bool)
	for _, id := range selection.IDs {
		a.wanted[id] = true
	}
	if len(a.wanted) > 0 || selection.All || selection.Class != "" || selection.Unreadable {
		if err := a.run(ctx, progress); err != nil {
			return a.tally, fmt.Errorf("%s in %s: %w", a.action, a.home, err)
		}
	}
	for _, id := range selection.IDs {
		if a.wanted[id] {
			delete(a.wanted, id)
			a.tally.Missing = append(a.tally.Missing, id)
		}
	}
	return a.tally, nil
}

// An act is one call of Act.
type act struct {
	i         *Inspector
	home      Home
	action    Action
	to        string // the target queue of a move
	selection Selection
	wanted    map[string]bool // IDs not found yet
	clock     lua.Clock
	tally     Tally
}

func (a *act) possible() error {
	switch {
	case !slices.Contains([]Action{Retry, Kill, Delete}, a.action):
		return fmt.Errorf("there is no action %q", a.action)
	case a.action == Kill && a.home == Dead():
		return errors.New("kill: the dead are dead")
	case a.action == Retry && !a.home.sorted():
		return fmt.Errorf("retry: what is in %s waits to run already", a.home)
	}
	return nil
}

func (a *act) run(ctx context.Context, progress func(Tally)) error {
	if err := a.readClock(ctx); err != nil {
		return err
	}
	way, err := a.way(ctx)
	for err == nil && way != nil {
		var page []lua.Entry
		page, err = way.next(ctx)
		if err != nil || len(page) == 0 {
			break
		}
		if err = a.page(ctx, way, page); err != nil {
			break
		}
		if progress != nil {
			progress(a.tally)
		}
		if a.done() {
			break
		}
		err = ctx.Err()
	}
	return err
}

// done says whether all that was asked for by name has been found.
func (a *act) done() bool {
	s := a.selection
	return !s.All && s.Class == "" && !s.Unreadable && len(a.wanted) == 0
}

// page acts on what is selected of a page, and tells the way what stayed.
func (a *act) page(ctx context.Context, way way, page []lua.Entry) error {
	var chosen []Entry
	stays := make([]bool, len(page))
	at := make([]int, 0, len(page)) // of each one chosen, where it stands in the page
	for n, raw := range page {
		entry := newEntry(a.home, raw)
		stays[n] = !a.selects(entry)
		if !stays[n] {
			chosen, at = append(chosen, entry), append(at, n)
		}
	}
	left, err := a.move(ctx, way.source(), chosen)
	if err != nil {
		return err
	}
	for _, n := range left {
		stays[at[n]] = true
	}
	way.passed(page, stays)
	return nil
}

func (a *act) selects(e Entry) bool {
	s := a.selection
	if a.wanted[e.ID] {
		delete(a.wanted, e.ID)
		return true
	}
	return s.All || s.Unreadable && e.Problem != "" ||
		s.Class != "" && e.parsed != nil && (e.Class == s.Class || e.parsed.Class() == s.Class)
}

// move sends jobs where the action sends them, and answers the positions of those that stayed where they were.
func (a *act) move(ctx context.Context, source lua.Source, chosen []Entry) (left []int, err error) {
	which := make([]int, len(chosen))
	for n := range chosen {
		which[n] = n
	}
	lost, left, err := a.deliver(ctx, source, chosen, which)
	if err == nil && source.Search > 0 && !a.selection.All {
		// It has left, or so many came into the list since it was read that it lies further off. (Of all, the next page knows.)
		source.Search = 0
		var more []int
		lost, more, err = a.deliver(ctx, source, chosen, lost)
		left = append(left, more...)
	}
	a.tally.Gone += len(lost)
	for _, position := range lost {
		a.missed(chosen[position])
	}
	return left, err
}

// deliver sends the chosen jobs at these positions, and answers the positions of those that were not found, and of those that
// stayed because they cannot be sent.
func (a *act) deliver(ctx context.Context, source lua.Source, chosen []Entry, which []int) (lost, left []int, err error) {
	parcels, left := a.pack(source, chosen, which)
	atOnce := max(len(parcels), 1)
	if source.End != "" {
		atOnce = 1 // Redis executes a pipeline in one go, and each of these is a search
	}
	for some := range slices.Chunk(parcels, atOnce) {
		calls := make([]driver.Call, len(some))
		for n, p := range some {
			calls[n] = p.ask.Call
		}
		for n, reply := range a.i.do(ctx, calls) {
			acted, wrong := some[n].ask.Read(reply)
			switch {
			case wrong == nil:
				a.tally.Moved += len(some[n].at) - len(acted.Gone) - len(acted.Held)
				for _, position := range acted.Gone {
					lost = append(lost, some[n].at[position])
				}
				for _, held := range acted.Held {
					at := some[n].at[held.Position]
					left = append(left, at)
					a.refuse(1, fmt.Sprintf("%s: it is a duplicate of %s, which has the lock", chosen[at].ID, held.Holder))
				}
			case driver.Outage(wrong):
				err = cmp.Or(err, wrong)
			default: // one key is broken: it stops only the jobs that go there
				left = append(left, some[n].at...)
				a.refuse(len(some[n].at), wrong.Error())
			}
		}
		if err != nil {
			break
		}
	}
	return lost, left, err
}

// missed notes a job that somebody else got; one that was asked for by name is told by name.
func (a *act) missed(e Entry) {
	if slices.Contains(a.selection.IDs, e.ID) {
		a.tally.Missing = append(a.tally.Missing, e.ID)
	}
}

func (a *act) refuse(jobs int, why string) {
	a.tally.Refused += jobs
	if len(a.tally.Problems) < mostProblems && !slices.Contains(a.tally.Problems, why) {
		a.tally.Problems = append(a.tally.Problems, why)
	}
}

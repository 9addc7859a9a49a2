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

// An Action is what Act does to jobs.
type Action string

const (
	// Retry moves jobs to the backs of their queues, as Sidekiq's pages do. It decrements their retry_count,
	// so that they get one more run (except for scheduled jobs, which have not failed), and clears their
	// count of crashes. A unique job that is dead takes its lock again; if another job holds the lock, Retry
	// refuses it, unless its class stores duplicates. It also refuses unreadable entries, and jobs that died
	// because of their size and still exceed Selection.PayloadLimit.
	Retry Action = "retry"
	// Kill moves jobs to the dead set unchanged. Like Delete, it releases the locks of unique jobs in the
	// same step, and pushes the extra run for refused duplicates (see dedup.Rule.RescheduleOnce).
	Kill Action = "kill"
	// Delete removes jobs for good.
	Delete Action = "delete"
)

// A Selection chooses jobs of a home: all of them, or those that any of the other fields matches. The zero
// Selection chooses none.
type Selection struct {
	All bool
	// IDs are Entry.ID. Of several entries with one ID, the first that is found is chosen.
	IDs []string
	// Class is Entry.Class, or the class in the payload.
	Class string
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

// Act applies an action to the selected jobs of a home, a page at a time, and calls progress, unless nil,
// after each page. Each job moves in one step, so of several operators and workers only one gets it. Act
// covers the jobs that were there when it began: it skips jobs that enter a set meanwhile, such as a job that
// was retried and died again, and deletes no more jobs from a queue than it held.
//
// After an error, what was done stays done, and Act may be called again. If a reply of Redis was lost, up to
// 256 more jobs than the Tally says may have moved.
func (i *Inspector) Act(ctx context.Context, home Home, action Action, selection Selection, progress func(Tally)) (Tally, error) {
	a := &act{i: i, home: home, action: action, selection: selection}
	if err := a.possible(); err != nil {
		return a.tally, err
	}
	return a.do(ctx, progress)
}

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
		return errors.New("kill: already in the dead set")
	case a.action == Retry && !a.home.sorted():
		return fmt.Errorf("retry: jobs in %s wait to run already", a.home)
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

// done reports whether the act is finished because it has found every ID.
func (a *act) done() bool {
	s := a.selection
	return !s.All && s.Class == "" && !s.Unreadable && len(a.wanted) == 0
}

// A pick is one entry of a page, and whether it stays where it is.
type pick struct {
	Entry
	stays bool
}

// page acts on the selected entries of a page, and tells the way which entries stayed.
func (a *act) page(ctx context.Context, way way, page []lua.Entry) error {
	picks := make([]pick, len(page))
	var chosen []*pick
	for n, raw := range page {
		picks[n].Entry = newEntry(a.home, raw)
		if picks[n].stays = !a.selects(picks[n].Entry); !picks[n].stays {
			chosen = append(chosen, &picks[n])
		}
	}
	if err := a.move(ctx, way.source(), chosen); err != nil {
		return err
	}
	stays := make([]bool, len(page))
	for n := range picks {
		stays[n] = picks[n].stays
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

// move sends jobs to the action's destination.
func (a *act) move(ctx context.Context, source lua.Source, chosen []*pick) error {
	lost, err := a.deliver(ctx, source, chosen)
	if err == nil && source.Search > 0 && !a.selection.All {
		// The entry has left, or so many came into the list since it was read that it lies beyond the
		// searched part. (An act on all entries reads it again with the next page.)
		source.Search = 0
		lost, err = a.deliver(ctx, source, lost)
	}
	a.tally.Gone += len(lost)
	for _, p := range lost {
		a.missed(p.Entry)
	}
	return err
}

// deliver sends the chosen jobs, and returns those that were not found. It marks those that cannot be sent as
// staying.
func (a *act) deliver(ctx context.Context, source lua.Source, chosen []*pick) (lost []*pick, err error) {
	parcels := a.pack(source, chosen)
	atOnce := max(len(parcels), 1)
	if source.End != "" {
		atOnce = 1 // Redis executes a pipeline without a break, and each of these calls is a search
	}
	for some := range slices.Chunk(parcels, atOnce) {
		asks, calls := make([]lua.Ask[lua.Acted], len(some)), make([]driver.Call, len(some))
		for n, p := range some {
			asks[n] = a.i.keys.Act(source, []lua.Errand{p.errand})
			calls[n] = asks[n].Call
		}
		for n, reply := range a.i.do(ctx, calls) {
			picks := some[n].picks
			acted, wrong := asks[n].Read(reply)
			switch {
			case wrong == nil:
				a.tally.Moved += len(picks) - len(acted.Gone) - len(acted.Held)
				for _, position := range acted.Gone {
					lost = append(lost, picks[position])
				}
				for _, held := range acted.Held {
					p := picks[held.Position]
					a.refuse(fmt.Sprintf("%s: it is a duplicate of %s, which has the lock", p.ID, held.Holder), p)
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

// missed records that a chosen job has left. If it was selected by ID, the Tally names it.
func (a *act) missed(e Entry) {
	if slices.Contains(a.selection.IDs, e.ID) {
		a.tally.Missing = append(a.tally.Missing, e.ID)
	}
}

func (a *act) refuse(why string, picks ...*pick) {
	for _, p := range picks {
		p.stays = true
	}
	a.tally.Refused += len(picks)
	if len(a.tally.Problems) < mostProblems && !slices.Contains(a.tally.Problems, why) {
		a.tally.Problems = append(a.tally.Problems, why)
	}
}

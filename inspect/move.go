package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

const move Action = "move"

// Move moves the selected jobs of a queue, or of its quarantined ones, to the back of another queue, where
// they keep their order, a page at a time; quarantined jobs stay quarantined. Each job is moved in one step,
// and only the name of its queue changes; it keeps its unique lock. Unreadable entries are refused and stay,
// because the name cannot be changed.
//
// Like Act, it covers the jobs that were there when it began, and makes Act's other promises too.
func (i *Inspector) Move(ctx context.Context, from Home, to string, selection Selection, progress func(Tally)) (Tally, error) {
	a := &act{i: i, home: from, action: move, to: to, selection: selection}
	switch {
	case from.kind != homeQueue && from.kind != homeQuarantined:
		return a.tally, fmt.Errorf("move: jobs are moved from a queue, not from %s", from)
	case from.queue == to:
		return a.tally, errors.New("move: the two queues are the same")
	}
	if err := job.CheckQueue(to); err != nil {
		return a.tally, fmt.Errorf("move: %w", err)
	}
	return a.do(ctx, progress)
}

func (a *act) sendOn(e Entry) (errand lua.Errand, jobs lua.Promotion, why error) {
	if e.parsed == nil {
		return errand, jobs, fmt.Errorf("%s: its queue cannot be changed", e.Problem)
	}
	errand = lua.Errand{Fate: lua.FateQueue, Queue: a.to, Quarantined: a.home.kind == homeQuarantined}
	return errand, lua.Promotion{Old: e.raw.Bytes, New: e.parsed.Patch(job.SetString("queue", a.to))}, nil
}

// oldestWay walks a list from its oldest entry and may leave entries in place. Workers take from that end
// too, so the entries left behind move towards it. The last one left is the mark from which the walk
// continues.
type oldestWay struct {
	i    *Inspector
	key  string
	most int // how many entries there were
	seen int
	left int    // maximum number of entries left in place
	mark string // the last entry left in place
}

func (w *oldestWay) next(ctx context.Context) ([]lua.Entry, error) {
	for skip := max(w.left-1, 0); w.seen < w.most; skip = max(skip-(lua.MostItems-1), 0) {
		page, err := w.i.keys.Page(w.key, lua.OrderOldest, skip, lua.MostItems).Do(ctx, w.i.driver)
		if err != nil || w.left == 0 {
			return page.Entries, err
		}
		at := slices.IndexFunc(page.Entries, func(e lua.Entry) bool { return e.Bytes == w.mark })
		switch {
		case at >= 0:
			w.left = skip + at + 1
			if rest := page.Entries[at+1:]; len(rest) > 0 {
				return rest, nil
			}
			page, err = w.i.keys.Page(w.key, lua.OrderOldest, w.left, lua.MostItems).Do(ctx, w.i.driver)
			return page.Entries, err
		case skip == 0: // the mark was taken, and all entries before it
			w.left = 0
			return page.Entries, nil
		}
	}
	return nil, nil
}

func (w *oldestWay) source() lua.Source {
	return lua.Source{Key: w.key, End: lua.OrderOldest, Search: w.left + lua.MostItems + shifted}
}

func (w *oldestWay) passed(page []lua.Entry, stays []bool) {
	w.seen += len(page)
	for n, stay := range stays {
		if stay {
			w.left++
			w.mark = page[n].Bytes
		}
	}
}

package inspect

import (
	"context"

	"github.com/belayq/belay/lua"
)

// A way goes through the entries of a home, a page at a time, while they come and go and are taken away.
type way interface {
	// next reads the next page; an empty one is the end.
	next(ctx context.Context) ([]lua.Entry, error)
	// source is where, and how far at most from which end, the entries of the last page lie.
	source() lua.Source
	// passed tells which entries of the last page are still where they were.
	passed(page []lua.Entry, stays []bool)
}

// way is the one through this act's home; nil when there is nothing in it.
func (a *act) way(ctx context.Context) (way, error) {
	key := a.home.key(a.i.keys)
	if !a.home.sorted() {
		order := lua.OrderYoungest
		size, err := a.i.Size(ctx, a.home)
		switch {
		case a.selection.All:
			order = lua.OrderOldest
		case a.action == move: // the oldest goes first, which keeps the order
			return &oldestWay{i: a.i, key: key, most: size}, err
		}
		return &listWay{i: a.i, from: lua.Source{Key: key, End: order}, most: size, all: a.selection.All}, err
	}
	last, err := a.i.keys.Page(key, lua.OrderHighest, 0, 1).Do(ctx, a.i.driver)
	if err != nil || len(last.Entries) == 0 {
		return nil, err
	}
	// No further than what is there now: what a retry sends round comes back behind this.
	return &setWay{i: a.i, key: key, walk: lua.Walk{From: "-inf", To: last.Entries[0].Score}}, nil
}

// setWay goes through a sorted set from its lowest score.
type setWay struct {
	i    *Inspector
	key  string
	walk lua.Walk
}

func (w *setWay) next(ctx context.Context) ([]lua.Entry, error) {
	return w.i.keys.Walk(w.key, w.walk).Do(ctx, w.i.driver)
}

func (w *setWay) source() lua.Source { return lua.Source{Key: w.key} }

func (w *setWay) passed(page []lua.Entry, stays []bool) {
	for n, entry := range page {
		w.walk.Passed(entry, stays[n])
	}
}

// listWay goes through a list. To take all of it, it takes the oldest, again and again; workers take from there as well, so
// it counts how many it has seen. To look for some it goes from the youngest: there jobs are only added, so that it sees some
// twice but passes over none (unless another operator deletes some just then).
type listWay struct {
	i       *Inspector
	from    lua.Source
	all     bool
	most    int // how many there were
	seen    int
	skipped int
}

func (w *listWay) next(ctx context.Context) ([]lua.Entry, error) {
	most := lua.MostItems
	if w.all {
		most = min(most, w.most-w.seen)
	}
	if most == 0 {
		return nil, nil
	}
	page, err := w.i.keys.Page(w.from.Key, w.from.End, w.skipped, most).Do(ctx, w.i.driver)
	return page.Entries, err
}

// shifted is how many jobs may have come in since a page was read, at the end that it was read from, for its own to be found:
// at the youngest end those that were pushed, at the other those that were handed back.
const shifted = 1024

func (w *listWay) source() lua.Source {
	w.from.Search = w.skipped + lua.MostItems
	if !w.all {
		w.from.Search += shifted
	}
	return w.from
}

func (w *listWay) passed(page []lua.Entry, stays []bool) {
	w.seen += len(page)
	for _, stay := range stays {
		if stay {
			w.skipped++
		}
	}
}

package inspect

import (
	"context"

	"github.com/belayq/belay/lua"
)

// A way reads the entries of a home a page at a time, while entries come and go and this act takes some out.
type way interface {
	// next reads the next page; an empty page is the end.
	next(ctx context.Context) ([]lua.Entry, error)
	// source says where the entries of the last page lie, and at most how far from which end.
	source() lua.Source
	// passed records which entries of the last page are still where they were.
	passed(page []lua.Entry, stays []bool)
}

// way returns the way through this act's home; nil if the home is empty.
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
	// The walk ends at the highest score of this moment: a retried job that fails again comes back above it.
	return &setWay{i: a.i, key: key, walk: lua.Walk{From: "-inf", To: last.Entries[0].Score}}, nil
}

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

// listWay reads a list. To take all of it, it reads the oldest page again and again; workers take from that
// end too, so it counts the entries it has seen. To search for some entries it starts at the youngest: jobs
// are only added there, so it may see an entry twice but skips none (unless another operator deletes entries
// meanwhile).
type listWay struct {
	i       *Inspector
	from    lua.Source
	all     bool
	most    int // how many entries there were
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

// shifted is how many entries may come in after a page was read, at the end it was read from, before its own
// entries are out of reach: pushed jobs at the youngest end, requeued jobs at the oldest.
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

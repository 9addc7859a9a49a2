package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/belayq/belay/lua"
)

// Get returns the entry of a home with this Ref; ok is false if it has left. It reads the entries with that
// time, or some thousand entries around that place in a queue. In a Ref that is written by hand, a colon and
// the ID suffice after the place; of several entries with that ID, Get returns the first that it reads.
func (i *Inspector) Get(ctx context.Context, home Home, ref string) (entry Entry, ok bool, err error) {
	place, id, _ := strings.Cut(ref, ":")
	place, sum, exact := strings.Cut(place, "~")
	at, err := strconv.ParseFloat(place, 64)
	if err != nil {
		return entry, false, nil //nolint:nilerr // a ref that Belay did not write names no entry
	}
	search := i.near
	if home.sorted() {
		search = i.atScore
	}
	err = search(ctx, home.key(i.keys), at, func(index int, raw lua.Entry) bool {
		entry = i.entry(Entry{home: home, raw: raw, index: index})
		ok = entry.ID == id && (!exact || digest(raw.Bytes) == sum)
		return ok
	})
	if err != nil {
		return entry, false, fmt.Errorf("read %s: %w", home, err)
	}
	if !ok {
		return Entry{}, false, nil
	}
	return entry, true, nil
}

// atScore calls is for the members with a score until it reports true.
func (i *Inspector) atScore(ctx context.Context, key string, score float64, is func(int, lua.Entry) bool) error {
	text := strconv.FormatFloat(score, 'g', 17, 64)
	return i.walk(ctx, key, lua.Cursor{From: text, To: text}, func(page []lua.Entry) bool {
		return slices.ContainsFunc(page, func(raw lua.Entry) bool { return is(0, raw) })
	})
}

// nearPages is how many pages near reads in each direction: workers took the entries before an entry since it
// was listed, or requeued others.
const nearPages = 4

// near calls is for the entries of a list around an index until it reports true.
func (i *Inspector) near(ctx context.Context, key string, index float64, is func(int, lua.Entry) bool) error {
	middle := int(min(max(index, 0), 1<<40))
	for n := range 2 * nearPages {
		skip := middle - lua.MaxItems/2
		if n%2 == 1 { // below, above, further below...
			skip += (n + 1) / 2 * lua.MaxItems
		} else {
			skip -= n / 2 * lua.MaxItems
		}
		most := lua.MaxItems + min(skip, 0)
		if found, err := i.within(ctx, key, max(skip, 0), most, is); found || err != nil {
			return err
		}
	}
	return nil
}

// within calls is for most entries of a list from an index on, until it reports true.
func (i *Inspector) within(ctx context.Context, key string, index, most int, is func(int, lua.Entry) bool) (bool, error) {
	for end := index + most; index < end; { // a page of large entries is shorter
		page, err := i.page(ctx, key, lua.OrderOldest, index, end-index)
		if err != nil || len(page.Entries) == 0 {
			return false, err
		}
		for _, raw := range page.Entries {
			if is(index, raw) {
				return true, nil
			}
			index++
		}
	}
	return false, nil
}

// walk reads a sorted set a page at a time until end reports true. An entry whose score rises meanwhile is
// read again.
func (i *Inspector) walk(ctx context.Context, key string, walk lua.Cursor, end func(page []lua.Entry) bool) error {
	for {
		page, err := i.pageAfter(ctx, key, walk, nil)
		if err != nil || len(page) == 0 || end(page) {
			return err
		}
		for _, entry := range page {
			walk.Passed(entry, true)
		}
	}
}

// ranked returns the members of a sorted set. Those whose score rises meanwhile may be in it twice.
func (i *Inspector) ranked(ctx context.Context, key string) (names []string, err error) {
	err = i.walk(ctx, key, lua.Cursor{From: "-inf", To: "+inf"}, func(page []lua.Entry) bool {
		for _, entry := range page {
			names = append(names, entry.Bytes)
		}
		return false
	})
	return names, err
}

// yieldPages yields what read makes of each page of a walk over such things. It yields an error once, and then
// ends.
func yieldPages[T any](
	ctx context.Context, i *Inspector, things, key string, walk lua.Cursor,
	read func(ctx context.Context, page []lua.Entry) ([]T, error), yield func(T, error) bool,
) {
	stopped := false
	var pageErr error
	err := i.walk(ctx, key, walk, func(page []lua.Entry) bool {
		var items []T
		items, pageErr = read(ctx, page)
		stopped = slices.ContainsFunc(items, func(item T) bool { return !yield(item, nil) })
		return stopped || pageErr != nil
	})
	if err = cmp.Or(err, pageErr); err != nil && !stopped {
		var none T
		yield(none, fmt.Errorf("read %s: %w", things, err))
	}
}

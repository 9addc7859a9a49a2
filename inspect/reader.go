package inspect

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/belayq/belay/lua"
)

// A reader reads the jobs of one home a page at a time. Lists, searches and acts all read through it. Jobs come
// and go meanwhile, and its caller may remove those of a page before it reads the next one.
type reader struct {
	i    *Inspector
	home Home
	pages
}

// list returns a reader of the jobs of a home after the first skip of them, in the order of Entries. It also
// reads the jobs that enter a set meanwhile.
func (i *Inspector) list(home Home, skip int) *reader {
	key, size := home.key(i.keys), pageSize{first: firstListed}
	switch {
	case home.newestFirst():
		return &reader{i, home, &newestPages{i: i, key: key, at: position{From: "+inf", To: "+inf", Left: skip}, size: size}}
	case home.sorted():
		return &reader{i, home, &setPages{i: i, key: key, at: position{From: "-inf", To: "+inf", Left: skip}, size: size}}
	default:
		return &reader{i, home, &listPages{i: i, key: key, at: position{Seen: skip, Left: skip}, size: size}}
	}
}

// Entries yields the jobs of a home after the first skip of them: the next job to run first, or the job that
// died or ended last. It reads a page at a time, as the caller continues. Jobs come and go meanwhile: it yields
// each job once that stays, and may miss others. It yields an error once, and then ends.
func (i *Inspector) Entries(ctx context.Context, home Home, skip int) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for jobs := i.list(home, max(skip, 0)); ; {
			page, err := jobs.next(ctx)
			if err = cmp.Or(err, ctx.Err()); err != nil {
				yield(Entry{}, fmt.Errorf("read %s: %w", home, err))
				return
			}
			if len(page) == 0 {
				return
			}
			for _, entry := range page {
				jobs.passed(entry, true)
				if entry.gone {
					continue
				}
				i.parse(&entry)
				if !yield(entry, nil) {
					return
				}
			}
		}
	}
}

// firstListed is the size of the first page of a list: most callers show one screen.
const firstListed = 32

// A readConfig says how a reader reads a home.
type readConfig struct {
	// jids, unless there are none, are those of the jobs that the caller wants. The reader then leaves out
	// others (see lua.Entry.LeftOut).
	jids []string
	// newest makes the job that died or ended last come first, unless jids are sought. Default: the first one.
	newest bool
	// first is the size of the first page. Default: lua.MaxItems.
	first int
}

// read returns a reader of the jobs that are in a home now, from a position on; the zero position is the
// beginning, which is the next job to run first. It returns nil if the home is a set without jobs.
func (i *Inspector) read(ctx context.Context, home Home, key string, at position, cfg readConfig) (*reader, error) {
	isUnreadable := func(id string) bool { return strings.HasPrefix(id, unreadable) }
	// More jids than a script looks at entries would cost it more than they save.
	if !lua.Seekable(cfg.jids) || len(cfg.jids) > lua.MaxSought || slices.ContainsFunc(cfg.jids, isUnreadable) {
		cfg.jids = nil
	}
	size := pageSize{cfg.first}
	if !home.sorted() {
		return &reader{i, home, &listPages{i: i, key: key, at: at, jids: cfg.jids, size: size}}, nil
	}
	newest := cfg.newest && len(cfg.jids) == 0 && home.newestFirst()
	if at.To == "" {
		last, err := i.page(ctx, key, lua.OrderHighest, 0, 1)
		if err != nil || len(last.Entries) == 0 {
			return nil, err
		}
		// It ends at the current highest score: a retried job that fails again comes back with a higher one.
		if at.From, at.To = "-inf", last.Entries[0].Score; newest {
			at.From = at.To
		}
	}
	if newest {
		return &reader{i, home, &newestPages{i: i, key: key, at: at, size: size}}, nil
	}
	return &reader{i, home, &setPages{i: i, key: key, at: at, jids: cfg.jids, size: size}}, nil
}

// next reads the next page; an empty page is the end. Its entries are not parsed yet.
func (r *reader) next(ctx context.Context) ([]Entry, error) {
	page, err := r.pages.next(ctx)
	if err != nil {
		return nil, err
	}
	entries, index := make([]Entry, len(page)), r.position().Left
	for n, raw := range page {
		index += raw.LeftOut
		entries[n] = Entry{home: r.home, raw: raw, index: index}
		index++
	}
	if r.home == Completed() {
		err = r.i.fillCompleted(ctx, entries)
	}
	return entries, err
}

// passed records whether the next entry of the last page stayed where it was.
func (r *reader) passed(e Entry, stays bool) { r.pages.passed(e.raw, stays) }

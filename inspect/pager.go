package inspect

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// A pager reads the entries of a home a page at a time: the next job to run first, or the job that died first.
// Entries come and go meanwhile, and its caller may remove some. It covers the entries that were there when it
// began. A pager that seeks jobs by their jid leaves out the others (see lua.Entry.LeftOut).
type pager interface {
	// next reads the next page; an empty page is the end.
	next(ctx context.Context) ([]lua.Entry, error)
	// passed records whether the next entry of the last page stayed where it was.
	passed(entry lua.Entry, stays bool)
	// position is where the pager would continue.
	position() position
}

// A position is a place in a home, small enough for a cursor: payloads may have two megabytes.
type position struct {
	// From and To are the scores between which the rest of a set lies, and Left is how many entries with the
	// score From were passed and stayed.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	Left int    `json:"left,omitempty"`
	// For a list, Most is the number of entries at the beginning, Seen how many were passed, Left how many of
	// those at most stayed, and Mark the hash of the last one that stayed.
	Most int    `json:"most,omitempty"`
	Seen int    `json:"seen,omitempty"`
	Mark string `json:"mark,omitempty"`
	// Spread is the act's own, see act.spread.
	Spread int `json:"spread,omitempty"`
}

// pager returns the pager of a home from a position; the zero position is its beginning. It returns nil if
// the home is empty. The caller wants no other jobs than those with one of the jids, unless there are none.
func (i *Inspector) pager(ctx context.Context, home Home, key string, at position, jids []string) (pager, error) {
	isUnreadable := func(id string) bool { return strings.HasPrefix(id, unreadable) }
	if !lua.Seekable(jids) || slices.ContainsFunc(jids, isUnreadable) {
		jids = nil
	}
	switch {
	case !home.sorted() && at.Most == 0:
		size, err := i.page(ctx, key, lua.OrderOldest, 0, 0)
		if err != nil || size.Total == 0 {
			return nil, err
		}
		at.Most = size.Total
	case home.sorted() && at.To == "":
		last, err := i.page(ctx, key, lua.OrderHighest, 0, 1)
		if err != nil || len(last.Entries) == 0 {
			return nil, err
		}
		// It ends at the current highest score: a retried job that fails again comes back with a higher one.
		at.From, at.To = "-inf", last.Entries[0].Score
	}
	if home.sorted() {
		return &setPager{i: i, key: key, at: at, jids: jids}, nil
	}
	return &listPager{i: i, key: key, at: at, jids: jids}, nil
}

// deathPager returns a pager of the dead set that reads the job that died last first, as Entries does.
// A search for jobs with one of the jids reads them in the other order: it leaves out all other jobs.
func (i *Inspector) deathPager(ctx context.Context, at position, jids []string) (pager, error) {
	pages, err := i.pager(ctx, Dead(), i.keys.Dead(), at, jids)
	if len(jids) > 0 {
		return pages, err
	}
	if err != nil || pages == nil {
		return nil, err
	}
	if at.To == "" { // the beginning: from the highest score downwards
		at = pages.position()
		at.From = at.To
	}
	return &deathPager{i: i, at: at}, nil
}

// A deathPager reads the dead set from its highest score. New deaths come in above, so it continues by score.
type deathPager struct {
	i  *Inspector
	at position // From is the lowest score that was passed
}

func (p *deathPager) next(ctx context.Context) ([]lua.Entry, error) {
	reply := p.i.driver.Do(ctx, driver.Command("ZCOUNT", p.i.keys.Dead(), "("+p.at.From, "+inf"))[0]
	if reply.Err != nil {
		return nil, reply.Err
	}
	above, _ := reply.Value.(int64)
	page, err := p.i.page(ctx, p.i.keys.Dead(), lua.OrderHighest, int(above)+p.at.Left, lua.MaxItems)
	return page.Entries, err
}

func (p *deathPager) passed(entry lua.Entry, stays bool) { p.at.passed(entry, stays) }

func (p *deathPager) position() position { return p.at }

type setPager struct {
	i    *Inspector
	key  string
	at   position
	walk lua.Cursor // empty before the first page
	jids []string
}

func (p *setPager) next(ctx context.Context) ([]lua.Entry, error) {
	begins := p.walk.To == ""
	p.walk.From, p.walk.To = p.at.From, p.at.To
	if begins && p.at.Left > 0 {
		return p.again(ctx)
	}
	return p.i.pageAfter(ctx, p.key, p.walk, p.jids)
}

// again reads the first page after a cursor, which does not have the bytes of the entry before it. If entries
// with that score have left since then, the same number of other entries with that score is skipped.
func (p *setPager) again(ctx context.Context) ([]lua.Entry, error) {
	reply := p.i.driver.Do(ctx, driver.Command("ZCOUNT", p.key, "-inf", "("+p.at.From))[0]
	if reply.Err != nil {
		return nil, reply.Err
	}
	below, _ := reply.Value.(int64)
	page, err := p.i.page(ctx, p.key, lua.OrderLowest, int(below)+p.at.Left, lua.MaxItems)
	last, _ := strconv.ParseFloat(p.at.To, 64)
	return slices.DeleteFunc(page.Entries, func(e lua.Entry) bool {
		score, _ := strconv.ParseFloat(e.Score, 64)
		return score > last
	}), err
}

func (p *setPager) passed(entry lua.Entry, stays bool) {
	p.at.passed(entry, stays)
	p.walk.Passed(entry, stays)
}

// passed goes on in a set.
func (p *position) passed(entry lua.Entry, stays bool) {
	if entry.Score != p.From {
		p.From, p.Left = entry.Score, 0 // perhaps too few: those that were left out are then read again
	} else {
		p.Left += entry.LeftOut
	}
	if stays {
		p.Left++
	}
}

func (p *setPager) position() position { return p.at }

// A listPager reads a list from its oldest entry. Workers take from that end too, so the entries that stayed
// move towards it, and the last of them is the mark after which the pager continues.
type listPager struct {
	i    *Inspector
	key  string
	at   position
	jids []string
	mark string // the entry whose hash is at.Mark, if it was read
}

func (p *listPager) next(ctx context.Context) ([]lua.Entry, error) {
	page, err := p.behindMark(ctx)
	for n, seen := 0, p.at.Seen; n < len(page); n++ {
		if seen += page[n].LeftOut + 1; seen > p.at.Most {
			return page[:n], err
		}
	}
	return page, err
}

// behindMark returns entries behind the mark: the rest of the page in which it is, because between two reads
// workers may take jobs, and the entries would be elsewhere. Without the mark, it was taken, and all entries
// before it.
func (p *listPager) behindMark(ctx context.Context) ([]lua.Entry, error) {
	if p.at.Seen >= p.at.Most {
		return nil, nil
	}
	for p.at.Left > 0 {
		page, mark, err := p.findMark(ctx)
		switch {
		case err != nil:
			return nil, err
		case mark < 0:
			p.at.Left = 0
		case mark < len(page)-1:
			return page[mark+1:], nil
		case mark == 0: // it is the youngest, or a page of its own
			return p.page(ctx, p.at.Left)
		}
	}
	return p.page(ctx, 0)
}

// findMark returns the page with the mark, and its position there; -1 if it is nowhere. It looks where the mark
// was, towards the oldest entry, where it moves while workers take jobs, and a little behind where it was: jobs
// may have come back.
func (p *listPager) findMark(ctx context.Context) (page []lua.Entry, mark int, err error) {
	was := p.at.Left - 1
	page, mark, err = p.markIn(ctx, was, was+1)
	for end := was; err == nil && mark < 0 && end > 0; end -= lua.MaxItems {
		page, mark, err = p.markIn(ctx, max(end-lua.MaxItems, 0), end)
		if err == nil && mark < 0 && end == was {
			page, mark, err = p.markIn(ctx, was+1, was+lua.Around)
		}
	}
	return page, mark, err
}

// markIn looks for the mark in the pages that begin between two indexes.
func (p *listPager) markIn(ctx context.Context, begin, end int) ([]lua.Entry, int, error) {
	for begin < end {
		page, err := p.page(ctx, begin)
		if err != nil || len(page) == 0 {
			return nil, -1, err
		}
		if mark := slices.IndexFunc(page, p.isMark); mark >= 0 {
			p.at.Left = begin + covered(page[:mark+1])
			return page, mark, nil
		}
		begin += covered(page)
	}
	return nil, -1, nil
}

// covered returns how many entries a page stands for, with those that a search has left out.
func covered(page []lua.Entry) (entries int) {
	for _, entry := range page {
		entries += 1 + entry.LeftOut
	}
	return entries
}

// seeks reports whether the next page is a search by jid: the script must be given the mark, to find it.
func (p *listPager) seeks() bool { return p.jids != nil && (p.at.Left == 0 || p.mark != "") }

func (p *listPager) isMark(entry lua.Entry) bool { return unreadableID(entry.Bytes) == p.at.Mark }

func (p *listPager) page(ctx context.Context, skip int) ([]lua.Entry, error) {
	if p.seeks() {
		return p.i.seek(ctx, p.key, skip, p.mark, p.jids)
	}
	page, err := p.i.page(ctx, p.key, lua.OrderOldest, skip, lua.MaxItems)
	return page.Entries, err
}

func (p *listPager) passed(entry lua.Entry, stays bool) {
	p.at.Seen += 1 + entry.LeftOut
	p.at.Left += entry.LeftOut
	if stays {
		p.at.Left++
		p.at.Mark, p.mark = unreadableID(entry.Bytes), entry.Bytes
	}
}

func (p *listPager) position() position { return p.at }

// ErrCursor is the error for a cursor that no request of its kind has returned.
var ErrCursor = errors.New("the cursor belongs to another request")

// cursorOf returns a text for URLs and command lines that readCursor reads.
func cursorOf(at any) string {
	text, _ := json.Marshal(at) // of plain fields
	return base64.RawURLEncoding.EncodeToString(text)
}

// readCursor reads a cursor into at, a position or a searchPosition. The empty cursor is the beginning.
func readCursor(cursor string, at interface{ valid() bool }) error {
	if cursor == "" {
		return nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return ErrCursor
	}
	read := json.NewDecoder(bytes.NewReader(text))
	read.DisallowUnknownFields()
	if read.Decode(at) != nil || read.More() || !at.valid() {
		return ErrCursor
	}
	return nil
}

// valid reports whether Redis takes what a cursor says.
func (p *position) valid() bool {
	score := func(text string) bool {
		value, err := strconv.ParseFloat(text, 64)
		return err == nil && !math.IsNaN(value)
	}
	return p.Left >= 0 && p.Most >= 0 && p.Seen >= 0 && p.Spread >= 0 && (p.To == "" && p.From == "" || score(p.From) && score(p.To))
}

func (s *searchPosition) valid() bool { return s.Stage >= 0 && s.Way.valid() }

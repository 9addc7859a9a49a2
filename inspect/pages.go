package inspect

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// pages are the entries of one list or one sorted set.
type pages interface {
	// next reads the next page; an empty page is the end.
	next(ctx context.Context) ([]lua.Entry, error)
	// passed records whether the next entry of the last page stayed where it was.
	passed(entry lua.Entry, stays bool)
	// position is where next would continue.
	position() position
}

// A pageSize is how many entries pages have at most.
type pageSize struct{ first int }

func (s *pageSize) next() int {
	size := cmp.Or(s.first, lua.MaxItems)
	s.first = 0
	return size
}

// newestPages reads a set from its highest score. New entries come in above, so it continues by score.
type newestPages struct {
	i    *Inspector
	key  string
	at   position // From is the lowest score that was passed
	size pageSize
}

func (p *newestPages) next(ctx context.Context) ([]lua.Entry, error) {
	above, err := p.above(ctx, p.at.From)
	if err != nil {
		return nil, err
	}
	page, err := p.i.page(ctx, p.key, lua.OrderHighest, above+p.at.Left, p.size.next())
	if err == nil && len(page.Entries) > 0 && p.at.From == "+inf" && p.at.Left > 0 {
		// Those that were skipped may include entries with the score of the first.
		first := page.Entries[0].Score
		if above, err = p.above(ctx, first); err == nil {
			p.at.From, p.at.Left = first, p.at.Left-above
		}
	}
	return page.Entries, err
}

// above returns how many entries have a higher score.
func (p *newestPages) above(ctx context.Context, score string) (int, error) {
	if score == "+inf" {
		return 0, nil
	}
	return p.i.countScores(ctx, p.key, "("+score, "+inf")
}

// countScores returns how many members of a sorted set have scores in a range.
func (i *Inspector) countScores(ctx context.Context, key, lowest, highest string) (int, error) {
	reply := i.driver.Do(ctx, driver.Command("ZCOUNT", key, lowest, highest))[0]
	count, _ := reply.Value.(int64)
	return int(count), reply.Err
}

func (p *newestPages) passed(entry lua.Entry, stays bool) { p.at.passed(entry, stays) }

func (p *newestPages) position() position { return p.at }

type setPages struct {
	i    *Inspector
	key  string
	at   position
	walk lua.Cursor // empty before the first page
	jids []string
	size pageSize // of the first page without jids
}

func (p *setPages) next(ctx context.Context) ([]lua.Entry, error) {
	begins := p.walk.To == ""
	p.walk.From, p.walk.To = p.at.From, p.at.To
	if begins && (p.at.Left > 0 || p.size.first > 0) {
		return p.again(ctx)
	}
	return p.i.pageAfter(ctx, p.key, p.walk, p.jids)
}

// again reads the first page of a list, or the first one after a cursor, which does not have the bytes of the
// entry before it. If entries with that score have left since then, the same number of other entries with that
// score is skipped.
func (p *setPages) again(ctx context.Context) ([]lua.Entry, error) {
	below := 0
	if p.at.From != "-inf" {
		var err error
		if below, err = p.i.countScores(ctx, p.key, "-inf", "("+p.at.From); err != nil {
			return nil, err
		}
	}
	page, err := p.i.page(ctx, p.key, lua.OrderLowest, below+p.at.Left, p.size.next())
	last, _ := strconv.ParseFloat(p.at.To, 64)
	return slices.DeleteFunc(page.Entries, func(e lua.Entry) bool {
		score, _ := strconv.ParseFloat(e.Score, 64)
		return score > last
	}), err
}

func (p *setPages) passed(entry lua.Entry, stays bool) {
	p.at.passed(entry, stays)
	p.walk.Passed(entry, stays)
}

func (p *setPages) position() position { return p.at }

// listPages reads a list from its oldest entry. Workers take from that end too, so the entries that stayed
// move towards it, and the last of them is the mark after which the reader continues.
type listPages struct {
	i    *Inspector
	key  string
	at   position
	jids []string
	mark string // the entry whose hash is at.Mark, if it was read
	size pageSize
}

func (p *listPages) next(ctx context.Context) ([]lua.Entry, error) {
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
func (p *listPages) behindMark(ctx context.Context) ([]lua.Entry, error) {
	switch {
	case p.at.Most > 0 && p.at.Seen >= p.at.Most:
		return nil, nil
	case p.at.Mark == "": // the beginning, behind what a list skips
		return p.page(ctx, p.at.Left)
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
func (p *listPages) findMark(ctx context.Context) (page []lua.Entry, mark int, err error) {
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
func (p *listPages) markIn(ctx context.Context, begin, end int) ([]lua.Entry, int, error) {
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
func (p *listPages) seeks() bool { return p.jids != nil && (p.at.Left == 0 || p.mark != "") }

func (p *listPages) isMark(entry lua.Entry) bool { return unreadableID(entry.Bytes) == p.at.Mark }

func (p *listPages) page(ctx context.Context, skip int) ([]lua.Entry, error) {
	var page lua.Page
	var err error
	if p.seeks() {
		page, err = p.i.seek(ctx, p.key, skip, p.mark, p.jids)
	} else {
		page, err = p.i.page(ctx, p.key, lua.OrderOldest, skip, p.size.next())
	}
	p.at.Most = cmp.Or(p.at.Most, page.Total)
	return page.Entries, err
}

func (p *listPages) passed(entry lua.Entry, stays bool) {
	p.at.Seen += 1 + entry.LeftOut
	p.at.Left += entry.LeftOut
	if stays {
		p.at.Left++
		p.at.Mark, p.mark = unreadableID(entry.Bytes), entry.Bytes
	}
}

func (p *listPages) position() position { return p.at }

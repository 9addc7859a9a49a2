package inspect

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// A pager reads the entries of a home a page at a time: the next job to run first, or the job that died first.
// Entries come and go meanwhile, and its caller may remove some. It covers the entries that were there when it
// began.
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
}

// pager returns the pager of a home from a position; the zero position is its beginning. It returns nil if
// the home is empty.
func (i *Inspector) pager(ctx context.Context, home Home, key string, at position) (pager, error) {
	switch {
	case !home.sorted() && at.Most == 0:
		size, err := i.keys.Page(key, lua.OrderOldest, 0, 0).Do(ctx, i.driver)
		if err != nil || size.Total == 0 {
			return nil, err
		}
		at.Most = size.Total
	case home.sorted() && at.To == "":
		last, err := i.keys.Page(key, lua.OrderHighest, 0, 1).Do(ctx, i.driver)
		if err != nil || len(last.Entries) == 0 {
			return nil, err
		}
		// It ends at the current highest score: a retried job that fails again comes back with a higher one.
		at.From, at.To = "-inf", last.Entries[0].Score
	}
	if home.sorted() {
		return &setPager{i: i, key: key, at: at}, nil
	}
	return &listPager{i: i, key: key, at: at}, nil
}

type setPager struct {
	i    *Inspector
	key  string
	at   position
	walk lua.Cursor // empty before the first page
}

func (p *setPager) next(ctx context.Context) ([]lua.Entry, error) {
	begins := p.walk.To == ""
	p.walk.From, p.walk.To = p.at.From, p.at.To
	if begins && p.at.Left > 0 {
		return p.again(ctx)
	}
	return p.i.keys.PageAfter(p.key, p.walk).Do(ctx, p.i.driver)
}

// again reads the first page after a cursor, which does not have the bytes of the entry before it. If entries
// with that score have left since then, the same number of other entries with that score is skipped.
func (p *setPager) again(ctx context.Context) ([]lua.Entry, error) {
	reply := p.i.driver.Do(ctx, driver.Command("ZCOUNT", p.key, "-inf", "("+p.at.From))[0]
	if reply.Err != nil {
		return nil, reply.Err
	}
	below, _ := reply.Value.(int64)
	page, err := p.i.keys.Page(p.key, lua.OrderLowest, int(below)+p.at.Left, lua.MostItems).Do(ctx, p.i.driver)
	last, _ := strconv.ParseFloat(p.at.To, 64)
	return slices.DeleteFunc(page.Entries, func(e lua.Entry) bool {
		score, _ := strconv.ParseFloat(e.Score, 64)
		return score > last
	}), err
}

func (p *setPager) passed(entry lua.Entry, stays bool) {
	if entry.Score != p.at.From {
		p.at.From, p.at.Left = entry.Score, 0
	}
	if stays {
		p.at.Left++
	}
	p.walk.Passed(entry, stays)
}

func (p *setPager) position() position { return p.at }

// A listPager reads a list from its oldest entry. Workers take from that end too, so the entries that stayed
// move towards it, and the last of them is the mark after which the pager continues.
type listPager struct {
	i   *Inspector
	key string
	at  position
}

func (p *listPager) next(ctx context.Context) ([]lua.Entry, error) {
	page, err := p.behindMark(ctx)
	return page[:min(len(page), p.at.Most-p.at.Seen)], err
}

func (p *listPager) behindMark(ctx context.Context) ([]lua.Entry, error) {
	for skip := max(p.at.Left-1, 0); p.at.Seen < p.at.Most; skip = max(skip-(lua.MostItems-1), 0) {
		page, err := p.page(ctx, skip)
		if err != nil || p.at.Left == 0 {
			return page, err
		}
		mark := slices.IndexFunc(page, func(e lua.Entry) bool { return unreadableID(e.Bytes) == p.at.Mark })
		switch {
		case mark >= 0:
			p.at.Left = skip + mark + 1
			if rest := page[mark+1:]; len(rest) > 0 {
				return rest, nil
			}
			return p.page(ctx, p.at.Left)
		case skip == 0: // the mark was taken, and all entries before it
			p.at.Left = 0
			return page, nil
		}
	}
	return nil, nil
}

func (p *listPager) page(ctx context.Context, skip int) ([]lua.Entry, error) {
	page, err := p.i.keys.Page(p.key, lua.OrderOldest, skip, lua.MostItems).Do(ctx, p.i.driver)
	return page.Entries, err
}

func (p *listPager) passed(entry lua.Entry, stays bool) {
	p.at.Seen++
	if stays {
		p.at.Left++
		p.at.Mark = unreadableID(entry.Bytes)
	}
}

func (p *listPager) position() position { return p.at }

// cursorOf returns a text for URLs and command lines that readCursor reads.
func cursorOf(at any) string {
	text, _ := json.Marshal(at) // of plain fields
	return base64.RawURLEncoding.EncodeToString(text)
}

func readCursor(cursor string, at any) error {
	if cursor == "" {
		return nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || json.Unmarshal(text, at) != nil {
		return errors.New("the cursor belongs to another request")
	}
	return nil
}

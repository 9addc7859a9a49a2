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

// A way reads the entries of a home a page at a time: the next job to run first, or the job that died first.
// Entries come and go meanwhile, and its caller may remove some. It covers the entries that were there when it
// began.
type way interface {
	// next reads the next page; an empty page is the end.
	next(ctx context.Context) ([]lua.Entry, error)
	// passed records whether the next entry of the last page stayed where it was.
	passed(entry lua.Entry, stays bool)
	// position is where the way would continue.
	position() position
}

// A position is a place on a way, small enough for a cursor: payloads may have two megabytes.
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

// way returns the way through a home from a position; the zero position is its beginning. It returns nil if
// the home is empty.
func (i *Inspector) way(ctx context.Context, home Home, key string, at position) (way, error) {
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
		return &setWay{i: i, key: key, at: at}, nil
	}
	return &listWay{i: i, key: key, at: at}, nil
}

type setWay struct {
	i    *Inspector
	key  string
	at   position
	walk lua.Cursor // empty before the first page
}

func (w *setWay) next(ctx context.Context) ([]lua.Entry, error) {
	begins := w.walk.To == ""
	w.walk.From, w.walk.To = w.at.From, w.at.To
	if begins && w.at.Left > 0 {
		return w.again(ctx)
	}
	return w.i.keys.PageAfter(w.key, w.walk).Do(ctx, w.i.driver)
}

// again reads the first page after a cursor, which does not have the bytes of the entry before it. If entries
// with that score have left since then, the same number of other entries with that score is skipped.
func (w *setWay) again(ctx context.Context) ([]lua.Entry, error) {
	reply := w.i.driver.Do(ctx, driver.Command("ZCOUNT", w.key, "-inf", "("+w.at.From))[0]
	if reply.Err != nil {
		return nil, reply.Err
	}
	below, _ := reply.Value.(int64)
	page, err := w.i.keys.Page(w.key, lua.OrderLowest, int(below)+w.at.Left, lua.MostItems).Do(ctx, w.i.driver)
	last, _ := strconv.ParseFloat(w.at.To, 64)
	return slices.DeleteFunc(page.Entries, func(e lua.Entry) bool {
		score, _ := strconv.ParseFloat(e.Score, 64)
		return score > last
	}), err
}

func (w *setWay) passed(entry lua.Entry, stays bool) {
	if entry.Score != w.at.From {
		w.at.From, w.at.Left = entry.Score, 0
	}
	if stays {
		w.at.Left++
	}
	w.walk.Passed(entry, stays)
}

func (w *setWay) position() position { return w.at }

// A listWay reads a list from its oldest entry. Workers take from that end too, so the entries that stayed
// move towards it, and the last of them is the mark after which the way continues.
type listWay struct {
	i   *Inspector
	key string
	at  position
}

func (w *listWay) next(ctx context.Context) ([]lua.Entry, error) {
	page, err := w.behindMark(ctx)
	return page[:min(len(page), w.at.Most-w.at.Seen)], err
}

func (w *listWay) behindMark(ctx context.Context) ([]lua.Entry, error) {
	for skip := max(w.at.Left-1, 0); w.at.Seen < w.at.Most; skip = max(skip-(lua.MostItems-1), 0) {
		page, err := w.page(ctx, skip)
		if err != nil || w.at.Left == 0 {
			return page, err
		}
		mark := slices.IndexFunc(page, func(e lua.Entry) bool { return unreadableID(e.Bytes) == w.at.Mark })
		switch {
		case mark >= 0:
			w.at.Left = skip + mark + 1
			if rest := page[mark+1:]; len(rest) > 0 {
				return rest, nil
			}
			return w.page(ctx, w.at.Left)
		case skip == 0: // the mark was taken, and all entries before it
			w.at.Left = 0
			return page, nil
		}
	}
	return nil, nil
}

func (w *listWay) page(ctx context.Context, skip int) ([]lua.Entry, error) {
	page, err := w.i.keys.Page(w.key, lua.OrderOldest, skip, lua.MostItems).Do(ctx, w.i.driver)
	return page.Entries, err
}

func (w *listWay) passed(entry lua.Entry, stays bool) {
	w.at.Seen++
	if stays {
		w.at.Left++
		w.at.Mark = unreadableID(entry.Bytes)
	}
}

func (w *listWay) position() position { return w.at }

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

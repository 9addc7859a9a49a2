package lua

import (
	"cmp"
	"strconv"
)

var pageAfterScript = load("page_after")

// A Cursor is the position of a reader who goes through a sorted set from its lowest score to its highest.
type Cursor struct {
	// From and To are the first and the last score, as Redis writes them; "-inf" and "+inf" are allowed.
	From, To string
	// Left are the bytes of the last entry seen that was left in place; Leaves is true if there is one.
	Left   string
	Leaves bool
	// Room is how many bytes a page may have; its last entry may exceed it by its own size. Default: MaxBytes,
	// which is also the maximum.
	Room int
}

// Passed records an entry of the last page, and whether it was left in the set.
func (c *Cursor) Passed(entry Entry, left bool) {
	c.From = entry.Score
	if left {
		c.Left, c.Leaves = entry.Bytes, true
	}
}

// PageAfter reads the page after a cursor; it returns no entries at the end. A reader of all pages gets each
// entry once that is in the set from the first page to the last with an unchanged score, unless the last
// entry that the cursor left in the set is removed meanwhile. A page has as many entries as a Page at most.
func (k Keys) PageAfter(set string, cursor Cursor) Ask[[]Entry] {
	return k.pageAfter(set, cursor, MaxItems, nil)
}

// SeekAfter is PageAfter as Seek is Page: it leaves out entries that are not jobs with one of these jids.
func (k Keys) SeekAfter(set string, cursor Cursor, jids []string) Ask[[]Entry] {
	return k.pageAfter(set, cursor, MaxSought, jids)
}

func (k Keys) pageAfter(set string, cursor Cursor, limit int, jids []string) Ask[[]Entry] {
	args := []string{
		cursor.From, cursor.To, strconv.Itoa(limit), strconv.Itoa(min(cmp.Or(cursor.Room, MaxBytes), MaxBytes)), bit(cursor.Leaves), cursor.Left,
	}
	return asking(pageAfterScript, []string{set}, append(args, jids...), func(r reader) ([]Entry, error) {
		return r.entries(true, len(jids) > 0), r.end()
	})
}

package lua

import (
	"slices"
	"strconv"
	"strings"

	"github.com/belayq/belay/driver"
)

var pageScript = load("page")

// An Order defines which entries of a list or a sorted set come first.
type Order string

// The orders: the first two are of lists, the others of sorted sets.
const (
	OrderOldest   Order = "oldest"   // the next one to run first
	OrderYoungest Order = "youngest" // the latest one first
	OrderLowest   Order = "lowest"
	OrderHighest  Order = "highest"
)

// An Entry is one member of a list or a sorted set.
type Entry struct {
	Bytes string
	// Score is as Redis writes it, which loses nothing; empty in a list.
	Score string
	// LeftOut is how many entries a search by jid has left out just before this one.
	LeftOut int
}

// A Page is a part of the entries of a list or a set.
type Page struct {
	// Total is how many there are in all.
	Total   int
	Entries []Entry
}

// Page reads entries of a list or a sorted set in this order, without the first skip of them: at most limit
// entries, never more than MaxItems, and room bytes, at most MaxBytes, which the last entry may exceed by its
// own size. Entries come and go between two pages, so a reader of several pages may get one twice or miss one.
func (k Keys) Page(key string, order Order, skip, limit, room int) Ask[Page] {
	scored := order == OrderLowest || order == OrderHighest
	return asking(pageScript, []string{key},
		[]string{string(order), strconv.Itoa(skip), strconv.Itoa(min(limit, MaxItems)), strconv.Itoa(min(room, MaxBytes))},
		func(r reader) (Page, error) {
			return Page{Total: r.number(), Entries: r.entries(scored, false)}, r.end()
		})
}

// MaxSought is how many entries one search by jid looks at. Redis reads and compares one in one or two
// microseconds, so this is about three milliseconds.
const MaxSought = 2048

// Seekable reports whether these jids can be sought: no program writes one of their characters as an escape.
func Seekable(jids []string) bool {
	return len(jids) > 0 && !slices.ContainsFunc(jids, func(jid string) bool {
		return jid == "" || strings.ContainsFunc(jid, func(r rune) bool {
			return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_.:", r))
		})
	})
}

// Seek reads entries of a list, oldest first, without the first skip of them, and leaves out those that are not
// jobs with one of these jids, which are Seekable. The first and the last that it looks at are in the page, and
// so are the entry before each job, and kept, unless that is empty. It looks at MaxSought entries at most, and
// at room bytes as Page does.
func (k Keys) Seek(key string, skip int, kept string, jids []string, room int) Ask[Page] {
	args := []string{string(OrderOldest), strconv.Itoa(skip), strconv.Itoa(MaxSought), strconv.Itoa(min(room, MaxBytes)), kept}
	return asking(pageScript, []string{key}, append(args, jids...), func(r reader) (Page, error) {
		return Page{Total: r.number(), Entries: r.entries(false, true)}, r.end()
	})
}

// entries reads entries, each followed by its score where it has one, and in a search by how many were left
// out.
func (r *reader) entries(scored, sought bool) []Entry {
	entries := []Entry{}
	for r.more() {
		entry := Entry{Bytes: r.text()}
		if scored {
			entry.Score = r.text()
		}
		if sought {
			entry.LeftOut = r.number()
		}
		entries = append(entries, entry)
	}
	return entries
}

// Names is a page of a set of names.
type Names struct {
	// Names are in no order.
	Names []string
	// Next is where the page after it begins; LastPage if there is none.
	Next string
}

const (
	// FirstPage is where NamePage begins to read a set.
	FirstPage = "0"
	// LastPage is the Next of the last page.
	LastPage = "0"
)

// NamePage reads the next names of a set, from the Next of the page before on. A name that is in the set all
// the while is on one of the pages, or on several.
func NamePage(set, from string) Ask[Names] {
	return Ask[Names]{Call: driver.Command("SSCAN", set, from, "COUNT", strconv.Itoa(MaxItems)),
		read: func(r reader) (Names, error) {
			page := Names{Next: r.text(), Names: r.innerTexts()}
			return page, r.end()
		}}
}

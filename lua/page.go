package lua

import "strconv"

var pageScript = load("page")

// An Order defines which entries of a list or a sorted set come first.
type Order string

// The orders: the first two are of lists, the others of sorted sets.
const (
	OrderOldest   Order = "oldest"   // the next one to run first
	OrderYoungest Order = "youngest" // the latest one first
	OrderLowest   Order = "lowest"
	OrderHighest  Order = "highest"
	OrderAt       Order = "at" // no order, but a place in a list: see Source
)

// An Entry is one member of a list or a sorted set.
type Entry struct {
	Bytes string
	// Score is as Redis writes it, which loses nothing; empty in a list.
	Score string
}

// A Page is a part of the entries of a list or a set.
type Page struct {
	// Total is how many there are in all.
	Total   int
	Entries []Entry
}

// Page reads entries of a list or a sorted set in this order, without the first skip of them: at most most
// entries, never more than MostItems, and MostBytes, which the last entry may exceed by its own size.
// Entries come and go between two pages, so a reader of several pages may get one twice or miss one.
func (k Keys) Page(key string, order Order, skip, most int) Ask[Page] {
	scored := order == OrderLowest || order == OrderHighest
	return asking(pageScript, []string{key},
		[]string{string(order), strconv.Itoa(skip), strconv.Itoa(min(most, MostItems)), strconv.Itoa(MostBytes)},
		func(r reader) (Page, error) { return Page{Total: r.number(), Entries: r.entries(scored)}, r.end() })
}

// entries reads entries, each followed by its score where it has one.
func (r *reader) entries(scored bool) []Entry {
	entries := []Entry{}
	for r.more() {
		entry := Entry{Bytes: r.text()}
		if scored {
			entry.Score = r.text()
		}
		entries = append(entries, entry)
	}
	return entries
}

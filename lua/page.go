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
)

// An Entry is one member of a list or a sorted set.
type Entry struct {
	Bytes string
	// Score is as Redis writes it, which loses nothing; empty in a list.
	Score string
}

// A Page is some entries out of many.
type Page struct {
	// Total is how many there are in all.
	Total   int
	Entries []Entry
}

// Page reads entries of a list or a sorted set, without the first skip of them in this order: at most most
// of them and never more than MostItems, and MostBytes, which the last one may exceed by its own size.
// Between two pages entries come and go, so a reader who goes on may see one twice or miss one.
func (k Keys) Page(key string, order Order, skip, most int) Ask[Page] {
	scored := order == OrderLowest || order == OrderHighest
	return asking(pageScript, []string{key},
		[]string{string(order), strconv.Itoa(skip), strconv.Itoa(min(most, MostItems)), strconv.Itoa(MostBytes)},
		func(value any) (page Page, err error) {
			parts, ok := value.([]any)
			if !ok || len(parts) == 0 {
				return page, errShape(value)
			}
			if page.Total, err = numberOf(parts[0]); err != nil {
				return page, err
			}
			page.Entries, err = entriesOf(parts[1:], scored)
			return page, err
		})
}

// entriesOf reads entries, each followed by its score where it has one.
func entriesOf(value any, scored bool) ([]Entry, error) {
	texts, err := textsOf(value)
	if err != nil {
		return nil, err
	}
	entries := []Entry{}
	for ; len(texts) > 0; texts = texts[1:] {
		entry := Entry{Bytes: texts[0]}
		if scored && len(texts) == 1 {
			return nil, errShape(value)
		}
		if scored {
			texts = texts[1:]
			entry.Score = texts[0]
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

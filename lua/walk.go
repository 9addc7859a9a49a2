package lua

import "strconv"

var walkScript = load("walk")

// A Walk is the position of a walk through a sorted set from its lowest score to its highest.
type Walk struct {
	// From and To are the first and the last score, as Redis writes them; "-inf" and "+inf" are allowed.
	From, To string
	// Left are the bytes of the last entry seen that was left in place; Leaves is true if there is one.
	Left   string
	Leaves bool
}

// Passed notes an entry of the last page that was left in the set, or not.
func (w *Walk) Passed(entry Entry, left bool) {
	w.From = entry.Score
	if left {
		w.Left, w.Leaves = entry.Bytes, true
	}
}

// Walk reads the next page of a walk; no entries at its end. Every entry that lies in the set from its first
// page to its last, and whose score does not change, is seen, and once, unless the entry the walk has left
// last is taken away meanwhile. Entries are as many as a Page has at most.
func (k Keys) Walk(set string, walk Walk) Ask[[]Entry] {
	args := []string{walk.From, walk.To, strconv.Itoa(MostItems), strconv.Itoa(MostBytes)}
	if walk.Leaves {
		args = append(args, walk.Left)
	}
	return asking(walkScript, []string{set}, args, func(value any) ([]Entry, error) { return entriesOf(value, true) })
}

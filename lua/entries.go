package lua

import "strconv"

var entriesScript = load("entries")

// Listed is a page of a working list or the list of a quarantined job.
type Listed struct {
	// Entries are the jobs, newest first.
	Entries []string
	// Large are the entries among them that are too large for the reply; At is their index.
	Large []Large
}

// Entries reads a page of a working list or the list of a quarantined job from index first on, newest entry
// first: at most MaxItems, and page bytes, which the last entry may exceed by its own size. For entries
// larger than largest bytes it returns only what KillLarge needs.
func (k Keys) Entries(list string, first, page, largest int) Ask[Listed] {
	return asking(entriesScript, []string{list},
		[]string{strconv.Itoa(first), strconv.Itoa(MaxItems), strconv.Itoa(min(page, MaxBytes)), strconv.Itoa(largest)}, readListed)
}

func readListed(r reader) (listed Listed, err error) {
	listed.Large = r.large()
	listed.Entries = r.texts()
	return listed, r.end()
}

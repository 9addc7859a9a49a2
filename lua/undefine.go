package lua

import "strconv"

var undefineScript = load("undefine")

// What Undefine did.
const (
	UndefineRemoved    = "removed"
	UndefineUnknown    = "unknown"
	UndefineRegistered = "registered"
)

// Undefine removes a periodic job, unless a live process has it in its code, and returns what it did.
func (k Keys) Undefine(name string) Ask[string] { return k.undefine(name, "") }

// UndefineOrphan removes a periodic job that no process has registered since the fleet's uptime was seen.
func (k Keys) UndefineOrphan(name string, seen int64) Ask[string] {
	return k.undefine(name, strconv.FormatInt(seen, 10))
}

func (k Keys) undefine(name, seen string) Ask[string] {
	keys := []string{k.Periodic(), k.PeriodicDefinitions(), k.PeriodicLast(), k.PeriodicSeen(), k.Alive(), k.PeriodicRuns(name)}
	return asking(undefineScript, keys, []string{name, seen}, readText)
}

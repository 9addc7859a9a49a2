package lua

import "strconv"

var freeLeasesScript = load("free_leases")

// FreeLeases frees slots that were held for callers that did not renew them, at most MaxItems. It returns how
// many it has freed.
func (k Keys) FreeLeases() Ask[int] {
	return asking(freeLeasesScript, []string{k.Leases(), k.Gates(), k.Waiting()}, []string{strconv.Itoa(MaxItems), millis(HoldLease)}, readNumber)
}

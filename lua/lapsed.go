package lua

import "strconv"

var lapsedScript = load("lapsed")

// Lapsed reads a page of the lapsed identities and skips the first ones: at most MaxItems, and fewer only at
// the end. A reader of consecutive pages may miss identities that move up when others before them are
// recovered.
func (k Keys) Lapsed(first int) Ask[[]string] {
	return asking(lapsedScript, []string{k.Alive()}, []string{strconv.Itoa(first), strconv.Itoa(MaxItems)}, readTexts)
}

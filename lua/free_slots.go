package lua

import "strconv"

var freeSlotsScript = load("free_slots")

// FreeSlots frees the slots that are left in the ledger of a process whose lists are empty, at most MaxItems: a
// janitor that does not know slots has recovered it, or two of its jobs were equal in every byte. It returns
// how many it has freed: none of a process that lives, or whose lists are not empty.
func (k Keys) FreeSlots(identity string, queues []string) Ask[int] {
	keys := append([]string{k.Tombstones(), k.Gates(), k.Waiting(), k.Slots(identity)}, k.ListsOf(queues, identity)...)
	return asking(freeSlotsScript, keys, []string{identity, strconv.Itoa(MaxItems)}, readNumber)
}

package lua

import (
	"strconv"

	"github.com/belayq/belay/driver"
)

var gateCountScript = load("gate_count")

// MaxCounted is how many slots and admissions one CountGates compares with counts: a few milliseconds of Redis.
const MaxCounted = 16 << 10

// A GateCount compares the counts of a gate with what there is.
type GateCount struct {
	// Running is the count of runs with a slot, and Slots how many slots the ledgers of processes have.
	Running, Slots int
	// Admitted is the count of jobs that are admitted and have not started, and Admissions how many there are.
	Admitted, Admissions int
	// Waiters is the length of the waiting list. Indexed is set if the poller looks at the gate.
	Waiters int
	Indexed bool
}

// Right reports whether the counts are what there is, and the poller looks at the gate if it has waiters.
func (c GateCount) Right() bool {
	return c.Running == c.Slots && c.Admitted == c.Admissions && c.Indexed == (c.Waiters > 0)
}

// CountGates compares the counts of some gates, at most MaxItems, with the slots of these processes and the
// admissions. With set it also sets the counts to these. It returns nil, and does nothing, if there are more of
// them than MaxCounted.
func (k Keys) CountGates(gates, identities []string, set bool) Ask[[]GateCount] {
	keys, act := []string{k.Gates(), k.Admitted(), k.Waiting()}, "look"
	for _, gate := range gates {
		keys = append(keys, k.WaitingList(gate))
	}
	for _, identity := range identities {
		keys = append(keys, k.Slots(identity))
	}
	if set {
		act = "set"
	}
	args := append([]string{act, strconv.Itoa(MaxCounted)}, gates...)
	return asking(gateCountScript, keys, args, func(r reader) (counts []GateCount, err error) {
		for r.more() {
			counts = append(counts, GateCount{
				Running: r.number(), Slots: r.number(), Admitted: r.number(), Admissions: r.number(), Waiters: r.number(), Indexed: r.number() == 1,
			})
		}
		return counts, r.end()
	})
}

// Fields is a page of a hash: its fields and their values in turn, and where the page after it begins.
type Fields struct {
	Pairs []string
	Next  string
}

// FieldPage is NamePage for a hash.
func FieldPage(hash, from string) Ask[Fields] {
	return Ask[Fields]{
		Call: driver.Command("HSCAN", hash, from, "COUNT", strconv.Itoa(MaxItems)),
		read: func(r reader) (Fields, error) {
			page := Fields{Next: r.text(), Pairs: r.innerTexts()}
			return page, r.end()
		},
	}
}

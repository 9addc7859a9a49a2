package lua

import (
	"slices"
	"strconv"

	"github.com/belayq/belay/driver"
)

var gateCountScript = load("gate_count")

// MaxCounted is how many slots, leases and admissions one CountGates compares with counts: a few milliseconds
// of Redis.
const MaxCounted = 16 << 10

// A GateCount compares the counts of a gate with what there is.
type GateCount struct {
	// Running is the count of runs with a slot, and Slots how many slots there are, those of leases among them.
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

// A CountWord says whether gates were counted.
type CountWord string

// The results of CountGates. Nothing was changed by the last two.
const (
	CountCounted CountWord = "counted"
	CountMany    CountWord = "many"    // there are more slots, leases and admissions than MaxCounted
	CountStarted CountWord = "started" // a process lives whose identity was not given
)

// GateCounts is the result of CountGates: with CountCounted a count for each gate.
type GateCounts struct {
	Word  CountWord
	Gates []GateCount
}

// CountGates compares the counts of some gates, at most MaxItems, with the slots of these processes, the leases
// and the admissions. With set it also sets the counts to these.
func (k Keys) CountGates(gates, identities []string, set bool) Ask[GateCounts] {
	keys, act := []string{k.Gates(), k.Admitted(), k.Waiting(), k.Leases(), k.Alive()}, "look"
	for _, gate := range gates {
		keys = append(keys, k.WaitingList(gate))
	}
	for _, identity := range identities {
		keys = append(keys, k.Slots(identity))
	}
	if set {
		act = "set"
	}
	args := slices.Concat([]string{act, strconv.Itoa(MaxCounted), strconv.Itoa(len(gates))}, gates, identities)
	return asking(gateCountScript, keys, args, func(r reader) (counts GateCounts, err error) {
		counts.Word = CountWord(r.text())
		for r.more() {
			counts.Gates = append(counts.Gates, GateCount{
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

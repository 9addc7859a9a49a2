package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// A GateCheck is a gate whose counts are wrong: of its runs and admitted jobs, which limit its starts, or of
// its waiting jobs.
type GateCheck struct {
	Gate string `json:"gate"`
	// Running is its count of runs, and Slots how many runs of processes and callers of belay.Do have a slot.
	// Admitted is its count of jobs that may start and have not, and Admissions how many there are.
	Running    int `json:"running"`
	Slots      int `json:"slots"`
	Admitted   int `json:"admitted"`
	Admissions int `json:"admissions"`
	// Waiting is how many jobs wait. Indexed is set if workers look at the gate; they look at those with
	// waiting jobs, and at no others.
	Waiting int  `json:"waiting"`
	Indexed bool `json:"indexed"`
}

// A LimitCheck is what CheckLimits has found.
type LimitCheck struct {
	// Looked is how many gates were looked at.
	Looked int `json:"looked"`
	// Wrong are the gates whose counts are wrong, at most 1,000 of them.
	Wrong []GateCheck `json:"wrong"`
	// Problems describes what could not be read, at most 20.
	Problems []string `json:"problems,omitempty"`
}

// ErrManySlots is the error of CheckLimits and ResetGate if there are more slots, admissions or processes than
// can be compared at one instant.
var ErrManySlots = errors.New("there are too many runs or processes to compare their slots at one instant")

// CheckLimits compares the counts of all gates with the slots that processes hold, and with the admissions.
// They are equal at any instant, unless Redis has evicted keys or another program has changed them.
func (i *Inspector) CheckLimits(ctx context.Context) (LimitCheck, error) {
	var r reading
	check := LimitCheck{Wrong: []GateCheck{}}
	names := make(map[string]bool)
	counts, err := i.fields(ctx, &r, "the counts of gates", i.keys.Gates())
	if err != nil {
		return check, err
	}
	for field := range counts {
		name, _, _ := strings.Cut(field, "\n")
		names[name] = true
	}
	marks, err := i.fields(ctx, &r, "the admissions", i.keys.Admitted())
	if err != nil {
		return check, err
	}
	for _, mark := range marks {
		if parts := strings.SplitN(mark, "\n", 3); len(parts) == 3 {
			names[parts[1]] = true
		}
	}
	identities, err := i.ledgers(ctx)
	if err != nil {
		return check, err
	}
	for _, slots := range i.slots(ctx, &r, identities) {
		for _, name := range slots {
			names[name] = true
		}
	}
	leases, err := i.leases(ctx)
	if err != nil {
		return check, err
	}
	for _, lease := range leases {
		names[lease.Gate] = true
	}
	waiting, err := i.waitingGates(ctx)
	if err = cmp.Or(err, r.err); err != nil {
		return check, err
	}
	for _, name := range waiting {
		names[name] = true
	}
	check.Looked, check.Problems = len(names), r.problems
	counter := gateCounter{i, identities}
	for page := range slices.Chunk(slices.Sorted(maps.Keys(names)), lua.MaxItems) {
		counts, err := counter.count(ctx, page, false)
		if err != nil {
			return check, err
		}
		for n, count := range counts {
			if !count.Right() && len(check.Wrong) < maxShown {
				check.Wrong = append(check.Wrong, gateCheckOf(page[n], count))
			}
		}
	}
	return check, nil
}

// ResetGate sets the counts of a gate to the slots and admissions that there are, and returns what they were.
func (i *Inspector) ResetGate(ctx context.Context, gate string) (GateCheck, error) {
	return i.countGate(ctx, gate, true)
}

// CheckGate compares the counts of one gate, as CheckLimits does those of all.
func (i *Inspector) CheckGate(ctx context.Context, gate string) (GateCheck, error) {
	return i.countGate(ctx, gate, false)
}

func (i *Inspector) countGate(ctx context.Context, gate string, set bool) (GateCheck, error) {
	identities, err := i.ledgers(ctx)
	if err != nil {
		return GateCheck{}, err
	}
	counter := gateCounter{i, identities}
	counts, err := counter.count(ctx, []string{gate}, set)
	if err != nil {
		return GateCheck{}, err
	}
	return gateCheckOf(gate, counts[0]), nil
}

func gateCheckOf(gate string, c lua.GateCount) GateCheck {
	return GateCheck{
		Gate: gate, Running: c.Running, Slots: c.Slots, Admitted: c.Admitted, Admissions: c.Admissions, Waiting: c.Waiters, Indexed: c.Indexed,
	}
}

// A gateCounter counts the slots of gates. identities are the processes that may hold any; it reads them again
// if another process has started since.
type gateCounter struct {
	*Inspector
	identities []string
}

// countTries is how often it counts, as long as another process starts meanwhile.
const countTries = 5

func (c *gateCounter) count(ctx context.Context, gates []string, set bool) ([]lua.GateCount, error) {
	for range countTries {
		counts, err := c.keys.CountGates(gates, c.identities, set).Do(ctx, c.driver)
		switch {
		case err != nil:
			return nil, fmt.Errorf("compare the counts of gates: %w", err)
		case counts.Word == lua.CountMany:
			return nil, ErrManySlots
		case counts.Word == lua.CountCounted:
			return counts.Gates, nil
		}
		if c.identities, err = c.ledgers(ctx); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("compare the counts of gates: processes start all the time; try again")
}

// ledgers returns the processes that may hold slots: the living, and dead ones whose slots are not free yet.
func (i *Inspector) ledgers(ctx context.Context) (identities []string, err error) {
	// The living come first: one that is declared dead meanwhile is then among the dead.
	alive, err := i.ranked(ctx, i.keys.Alive())
	if err != nil {
		return nil, fmt.Errorf("read the processes: %w", err)
	}
	dead, err := i.ranked(ctx, i.keys.Tombstones())
	if err != nil {
		return nil, fmt.Errorf("read the processes: %w", err)
	}
	for page := range slices.Chunk(dead, lua.MaxItems) {
		calls := make([]driver.Call, len(page))
		for n, identity := range page {
			calls[n] = driver.Command("EXISTS", i.keys.Slots(identity))
		}
		for n, reply := range i.do(ctx, calls) {
			if reply.Err != nil {
				return nil, fmt.Errorf("read the slots of %s: %w", page[n], reply.Err)
			}
			if reply.Value == int64(1) {
				identities = append(identities, page[n])
			}
		}
	}
	if identities = sorted(append(identities, alive...)); len(identities) > maxLedgers {
		return nil, ErrManySlots
	}
	return identities, nil
}

// maxLedgers bounds the processes whose slots are compared at one instant.
const maxLedgers = 4 * lua.MaxItems

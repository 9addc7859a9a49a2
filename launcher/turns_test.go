package launcher

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/lua"
)

// More queues match than a process takes: each has its turn, and no record ever names too many. A queue that was given
// by its name keeps its place, and one that cannot leave, because its job runs on, has it again at the next turn.
func TestEachMatchingQueueHasItsTurn(t *testing.T) {
	t.Parallel()
	capsules := []Capsule{
		{Name: "a", Concurrency: 1, Queues: []fetch.Queue{{Name: "given"}, {Name: "tenant-*"}}}, {Name: "b", Concurrency: 1, Queues: []fetch.Queue{{Name: "b-*"}}},
	}
	shares, err := newShares(capsules)
	require.NoError(t, err)
	s := newQueueSet(capsules, shares, 1)
	of := s.of[0]
	s.begin()
	const tenants, slow = 200, "tenant-000"
	seen := map[string]bool{"b-1": true}
	for n := range tenants {
		seen[fmt.Sprintf("tenant-%03d", n)] = true
	}
	of.find(seen, nil)
	waited, most := map[string]int{}, 0
	const turns = 25
	for range turns {
		orders, named, _ := of.toServe()
		of.confirm()
		taken := namesOf(orders)
		require.Contains(t, taken, "given")
		require.LessOrEqual(t, len(named), lua.MaxQueues)
		require.Equal(t, 1+tenants+1, len(taken)+s.leftOut()+len(s.yielding), "each is counted once")
		for name := range seen {
			if waited[name]++; slices.Contains(taken, name) {
				waited[name] = 0
			}
			most = max(most, waited[name])
		}
		// The duty drops those that are not taken any more, except one whose job runs on.
		for _, name := range named {
			if !slices.Contains(taken, name) && name != slow {
				of.drop(name)
			}
		}
		s.turn()
	}
	require.LessOrEqual(t, most, 2*tenants/maxTurned, "turns that a queue waits at most")
	require.Less(t, most, turns, "none waits for ever")

	of.find(nil, slices.Collect(func(yield func(string) bool) {
		for n := range tenants {
			if n >= 100 && !yield(fmt.Sprintf("tenant-%03d", n)) {
				return
			}
		}
	}))
	for range 3 { // there is room for all now
		_, named, _ := of.toServe()
		for _, name := range named {
			if !slices.Contains(namesOf(s.orders()), name) {
				of.drop(name)
			}
		}
		s.turn()
	}
	require.Len(t, namesOf(s.orders()), 1+100+1)
	require.Empty(t, s.yielding)
	require.LessOrEqual(t, len(s.turned), 1+100+1)
}

package client

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func shardsNamed(names ...string) (shards []shardRule) {
	for _, name := range names {
		shards = append(shards, shardRule{name: name})
	}
	return shards
}

func placementOf(t *testing.T, shards ...shardRule) *placement {
	t.Helper()
	p, err := newPlacement(shards)
	require.NoError(t, err)
	return p
}

// placed returns the name of the shard of a job with these bound keys.
func placed(t *testing.T, p *placement, keys ...boundKey) string {
	t.Helper()
	if len(keys) == 0 {
		return p.shards[p.next(nil)].name
	}
	shard, err := p.place(keys...)
	require.NoError(t, err)
	return p.shards[shard].name
}

func TestPlainJobsGoToTheOpenShardsInTurn(t *testing.T) {
	t.Parallel()
	p := placementOf(t, shardRule{name: "a"}, shardRule{name: "b", closed: true}, shardRule{name: "c"}, shardRule{name: "d", unbound: true})
	counts := make(map[string]int)
	last := ""
	for range 300 {
		name := placed(t, p)
		require.NotEqual(t, last, name)
		last = name
		counts[name]++
	}
	require.Equal(t, map[string]int{"a": 100, "c": 100, "d": 100}, counts)

	starts := make(map[string]bool)
	for range 200 {
		starts[placed(t, placementOf(t, shardsNamed("a", "b")...))] = true
	}
	require.Len(t, starts, 2, "clients begin at different shards")
}

func TestBoundKeysHaveOneShard(t *testing.T) {
	t.Parallel()
	rules := shardsNamed("a", "b", "c", "d")
	rules = append(rules, shardRule{name: "e", unbound: true})
	rules[2].closed = true
	p := placementOf(t, rules...)
	counts := make(map[string]int)
	for i := range 4000 {
		key := boundKey{boundLock, fmt.Sprint("digest ", i)}
		name := placed(t, p, key)
		counts[name]++

		shuffled := append([]shardRule(nil), rules...)
		rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		require.Equal(t, name, placed(t, placementOf(t, shuffled...), key), "the order of the list does not matter")
		require.Equal(t, name, placed(t, placementOf(t, rules[:4]...), key), "nor do shards that take no bound keys")
		require.Equal(t, name, placed(t, p, boundKey{boundGate, key.text}), "a text is on one shard, whatever it names")
	}
	require.Zero(t, counts["e"])
	for _, name := range []string{"a", "b", "c", "d"} {
		require.InDelta(t, 1000, counts[name], 200, "%v", counts)
	}
}

// Adding a shard moves only the keys that go to it, and removing one only the keys that were on it.
func TestAnotherShardMovesOnlyItsOwnKeys(t *testing.T) {
	t.Parallel()
	few, more := placementOf(t, shardsNamed("a", "b", "c")...), placementOf(t, shardsNamed("a", "b", "c", "d")...)
	moved := 0
	for i := range 2000 {
		key := boundKey{boundGate, fmt.Sprint(i)}
		before, after := placed(t, few, key), placed(t, more, key)
		if before != after {
			require.Equal(t, "d", after)
			moved++
		}
	}
	require.InDelta(t, 500, moved, 150)
}

// These are what other programs and later versions must compute too: a change would make two versions of one
// program disagree about where a lock is.
func TestThePlaceOfAKeyNeverChanges(t *testing.T) {
	t.Parallel()
	p := placementOf(t, shardsNamed("0", "1", "2", "3")...)
	got := make([]string, 12)
	for i := range got {
		got[i] = placed(t, p, boundKey{boundLock, fmt.Sprint("key-", i)})
	}
	require.Equal(t, []string{"2", "1", "0", "0", "3", "2", "3", "1", "2", "2", "1", "0"}, got)
}

func TestTwoBoundKeysOnDifferentShards(t *testing.T) {
	t.Parallel()
	p := placementOf(t, shardsNamed("a", "b", "c")...)
	lock := boundKey{boundLock, "digest"}
	home := placed(t, p, lock)
	var near, far boundKey // limits on the shard of the lock, and on another one
	for i := 0; near.text == "" || far.text == ""; i++ {
		gate := boundKey{boundGate, fmt.Sprint(i)}
		if placed(t, p, gate) == home {
			near = gate
		} else {
			far = gate
		}
	}
	require.Equal(t, home, placed(t, p, lock, near))
	_, err := p.place(lock, far)
	require.ErrorContains(t, err, "ShardKey")
	require.ErrorContains(t, err, fmt.Sprintf("%q", home))
	require.NotContains(t, err.Error(), "digest", "the text is not for the log")

	decides := boundKey{boundShard, "customer 42"}
	require.Equal(t, placed(t, p, boundKey{boundGate, "customer 42"}), placed(t, p, lock, far, decides))

	there := boundKey{boundBatch, home}
	require.Equal(t, home, placed(t, p, there, near))
	require.Equal(t, home, placed(t, p, near, there))
	_, err = p.place(far, there)
	require.ErrorContains(t, err, "its batch")
	for i := range 20 {
		decides := boundKey{boundShard, fmt.Sprint(i)}
		shard, err := p.place(lock, far, there, decides)
		if placed(t, p, decides) == home {
			require.NoError(t, err)
			require.Equal(t, home, p.shards[shard].name)
		} else {
			require.ErrorContains(t, err, "its batch")
		}
	}
	_, err = p.place(boundKey{boundBatch, "gone"})
	require.ErrorContains(t, err, `"gone", which this client does not have`)
}

func TestShardsThatNoClientCanHave(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "A", "a b", "a:b", "{a}", "ä", "a123456789012345678901234567890123"} {
		_, err := newPlacement(shardsNamed(name, "b"))
		require.ErrorContains(t, err, "1 to 32", name)
	}
	_, err := newPlacement(shardsNamed("a", "b", "a"))
	require.ErrorContains(t, err, "taken")
	_, err = newPlacement([]shardRule{{name: "a", closed: true}, {name: "b", closed: true}})
	require.ErrorContains(t, err, "every shard is closed")
	_, err = newPlacement([]shardRule{{name: "a", unbound: true}})
	require.ErrorContains(t, err, "every shard is unbound")
	_, err = newPlacement([]shardRule{{name: "A", closed: true, unbound: true}})
	require.ErrorContains(t, err, "1 to 32")
	require.ErrorContains(t, err, "closed", "all problems at once")
}

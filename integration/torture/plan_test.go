package main

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheSameSeedAndMinutesAreTheSamePlan(t *testing.T) {
	t.Parallel()
	digest := func(seed uint64, lasting time.Duration) string {
		_, digest := newPlan(seed, lasting, 0).describe()
		return digest
	}
	for _, lasting := range []time.Duration{18 * time.Second, 48 * time.Second, worth} {
		first, same, other, longer := digest(7, lasting), digest(7, lasting), digest(8, lasting), digest(7, lasting+20*time.Second)
		require.Equal(t, first, same)
		require.NotEqual(t, first, other)
		require.NotEqual(t, first, longer)
	}
}

// However long the parts take: these take no time at all, and no more is done for that.
func TestWhatIsPlannedIsDoneAndNothingElse(t *testing.T) {
	tort := stage(t, `echo "$2 $BELAY_SEED $BELAY_SWEEP$BELAY_STORM$BELAY_BATCHES$BELAY_CHAOS $BELAY_CHAOS_SETTINGS" >> ../steps
for name in TestCrashPoints TestRivals TestBatchesInAStorm TestChaos; do echo "--- PASS: $name (1.00s)"; done
`)
	for _, name := range []string{"BELAY_SWEEP", "BELAY_STORM", "BELAY_BATCHES", "BELAY_CHAOS", "BELAY_CHAOS_SETTINGS"} {
		t.Setenv(name, "")
	}
	tort.plan = newPlan(7, 10*time.Minute, 0)
	require.NoError(t, tort.perform(t.Context()))
	steps, err := os.ReadFile("steps")
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf(`^TestCrashPoints$ 7 2m0s%[1]s
^TestRivals$ 7 1m0s%[1]s
^TestBatchesInAStorm$ 7 1m0s%[1]s
^TestChaos$ 7 2m30s default
^TestChaos$ 8 2m5s fast
`, " "), string(steps))
}

// With shards all that is done is done over them.
func TestShardsAreAskedFor(t *testing.T) {
	tort := stage(t, `echo "$2 $BELAY_SHARDS" >> ../steps
for name in TestRivals TestBatchesInAStorm TestChaos; do echo "--- PASS: $name (1.00s)"; done
`)
	tort.plan = newPlan(7, 4*time.Minute, 3)
	require.NoError(t, tort.perform(t.Context()))
	steps, err := os.ReadFile("steps")
	require.NoError(t, err)
	require.Equal(t, "^TestRivals$ 3\n^TestBatchesInAStorm$ 3\n^TestChaos$ 3\n", string(steps))
	text, digest := tort.plan.describe()
	require.Contains(t, text, "over 3 shards\n")
	require.Contains(t, text, "left out: the sweep (its plays are of one keyspace)")
	_, without := newPlan(7, 4*time.Minute, 0).describe()
	require.NotEqual(t, without, digest)
}

func TestAPlanSaysWhatItHasNoTimeFor(t *testing.T) {
	t.Parallel()
	require.Empty(t, newPlan(7, 25*time.Minute, 0).leftOut())
	require.Len(t, newPlan(7, worth, 0).rounds, 1)
	require.Equal(t, []string{"rounds with default settings", "rounds with kills settings"}, newPlan(7, worth, 0).leftOut())
	short, _ := newPlan(7, worth-time.Second, 0).describe()
	require.Contains(t, short, "left out: the sweep and the storms")
	long, _ := newPlan(7, worth, 0).describe()
	require.Contains(t, long, "sweep: seed 7, 30s")
}

// The bound is the time, but for one round of the shortest kind.
func TestAPlanFitsIntoItsTime(t *testing.T) {
	t.Parallel()
	for lasting := time.Second; lasting < 6*time.Minute; lasting += 7 * time.Second {
		p := newPlan(7, lasting, 0)
		takes := p.sweep + 2*p.storm
		for _, r := range p.rounds {
			require.GreaterOrEqual(t, r.span, least)
			require.LessOrEqual(t, r.span, span)
			takes += r.span + overhead
		}
		require.LessOrEqual(t, takes, max(lasting, least+overhead), lasting)
	}
}

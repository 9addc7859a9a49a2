package chaosplan_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/integration/chaosplan"
	"github.com/belayq/belay/internal/drivertest/slowlink"
)

func TestTheSameSeedIsTheSamePlan(t *testing.T) {
	t.Parallel()
	for _, settings := range []chaosplan.Settings{chaosplan.Fast(20 * time.Second), chaosplan.Default(3 * time.Minute)} {
		first, same, other := chaosplan.New(7, settings), chaosplan.New(7, settings), chaosplan.New(8, settings)
		require.Equal(t, first, same)
		require.Equal(t, first.Digest(), same.Digest())
		require.NotEqual(t, first.Digest(), other.Digest())
	}
	require.NotEqual(t, chaosplan.New(7, chaosplan.Fast(time.Minute)).Digest(), chaosplan.New(7, chaosplan.Default(time.Minute)).Digest())
}

// A run of ten seconds is the shortest that is asked for.
func TestEveryRunHasEveryKindOfJob(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		plan := chaosplan.New(seed, chaosplan.Fast(10*time.Second))
		for _, kind := range []string{"plain", "long", "fails", "dies", "scheduled", "asks", "breaks", "kills once", "kills always", "monster", "raw", "stranger",
			chaosplan.Checkpointed, chaosplan.Checkpointed + ", fails"} {
			require.Positive(t, plan.Kinds()[kind], "seed %d has none that is %s", seed, kind)
		}
		seen := make(map[string]bool)
		for _, j := range plan.Jobs {
			require.False(t, seen[j.Token] || seen[j.JID], "%s is there twice", j.Token)
			seen[j.Token], seen[j.JID] = true, true
			require.NoError(t, client.RawJob{Class: j.Class, Queue: j.Queue, JID: j.JID, Args: []any{j.Token, j.Spec}}.Check())
		}
	}
}

func TestEveryFaultIsDrawn(t *testing.T) {
	t.Parallel()
	drawn := make(map[chaosplan.Fault]bool)
	for seed := range uint64(20) {
		for _, act := range chaosplan.New(seed, chaosplan.Default(3*time.Minute)).Acts {
			drawn[act.Fault] = true
			slow := act.Fault == chaosplan.Latency && act.Link.RoundTrip > 0 || act.Fault == chaosplan.Bandwidth && act.Link.BitsPerSecond > 0
			require.Equal(t, slow, act.Link != slowlink.Speed{}, "%s: %+v", act.Fault, act.Link)
		}
	}
	for _, fault := range chaosplan.Faults() {
		require.True(t, drawn[fault], "%s is never drawn", fault)
	}
}

// Everything ends within the span, and of the workers one at least is in no trouble of its own.
func TestOneWorkerIsAlwaysLeftAlone(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		plan := chaosplan.New(seed, chaosplan.Fast(3*time.Minute))
		for _, act := range plan.Acts {
			require.LessOrEqual(t, act.At+act.For, plan.Settings.Span)
			troubled := make(map[int]bool)
			for _, other := range plan.Acts {
				if other.Target == chaosplan.Worker && other.At <= act.At && act.At <= other.At+other.For {
					troubled[other.Number] = true
				}
			}
			require.Less(t, len(troubled), plan.Settings.Workers)
		}
	}
}

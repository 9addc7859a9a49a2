package belay_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/driver"
)

// waiting is how many jobs wait in the default queue.
func waiting(t *testing.T, producer *belay.Client) int64 {
	t.Helper()
	reply := producer.Driver().Do(t.Context(), driver.Command("LLEN", producer.Config().Prefix+":queue:default"))[0]
	require.NoError(t, reply.Err)
	length, _ := reply.Value.(int64)
	return length
}

// A class that must not be paid for twice is the one that needs Unique most: that it is NotIdempotent takes
// nothing away.
func TestASecondPaymentIsRefusedThoughItsClassIsNotIdempotent(t *testing.T) {
	t.Parallel()
	producer := openShared(t)
	charge := belay.Define[int64]("Charge", belay.NotIdempotent("the bank has no idempotency keys"), belay.Unique(belay.UntilExecuted))
	first, err := charge.Enqueue(t.Context(), producer, 42)
	require.NoError(t, err)
	second, err := charge.Enqueue(t.Context(), producer, 42)
	require.NoError(t, err)
	require.Equal(t, belay.StatusDuplicate, second.Status)
	require.Equal(t, first.JID, second.Holder)
	many, err := charge.EnqueueMany(t.Context(), producer, slices.Values([]int64{42, 43}))
	require.NoError(t, err)
	require.Equal(t, []client.Status{belay.StatusDuplicate, belay.StatusQueued}, []client.Status{many[0].Status, many[1].Status})
	require.Equal(t, int64(2), waiting(t, producer))

	marked, err := charge.Enqueue(t.Context(), producer, 42, belay.Unique(belay.UntilExecuted, belay.UniqueOpts{MarkDuplicates: true}))
	require.NoError(t, err)
	require.Equal(t, belay.StatusQueued, marked.Status, "who wants both effects says so")
	require.Equal(t, first.JID, marked.Holder)
	require.Equal(t, int64(3), waiting(t, producer))
}

// GitLab's rule is one setting of the client, and what a class or a push says comes before it.
func TestDeduplicateIdempotentIsGitLabsRule(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		define []belay.DefineOption
		push   []belay.JobOption
		second client.Status // with the setting
	}{
		"an idempotent class is deduplicated":         {[]belay.DefineOption{belay.Idempotent()}, nil, belay.StatusDuplicate},
		"unless it says otherwise":                    {[]belay.DefineOption{belay.Idempotent(), belay.NotUnique()}, nil, belay.StatusQueued},
		"or one push says otherwise":                  {[]belay.DefineOption{belay.Idempotent()}, []belay.JobOption{belay.NotUnique()}, belay.StatusQueued},
		"or it marks its duplicates":                  {[]belay.DefineOption{belay.Idempotent(), belay.Unique(belay.UntilExecuting, belay.UniqueOpts{MarkDuplicates: true})}, nil, belay.StatusQueued},
		"a class that is not idempotent is not":       {[]belay.DefineOption{belay.NotIdempotent("no keys")}, nil, belay.StatusQueued},
		"nor is one that declares nothing":            {nil, nil, belay.StatusQueued},
		"a job of an idempotent class in bulk is too": {[]belay.DefineOption{belay.Idempotent(), belay.Queue("default")}, nil, belay.StatusDuplicate},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			class := belay.Define[int]("Sync", c.define...)
			for _, with := range []bool{true, false} {
				want, cfg := belay.StatusQueued, belay.ClientConfig{}
				if with {
					want, cfg.DeduplicateIdempotent = c.second, true
				}
				producer := openWith(t, cfg)
				_, err := class.Enqueue(t.Context(), producer, 1, c.push...)
				require.NoError(t, err)
				alone, err := class.Enqueue(t.Context(), producer, 1, c.push...)
				require.NoError(t, err)
				many, err := class.EnqueueMany(t.Context(), producer, slices.Values([]int{1, 2}), c.push...)
				require.NoError(t, err)
				require.Equal(t, []client.Status{want, want, belay.StatusQueued}, []client.Status{alone.Status, many[0].Status, many[1].Status}, "with the setting: %v", with)
			}
		})
	}
	t.Run("the lock ends when the job starts, and raw jobs have it too", func(t *testing.T) {
		t.Parallel()
		producer := openWith(t, belay.ClientConfig{DeduplicateIdempotent: true})
		receipt, err := producer.Push(t.Context(), belay.RawJob{Class: "Ruby", Idempotent: true})
		require.NoError(t, err)
		payload := producer.Driver().Do(t.Context(), driver.Command("LINDEX", producer.Config().Prefix+":queue:default", "0"))[0].Value
		require.Contains(t, payload, `"until":"until_executing"`)
		require.Contains(t, payload, receipt.JID)
	})
}

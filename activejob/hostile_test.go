package activejob

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
)

// For any stored payload, a handler gets arguments or the job fails, and no error shows an argument.
func TestWhatIsNoActiveJobFails(t *testing.T) {
	t.Parallel()
	handled := 0
	handler := unwrap(func(context.Context, *belay.Job) error {
		handled++
		return nil
	})
	for _, args := range []string{
		`[]`, `[1]`, `[{}]`, `[{"job_class":"A"}]`, `[{"job_class":"A","arguments":{}}]`, `[{"job_class":1,"arguments":[]}]`, `[{"job_class":"A","arguments":[]},2]`,
		`[{"job_class":"A","arguments":[{"_aj_serialized":"ActiveJob::Serializers::DurationSerializer","value":"SECRET"}]}]`,
		`[{"job_class":"A","arguments":[{"_aj_serialized":"ActiveJob::Serializers::DurationSerializer","value":1e300}]}]`,
		`[{"job_class":"A","arguments":[{"_aj_serialized":"ActiveJob::Serializers::DurationSerializer","value":9300000000}]}]`,
		`[{"job_class":"A","arguments":[{"_aj_serialized":"ActiveJob::Serializers::DurationSerializer"}]}]`,
	} {
		j, err := job.Parse(`{"class":"Sidekiq::ActiveJob::Wrapper","wrapped":"A","jid":"1","args":` + args + `}`)
		require.NoError(t, err, args)
		err = handler(t.Context(), j)
		require.Error(t, err, args)
		require.NotContains(t, err.Error(), "SECRET")
	}
	require.Zero(t, handled)
	ordinary, err := job.Parse(`{"class":"A","jid":"1","args":[]}`)
	require.NoError(t, err)
	require.NoError(t, handler(t.Context(), ordinary))
	require.Equal(t, 1, handled, "a job that is no ActiveJob runs as it is")
}

func TestPlain(t *testing.T) {
	t.Parallel()
	for marked, want := range map[string]string{
		`[1E2, 1.0,"a"]`:                   `[1E2, 1.0,"a"]`, // without a mark nothing changes
		`["_aj_",{"_aj_symbol_keys":[]}]`:  `["_aj_",{}]`,
		`[{"_aj_globalid":"gid://a/B/1"}]`: `["gid://a/B/1"]`,
		`[{"_aj_globalid":"g","x":1}]`:     `[{"x":1}]`,
		`[{"_aj_serialized":"ActiveJob::Serializers::RangeSerializer","begin":1,"end":{"_aj_serialized":"x","value":2},"exclude_end":false}]`: `[{"begin":1,"end":2,"exclude_end":false}]`,
		`[{"_aj_serialized":"MoneySerializer","amount":12345678901234567890,"currency":"EUR"}]`:                                               `[{"amount":12345678901234567890,"currency":"EUR"}]`,
		`[{"_aj_hash_with_indifferent_access":true,"a":{"value":1,"_aj_symbol_keys":["value"]}}]`:                                             `[{"a":{"value":1}}]`,
		`[{"_aj_serialized":"ActiveJob::Serializers::DurationSerializer","value":-0.5,"parts":[]}]`:                                           `[-500000000]`,
	} {
		got, err := plain([]byte(marked))
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
}

func TestAUniqueJobIsNotWrapped(t *testing.T) {
	t.Parallel()
	class := belay.Define[int]("A", belay.Unique(belay.UntilExecuting))
	require.ErrorContains(t, class.Job(1, Wrap(Envelope{})).Check(), "cannot be unique")
	require.NoError(t, class.Job(1, Wrap(Envelope{}), belay.NotUnique()).Check())
	require.ErrorContains(t, class.Job(1, Wrap(Envelope{}), belay.NotUnique(), belay.Unique(belay.UntilExecuted)).Check(), "cannot be unique")
	require.Panics(t, func() { belay.Define[int]("A", Wrap(Envelope{}), belay.Unique(belay.UntilExecuting)) })
}

// Wrap at Define is for every job of the class, and its order among the options does not matter. Each push of
// one job has an id of its own.
func TestWrapStandsAnywhereAmongTheOptions(t *testing.T) {
	t.Parallel()
	client, err := belay.Open(t.Context(), drivertest.Redis(t).URL(), &belay.ClientConfig{
		Prefix: drivertest.Prefix(t), DeduplicateIdempotent: true,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	plain := belay.Define[int]("WelcomeJob", belay.Idempotent(), Unwrap())
	wrapping := belay.Define[int]("WelcomeJob", Wrap(Envelope{Locale: "de"}), belay.Idempotent(), Unwrap())
	require.Equal(t, "WelcomeJob", wrapping.Class())
	for _, pushed := range []belay.RawJob{
		plain.Job(42, Wrap(Envelope{Locale: "de"}), belay.Queue("late")),
		plain.Job(42, belay.Queue("late"), Wrap(Envelope{Locale: "de"})),
		wrapping.Job(42, belay.Queue("late")),
	} {
		ids := make(map[string]bool)
		for range 2 {
			prepared, receipt, err := client.Prepare(t.Context(), pushed)
			require.NoError(t, err)
			require.Equal(t, belay.StatusPrepared, receipt.Status)
			stored, err := job.Parse(prepared.Payload)
			require.NoError(t, err)
			e, err := Open(stored)
			require.NoError(t, err)
			require.Equal(t, []string{job.ActiveJob, "WelcomeJob", "WelcomeJob", "late", "late", "de", "[42]"},
				[]string{stored.Class(), stored.Wrapped(), e.JobClass, stored.Queue(), e.QueueName, e.Locale, string(e.Arguments)})
			ids[e.JobID] = true
		}
		require.Len(t, ids, 2)
	}
}

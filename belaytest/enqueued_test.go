package belaytest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/activejob"
	"github.com/belayq/belay/belaytest"
	"github.com/belayq/belay/job"
)

// enqueued returns a kit with one welcome job, pushed with these options.
func enqueued(t testing.TB, options ...belay.JobOption) *belaytest.Kit {
	t.Helper()
	k := belaytest.New(t)
	_, err := welcome.Enqueue(context.Background(), k.Client(), mail{42, "short"}, options...)
	require.NoError(t, err)
	return k
}

func TestRequireEnqueued(t *testing.T) {
	t.Parallel()
	t.Run("returns the job that was pushed through the program's client", func(t *testing.T) {
		t.Parallel()
		k := belaytest.NewWith(t, belay.ClientConfig{Prefix: "shop", Unit: job.Millis})
		k.Client().Use("tag", func(_ context.Context, job *belay.RawJob) error {
			job.Tags = append(job.Tags, "seen")
			return nil
		})
		receipt, err := welcome.Enqueue(t.Context(), k.Client(), mail{42, "short"})
		require.NoError(t, err)
		found := belaytest.RequireEnqueued(t, k, welcome, mail{42, "short"}, belay.Tags("seen"))
		require.Equal(t, receipt.JID, found.Job.JID())
		require.Equal(t, "mail", found.Queue)
		require.True(t, found.At.IsZero())
	})

	t.Run("compares only the given options", func(t *testing.T) {
		t.Parallel()
		belaytest.RequireEnqueued(t, enqueued(t, belay.Queue("slow"), belay.In(time.Hour), belay.NoRetry()), welcome, mail{42, "short"})
	})

	at := time.Now().Add(48 * time.Hour)
	inUTC := at.UTC().Format(time.RFC3339Nano)
	for _, c := range []struct {
		name              string
		pushed, has, want belay.JobOption
		text              string // of the failure
	}{
		{"queue", belay.Queue("slow"), belay.Queue("slow"), belay.Queue("default"), "Queue is slow, want default"},
		{"queue of the definition", nil, belay.Queue("mail"), belay.Queue("slow"), "Queue is mail, want slow"},
		{"wait", belay.In(time.Hour), belay.In(time.Hour), belay.In(time.Hour + 1), "In is 1h0m0s, want 1h0m0.000000001s"},
		{"repeatable push", belay.PushOnce(), belay.PushOnce(), nil, ""},
		{"no repeatable push", nil, nil, belay.PushOnce(), "PushOnce is not set, want true"},
		{"unique", belay.Unique(belay.UntilExecuted, belay.UniqueOpts{RescheduleOnce: true, IncludingScheduled: true, PerQueue: true}),
			belay.Unique(belay.UntilExecuted, belay.UniqueOpts{RescheduleOnce: true, IncludingScheduled: true, PerQueue: true, TTL: 6 * time.Hour}),
			belay.Unique(belay.UntilExecuting),
			"Unique is until_executed for 6h0m0s, including scheduled true, reschedule once true, mark duplicates false, per queue true, want until_executing for 6h0m0s"},
		{"not unique", nil, nil, belay.Unique(belay.UntilExecuting, belay.UniqueOpts{TTL: time.Hour}), "Unique is not set, want until_executing for 1h0m0s"},
		{"no wait", nil, nil, belay.In(time.Minute), "In is not set, want 1m0s"},
		{"instant", belay.At(at), belay.At(at), belay.At(at.Add(time.Second)), "At is " + inUTC},
		{"retries", belay.Retries(3), belay.Retries(3), belay.NoRetry(), "Retry is 3, want none"},
		{"retries of the definition", nil, belay.Retries(2), belay.Retries(0), "Retry is 2, want 0"},
		{"retry for", belay.RetryFor(time.Hour), belay.RetryFor(time.Hour), belay.RetryFor(time.Minute), "RetryFor is 1h0m0s, want 1m0s"},
		{"retry queue", belay.RetryQueue("low"), belay.RetryQueue("low"), belay.RetryQueue("high"), "RetryQueue is low, want high"},
		{"no dead", belay.NoDead(), belay.NoDead(), nil, ""},
		{"dead", nil, nil, belay.NoDead(), "NoDead is not set, want true"},
		{"backtrace", belay.Backtrace(9), belay.Backtrace(9), belay.Backtrace(-1), "Backtrace is 9, want -1"},
		{"tags", belay.Tags("a", "b"), belay.Tags("a", "b"), belay.Tags("a"), "Tags is [a b], want [a]"},
		{"jid", belay.JID("j1"), belay.JID("j1"), belay.JID("j2"), "JID is j1, want j2"},
		{"key", belay.Key("k", time.Hour), belay.Key("k", time.Hour), belay.Key("l", time.Hour), "Key is k, want l"},
		{"period of a key", belay.Key("k", time.Hour), belay.Key("k", time.Hour), belay.Key("k", time.Minute), "KeyFor is 1h0m0s, want 1m0s"},
		{"no delay", belay.In(0), belay.In(0), belay.In(time.Hour), "In is not set, want 1h0m0s"},
		{"delay that should not be", belay.In(time.Hour), belay.In(time.Hour), belay.In(0), "In is 1h0m0s, want not set"},
		{"instant that should not be", belay.At(at), belay.At(at), belay.At(time.Time{}), "At is " + inUTC + ", want not set"},
		{"dead set", belay.NoDead(), belay.NoDead(), belay.KeepDead(), "NoDead is true, want not set"},
		{"kept dead", belay.KeepDead(), belay.KeepDead(), nil, ""},
		{"no backtrace", belay.Backtrace(9), belay.Backtrace(9), belay.Backtrace(0), "Backtrace is 9, want not set"},
		{"no tags", belay.Tags("a"), belay.Tags("a"), belay.Tags(), "Tags is [a], want not set"},
		{"field", belay.Field("request", 7), belay.Field("request", 7), belay.Field("request", 8), "Field is 7, want 8"},
	} {
		t.Run("compares the "+c.name, func(t *testing.T) {
			t.Parallel()
			given := func(option belay.JobOption) (options []belay.JobOption) {
				if option != nil {
					options = append(options, option)
				}
				return options
			}
			k := enqueued(t, given(c.pushed)...)
			belaytest.RequireEnqueued(t, k, welcome, mail{42, "short"}, given(c.has)...)
			if c.want == nil {
				return
			}
			belaytest.RequireNotEnqueued(t, k, welcome, c.want)
			text := failuresOf(t, func(tb testing.TB) { belaytest.RequireEnqueued(tb, k, welcome, mail{42, "short"}, c.want) })
			require.Contains(t, text, c.text)
		})
	}

	for text, option := range map[string]belay.JobOption{
		"an option is invalid: Queue is given no name": belay.Queue(""),
		"an option is invalid: ExpiresIn 0s":           belay.ExpiresIn(0),
		"an option is invalid: a backtrace":            belay.Backtrace(-5),
		"an option is nil":                             nil,
		"option 1 sets no field":                       activejob.Wrap(activejob.Envelope{}),
	} {
		t.Run("refuses what says nothing: "+text, func(t *testing.T) {
			t.Parallel()
			k := enqueued(t)
			for _, requires := range []func(tb testing.TB){
				func(tb testing.TB) { belaytest.RequireEnqueued(tb, k, welcome, mail{42, "short"}, option) },
				func(tb testing.TB) { belaytest.RequireNotEnqueued(tb, k, welcome, option) },
			} {
				require.Contains(t, failuresOf(t, requires), text)
			}
		})
	}

	t.Run("compares the delay of the push, not the rest of it", func(t *testing.T) {
		t.Parallel()
		k := enqueued(t, belay.In(time.Hour))
		k.Advance(10 * time.Minute)
		found := belaytest.RequireEnqueued(t, k, welcome, mail{42, "short"}, belay.In(time.Hour))
		require.InDelta(t, 50*time.Minute, time.Until(found.At), float64(30*time.Second))
	})

	t.Run("shows the other waiting jobs when it fails", func(t *testing.T) {
		t.Parallel()
		k := enqueued(t)
		push(t, k, 5, belay.In(time.Hour))
		text := failuresOf(t, func(tb testing.TB) {
			belaytest.RequireEnqueued(tb, k, welcome, mail{43, "long"}, belay.Queue("mail"))
		})
		lines := strings.Split(text, "\n")
		require.Equal(t, `belaytest: want 1 job enqueued as Welcome [43,"long"] with Queue mail, found 0`, lines[0])
		require.Equal(t, "\t"+`Welcome [42,"short"] in queue mail: different arguments`, lines[1])
		require.Contains(t, lines[2], "\tCount [5] in queue default, due in ")
		require.Contains(t, lines[2], ": different class")
		text = failuresOf(t, func(tb testing.TB) { belaytest.RequireEnqueued(tb, belaytest.New(t), count, 1) })
		require.Equal(t, "belaytest: want 1 job enqueued as Count [1], found 0\nno job is waiting\n", text)
	})

	t.Run("shows earlier runs of the class when it fails", func(t *testing.T) {
		t.Parallel()
		k := counter(t, broken)
		k.OnFailure(func(belaytest.Run) {})
		push(t, k, 1, belay.NoRetry())
		k.Drain()
		text := failuresOf(t, func(tb testing.TB) { belaytest.RequireEnqueued(tb, k, count, 1) })
		require.Equal(t, "belaytest: want 1 job enqueued as Count [1], found 0\nno job is waiting\n\talready run: Count [1], attempt 1: the printer is broken\n", text)
	})

	t.Run("fails for two such jobs", func(t *testing.T) {
		t.Parallel()
		k := enqueued(t)
		_, err := welcome.Enqueue(t.Context(), k.Client(), mail{42, "short"})
		require.NoError(t, err)
		text := failuresOf(t, func(tb testing.TB) { belaytest.RequireEnqueued(tb, k, welcome, mail{42, "short"}) })
		require.Contains(t, text, `want 1 job enqueued as Welcome [42,"short"], found 2`)
	})

	t.Run("counts neither what has run nor what waits for a retry", func(t *testing.T) {
		t.Parallel()
		k := counter(t, func(_ context.Context, _ *belaytest.Kit, n int) error { return []error{nil, errBroken}[n] })
		k.OnFailure(func(belaytest.Run) {})
		push(t, k, 0)
		push(t, k, 1)
		k.Drain()
		belaytest.RequireNotEnqueued(t, k, count)
		require.True(t, k.Waiting()[0].Retry)
	})
}

func TestRequireEnqueuedFunc(t *testing.T) {
	t.Parallel()
	k := enqueued(t)
	_, err := welcome.Enqueue(t.Context(), k.Client(), mail{43, "long"})
	require.NoError(t, err)
	found := belaytest.RequireEnqueuedFunc(t, k, welcome, func(m mail) bool { return m.Template == "long" }, belay.Queue("mail"))
	require.Equal(t, mail{43, "long"}, belaytest.Args(t, welcome, found.Job))
	text := failuresOf(t, func(tb testing.TB) {
		belaytest.RequireEnqueuedFunc(tb, k, welcome, func(m mail) bool { return m.User > 1 })
	})
	require.Contains(t, text, "want 1 job enqueued as Welcome with arguments that match, found 2\n\tWelcome [42,")
	require.Len(t, k.Waiting(), 2, "a check runs no job")
}

func TestRequireEnqueuedMany(t *testing.T) {
	t.Parallel()
	k := belaytest.New(t)
	for _, n := range []int{3, 1, 1} {
		push(t, k, n)
	}
	push(t, k, 9, belay.Queue("other"))
	belaytest.RequireEnqueuedMany(t, k, count, []int{1, 1, 3}, belay.Queue("default"))
	belaytest.RequireEnqueuedMany(t, k, count, []int{1, 1, 3, 9})
	belaytest.RequireEnqueuedMany(t, k, welcome, nil)
	for _, c := range []struct {
		want []int
		text string // of the failure
	}{
		{[]int{1, 3}, "unexpected [1] among 3 jobs enqueued as Count with Queue default"},
		{[]int{1, 1, 3, 4}, "missing [4] among 3 jobs enqueued as Count with Queue default"},
		{nil, "unexpected [3] among 3 jobs"},
	} {
		text := failuresOf(t, func(tb testing.TB) {
			belaytest.RequireEnqueuedMany(tb, k, count, c.want, belay.Queue("default"))
		})
		require.Contains(t, text, c.text)
	}
}

func TestRequireNotEnqueued(t *testing.T) {
	t.Parallel()
	k := enqueued(t)
	belaytest.RequireNotEnqueued(t, k, count)
	text := failuresOf(t, func(tb testing.TB) { belaytest.RequireNotEnqueued(tb, k, welcome) })
	require.Equal(t, "belaytest: want no job enqueued as Welcome, found 1\n\tWelcome [42,\"short\"] in queue mail\n", text)
}

func TestArgsThatDoNotFitFailTheTest(t *testing.T) {
	t.Parallel()
	k := belaytest.New(t)
	_, err := k.Client().Push(t.Context(), belay.RawJob{Class: "Welcome", Args: []any{"forty-two"}})
	require.NoError(t, err)
	text := failuresOf(t, func(tb testing.TB) { belaytest.Args(tb, welcome, k.Waiting()[0].Job) })
	require.Contains(t, text, "argument")
}

package belay

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

func TestDefine(t *testing.T) {
	t.Parallel()
	t.Run("options at Enqueue override the definition's, which stays as it was", func(t *testing.T) {
		t.Parallel()
		d := Define[int]("A", Queue("mail"), Retries(5), Tags("a"), Field("bid", "b"), Timeout(time.Second), RetryQueue("low"))
		item := d.Job(1, Queue("low"), NoRetry(), Field("locale", "de"), JID("x"), NoDead(), RetryFor(time.Hour), Backtrace(-1))
		require.Equal(t, RawJob{
			Class: "A", Args: []any{1}, Queue: "low", JID: "x", Retry: job.RetryRule{Kind: job.RetryNever}, RetryFor: time.Hour,
			RetryQueue: "low", Backtrace: -1, NoDead: true, Tags: []string{"a"},
			Extra: []job.Edit{{Name: "bid", JSON: `"b"`}, {Name: "locale", JSON: `"de"`}},
		}, item)
		require.Equal(t, RawJob{
			Class: "A", Args: []any{1}, Queue: "mail", Retry: job.RetryRule{Kind: job.RetryLimit, Limit: 5}, RetryQueue: "low",
			Tags: []string{"a"}, Extra: []job.Edit{{Name: "bid", JSON: `"b"`}},
		}, d.Job(1))
		require.Equal(t, time.Second, d.about.Timeout)
		require.Equal(t, "A", d.Class())
	})
	t.Run("a field, a time and what becomes of the dead are overridden, too", func(t *testing.T) {
		t.Parallel()
		d := Define[int]("A", Field("bid", "b"), Field("bid", "c"), In(time.Hour), NoDead())
		at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
		require.Equal(t, RawJob{Class: "A", Args: []any{1}, At: at, Extra: []job.Edit{{Name: "bid", JSON: `"d"`}}},
			d.Job(1, Field("bid", "d"), At(at), KeepDead()))
		require.Equal(t, RawJob{Class: "A", Args: []any{1}, In: time.Minute, NoDead: true, Extra: []job.Edit{{Name: "bid", JSON: `"c"`}}},
			d.Job(1, At(at), In(time.Minute)))
	})
	t.Run("panics over what cannot be meant, and says all of it", func(t *testing.T) {
		t.Parallel()
		require.PanicsWithValue(t, `belay: Define "A": struct { userID int } has no exported fields to be arguments; capitalize their names`,
			func() { Define[struct{ userID int }]("A") })
		require.PanicsWithValue(t, `belay: Define "A": a chan int has no JSON; the Backoff is nil; leave it out for the formula's; `+
			`its idempotence is declared twice; NotIdempotent needs a reason; timeout -1s: it must be at least 1ms; leave it out for none; `+
			`the name of the queue, "a\n", holds a control character (U+000A); leave it out; -1 retries: it must be 0 or more; `+
			`the field "f" does not hold JSON; JID x would be the id of every job: give it to Enqueue`,
			func() {
				Define[chan int]("A", Timeout(-time.Second), Backoff(nil), Idempotent(), NotIdempotent(""), JID("x"), Retries(-1),
					Queue("a\n"), Field("f", func() {}))
			})
		require.PanicsWithValue(t, `belay: Define "A": retry for 1.5s: it must be a whole number of seconds; `+
			`a backtrace of -2 lines: it must be 0 or more, or -1 for all; tags: write JSON: at /0: a string is not valid UTF-8`,
			func() { Define[int]("A", RetryFor(1500*time.Millisecond), Backtrace(-2), Tags("\xff")) }, "what every push would refuse")
		require.Panics(t, func() { Define[int]("A", Tags("a"), Field("tags", []string{"b"})) }, "one field, set twice")
		require.PanicsWithValue(t, `belay: Define "A": one Key for every job would store only the first: give it to Enqueue`,
			func() { Define[int]("A", Key("k", time.Hour)) })
		for class, want := range map[string]string{"": "the name of the class is empty", "*": "use Server.HandleUnknown"} {
			func() {
				defer func() { require.Contains(t, recover(), want) }()
				Define[int](class)
			}()
		}
	})
}

type small struct{ Size int }

func TestArgs(t *testing.T) {
	t.Parallel()
	d := Define[small]("A")
	read := func(payload string) (small, error) {
		parsed, err := job.Parse(payload)
		require.NoError(t, err)
		return d.Args(parsed)
	}
	t.Run("are what a handler gets, also of a job that has the class' old name", func(t *testing.T) {
		t.Parallel()
		for _, class := range []string{"A", "Old"} {
			got, err := read(`{"class":"` + class + `","jid":"1","args":[7]}`)
			require.NoError(t, err)
			require.Equal(t, small{7}, got)
		}
	})
	t.Run("that do not fit are an ArgumentError", func(t *testing.T) {
		t.Parallel()
		got, err := read(`{"class":"A","jid":"1","args":["SECRET"]}`)
		require.EqualError(t, err, "read the arguments of A: argument 1 (Size): a string, where int is wanted")
		require.Zero(t, got)
		argErr, ok := errors.AsType[*ArgumentError](err)
		require.True(t, ok)
		require.Equal(t, 1, argErr.Position)
		require.Equal(t, "belay.ArgumentError", argErr.ErrorClass(), "error_class of failed jobs, which people search for")
	})
}

func TestHandler(t *testing.T) {
	t.Parallel()
	d := Define[small]("A", Timeout(time.Minute))
	failure := errors.New("the handler's")
	var got small
	r := d.Handler(func(_ context.Context, args small) error { got = args; return failure })
	require.Equal(t, "A", r.Class())
	require.Equal(t, time.Minute, r.about.Timeout)
	parsed, err := job.Parse(`{"class":"A","jid":"1","args":[7]}`)
	require.NoError(t, err)
	require.Equal(t, failure, r.handler(t.Context(), parsed))
	require.Equal(t, small{7}, got)
	require.PanicsWithValue(t, "belay: Handle A: the handler is nil", func() { d.Handler(nil) })
}

package belay

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/retry"
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
			`the field "f" does not hold JSON; JID x would be the id of every job: give it to Enqueue, or push jobs of `+
			`Definition.Job(args, belay.JID(id)) by Client.PushMany, with belay.InBatch(b) for members of a batch`,
			func() {
				Define[chan int]("A", Timeout(-time.Second), Backoff(nil), Idempotent(), NotIdempotent(""), JID("x"), Retries(-1),
					Queue("a\n"), Field("f", func() {}))
			})
		require.PanicsWithValue(t, `belay: Define "A": retry for 1.5s: it must be a whole number of seconds; `+
			`a backtrace of -2 lines: it must be 0 or more, or -1 for all; tags: write JSON: at /0: a string is not valid UTF-8`,
			func() { Define[int]("A", RetryFor(1500*time.Millisecond), Backtrace(-2), Tags("\xff")) }, "what every push would refuse")
		require.Panics(t, func() { Define[int]("A", Tags("a"), Field("tags", []string{"b"})) }, "one field, set twice")
		require.PanicsWithValue(t, `belay: Define "A": one Key for every job would store only the first: give it to Enqueue, or push jobs of Definition.Job(args, belay.Key(key, d)) by Client.PushMany`,
			func() { Define[int]("A", Key("k", time.Hour)) })
		for class, want := range map[string]string{"": "the name of the class is empty", "*": "use Server.HandleUnknown"} {
			func() {
				defer func() { require.Contains(t, recover(), want) }()
				Define[int](class)
			}()
		}
	})
}

// twice are the panics of package variables that define a class a second time: by themselves, by a function that
// they call, and in an init function.
var (
	_     = Define[int]("DefinedAtInit")
	twice = []any{
		panicOf(func() { Define[int]("DefinedAtInit") }),
		panicOf(func() { DefineResult[string, int]("DefinedAtInit", Track(time.Hour)) }),
		panicOf(func() { Define[int]("DefinedAtInitToo") }),
	}
)

func init() {
	twice = append(twice, panicOf(func() { Define[int]("DefinedAtInit") }))
}

func panicOf(do func()) (value any) {
	defer func() { value = recover() }()
	do()
	return nil
}

func TestTwoPackageVariablesDoNotDefineOneClass(t *testing.T) {
	t.Parallel()
	for i, value := range twice {
		if i == 2 {
			require.Nil(t, value, "another class")
			continue
		}
		require.Regexp(t, `^belay: Define "DefinedAtInit": the class is defined already, at .*define_test\.go:\d+: use that definition, or define it in a function$`, value)
	}
	require.Nil(t, panicOf(func() { Define[int]("DefinedAtInit") }), "a function may")
	done := make(chan any)
	go func() { done <- panicOf(func() { Define[int]("DefinedAtInit") }) }()
	require.Nil(t, <-done)
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

func TestAboutRuns(t *testing.T) {
	t.Parallel()
	about := aboutRuns("HandleRaw A", []DefineOption{Timeout(time.Minute), KillOn(errNilOption)})
	require.Equal(t, time.Minute, about.Timeout)
	require.Len(t, about.Rules, 1)
	five := Limit{Name: "five", Concurrency: 5}
	for _, option := range []DefineOption{LimitedTo(five), Limited(five, (*Job).Queue)} {
		require.Equal(t, five, aboutRuns("HandleRaw A", []DefineOption{option}).Limit.Limit)
	}
	for want, option := range map[string]DefineOption{
		"an option has no effect without a Definition": Queue("mail"), "timeout -1s": Timeout(-time.Second), "an option is nil": nil,
		"the function of OnExhausted needs a Definition": OnExhausted(func(context.Context, int, *Job, error) {}),
		"an option has no effect without":                Unique(UntilExecuting), "an option has no effect": NamedArgs(), "an option has no": Idempotent(),
	} {
		require.Panics(t, func() { aboutRuns("HandleRaw A", []DefineOption{option}) }, want)
		func() {
			defer func() { require.Contains(t, recover(), want) }()
			aboutRuns("HandleRaw A", []DefineOption{option})
		}()
	}
}

func TestFunctionsOfAClassGetItsArguments(t *testing.T) {
	t.Parallel()
	parse := func(args string) *Job {
		parsed, err := job.Parse(`{"class":"A","jid":"1","args":` + args + `}`)
		require.NoError(t, err)
		return parsed
	}
	type key struct{}
	var seen []any
	around := func(name string) DefineOption {
		return AroundArgs(func(ctx context.Context, args small, j *Job, next func(context.Context) error) error {
			seen = append(seen, name, args, j.JID())
			err := next(context.WithValue(ctx, key{}, name))
			return errors.Join(err, errors.New(name))
		})
	}
	raw := Around(func(next Handler) Handler {
		return func(ctx context.Context, j *Job) error { seen = append(seen, "raw"); return next(ctx, j) }
	})
	d := Define[small]("A", around("outer"), raw, around("inner"),
		OnExhausted(func(_ context.Context, args small, j *Job, err error) { seen = append(seen, args, j.JID(), err) }),
		OnExhausted(func(context.Context, small, *Job, error) { seen = append(seen, "the second") }))
	exhausted := func(j *Job, err error) {
		for _, callback := range d.about.Exhausted {
			callback(t.Context(), j, err)
		}
	}
	failure := errors.New("the handler's")
	r := d.Handler(func(ctx context.Context, _ small) error { seen = append(seen, ctx.Value(key{})); return failure })
	handler := r.handler
	for i := len(r.about.Middleware) - 1; i >= 0; i-- { // the first is the outermost
		handler = r.about.Middleware[i](handler)
	}
	t.Run("around a run, in their order", func(t *testing.T) {
		require.EqualError(t, handler(t.Context(), parse("[7]")), "the handler's\ninner\nouter")
		require.Equal(t, []any{"outer", small{7}, "1", "raw", "inner", small{7}, "1", "inner"}, seen)
	})
	t.Run("when no retries are left", func(t *testing.T) {
		seen = nil
		exhausted(parse("[7]"), failure)
		require.Equal(t, []any{small{7}, "1", failure, "the second"}, seen)
	})
	t.Run("are not called around a run, and get zeros at its end, if the arguments do not fit", func(t *testing.T) {
		seen = nil
		err := handler(t.Context(), parse(`["x"]`))
		_, is := errors.AsType[*ArgumentError](err)
		require.True(t, is)
		require.Empty(t, seen)
		exhausted(parse(`["x"]`), err)
		require.Equal(t, []any{small{}, "1", err, "the second"}, seen)
		seen = nil
		exhausted(parse(`["x"]`), failure)
		require.Len(t, seen, 4)
		require.ErrorIs(t, seen[2].(error), failure)
		_, is = errors.AsType[*ArgumentError](seen[2].(error))
		require.True(t, is, "the callback must not take the zeros for the job's arguments")
	})
	t.Run("and get what GitLab's size limiter has compressed", func(t *testing.T) {
		seen = nil
		compressed := func(args string) *job.Job {
			parsed, err := job.Parse(`{"class":"A","jid":"1","args":["` + args + `"],"compressed":true,"original_job_size_bytes":20}`)
			require.NoError(t, err)
			return parsed
		}
		whole, cut := compressed("eF6LNo8FAAHfAPA="), compressed("eF6LNo8F") // Ruby: Zlib::Deflate.deflate("[7]", 5)
		args, err := d.Args(whole)
		require.NoError(t, err)
		require.Equal(t, small{7}, args)
		exhausted(whole, failure)
		require.Equal(t, []any{small{7}, "1", failure, "the second"}, seen)

		seen = nil
		args, unread := d.Args(cut)
		require.ErrorIs(t, unread, retry.ErrCompressed)
		require.Equal(t, "Belay::Compressed", retry.Class(unread))
		require.Zero(t, args)
		exhausted(cut, failure)
		require.Equal(t, []any{small{}, "1"}, seen[:2])
		require.ErrorIs(t, seen[2].(error), failure)
		require.ErrorIs(t, seen[2].(error), retry.ErrCompressed)
		seen = nil
		exhausted(cut, unread)
		require.Equal(t, []any{small{}, "1", unread, "the second"}, seen)
	})
	t.Run("and have their type", func(t *testing.T) {
		require.PanicsWithValue(t, `belay: Define "A": the function of OnExhausted takes string, and the arguments are belay.small; `+
			`the function of AroundArgs takes int, and the arguments are belay.small`, func() {
			Define[small]("A", OnExhausted(func(context.Context, string, *Job, error) {}),
				AroundArgs(func(context.Context, int, *Job, func(context.Context) error) error { return nil }))
		})
	})
}

package launcher_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/limit"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/retry"
)

// state reads the state of a job as Redis has it.
func (r *rig) state(jid string) map[string]string {
	r.t.Helper()
	parts, _ := r.do("HGETALL", r.keys.Iteration(jid)).([]any)
	pairs, fields := texts(parts), make(map[string]string)
	for i := 0; i < len(pairs); i += 2 {
		fields[pairs[i]] = pairs[i+1]
	}
	return fields
}

// resumed reads the cursor of ctx's job, 0 for none.
func resumed(ctx context.Context) (cursor int, err error) {
	_, err = launcher.Resume(ctx, &cursor)
	return cursor, err
}

// At a stop, a long job goes back to its queue at once, although another one still runs there; it goes on
// elsewhere after the last item that it had done, and its cursor ends with it.
func TestALongJobGoesOnElsewhereAfterAStop(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		const items = 1000
		var done [items]atomic.Int32
		begins, reached := make(chan int, 9), make(chan struct{}, items)
		work := func(stopAfter int) launcher.Handler {
			return func(ctx context.Context, _ *job.Job) error {
				item, err := resumed(ctx)
				if err != nil {
					return err
				}
				begins <- item
				for ; item < items; item++ {
					if item == stopAfter {
						reached <- struct{}{}
						<-launcher.Stopping(ctx)
					}
					done[item].Add(1)
					if err := launcher.Checkpoint(ctx, item+1); err != nil {
						return err
					}
				}
				return nil
			}
		}
		free := make(chan struct{})
		first := r.build(r.config())
		first.Handle("Import", work(300), launcher.Class{})
		first.Handle("Other", func(context.Context, *job.Job) error { <-free; return nil }, launcher.Class{})
		payload := r.push("Import", "[]")
		r.push("Other", "[]")
		worker := r.start(first)
		require.Zero(t, receive(t, "the first run", begins))
		receive(t, "item 300", reached)
		require.Empty(t, r.state(jidOf(t, payload)), "nothing is written before the save interval is over")
		r.eventually("the other job to run too", func() bool { return worker.Busy() == 2 })
		worker.Stop()
		r.eventually("the job to be back", func() bool { return len(r.list(r.keys.Queue("default"))) == 1 })
		require.Equal(t, []string{payload}, r.list(r.keys.Queue("default")), "byte for byte")
		require.Equal(t, "301", r.state(jidOf(t, payload))["c"])
		require.Equal(t, 1, worker.Busy(), "while the other job still runs")

		second := r.build(r.config())
		second.Handle("Import", work(-1), launcher.Class{})
		r.start(second)
		require.Equal(t, 301, receive(t, "the second run", begins))
		r.eventually("its end", func() bool { return r.counter(r.keys.Processed()) == "1" })
		require.Empty(t, r.state(jidOf(t, payload)))
		require.Empty(t, r.counter(r.keys.Failed()))
		for item := range done {
			require.Equal(t, int32(1), done[item].Load(), "item %d", item)
		}
		close(free)
		worker.wait(t)
	})
}

// A failed run keeps its cursor for the retry; a handler that never returns leaves its last one too.
func TestTheLastCursorGoesWithTheEndOfTheRun(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		cfg := r.config()
		cfg.ShutdownTimeout = 50 * time.Millisecond
		l := r.build(cfg)
		never := make(chan struct{})
		t.Cleanup(func() { close(never) })
		l.Handle("Fails", func(ctx context.Context, _ *job.Job) error {
			return errors.Join(launcher.Checkpoint(ctx, map[string]int{"page": 7}), errors.New("boom"))
		}, launcher.Class{})
		started := make(chan error, 1)
		l.Handle("Hangs", func(ctx context.Context, _ *job.Job) error {
			started <- launcher.Checkpoint(ctx, "half")
			<-never
			return nil
		}, launcher.Class{})
		fails, hangs := jidOf(t, r.push("Fails", "[]")), jidOf(t, r.push("Hangs", "[]"))
		w := r.start(l)
		require.NoError(t, receive(t, "the checkpoint", started))
		r.eventually("the failure", func() bool { return r.counter(r.keys.Failed()) == "1" })
		require.JSONEq(t, `{"page":7}`, r.state(fails)["c"])
		w.Stop()
		w.wait(t)
		require.Len(t, r.list(r.keys.Queue("default")), 1)
		require.Equal(t, `"half"`, r.state(hangs)["c"])
	})
}

// A job that waits for its limit keeps its bytes, which count its crashes: so it stays recorded which of them
// came before its cursor advanced. A retry has neither.
func TestCrashesBeforeTheLastCursorStayExcusedWhileTheJobWaits(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		l := r.build(r.config())
		ends := func(end error) launcher.Handler {
			return func(ctx context.Context, _ *job.Job) error { return errors.Join(launcher.Checkpoint(ctx, 7), end) }
		}
		own := &launcher.ClassLimit{Limit: limit.Limit{Name: "own", Concurrency: 1}, Key: func(*job.Job) (string, error) { return "k", nil }}
		l.Handle("Waits", ends(retry.RateLimited(time.Hour)), launcher.Class{Limit: own})
		l.Handle("Fails", ends(errors.New("boom")), launcher.Class{})
		waits, fails := r.push("Waits", "[]", job.SetInt("interrupted_count", 1)), r.push("Fails", "[]", job.SetInt("interrupted_count", 1))
		r.start(l)
		r.eventually("the job to wait", func() bool { return len(r.list(r.keys.WaitingList("own:k"))) == 1 })
		require.Equal(t, waits, lua.ParseWaiter(r.list(r.keys.WaitingList("own:k"))[0]).Bytes)
		require.Equal(t, "1", r.state(jidOf(t, waits))[lua.FieldCrashes])
		r.eventually("the retry", func() bool { return len(r.set(r.keys.Retry())) == 1 })
		require.NotContains(t, r.set(r.keys.Retry())[0], "interrupted_count")
		require.NotContains(t, r.state(jidOf(t, fails)), lua.FieldCrashes)
	})
}

// A process that was declared dead writes nothing more, and the handler is told at its next save.
func TestACheckpointOfALostJobEndsItsRun(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		cfg := r.config()
		cfg.SaveInterval = time.Nanosecond
		l := r.build(cfg)
		saves, goOn, causes := make(chan error, 2), make(chan struct{}), make(chan error, 1)
		var runs atomic.Int32
		l.Handle("Import", func(ctx context.Context, _ *job.Job) error {
			if runs.Add(1) > 1 {
				return nil
			}
			saves <- launcher.Checkpoint(ctx, 1)
			<-goOn
			saves <- launcher.Checkpoint(ctx, 2)
			causes <- context.Cause(ctx)
			return errors.New("too late to matter")
		}, launcher.Class{})
		payload := r.push("Import", "[]")
		r.start(l)
		require.NoError(t, receive(t, "a save", saves))
		require.Equal(t, "1", r.state(jidOf(t, payload))["c"])
		// Another process has the job, with a newer cursor.
		r.do("LREM", r.keys.Working("default", l.Identity()), "1", payload)
		r.do("HSET", r.keys.Iteration(jidOf(t, payload)), "c", "50")
		close(goOn)
		require.ErrorIs(t, receive(t, "a save", saves), fetch.ErrOwnershipLost)
		require.ErrorIs(t, receive(t, "a cause", causes), fetch.ErrOwnershipLost)
		r.eventually("the log", func() bool { return strings.Contains(r.log.String(), "ownership lost") })
		require.Equal(t, "50", r.state(jidOf(t, payload))["c"])
		require.Empty(t, r.counter(r.keys.Failed()))
		require.Empty(t, r.set(r.keys.Retry()))
	})
}

// A Ruby program cancels an iterable job by a field of its state.
func TestARubyProgramCancelsALongJob(t *testing.T) {
	t.Parallel()
	r := oneClient(t)
	cfg := r.config()
	cfg.SaveInterval = time.Nanosecond
	l := r.build(cfg)
	ends := make(chan error, 1)
	l.Handle("Import", func(ctx context.Context, _ *job.Job) error {
		err := launcher.Checkpoint(ctx, 1)
		ends <- err
		return err
	}, launcher.Class{})
	payload := r.push("Import", "[]")
	r.do("HSET", r.keys.Iteration(jidOf(t, payload)), "cancelled", "1")
	r.start(l)
	require.ErrorIs(t, receive(t, "the end", ends), launcher.ErrCancelled)
	r.eventually("its end", func() bool { return r.counter(r.keys.Processed()) == "1" })
	require.Empty(t, r.state(jidOf(t, payload)))
	require.Empty(t, r.counter(r.keys.Failed()))
}

func TestACheckpointThatCannotBeWrittenIsAnError(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, launcher.Checkpoint(t.Context(), 1), "no current run")
	_, err := launcher.Resume(t.Context(), new(int))
	require.ErrorContains(t, err, "no current run")
	r := oneClient(t)
	l := r.build(r.config())
	ends := make(chan error, 4)
	l.Handle("Import", func(ctx context.Context, _ *job.Job) error {
		ends <- launcher.Checkpoint(ctx, make(chan int))
		ends <- launcher.Checkpoint(ctx, strings.Repeat("x", launcher.MaxCursor))
		_, err := launcher.Resume(ctx, new(bool))
		ends <- err
		go func() {
			r.eventually("the end of the run", func() bool { return l.Busy() == 0 })
			ends <- launcher.Checkpoint(ctx, 1)
		}()
		return nil
	}, launcher.Class{})
	payload := r.push("Import", "[]")
	r.do("HSET", r.keys.Iteration(jidOf(t, payload)), "c", `"text"`)
	r.start(l)
	for _, want := range []string{"write the cursor as JSON", "the limit is", "read the cursor", "no current run"} {
		require.ErrorContains(t, receive(t, "an error", ends), want)
	}
}

// encoding/json replaces bytes that are not UTF-8 without an error. A cursor of a byte key would then name another
// item, and all items before that one would be skipped.
func TestACursorOrResultThatWouldBeChangedIsAnError(t *testing.T) {
	t.Parallel()
	r := oneClient(t)
	cfg := r.config()
	cfg.SaveInterval = time.Nanosecond
	l := r.build(cfg)
	type key struct{ Name string }
	bad := []any{
		"\x80key", key{"\x80"}, []any{1, "a\xff"}, map[string]int{"\x80": 1}, json.RawMessage("\"\x80\""), `\ufffd` + "\x80", "\ufffd\x80",
	}
	good := []any{
		"\ufffdkey", `\ufffdkey`, json.RawMessage(`"\ufffdkey"`), "<&>\u2028", 7.0, []byte("\x80key"), []string(nil), key{"é"},
	}
	changed, refused := make(chan error, 2*len(bad)), make(chan error, 2*len(good))
	l.Handle("Import", func(ctx context.Context, _ *job.Job) error {
		for _, value := range good {
			refused <- launcher.SetResult(ctx, value)
			refused <- launcher.Checkpoint(ctx, value)
		}
		for _, value := range bad {
			changed <- launcher.Checkpoint(ctx, value)
			changed <- launcher.SetResult(ctx, value)
		}
		return errors.New("once more")
	}, launcher.Class{})
	r.do("LPUSH", r.keys.Queue("default"), `{"class":"Import","jid":"j","args":[],"retry":true,"belay_track_ms":60000}`)
	r.start(l)
	for _, value := range good {
		require.NoError(t, receive(t, "a result", refused), "%#v", value)
		require.NoError(t, receive(t, "a checkpoint", refused), "%#v", value)
	}
	for _, value := range bad {
		require.ErrorContains(t, receive(t, "a checkpoint", changed), "not valid UTF-8", "%#v", value)
		require.ErrorContains(t, receive(t, "a result", changed), "not valid UTF-8", "%#v", value)
	}
	r.eventually("its retry", func() bool { return len(r.set(r.keys.Retry())) == 1 })
	require.Equal(t, `{"Name":"é"}`, r.state("j")["c"], "the last cursor that could be written")
}

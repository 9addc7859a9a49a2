package launcher_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/lua"
)

// mark marks a job as cancelled.
func (r *rig) mark(jids ...string) {
	r.t.Helper()
	var marks []lua.Mark
	for _, jid := range jids {
		marks = append(marks, lua.Mark{JID: jid})
	}
	_, err := r.keys.Mark(marks).Do(r.t.Context(), r.client)
	require.NoError(r.t, err)
}

func jidOf(t *testing.T, payload string) string {
	t.Helper()
	parsed, err := job.Parse(payload)
	require.NoError(t, err)
	return parsed.JID()
}

// However a cancelled handler comes back, its job is not run again, and only nil is a success.
func TestCancelEndsARunningJob(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		cfg := r.config()
		cfg.Concurrency = len(endings)
		l := r.build(cfg)
		started, causes := make(chan struct{}, len(endings)), make(chan error, len(endings))
		var jids []string
		for class, end := range endings {
			l.Handle(class, func(ctx context.Context, _ *job.Job) error {
				started <- struct{}{}
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return end(ctx)
			}, launcher.Class{})
			jids = append(jids, jidOf(t, r.push(class, "[]")))
		}
		failed := make(chan error, len(endings))
		l.OnError(func(_ context.Context, _ *job.Job, err error) { failed <- err })
		w := r.start(l)
		for range endings {
			receive(t, "a start", started)
		}
		r.mark(jids...)
		for range endings {
			require.ErrorIs(t, receive(t, "a cause", causes), launcher.ErrCancelled)
		}
		r.eventually("all to be counted", func() bool { return r.counter(r.keys.Processed()) == strconv.Itoa(len(endings)) })
		require.Empty(t, r.counter(r.keys.Failed()))
		for _, key := range []string{r.keys.Retry(), r.keys.Dead(), r.keys.Schedule()} {
			require.Empty(t, r.set(key))
		}
		require.Empty(t, r.list(r.keys.Queue("default")))
		for range len(endings) - len([]string{"Nil", "Err", "Cause", "Snooze"}) {
			err := receive(t, "an error of a handler", failed)
			require.NotErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, launcher.ErrCancelled)
		}
		require.Empty(t, failed, "an operator's cancellation is no error of the program")
		exits := make(map[job.Exit]uint64)
		for _, counts := range w.Counters().Runs {
			for i, n := range counts.Exits {
				exits[job.Exits[i]] += n
			}
		}
		require.Equal(t, uint64(1), exits[job.ExitDone])
		require.Equal(t, uint64(len(endings)-1), exits[job.ExitCancelled])
		require.Contains(t, r.log.String(), "run cancelled")
	})
}

// The next job of the same processor, and the neighbours, have contexts that are alive.
func TestCancelHarmsNoOtherRun(t *testing.T) {
	t.Parallel()
	r := oneClient(t)
	cfg := r.config()
	cfg.Concurrency = 2
	l := r.build(cfg)
	begun, free := make(chan string, 10), make(chan struct{})
	l.Handle("Waits", func(ctx context.Context, j *job.Job) error {
		begun <- j.JID()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-free:
			return nil
		}
	}, launcher.Class{})
	first, neighbour := jidOf(t, r.push("Waits", "[]")), jidOf(t, r.push("Waits", "[]"))
	r.start(l)
	require.ElementsMatch(t, []string{first, neighbour}, []string{receive(t, "a start", begun), receive(t, "a start", begun)})
	r.mark(first)
	next := jidOf(t, r.push("Waits", "[]"))
	require.Equal(t, next, receive(t, "the next", begun))
	r.mark("another") // its marks are read, and end no context
	last := r.push("Waits", "[]", job.Edit{Name: "jid_of", JSON: `"nobody"`})
	close(free)
	require.Equal(t, jidOf(t, last), receive(t, "the last", begun))
	r.eventually("all to be counted", func() bool { return r.counter(r.keys.Processed()) == "4" })
	require.Empty(t, r.counter(r.keys.Failed()))
	require.Empty(t, r.set(r.keys.Retry()))
}

// What a process knows to be cancelled is not started; a job of the same jid that was created later is.
func TestCancelledJobIsDroppedBeforeItsStart(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		l := r.build(r.config())
		ran := make(chan string, 10)
		l.Handle("Runs", func(_ context.Context, j *job.Job) error { ran <- j.ArgsJSON(); return nil }, launcher.Class{})
		early := job.Draft{Class: "Runs", Queue: "default", JID: "twice", ArgsJSON: `["early"]`, CreatedAt: time.Now()}.Encode()
		r.mark("twice")
		r.mark("other")
		r.start(l)
		late := job.Draft{Class: "Runs", Queue: "default", JID: "twice", ArgsJSON: `["late"]`, CreatedAt: time.Now().Add(time.Second)}.Encode()
		r.do("LPUSH", r.keys.Queue("default"), early, late)
		require.Equal(t, `["late"]`, receive(t, "the later job", ran))
		r.eventually("both to be counted", func() bool { return r.counter(r.keys.Processed()) == "2" })
		require.Empty(t, ran)
		require.Contains(t, r.log.String(), "job dropped before its start")
	})
}

// A job that would start too late is dropped; its other limit ends its run.
func TestExpiry(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		l := r.build(r.config())
		ran, causes := make(chan string, 10), make(chan error, 1)
		l.Handle("Runs", func(_ context.Context, j *job.Job) error { ran <- j.ArgsJSON(); return nil }, launcher.Class{})
		l.Handle("Late", func(ctx context.Context, _ *job.Job) error {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return ctx.Err()
		}, launcher.Class{Timeout: time.Hour})
		failed := make(chan error, 1)
		l.OnError(func(_ context.Context, _ *job.Job, err error) { failed <- err })
		now := time.Now()
		r.push("Runs", `["expired"]`, job.SetStamp(job.FieldExpiry, now.Add(-time.Second), job.Seconds))
		r.push("Runs", `["past its deadline"]`, job.SetInt(job.FieldDeadline, int(now.Add(-time.Second).UnixMilli())))
		r.push("Runs", `["expired by Ruby"]`, job.SetInt(job.FieldExpiresIn, 60), job.SetStamp("failed_at", now.Add(-time.Hour), job.Seconds))
		r.push("Runs", `["in time"]`, job.SetInt(job.FieldExpiresIn, 60), job.SetStamp(job.FieldExpiry, now.Add(time.Minute), job.Seconds),
			job.SetInt(job.FieldDeadline, int(now.Add(time.Minute).UnixMilli())))
		r.start(l)
		require.Equal(t, `["in time"]`, receive(t, "a run", ran))
		r.eventually("all to be counted", func() bool { return r.counter(r.keys.Processed()) == "4" })
		require.Empty(t, ran)
		require.Empty(t, r.counter(r.keys.Failed()))

		// A busy machine starts it before that.
		r.push("Late", "[]", job.SetInt(job.FieldDeadline, int(time.Now().Add(10*time.Second).UnixMilli())))
		cause := receive(t, "a cause", causes)
		require.ErrorIs(t, cause, launcher.ErrDeadline)
		require.ErrorIs(t, cause, context.DeadlineExceeded)
		require.ErrorIs(t, receive(t, "the error", failed), launcher.ErrDeadline)
		r.eventually("all to be counted", func() bool { return r.counter(r.keys.Processed()) == "5" })
		require.Equal(t, "1", r.counter(r.keys.Failed()))
		require.Empty(t, r.set(r.keys.Retry()), "a retry would start too late")
	})
}

// A failure before the deadline is an ordinary one.
func TestDeadlineLeavesEarlierFailuresAlone(t *testing.T) {
	t.Parallel()
	r := oneClient(t)
	l := r.build(r.config())
	l.Handle("Fails", func(context.Context, *job.Job) error { return errors.New("boom") }, launcher.Class{})
	r.push("Fails", "[]", job.SetInt(job.FieldDeadline, int(time.Now().Add(time.Hour).UnixMilli())))
	r.start(l)
	r.eventually("the retry", func() bool { return len(r.set(r.keys.Retry())) == 1 })
	require.Contains(t, r.set(r.keys.Retry())[0], "boom")
}

// A worker that cannot read the marks when it starts takes nothing before it has read them: the job of a worker
// that was killed would run again, although Cancel has answered that it is stopped.
func TestNothingStartsBeforeTheMarksAreRead(t *testing.T) {
	t.Parallel()
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := faultproxy.New(t, drivertest.Redis(t).Addr())
			r := newRig(t, open, proxy.URL(), drivertest.Prefix(t))
			r.mark("cancelled")
			for _, jid := range []string{"cancelled", "other"} {
				payload := job.Draft{Class: "Runs", Queue: "default", JID: jid, ArgsJSON: "[]", CreatedAt: time.Now().Add(-time.Minute)}.Encode()
				r.do("LPUSH", r.keys.Queue("default"), payload)
			}
			again := faultproxy.NewGate()
			proxy.Add(
				faultproxy.Rule{On: faultproxy.Requests, Token: r.keys.Cancelled(), Nth: 4, Do: faultproxy.Hold(again)},
				faultproxy.Rule{On: faultproxy.Requests, Token: r.keys.Cancelled(), Do: faultproxy.Close()},
			)
			l := r.build(r.config())
			ran := make(chan string, 10)
			l.Handle("Runs", func(_ context.Context, j *job.Job) error { ran <- j.JID(); return nil }, launcher.Class{})
			r.start(l)
			r.eventually("the outage", func() bool { return strings.Contains(r.log.String(), "redis is away") })
			receive(t, "the fourth attempt to read the marks", again.Arrived())
			require.Equal(t, int64(0), r.do("EXISTS", r.keys.Alive()), "the process has registered without the marks")
			proxy.Clear()
			again.Open()
			require.Equal(t, "other", receive(t, "the other job", ran))
			r.eventually("both to be counted", func() bool { return r.counter(r.keys.Processed()) == "2" })
			require.Empty(t, ran)
		})
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/belayq/belay"
	"github.com/belayq/belay/integration/chaosplan"
	"github.com/belayq/belay/integration/history"
	"github.com/belayq/belay/job"
)

// A hand does what jobs say.
type hand struct {
	dir  string
	book *history.Writer
}

type runKey struct{}

// record is the middleware that writes a start down, before anything else of the run happens.
func (h *hand) record(next belay.Handler) belay.Handler {
	return func(ctx context.Context, j *belay.Job) error {
		args, err := definition.Args(j)
		if err != nil || j.Class() == chaosplan.TickClass {
			return next(ctx, j) // which finds an error, too; a class without a handler does not come this far
		}
		e := history.Event{Kind: history.Start, Token: args.Token, JID: j.JID(), Queue: j.Queue(), Run: job.NewJID(), Spec: &args.Spec, Interrupted: j.InterruptedCount()}
		if count, failed := j.RetryCount(); failed {
			e.Failures = count + 1
		}
		h.book.Append(e)
		return next(context.WithValue(ctx, runKey{}, e), j)
	}
}

// obey is the handler.
func (h *hand) obey(ctx context.Context, args Args) error {
	start, recorded := ctx.Value(runKey{}).(history.Event)
	if !recorded {
		return errors.New("a run that was not written down")
	}
	if h.mayKill(args) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal arrives within a moment, and nothing more is done meanwhile
	}
	var outcome string
	if args.Spec.Items > 0 {
		outcome = h.outcome(args)
		if err := h.goOver(ctx, args.Spec, start, outcome); err != nil {
			return err
		}
	} else {
		if !h.endure(ctx, args, start) {
			h.finish(start, history.Stopped)
			return context.Cause(ctx)
		}
		outcome = h.outcome(args)
	}
	h.finish(start, outcome)
	if len(args.Spec.Outcomes) > 0 {
		h.mark(args.Token, "finished")
	}
	return act(args.Spec, outcome)
}

// goOver does the items that are left, or half of them if the run is to fail. An error ends the run.
func (h *hand) goOver(ctx context.Context, spec history.Spec, start history.Event, outcome string) error {
	e := history.Event{Token: start.Token, JID: start.JID, Run: start.Run}
	note := func(kind history.Kind, item int) {
		e.Kind, e.Item = kind, item
		h.book.Append(e)
	}
	last, half := spec.Items, errors.New("half of the items are done")
	err := belay.Each(ctx, func(begin int, _ bool) iter.Seq2[int, int] {
		begin = max(begin, 1) // 0 without a cursor
		note(history.Resumed, begin-1)
		if outcome != history.OK {
			last -= (last - begin + 2) / 2 // at least one item is left, to begin with
		}
		return func(yield func(int, int) bool) {
			for n := begin; n <= spec.Items && yield(n, n); n++ {
			}
		}
	}, func(_ context.Context, n int) error {
		if n > last {
			return half
		}
		time.Sleep(time.Duration(spec.Millis) * time.Millisecond)
		note(history.ItemDone, n)
		return nil
	})
	switch {
	case ctx.Err() != nil:
		h.cancelled(ctx, start)
		h.finish(start, history.Stopped)
		return context.Cause(ctx)
	case errors.Is(err, half):
		return nil
	case errors.Is(err, belay.Interrupted):
		h.finish(start, history.Interrupted)
	case err != nil:
		h.finish(start, history.Failed)
	}
	return err
}

func (h *hand) cancelled(ctx context.Context, start history.Event) {
	h.book.Append(history.Event{Kind: history.Cancelled, Token: start.Token, JID: start.JID, Run: start.Run, Text: fmt.Sprint(context.Cause(ctx))})
}

// endure takes the time that the job takes. It is false when the context ended first and the job heeds that.
func (h *hand) endure(ctx context.Context, args Args, start history.Event) bool {
	done := time.NewTimer(time.Duration(args.Spec.Millis) * time.Millisecond)
	defer done.Stop()
	select {
	case <-done.C:
		return true
	case <-ctx.Done():
	}
	h.cancelled(ctx, start)
	if args.Spec.Deaf {
		<-done.C
	}
	return args.Spec.Deaf
}

func (h *hand) finish(start history.Event, outcome string) {
	h.book.Append(history.Event{Kind: history.Finish, Token: start.Token, JID: start.JID, Run: start.Run, Outcome: outcome})
}

// outcome is that of the job's next run which finishes. How many have, no payload says, for a snooze counts
// nothing: they are counted by marks, which processes share and which outlive them.
func (h *hand) outcome(args Args) string {
	if args.Spec.Odds > 0 {
		return rivalsOutcome(args)
	}
	if n := h.marks(args.Token, "finished"); n < len(args.Spec.Outcomes) {
		return args.Spec.Outcomes[n]
	}
	if args.Spec.Always != "" {
		return args.Spec.Always
	}
	return history.OK
}

// mayKill reports whether this start is one of those that kill their process, and counts it.
func (h *hand) mayKill(args Args) bool {
	if args.Spec.Kills <= 0 {
		return args.Spec.Kills < 0
	}
	if h.marks(args.Token, "killed") >= args.Spec.Kills {
		return false
	}
	h.mark(args.Token, "killed")
	return true
}

// act ends the run in the way that an outcome says.
func act(spec history.Spec, outcome string) error {
	cause, snooze, later := errors.New("as asked, é"), 700*time.Millisecond, 900*time.Millisecond
	if spec.Odds > 0 {
		snooze, later = rand.N(400*time.Millisecond), rand.N(400*time.Millisecond)
	}
	switch outcome {
	case history.OK:
		return nil
	case history.Panics:
		panic(cause)
	case history.Exits:
		runtime.Goexit()
	case history.Snoozed:
		return belay.Snooze(snooze)
	case history.Later:
		return belay.RetryIn(later, cause)
	case history.Discarded:
		return belay.Discard(cause)
	case history.Killed:
		return belay.Kill(cause)
	case history.Interrupted:
		return belay.Interrupted
	}
	return cause
}

// mark adds one to a count of a job, by an append.
func (h *hand) mark(token, what string) {
	file, err := os.OpenFile(h.path(token, what), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err == nil {
		_, err = file.WriteString(".")
		_ = file.Close()
	}
	if err != nil {
		panic(fmt.Sprintf("chaosworker: %v", err))
	}
}

func (h *hand) marks(token, what string) int {
	info, err := os.Stat(h.path(token, what))
	if err != nil {
		return 0
	}
	return int(info.Size())
}

func (h *hand) path(token, what string) string { return filepath.Join(h.dir, token+"."+what) }

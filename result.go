package belay

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/launcher"
)

// A ResultDefinition is a Definition of jobs whose result is an R, which encoding/json can write and read.
// DefineResult makes it. Functions that take a Definition, such as those of package belaytest, take its field:
//
//	belaytest.RequireEnqueued(t, kit, Report.Definition, ReportArgs{Month: 11})
type ResultDefinition[T, R any] struct{ *Definition[T] }

// DefineResult is Define for a class whose jobs have a result. The options include Track, which says how long
// results are kept; DefineResult panics without it.
//
//	var Report = belay.DefineResult[ReportArgs, ReportResult]("Report", belay.Track(24*time.Hour), belay.Idempotent())
//
//	Report.Handle(server, func(ctx context.Context, args ReportArgs) (ReportResult, error) { … })
//	result, err := Report.Wait(ctx, client, receipt.JID)
func DefineResult[T, R any](class string, options ...DefineOption) *ResultDefinition[T, R] {
	d := Define[T](class, options...)
	if d.item.Track == 0 {
		panic(fmt.Sprintf("belay: DefineResult %q: no option says how long results are kept; add Track", class))
	}
	return &ResultDefinition[T, R]{d}
}

// Handle makes the server run the class's jobs with fn, as Definition.Handle does. If fn returns a nil error,
// the value beside it is the job's result. If that value cannot be written as JSON or exceeds 64 KiB, the job
// still counts as done, because its work is done. The server logs an error, and Wait returns one. For more
// data, store it elsewhere and return where.
func (d *ResultDefinition[T, R]) Handle(s *Server, fn func(ctx context.Context, args T) (R, error)) {
	s.Register(d.Handler(fn))
}

// Handler returns a Registration of the class with fn as its handler: see Handle.
func (d *ResultDefinition[T, R]) Handler(fn func(ctx context.Context, args T) (R, error)) Registration {
	if fn == nil {
		return d.Definition.Handler(nil) // panics
	}
	return d.Definition.Handler(func(ctx context.Context, args T) error {
		result, err := fn(ctx, args)
		if err == nil {
			_ = launcher.SetResult(ctx, result) // kept as the reason why there is none
		}
		return err
	})
}

// A Waiter waits for the end of a tracked job. A *Client is one, and so is an *inspect.Inspector, which also
// looks whether Redis has the job.
type Waiter interface {
	Wait(ctx context.Context, jid string) (Tracked, error)
}

// Wait waits until the job with this jid has ended, and returns its result. For a receipt with StatusDuplicate
// the job is that of Receipt.Holder: the jid of a refused job is that of no job, and Wait would end with ctx.
// client.Client.Wait describes the errors; Wait also returns one for a job that is done and has no result. With
// an *inspect.Inspector in place of the client, it also returns inspect.ErrNoJob.
func (d *ResultDefinition[T, R]) Wait(ctx context.Context, w Waiter, jid string) (result R, err error) {
	d.made("Wait")
	if c, isClient := w.(*Client); isClient || w == nil {
		open(c, "Wait "+d.item.Class)
	}
	tracked, err := w.Wait(ctx, jid)
	if err != nil {
		return result, err
	}
	if tracked.Result == nil {
		return result, fmt.Errorf("belay: job %s is done and has no result: %s", jid, tracked.NoResult)
	}
	return readResult[R](jid, tracked)
}

// readResult reads the result of a job as an R.
func readResult[R any](jid string, tracked Tracked) (R, error) {
	var result, none R
	if err := json.Unmarshal(tracked.Result, &result); err != nil {
		return none, fmt.Errorf("belay: read the result of job %s: %w", jid, err)
	}
	return result, nil
}

// Tracked is what Redis has about a job that is tracked: its State, its progress, and its Result or the class
// and the message of the error of its last run.
type Tracked = client.Tracked

// TrackState is the state of a tracked job.
type TrackState = client.TrackState

// EndedError is the error of a Wait for a job that ended without being done; its State says how, its ErrorClass
// and ErrorMessage why: they describe the error of the last run, as it is stored with a failed job.
type EndedError = client.EndedError

// The states of a tracked job, as its last run reported them. A job that is waiting, running or retrying has
// not ended; the other states are final.
const (
	// TrackWaiting is the state of a job that no worker has reported: it waits, has begun less than a second
	// ago, or does not exist.
	TrackWaiting = client.TrackWaiting
	// TrackRunning is the state of a job that runs, or whose worker has crashed and that will run again.
	TrackRunning = client.TrackRunning
	// TrackRetrying is the state of a job whose last run failed, and that will run again.
	TrackRetrying  = client.TrackRetrying
	TrackDone      = client.TrackDone
	TrackDead      = client.TrackDead
	TrackDiscarded = client.TrackDiscarded // it was dropped: by Discard, NoRetry or NoDead
	TrackCancelled = client.TrackCancelled // or deleted by an operator
	TrackExpired   = client.TrackExpired
)

// Progress reports how far ctx's run has come, in units of the program's choice, such as rows. It sends nothing
// and never blocks: the server writes the last report of each tracked job once a second at most, and at the end
// of the run. It does nothing for a job without Track and outside of a run.
func Progress(ctx context.Context, done, total int64) { launcher.Progress(ctx, done, total) }

// SetResult sets the result of ctx's job, which is kept if the job ends as done; a second call replaces it.
// DefineResult is the typed way. SetResult returns an error if value cannot be written as JSON (a string that
// is not UTF-8 cannot) or exceeds 64 KiB, if the job has no Track, and outside of a run. If SetResult returns
// an error, the job has no result, even if an earlier call has set one.
func SetResult(ctx context.Context, value any) error { return launcher.SetResult(ctx, value) }

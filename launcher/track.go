package launcher

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"unicode/utf8"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/retry"
)

// MaxResult is the maximum size of a job's result as JSON, in bytes.
const MaxResult = lua.MaxResult

// A track is what the run of a tracked job has to report.
type track struct {
	running bool // was reported; only the watch reads and writes it
	result  atomic.Pointer[result]
}

// A result is the JSON of a handler's result, or the reason why there is none.
type result struct{ json, wrong string }

// trackedRun returns the run of a tracked job that ctx belongs to.
func trackedRun(ctx context.Context) (*run, error) {
	r, err := current(ctx)
	if err == nil && r.track == nil {
		err = errors.New("the job is not tracked: push it with Track")
	}
	return r, err
}

// Progress records how far ctx's run has come. A duty of the process writes it later.
func Progress(ctx context.Context, done, total int64) {
	if r, err := trackedRun(ctx); err == nil {
		r.Saved(r.job).Set(lua.FieldProgress, strconv.FormatInt(done, 10)+"/"+strconv.FormatInt(total, 10))
	}
}

// SetResult is KeepResult with a value that is written as JSON.
func SetResult(ctx context.Context, value any) error {
	text, err := marshal(value)
	return KeepResult(ctx, text, err)
}

// marshal writes a cursor or a result. It refuses a string that is not UTF-8: encoding/json replaces the wrong
// bytes without an error, so a cursor would name another item, after some that are not done.
func marshal(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	switch {
	case err != nil:
		return nil, err
	case !utf8.Valid(text): // a RawMessage
		return nil, errNotUTF8
	case bytes.Contains(text, []byte(`\ufffd`)): // its replacement, or what the value has itself
		_, err = job.Marshal(value) // which tells them apart, and names the place
	}
	return text, err
}

var errNotUTF8 = errors.New("a string is not valid UTF-8")

// KeepResult records the result of ctx's run, a JSON text, or the reason why there is none. The settle writes
// it if the job is done.
func KeepResult(ctx context.Context, text []byte, reason error) error {
	r, err := trackedRun(ctx)
	if err != nil {
		return fmt.Errorf("belay: set the result: %w", err)
	}
	if reason == nil && len(text) > MaxResult {
		reason = fmt.Errorf("it has %d bytes as JSON, and the limit is %d: return a reference to the data instead",
			len(text), MaxResult)
	}
	if reason != nil {
		r.track.result.Store(&result{wrong: reason.Error()})
		return fmt.Errorf("belay: set the result: %w", reason)
	}
	r.track.result.Store(&result{json: string(text)})
	return nil
}

// saveTracked begins to write what tracked runs have to report. It is called once a second, which bounds how
// often each run writes. No run waits for it.
func (l *Launcher) saveTracked(ctx context.Context) {
	for _, p := range l.pool.Load().processors {
		r := p.current.Load()
		if r == nil || r.track == nil {
			continue
		}
		saved := r.Saved(r.job)
		if !r.track.running {
			r.track.running = true
			saved.Set(lua.FieldState, string(lua.TrackRunning))
		}
		go func() { _ = r.handleSave(saved.Save(ctx, 0)) }()
	}
}

// trackStates are the states of tracked jobs by the exit of their last run.
var trackStates = map[job.Exit]lua.TrackState{
	job.ExitDone:      lua.TrackDone,
	job.ExitRetry:     lua.TrackRetrying,
	job.ExitDead:      lua.TrackDead,
	job.ExitDiscarded: lua.TrackDiscarded,
	job.ExitCancelled: lua.TrackCancelled,
	job.ExitExpired:   lua.TrackExpired,
	job.ExitSnoozed:   lua.TrackWaiting,
	job.ExitRequeued:  lua.TrackWaiting,
	job.ExitWaits:     lua.TrackWaiting,
}

// failedStates are the states in which the run's own error is why the job did not succeed. A job that was
// cancelled, or is snoozed or requeued, keeps the error of an earlier run.
var failedStates = []lua.TrackState{lua.TrackRetrying, lua.TrackDead, lua.TrackDiscarded, lua.TrackExpired}

// endTracked hands the final state of a tracked job to its settle.
func (r *run) endTracked() {
	state, saved := trackStates[r.outcome.Exit()], r.Saved(r.job)
	set := func(fields []string) {
		for at := 0; at < len(fields); at += 2 {
			saved.Set(fields[at], fields[at+1])
		}
	}
	var failure []string
	if r.err != nil && slices.Contains(failedStates, state) {
		failure = lua.ErrorFields(retry.Describe(r.err))
	}
	if !state.Ended() {
		set(append(failure, lua.FieldState, string(state)))
		return
	}
	end := lua.EndedState(r.job, state, r.shard.clock.Now())
	saved.End(end.Keep) // first: a save that is due must leave all that follows to the settle
	set(append(end.Fields, failure...))
	if !r.startedAt.IsZero() {
		saved.Set(lua.FieldBeganAt, strconv.FormatInt(r.shard.clock.At(r.startedAt).UnixMilli(), 10))
	}
	given := r.track.result.Load()
	if state != lua.TrackDone || given == nil {
		return
	}
	saved.Set(lua.FieldResult, given.json)
	saved.Set(lua.FieldNoResult, given.wrong)
	if given.wrong != "" {
		r.launcher().cfg.Log.Error("result not kept", "jid", r.job.JID(), "class", r.job.DisplayClass(), "why", given.wrong)
	}
}

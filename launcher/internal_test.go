package launcher_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/retry"
)

// An internalError is what a handler of internal errors was called with.
type internalError struct {
	source string
	err    error
}

// next waits for an error of a source, and passes over those of others.
func next(t *testing.T, source string, found chan internalError) error {
	t.Helper()
	for deadline := time.After(patience); ; {
		select {
		case got := <-found:
			if got.source == source {
				return got.err
			}
		case <-deadline:
			require.FailNow(t, "no internal error of "+source)
		}
	}
}

// A program is notified of failures outside of its runs, as often as the log reports them, and a handler that
// never returns or panics holds up nothing.
func TestInternalErrorsReachTheirHandlersAndWaitForNone(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		r.do("LPUSH", r.keys.Retry(), "not a sorted set")
		r.do("LPUSH", r.keys.Queue("default"), "{")
		l := r.build(r.config())
		forever := make(chan struct{})
		t.Cleanup(func() { close(forever) })
		l.OnInternalError(func(source string, _ error) {
			if source == "poll" {
				<-forever
			}
		})
		l.OnInternalError(func(string, error) { panic("a handler of no use") })
		payloads := make(chan internalError, 100)
		l.OnInternalError(func(source string, err error) { payloads <- internalError{source, err} })
		l.OnQuiet(func() { panic("a quiet hook of no use") })
		ran := make(chan bool, 1)
		l.Handle("Any", func(context.Context, *job.Job) error { ran <- true; return nil }, launcher.Class{})
		r.push("Any", "[]")
		w := r.start(l)
		receive(t, "the run", ran)

		var unreadable *job.UnreadableError
		require.ErrorAs(t, next(t, "payload", payloads), &unreadable)
		l.Quiet()
		var panicked *retry.PanicError
		require.ErrorAs(t, next(t, "quiet hook", payloads), &panicked)
		require.Equal(t, "a quiet hook of no use", panicked.Value)
		r.eventually("the handler's panic to be logged", func() bool {
			return strings.Contains(r.log.String(), "internal error handler panicked")
		})
		w.Stop()
		w.wait(t)
	})
}

// A refusal or an outage is an internal error as often as the log names it, however often it is met.
func TestAnInternalErrorIsReportedAsOftenAsItIsLogged(t *testing.T) {
	t.Parallel()
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := faultproxy.New(t, drivertest.Redis(t).Addr())
			r := newRig(t, open, proxy.URL(), drivertest.Prefix(t))
			r.do("LPUSH", r.keys.Retry(), "not a sorted set")
			cfg := r.config()
			cfg.Beat, cfg.TTL = 50*time.Millisecond, 400*time.Millisecond
			g := r.withCapsule(cfg)
			var outages, refusals atomic.Int64
			g.OnInternalError(func(_ string, err error) {
				if driver.Outage(err) {
					outages.Add(1)
				} else {
					refusals.Add(1)
				}
			})
			done, stop := r.startJudged(g)
			r.awaitReady(g, "")
			r.eventually("the refusal", func() bool { return refusals.Load() > 0 })
			proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Do: faultproxy.Close()})
			proxy.CloseConns()
			r.eventually("the outage", func() bool { return outages.Load() > 0 })
			proxy.Clear()
			r.eventually("its end to be logged", func() bool { return strings.Contains(r.log.String(), "redis is back") })
			stop()
			require.NoError(t, <-done)
			require.EqualValues(t, strings.Count(r.log.String(), "redis is away"), outages.Load(), r.log.String())
			require.EqualValues(t, strings.Count(r.log.String(), "redis refuses"), refusals.Load(), r.log.String())
		})
	}
}

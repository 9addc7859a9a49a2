package belay

import (
	"context"
	"errors"
	"slices"

	"github.com/belayq/belay/launcher"
)

// The callbacks of a Server. Each may be given several times; all panic after Run. A panic in a callback is
// logged and harms no job.

// OnStart registers a callback that runs before the first job is taken. Callbacks run in the order added. An
// error ends Run.
func (s *Server) OnStart(callback func(ctx context.Context) error) {
	s.given("OnStart", callback != nil).OnStart(callback)
}

// OnQuiet registers a callback that runs when no more jobs are taken: after Quiet, or when a stop begins. It
// runs asynchronously.
func (s *Server) OnQuiet(callback func()) { s.given("OnQuiet", callback != nil).OnQuiet(callback) }

// OnStop registers a callback that runs when a stop begins, while jobs may still be running. It runs
// asynchronously.
func (s *Server) OnStop(callback func()) { s.given("OnStop", callback != nil).OnStop(callback) }

// OnExit registers a callback that runs after the last job has been settled. The callback added last runs
// first. Run waits for it.
func (s *Server) OnExit(callback func()) { s.given("OnExit", callback != nil).OnExit(callback) }

// OnError registers a callback for every run that did not succeed; see ErrorHandler. The run's processor waits
// for it.
func (s *Server) OnError(callback ErrorHandler) {
	s.given("OnError", callback != nil).OnError(callback)
}

// OnStuck registers a callback for runs whose context has ended and whose handler does not return. The first
// call is one Timeout after the context ended, but at least 5 s and at most a minute after it (5 s if the run
// was cancelled for another reason). Further calls follow every ten minutes, and one when the server stops
// and leaves the run behind, unless it was reported before. Such a run keeps its processor and its job: no
// goroutine can be ended from outside.
func (s *Server) OnStuck(callback StuckHandler) {
	s.given("OnStuck", callback != nil).OnStuck(callback)
}

// OnDeath registers a callback for jobs of any class that will not run again unless an operator retries them.
func (s *Server) OnDeath(callback DeathHandler) {
	s.given("OnDeath", callback != nil).OnDeath(callback)
}

// OnOrphan registers a callback for jobs that this server recovers from processes that died.
func (s *Server) OnOrphan(callback OrphanHandler) {
	s.given("OnOrphan", callback != nil).OnOrphan(callback)
}

// OnInternalError registers a callback for errors outside of runs: outages, calls that Redis refuses,
// unreadable payloads, callbacks that panic. It runs asynchronously, once for each log line about such an
// error; see InternalErrorHandler.
func (s *Server) OnInternalError(callback InternalErrorHandler) {
	s.given("OnInternalError", callback != nil).OnInternalError(callback)
}

// The types of callbacks.
type (
	// ErrorHandler is called with every run that did not succeed: func(ctx, *Job, error).
	ErrorHandler = launcher.ErrorHandler
	// StuckHandler is called with runs whose handler does not return though its context has ended.
	StuckHandler = launcher.StuckHandler
	// StuckRun describes a run whose handler does not return though its context has ended.
	StuckRun = launcher.StuckRun
	// DeathHandler is called with jobs that run again only if an operator retries them: they have no retries
	// or no time left, their handler killed them, or they died after repeated crashes (ErrCrashed). It is
	// a func(ctx, *Job, error).
	DeathHandler = launcher.DeathHandler
	// Orphan is a job that was recovered from a process that died.
	Orphan = launcher.Orphan
	// OrphanHandler is called with recovered jobs.
	OrphanHandler = launcher.OrphanHandler
	// InternalErrorHandler is called with errors outside of runs, func(source string, err error): go doc
	// github.com/belayq/belay/launcher.InternalErrorHandler.
	InternalErrorHandler = launcher.InternalErrorHandler
)

// ErrCrashed is the error of a job that was moved to the dead set because its process crashed too often
// while it ran, the last time with nothing else running.
var ErrCrashed = launcher.ErrCrashed

// Around adds middleware around the runs of a class, inside of the Server's middleware.
func Around(middleware ...Middleware) DefineOption {
	return definitionOption(func(def *definition) {
		if slices.ContainsFunc(middleware, func(m Middleware) bool { return m == nil }) {
			def.wrong = append(def.wrong, errors.New("a middleware of Around is nil"))
		}
		def.about.Middleware = append(def.about.Middleware, middleware...)
	})
}

// OnExhausted registers a callback for jobs of the class that will not run again unless an operator retries
// them. It runs before the callbacks of Server.OnDeath.
func OnExhausted(callback DeathHandler) DefineOption {
	return definitionOption(func(def *definition) {
		if def.about.Exhausted = callback; callback == nil {
			def.wrong = append(def.wrong, errors.New("the handler of OnExhausted is nil"))
		}
	})
}
